//! Arguments of `e810 connections`.

use std::path::PathBuf;

use clap::Args;

use super::device::socket_path;
use super::file::checked;

/// Arguments of `e810 connections`.
#[derive(Args, Debug, Clone)]
pub struct ConnectionsArgs {
    /// Show the connections of the command that was started with `--monitor PATH`.
    ///
    /// A command has connections if it was started with `--cm` too.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub at: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}
