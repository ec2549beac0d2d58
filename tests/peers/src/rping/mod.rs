//! rping (`librdmacm/examples/rping.c`): the client names a text; the server READs it and says so;
//! the client names memory; the server WRITEs the text there and says so.

mod side;
mod text;

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use e810::WcOpcode;
use e810_backends::HostDevice;
use e810_cm::machine::Connect;
use e810_node::attended::Grant;

use crate::rig::{LIMIT, Rig};
use side::{BACK, Side, TEXT};

pub(crate) use side::ROOM;

impl<P: HostDevice> Side<P> {
    /// The server's part of a ping; `false` when the client has ended the connection.
    fn serve_one(&mut self, ping: u32) -> Result<bool> {
        let Some((source, length)) = self.named()? else {
            return Ok(false);
        };
        ensure!(length as usize <= TEXT, "a text of {length} bytes");
        self.channel.read(self.rig.sge(0, length), source)?;
        if self.channel.wait(WcOpcode::RdmaRead)?.is_none() {
            return Ok(false);
        }
        text::expect(&self.rig.memory(), 0, &text::of(ping, length as usize))?;
        self.name(0, 0)?;
        let Some((sink, room)) = self.named()? else {
            return Ok(false);
        };
        ensure!(room == length, "{room} bytes for a text of {length}");
        self.channel.write(self.rig.sge(0, length), sink)?;
        if self.channel.wait(WcOpcode::RdmaWrite)?.is_none() {
            return Ok(false);
        }
        self.name(0, 0)?;
        Ok(true)
    }
}

pub(crate) fn serve<P: HostDevice>(rig: Rig<P>, port: u16, count: u32) -> Result<()> {
    let listener = rig.listen(port, 1)?;
    let request = listener.next(LIMIT)?;
    let mut side = Side::new(rig)?;
    side.channel
        .connection
        .accept(&request, &Grant::default())?;
    let mut pings = 0;
    loop {
        match side.serve_one(pings) {
            Ok(true) => pings += 1,
            Ok(false) => break,
            // A peer that may go at any time takes its memory along.
            Err(error) if count == 0 => {
                println!("{error}");
                side.channel.gone()?;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    side.channel.connection.over(LIMIT)?;
    println!("{pings} pings");
    ensure!([0, pings].contains(&count), "{pings} pings, not {count}");
    drop(listener);
    side.close()
}

pub(crate) fn ask<P: HostDevice>(
    rig: Rig<P>,
    peer: SocketAddr,
    size: u32,
    count: u32,
) -> Result<()> {
    if !(32..TEXT as u32).contains(&size) {
        bail!("--size {size}: 32 to {}", TEXT - 1);
    }
    let mut side = Side::new(rig)?;
    let ask = Connect {
        responder_resources: 1,
        initiator_depth: 1,
        ..side.rig.function.ask(peer)?
    };
    side.channel.connection.connect(&ask)?;
    side.channel.connection.established(LIMIT)?;
    for ping in 0..count {
        let text = text::of(ping, size as usize);
        side.rig.memory().write(0, &text)?;
        side.name(0, size)?;
        side.named()?
            .context("the server left before it had read")?;
        side.name(BACK, size)?;
        side.named()?
            .context("the server left before it had written")?;
        text::expect(&side.rig.memory(), BACK, &text)?;
    }
    println!("{count} pings");
    side.channel.leave()?;
    side.close()
}
