//! One function with its objects: how it posts, waits, makes progress and ends.

use e810::{
    Ah, Control, Cq, Data, EventSet, MacAddr, Mr, Op, Pd, Qp, QpCaps, QpInfo, QpInit, RecvWr,
    Remaining, SendFlags, SendWr, Sge, SharedBytes, Wc, WcStatus,
};
use e810_connect::Connection;
use e810_hal::Ns;
use metal::Metal;
use metal::interrupts::Lines;

use crate::lan::Lan;
use crate::progress::progress;
use crate::report::Failure;

/// Bytes of a message.
pub(crate) const BYTES: usize = 1000;
/// A datagram arrives behind room for its network header.
pub(crate) const HEADER: usize = 40;
/// Where a side's messages arrive: behind the one that it sends.
pub(crate) const INCOMING: usize = 1024;
/// How long anything may take.
pub(crate) const LIMIT: Ns = Ns::from_ms(10_000);

/// Connections by port at once.
pub(crate) const CONNECTIONS: usize = 2;

/// Room of each queue pair.
pub(crate) const CAPS: QpCaps = QpCaps {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 0,
};

/// Which of a node's queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// Connected by what both sides know of each other.
    Rc,
    /// For datagrams.
    Ud,
    /// Connected by port: the one that is meant.
    Port,
}

/// One function with its objects.
pub(crate) struct Node<'m> {
    pub(crate) metal: Metal<'m>,
    pub(crate) control: Control<Metal<'m>>,
    pub(crate) events: EventSet<Metal<'m>>,
    pub(crate) lan: Lan<'m>,
    pub(crate) pd: Pd,
    pub(crate) memory: SharedBytes,
    pub(crate) mr: Mr<Metal<'m>>,
    pub(crate) cq: Cq<Metal<'m>>,
    pub(crate) rc: Qp<Metal<'m>>,
    pub(crate) ud: Qp<Metal<'m>>,
    pub(crate) gid: u8,
    /// Where datagrams go: the way, and whom they are for.
    pub(crate) peer: Option<(Ah, QpInfo)>,
    /// By port, while there are any; and which of them is meant.
    pub(crate) connections: [Option<Connection<Metal<'m>>>; CONNECTIONS],
    pub(crate) current: usize,
}

impl<'m> Node<'m> {
    /// What the peer has to know of its queue pairs. Where they are, it finds out itself.
    pub(crate) fn infos(&self) -> Result<[QpInfo; 2], Failure> {
        let info = |qp: &Qp<_>| -> Result<QpInfo, Failure> {
            Ok(QpInfo {
                mac: MacAddr([0; 6]),
                ..qp.info(&self.control, self.gid)?
            })
        };
        Ok([info(&self.rc)?, info(&self.ud)?])
    }

    /// Makes one more reliable queue pair.
    pub(crate) fn make_qp(&mut self) -> Result<Qp<Metal<'m>>, Failure> {
        let init = QpInit::rc(&self.cq, &self.cq, CAPS);
        Ok(self.control.create_qp(&self.pd, &init)?)
    }

    /// The connection by port that is meant.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection<Metal<'m>>, Failure> {
        let place = self.connections.get_mut(self.current);
        place.and_then(Option::as_mut).ok_or(Failure::NoConnection)
    }

    fn qp(&mut self, which: Which) -> Result<&mut Qp<Metal<'m>>, Failure> {
        match which {
            Which::Rc => Ok(&mut self.rc),
            Which::Ud => Ok(&mut self.ud),
            Which::Port => Ok(self.connection()?.qp()),
        }
    }

    fn sge(&self, offset: usize, bytes: usize) -> Sge {
        Sge {
            addr: self.mr.address() + offset as u64,
            length: bytes as u32,
            lkey: self.mr.lkey(),
        }
    }

    /// Posts a receive of `bytes` bytes.
    pub(crate) fn post_recv(
        &mut self,
        which: Which,
        number: u64,
        bytes: usize,
    ) -> Result<(), Failure> {
        let sge = self.sge(INCOMING, bytes);
        self.post_recv_to(which, number, sge)
    }

    /// Posts a receive into any memory.
    pub(crate) fn post_recv_to(
        &mut self,
        which: Which,
        number: u64,
        sge: Sge,
    ) -> Result<(), Failure> {
        let sges = [sge];
        let receive = RecvWr {
            wr_id: number,
            sges: &sges,
        };
        Ok(self.qp(which)?.post_recv(&[receive])?)
    }

    /// Sends the message that is in memory.
    pub(crate) fn post_send(&mut self, which: Which, number: u64) -> Result<(), Failure> {
        let sges = [self.sge(0, BYTES)];
        let (data, imm) = (Data::Sges(&sges), None);
        let to = self.peer.as_ref();
        let to = to.map(|(ah, peer)| ah.target(peer.qpn, peer.qkey));
        let op = match (which, to) {
            (Which::Ud, Some(to)) => Op::UdSend { data, imm, to },
            _ => Op::Send { data, imm },
        };
        self.post(which, number, op)
    }

    /// Posts a request that completes.
    pub(crate) fn post(&mut self, which: Which, number: u64, op: Op<'_>) -> Result<(), Failure> {
        let request = SendWr {
            wr_id: number,
            op,
            flags: SendFlags::SIGNALED,
        };
        Ok(self.qp(which)?.post_send(&[request])?)
    }

    /// Stops the processor until the event that was asked for has come.
    pub(crate) fn sleep(&mut self) -> Result<(), Failure> {
        let machine = self.metal.machine();
        let end = machine.now() + LIMIT;
        while !self.cq.take_event() {
            if machine.now() > end {
                return Err(Failure::Late);
            }
            let fired = machine.sleep(self.metal.lines(), Ns::from_ms(100));
            self.progress(Some(fired))?;
        }
        Ok(())
    }

    /// Looks for the next completion until it is there.
    pub(crate) fn completion(&mut self) -> Result<Wc, Failure> {
        let end = self.metal.machine().now() + LIMIT;
        let mut wc = [Wc::default()];
        while self.cq.poll(&mut wc) == 0 {
            if self.metal.machine().now() > end {
                return Err(Failure::Late);
            }
            self.progress(None)?;
        }
        let [wc] = wc;
        match wc.status {
            WcStatus::Success => Ok(wc),
            status => Err(Failure::Completion(status, wc.vendor_err)),
        }
    }

    /// Takes frames and events, all of them or those of the lines that fired, and does what the
    /// driver has put off.
    pub(crate) fn progress(&mut self, fired: Option<Lines>) -> Result<(), Failure> {
        self.lan.poll()?;
        progress(&self.metal, &mut self.control, &mut self.events, fired)
    }

    /// Gives everything back, in order.
    pub(crate) fn down(mut self) -> Result<(), Failure> {
        self.lan.close(&mut self.control)?;
        let objects = Remaining {
            qps: [self.rc, self.ud],
            ahs: self.peer.map(|(ah, _)| ah),
            cqs: [self.cq],
            mrs: [self.mr],
            pds: [self.pd],
        };
        Ok(self.control.shutdown_with(self.events, objects)?)
    }
}
