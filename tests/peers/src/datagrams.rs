//! A UD queue pair with a completion queue of its own.

use anyhow::{Context, Result, ensure};
use e810::{
    Ah, Cq, Data, Op, Path, Qp, Qpn, RecvWr, SendFlags, SendWr, Sender, Sge, UdTarget, Wc, WcFlags,
    WcOpcode,
};
use e810_backends::HostDevice;
use e810_cm::ip::UDP_QKEY;

use crate::rig::{LIMIT, Rig};
use crate::role::Counts;

/// In front of a message: the network's header.
pub(crate) const GRH: usize = 40;

/// A queue pair, which has a place in the memory for what it receives.
pub(crate) struct Side<P: HostDevice> {
    pub(crate) qp: Qp<P>,
    pub(crate) cq: Cq<P>,
    place: Sge,
    offset: usize,
    pub(crate) peer: Option<(Ah, UdTarget)>,
}

impl<P: HostDevice> Side<P> {
    pub(crate) fn new(rig: &Rig<P>, counts: &Counts, number: usize) -> Result<Self> {
        let (mut qp, cq) = rig.queue_pair(counts.messages.max(1), true)?;
        rig.function
            .control(|control| qp.start_datagrams(control, UDP_QKEY))?;
        let length = GRH + counts.size as usize;
        let offset = counts.size as usize + number * length;
        let place = rig.sge(offset, length as u32);
        let receive = RecvWr {
            wr_id: 0,
            sges: &[place],
        };
        for _ in 0..counts.messages {
            qp.post_recv(&[receive])?;
        }
        let peer = None;
        Ok(Self {
            qp,
            cq,
            place,
            offset,
            peer,
        })
    }

    pub(crate) fn aim(&mut self, rig: &Rig<P>, path: &Path, qpn: Qpn, qkey: u32) -> Result<()> {
        let ah = rig
            .function
            .control(|control| control.create_ah(&rig.pd, path))?;
        let target = ah.target(qpn, qkey);
        self.peer = Some((ah, target));
        Ok(())
    }

    pub(crate) fn send(&mut self, from: Sge, count: u32) -> Result<()> {
        let (_, to) = self.peer.as_ref().context("no datagram has come")?;
        let op = Op::UdSend {
            data: Data::Sges(&[from]),
            imm: Some(self.qp.number().get()),
            to: *to,
        };
        let flags = SendFlags::SIGNALED;
        for _ in 0..count {
            self.qp.post_send(&[SendWr {
                wr_id: 1,
                op,
                flags,
            }])?;
        }
        Ok(())
    }

    /// Waits for so many receives and sends; the first receive may say where the peer is.
    pub(crate) fn take(&mut self, rig: &Rig<P>, mut receives: u32, mut sends: u32) -> Result<()> {
        while receives > 0 || sends > 0 {
            let found = rig.function.completion_with_sender(&mut self.cq, LIMIT)?;
            let (wc, sender) = found.with_context(|| {
                format!("{receives} receives and {sends} sends do not complete")
            })?;
            ensure!(wc.status.is_success(), "{}", wc.status);
            if wc.opcode != WcOpcode::Recv {
                sends = sends.checked_sub(1).context("one more send")?;
                continue;
            }
            receives = receives.checked_sub(1).context("one more message")?;
            let (wanted, bytes) = (self.place.length, wc.byte_len);
            ensure!(bytes == wanted, "{bytes} bytes, not {wanted}");
            ensure!(wc.flags.contains(WcFlags::WITH_IMM), "no immediate data");
            if self.peer.is_none() {
                self.reply_to(rig, &wc, &sender.context("no sender")?)?;
            }
        }
        Ok(())
    }

    fn reply_to(&mut self, rig: &Rig<P>, wc: &Wc, sender: &Sender) -> Result<()> {
        ensure!(
            wc.imm == wc.src_qp,
            "queue pair {} says {}",
            wc.src_qp,
            wc.imm
        );
        let mut area = [0; GRH];
        rig.memory().read(self.offset, &mut area)?;
        let own = rig
            .function
            .control(|control| control.find_gid(rig.own, sender.vlan()));
        let own = own.context("a datagram to another address")?;
        let path = Path::to_sender(own, &area, wc.flags, sender).context("no header")?;
        self.aim(
            rig,
            &path,
            Qpn::new(wc.imm).context("queue pair 0")?,
            UDP_QKEY,
        )
    }
}
