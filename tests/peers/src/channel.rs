//! A connection with a completion queue of its own.

use anyhow::{Result, bail, ensure};
use e810::{
    Cq, Data, Op, Qp, RecvWr, Remote, SendFlags, SendWr, Sge, Wc, WcFlags, WcOpcode, WcStatus,
};
use e810_backends::HostDevice;
use e810_node::attended::{Connection, Ended};

use crate::rig::LIMIT;

pub(crate) struct Channel<P: HostDevice> {
    pub(crate) connection: Connection<P>,
    cq: Cq<P>,
}

impl<P: HostDevice> Channel<P> {
    pub(crate) const fn new(connection: Connection<P>, cq: Cq<P>) -> Self {
        Self { connection, cq }
    }

    pub(crate) fn receive(&mut self, into: Sge) -> Result<()> {
        let receive = RecvWr {
            wr_id: 0,
            sges: &[into],
        };
        Ok(self.connection.qp().post_recv(&[receive])?)
    }

    fn post(&mut self, op: Op<'_>) -> Result<()> {
        let request = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
        };
        Ok(self.connection.qp().post_send(&[request])?)
    }

    pub(crate) fn send(&mut self, from: Sge) -> Result<()> {
        let data = Data::Sges(&[from]);
        self.post(Op::Send { data, imm: None })
    }

    pub(crate) fn read(&mut self, into: Sge, remote: Remote) -> Result<()> {
        let into = &[into];
        self.post(Op::Read { into, remote })
    }

    pub(crate) fn write(&mut self, from: Sge, remote: Remote) -> Result<()> {
        let (data, imm) = (Data::Sges(&[from]), None);
        self.post(Op::Write { data, remote, imm })
    }

    /// The next completion that is not of a request that the connection's end has flushed; `None`
    /// when the peer has ended the connection.
    fn next(&mut self) -> Result<Option<Wc>> {
        loop {
            let mut wc = [Wc::default()];
            match self.connection.completions(&mut self.cq, &mut wc, LIMIT) {
                Ok(0) => bail!("nothing completes within {LIMIT:?}"),
                Ok(_) if wc[0].status == WcStatus::WrFlushErr => {}
                Ok(_) => {
                    let [
                        Wc {
                            status, vendor_err, ..
                        },
                    ] = wc;
                    ensure!(
                        status.is_success(),
                        "{status} (vendor error {vendor_err:#x})"
                    );
                    return Ok(Some(wc[0]));
                }
                Err(error) => match error.downcast_ref() {
                    Some(Ended::Disconnected) => return Ok(None),
                    _ => return Err(error),
                },
            }
        }
    }

    /// Waits for a completion of one kind; those of sends that come before it count for nothing.
    /// `None` when the peer has ended the connection.
    pub(crate) fn wait(&mut self, kind: WcOpcode) -> Result<Option<Wc>> {
        while let Some(wc) = self.next()? {
            if wc.opcode == kind {
                return Ok(Some(wc));
            }
            ensure!(wc.opcode == WcOpcode::Send, "{:?} completes", wc.opcode);
        }
        Ok(None)
    }

    /// Waits for so many receives of so many bytes each, and so many sends.
    pub(crate) fn take(&mut self, mut receives: u32, mut sends: u32, bytes: u32) -> Result<()> {
        while receives > 0 || sends > 0 {
            let Some(wc) = self.next()? else {
                bail!("the peer has left with {receives} receives and {sends} sends outstanding");
            };
            let left = match wc.opcode {
                WcOpcode::Recv => {
                    ensure!(wc.byte_len == bytes, "{} bytes, not {bytes}", wc.byte_len);
                    ensure!(!wc.flags.contains(WcFlags::WITH_IMM), "immediate data");
                    &mut receives
                }
                _ => &mut sends,
            };
            let Some(fewer) = left.checked_sub(1) else {
                bail!("one more {:?} completes than was awaited", wc.opcode);
            };
            *left = fewer;
        }
        Ok(())
    }

    /// Ends it, if the peer has not, and waits until it is over.
    pub(crate) fn leave(&mut self) -> Result<()> {
        self.connection.disconnect()?;
        self.connection.over(LIMIT)
    }

    /// Waits until the peer ends it; what completes until then is not looked at.
    pub(crate) fn gone(&mut self) -> Result<()> {
        while self.next()?.is_some() {}
        Ok(())
    }

    pub(crate) fn end(self) -> (Qp<P>, Cq<P>) {
        (self.connection.end(), self.cq)
    }
}
