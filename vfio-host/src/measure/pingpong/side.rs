//! One side of the exchange: a device with its objects.

use anyhow::{Context, Result, ensure};
use e810::{
    AccessFlags, Ah, Control, Cq, Data, EventSet, Mr, Pd, Qp, QpAttr, QpCaps, QpInit, QpType, Qpn,
    RecvWr, Remote, SendFlags, SendWr, Sge, Stats, Tuning, UdTarget, Wc, WcOpcode, WcStatus,
};
use e810_backends::buffer::Buffer;
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Ns, SharedBytes};

use crate::measure::attend::Attended;
use crate::measure::op::Op;
use crate::measure::waits::Waits;
use crate::monitor::Tap;

/// Receives kept posted on each side.
pub(super) const RECEIVES: u64 = 4;
/// Bytes before the message in the receive of a datagram.
pub(super) const GRH: usize = 40;
/// Q_Key of the datagrams; the one that existing tools use.
const QKEY: u32 = 0x1111_1111;

/// One side of the exchange.
#[derive(Debug)]
pub struct Side<P: HostPlatform> {
    device: Attended<P>,
    pd: Pd,
    cq: Cq<P>,
    qp: Qp<P>,
    mr: Mr<P>,
    buffer: Buffer,
    qp_type: QpType,
    size: u32,
    receives: u64,
    /// Bytes of a message that is to arrive.
    arriving: u32,
    /// Where datagrams go, and the handle that says how.
    target: Option<(Ah, UdTarget)>,
    /// Its queue pair has counters of its own.
    counters: bool,
}

/// What a side is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidePlan {
    /// How messages are carried.
    pub qp_type: QpType,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Its queue pair gets counters of its own.
    pub counters: bool,
    /// How it waits for completions.
    pub waits: Waits,
    /// How its queue pair paces itself.
    pub tuning: Tuning,
}

/// What one side tells the other before they connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Queue pair number.
    pub qpn: Qpn,
    /// First packet sequence number this side sends.
    pub psn: u32,
    /// Q_Key of datagrams to it.
    pub qkey: u32,
    /// Address of the buffer the peer may read and write.
    pub address: u64,
    /// Its remote key.
    pub rkey: u32,
}

impl<P: HostPlatform> Side<P> {
    /// Makes PD, CQ, QP and registered memory on a ready device, at which others
    /// look through `tap`.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub fn new(
        platform: P,
        mut control: Control<P>,
        events: EventSet<P>,
        plan: SidePlan,
        tap: Option<Tap>,
    ) -> Result<Self> {
        let SidePlan {
            qp_type,
            size,
            counters,
            waits,
            tuning,
        } = plan;
        // First what is sent, then where it arrives: a datagram that nobody
        // waits for any more must not fall into one that somebody looks at.
        let incoming = match qp_type.is_datagram() {
            false => size as usize,
            true => (GRH + size as usize) * RECEIVES as usize,
        };
        let buffer = platform.payload(size as usize + incoming)?;
        let pd = control.alloc_pd()?;
        let mut cq = control.create_cq(64, 0)?;
        let access = match qp_type.is_datagram() {
            false => {
                AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ
            }
            true => AccessFlags::LOCAL_WRITE,
        };
        let mr = control.reg_mr(&pd, buffer.bytes(), access)?;
        let caps = QpCaps {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let init = QpInit {
            counters,
            tuning: Some(tuning),
            ..QpInit::new(qp_type, &cq, &cq, caps)
        };
        let qp = control.create_qp(&pd, &init)?;
        Ok(Self {
            device: Attended::new(platform, control, events, &mut cq, waits, tap)?,
            pd,
            cq,
            qp,
            mr,
            buffer,
            qp_type,
            size,
            receives: 0,
            arriving: size,
            target: None,
            counters,
        })
    }

    /// The counters of its queue pair, if that has some of its own, or of its
    /// function.
    ///
    /// # Errors
    /// No memory, or the device's refusal.
    pub fn counters(&mut self) -> e810::Result<Stats> {
        if self.counters {
            self.device.control.gather_qp_stats(&self.qp)
        } else {
            self.device.control.gather_stats()
        }
    }

    /// The control path of its device.
    pub const fn control(&mut self) -> &mut Control<P> {
        &mut self.device.control
    }

    /// What the peer needs to know.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            qpn: self.qp.number(),
            psn: 0x10_0000 | self.qp.number().get(),
            qkey: QKEY,
            address: self.mr.address(),
            rkey: self.mr.rkey(),
        }
    }

    /// Takes the QP to RTS, towards the peer.
    ///
    /// # Errors
    /// The transition that failed, or a message that is no datagram on this path.
    pub fn connect(&mut self, peer: &Endpoint, path: e810::Path, mtu: e810::Mtu) -> Result<()> {
        let psn = self.endpoint().psn;
        if self.qp_type.is_datagram() {
            ensure!(
                self.size <= mtu.bytes(),
                "--size {}: a datagram carries at most the path MTU, {} bytes; give a smaller size or a larger --path-mtu",
                self.size,
                mtu.bytes()
            );
            for attr in [
                QpAttr::ud_to_init(QKEY),
                QpAttr::ud_to_rtr(),
                QpAttr::ud_to_rts(psn),
            ] {
                self.device.control.modify_qp(&mut self.qp, &attr)?;
            }
            let ah = self.device.control.create_ah(&self.pd, &path)?;
            let target = ah.target(peer.qpn, peer.qkey);
            self.target = Some((ah, target));
            return Ok(());
        }
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        for attr in [
            QpAttr::to_init(access),
            QpAttr::to_rtr(path, mtu, peer.qpn, peer.psn),
            QpAttr::to_rts(psn),
        ] {
            self.device.control.modify_qp(&mut self.qp, &attr)?;
        }
        Ok(())
    }

    pub(super) fn outgoing(&self) -> Result<SharedBytes> {
        Ok(self.buffer.bytes().window(0, self.size as usize)?)
    }

    pub(super) fn incoming(&self) -> Result<SharedBytes> {
        let size = self.size as usize;
        Ok(self.buffer.bytes().window(size, size)?)
    }

    /// The receive of a datagram: the GRH area and the message.
    pub(super) fn slot(&self, slot: u64) -> Result<SharedBytes> {
        let (size, bytes) = (self.size as usize, GRH + self.size as usize);
        let offset = usize::try_from(slot % RECEIVES)? * bytes;
        Ok(self.buffer.bytes().window(size + offset, bytes)?)
    }

    fn sge(&self, memory: SharedBytes) -> Sge {
        Sge {
            addr: memory.address(),
            // As long as one of this side's messages at most.
            length: memory.len() as u32,
            lkey: self.mr.lkey(),
        }
    }

    pub(super) fn post_receives(&mut self) -> Result<()> {
        let sge = self.sge(self.incoming()?);
        while self.receives < RECEIVES {
            let sges = [sge];
            self.qp.post_recv(&[RecvWr {
                wr_id: self.receives,
                sges: &sges,
            }])?;
            self.receives += 1;
        }
        Ok(())
    }

    /// Posts the receive of a datagram.
    pub(super) fn post_slot(&mut self, slot: u64) -> Result<()> {
        let sges = [self.sge(self.slot(slot)?)];
        let wr_id = slot;
        self.qp.post_recv(&[RecvWr { wr_id, sges: &sges }])?;
        Ok(())
    }

    /// Sends what is outgoing as datagram `number`.
    pub(super) fn post_datagram(&mut self, number: u64) -> Result<()> {
        let sges = [self.sge(self.outgoing()?)];
        let (_, to) = self.target.as_ref().context("not connected")?;
        let op = e810::Op::UdSend {
            data: Data::Sges(&sges),
            imm: Some(low(number)),
            to: *to,
        };
        self.post_op(number, op)
    }

    /// Bytes that the next message to arrive has.
    pub(super) fn expect(&mut self, bytes: u32) {
        self.arriving = bytes;
    }

    /// Sends a message without payload.
    pub(super) fn post_sign(&mut self, number: u64) -> Result<()> {
        let data = Data::Sges(&[]);
        self.post_op(number, e810::Op::Send { data, imm: None })
    }

    /// A WRITE that the peer gets a completion of.
    pub(super) fn post_write_told(&mut self, number: u64, peer: &Endpoint) -> Result<()> {
        let sges = [self.sge(self.outgoing()?)];
        let op = e810::Op::Write {
            data: Data::Sges(&sges),
            remote: self.incoming_of(peer),
            imm: Some(low(number)),
        };
        self.post_op(number, op)
    }

    /// The peer's incoming half.
    fn incoming_of(&self, peer: &Endpoint) -> Remote {
        Remote {
            // Where a peer says that its memory ends is checked by its device.
            addr: peer.address.wrapping_add(self.size.into()),
            rkey: peer.rkey,
        }
    }

    fn post_op(&mut self, wr_id: u64, op: e810::Op<'_>) -> Result<()> {
        let flags = SendFlags::SIGNALED;
        self.qp.post_send(&[SendWr { wr_id, op, flags }])?;
        Ok(())
    }

    pub(super) fn post(&mut self, op: Op, number: u64, peer: &Endpoint) -> Result<()> {
        let outgoing = [self.sge(self.outgoing()?)];
        let incoming = [self.sge(self.incoming()?)];
        let data = Data::Sges(&outgoing);
        let op = match op {
            Op::Send => e810::Op::Send { data, imm: None },
            Op::Write => e810::Op::Write {
                data,
                remote: self.incoming_of(peer),
                imm: None,
            },
            Op::Read => e810::Op::Read {
                into: &incoming,
                // From the peer's outgoing half.
                remote: Remote {
                    addr: peer.address,
                    rkey: peer.rkey,
                },
            },
        };
        self.post_op(number, op)
    }

    /// One look at the completion queue, the events and the deferred work.
    pub(super) fn turn(&mut self, wcs: &mut [Wc]) -> Result<usize> {
        self.device.poll(&mut self.cq, wcs)
    }

    /// Interrupts taken so far.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.device.interrupts()
    }

    /// The time.
    pub(super) fn now(&self) -> Ns {
        self.device.now()
    }

    /// An empty turn, beside another side.
    pub fn relax(&self) {
        self.device.rest();
    }

    /// An empty turn of the only side.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn sleep(&mut self) -> Result<()> {
        self.device.sleep()
    }

    /// Destroys everything in order and shuts the device down.
    ///
    /// # Errors
    /// The first step that failed; what the device may still write is leaked.
    pub fn close(mut self) -> Result<()> {
        let control = &mut self.device.control;
        control.destroy_qp(self.qp).map_err(|(_, error)| error)?;
        if let Some((ah, _)) = self.target {
            control.destroy_ah(ah).map_err(|(_, error)| error)?;
        }
        control.destroy_cq(self.cq).map_err(|(_, error)| error)?;
        control.dereg_mr(self.mr).map_err(|(_, error)| error)?;
        control.dealloc_pd(self.pd).map_err(|(_, error)| error)?;
        self.device.shut_down()
    }

    pub(super) fn take(&mut self, wc: &Wc, sent: &mut u32, received: &mut u32) -> Result<()> {
        succeeded(wc)?;
        if is_receive(wc.opcode) {
            self.receives = self.receives.saturating_sub(1);
            ensure!(
                wc.byte_len == self.arriving,
                "{} bytes arrived where {} were sent",
                wc.byte_len,
                self.arriving
            );
            *received = received.saturating_sub(1);
        } else {
            *sent = sent.saturating_sub(1);
        }
        Ok(())
    }
}

/// Whether a request was carried out.
pub(crate) fn succeeded(wc: &Wc) -> Result<()> {
    ensure!(
        wc.status == WcStatus::Success,
        "request {} of queue pair {} completed with {}",
        wc.wr_id,
        wc.qp_num,
        wc.status
    );
    Ok(())
}

/// What of a message's number fits immediate data.
pub(super) const fn low(number: u64) -> u32 {
    number as u32
}

pub(super) const fn is_receive(opcode: WcOpcode) -> bool {
    matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
}
