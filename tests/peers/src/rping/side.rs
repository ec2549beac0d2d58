//! One side of rping, and what it says about its memory.

use anyhow::{Result, ensure};
use e810::{Remote, Sge, WcOpcode};
use e810_backends::HostDevice;

use crate::channel::Channel;
use crate::rig::Rig;

/// The longest text.
pub(crate) const TEXT: usize = 1 << 16;
/// What is said about memory: its address, key and length, big-endian.
const INFO: usize = 16;
/// Places in the memory: the text, where it comes back to, what is said and what is heard.
pub(crate) const BACK: usize = TEXT;
const SAID: usize = 2 * TEXT;
const HEARD: usize = SAID + INFO;
pub(crate) const ROOM: usize = HEARD + INFO;

/// One side, connected or about to be.
pub(crate) struct Side<P: HostDevice> {
    pub(crate) rig: Rig<P>,
    pub(crate) channel: Channel<P>,
}

impl<P: HostDevice> Side<P> {
    pub(crate) fn new(rig: Rig<P>) -> Result<Self> {
        let channel = rig.channel(16)?;
        let mut side = Self { rig, channel };
        side.channel.receive(side.rig.sge(HEARD, INFO as u32))?;
        Ok(side)
    }

    /// Names memory of this side to the peer.
    pub(crate) fn name(&mut self, offset: usize, length: u32) -> Result<()> {
        let Sge { addr, .. } = self.rig.sge(offset, length);
        let mut info = [0; INFO];
        info[..8].copy_from_slice(&addr.to_be_bytes());
        info[8..12].copy_from_slice(&self.rig.rkey().to_be_bytes());
        info[12..].copy_from_slice(&length.to_be_bytes());
        self.rig.memory().write(SAID, &info)?;
        self.channel.send(self.rig.sge(SAID, INFO as u32))
    }

    /// What the peer names; a server's says nothing. `None` when the peer has ended the connection.
    pub(crate) fn named(&mut self) -> Result<Option<(Remote, u32)>> {
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

    pub(crate) fn close(self) -> Result<()> {
        self.rig.close(vec![self.channel])
    }
}
