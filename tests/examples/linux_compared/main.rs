//! What bring-ups, connections, messages and events cost Linux and this driver: the tables of
//! `docs/linux-compared.md`, from what the simulator saw of both.
//!
//! ```text
//! tests/guest/run compared
//! cargo run -p e810-tests --example linux_compared -- target/guest/compared
//! tests/guest/run connections
//! cargo run -p e810-tests --example linux_compared -- target/guest/meetings
//! ```
//!
//! The folder has the simulator's report before and after each row of `tests/guest/rows-compared`, or
//! before and after the rows `cost-` of `tests/guest/rows-connections`.

use std::error::Error;
use std::path::PathBuf;

mod bring_ups;
mod connections;
mod meetings;
mod messages;
mod rows;

use rows::Folder;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err("usage: linux_compared FOLDER".into());
    };
    let folder = Folder(PathBuf::from(path));
    if meetings::are_in(&folder) {
        return meetings::print(&folder);
    }
    bring_ups::print(&folder)?;
    connections::print(&folder)?;
    messages::print(&folder)?;
    Ok(())
}
