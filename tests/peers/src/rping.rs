//! rping (`librdmacm/examples/rping.c`): the client names a text; the server READs it and says so;
//! the client names memory; the server WRITEs the text there and says so.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use e810::{Remote, Sge, WcOpcode};
use e810_backends::HostDevice;
use e810_cm::machine::Connect;
use e810_node::attended::Grant;

use crate::channel::Channel;
use crate::rig::{LIMIT, Rig};
use crate::text;

/// The longest text.
const TEXT: usize = 1 << 16;
/// What is said about memory: its address, key and length, big-endian.
const INFO: usize = 16;
/// Places in the memory: the text, where it comes back to, what is said and what is heard.
const BACK: usize = TEXT;
const SAID: usize = 2 * TEXT;
const HEARD: usize = SAID + INFO;
pub(crate) const ROOM: usize = HEARD + INFO;

/// One side, connected or about to be.
struct Side<P: HostDevice> {
    rig: Rig<P>,
    channel: Channel<P>,
}

impl<P: HostDevice> Side<P> {
    fn new(rig: Rig<P>) -> Result<Self> {
        let channel = rig.channel(16)?;
        let mut side = Self { rig, channel };
        side.channel.receive(side.rig.sge(HEARD, INFO as u32))?;
        Ok(side)
    }

    /// Names memory of this side to the peer.
    fn name(&mut self, offset: usize, length: u32) -> Result<()> {
        let Sge { addr, .. } = self.rig.sge(offset, length);
        let mut info = [0; INFO];
        info[..8].copy_from_slice(&addr.to_be_bytes());
        info[8..12].copy_from_slice(&self.rig.rkey().to_be_bytes());
        info[12..].copy_from_slice(&length.to_be_bytes());
        self.rig.memory().write(SAID, &info)?;
        self.channel.send(self.rig.sge(SAID, INFO as u32))
    }

    /// What the peer names; a server's says nothing. `None` when the peer has ended the connection.
    fn named(&mut self) -> Result<Option<(Remote, u32)>> {
        let Some(wc) = self.channel.wait(WcOpcode::Recv)? else {
            return Ok(None);
        };
        ensure!(
            wc.byte_len as usize == INFO,
            "a message of {} bytes",
            wc.byte_len
        );
        let mut info = [0; INFO];
        self.rig.memory().read(HEARD, &mut info)?;
        self.channel.receive(self.rig.sge(HEARD, INFO as u32))?;
        let info = u128::from_be_bytes(info);
        let remote = Remote {
            addr: (info >> 64) as u64,
            rkey: (info >> 32) as u32,
        };
        Ok(Some((remote, info as u32)))
    }

    fn close(self) -> Result<()> {
        self.rig.close(vec![self.channel])
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
    while let Some((source, length)) = side.named()? {
        ensure!(length as usize <= TEXT, "a text of {length} bytes");
        let text = text::of(pings, length as usize);
        side.channel.read(side.rig.sge(0, length), source)?;
        side.channel.wait(WcOpcode::RdmaRead)?.context("the READ")?;
        text::expect(&side.rig.memory(), 0, &text)?;
        side.name(0, 0)?;
        let (sink, room) = side.named()?.context("the client left after a READ")?;
        ensure!(room == length, "{room} bytes for a text of {length}");
        side.channel.write(side.rig.sge(0, length), sink)?;
        side.channel
            .wait(WcOpcode::RdmaWrite)?
            .context("the WRITE")?;
        side.name(0, 0)?;
        pings += 1;
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
