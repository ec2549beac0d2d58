//! One side of the exchange: a device with its objects.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use e810::{
    AccessFlags, Control, Cq, Data, EventSet, Lan, Mr, Pd, Platform, Qp, QpAttr, QpCaps, QpInit,
    Qpn, RecvWr, Remote, SendFlags, SendWr, Sge, Wc, WcOpcode, WcStatus,
};
use e810_hal::SharedBytes;

use crate::address::{AddressArgs, Own};
use crate::buffer::{Buffer, Payload};
use crate::cli::Op;

/// Receives kept posted on each side.
const RECEIVES: u64 = 4;

/// One side of the exchange.
#[derive(Debug)]
pub struct Side<P: Platform> {
    pub(super) platform: P,
    control: Control<P>,
    events: EventSet<P>,
    pd: Pd,
    cq: Cq<P>,
    qp: Qp<P>,
    mr: Mr<P>,
    buffer: Buffer,
    size: u32,
    receives: u64,
}

/// What one side tells the other before they connect.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Queue pair number.
    pub qpn: Qpn,
    /// First packet sequence number this side sends.
    pub psn: u32,
    /// Address of the buffer the peer may read and write.
    pub address: u64,
    /// Its remote key.
    pub rkey: u32,
}

impl<P: Platform> Side<P> {
    /// Makes PD, CQ, QP and registered memory on a ready device.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub fn new(platform: P, mut control: Control<P>, events: EventSet<P>, size: u32) -> Result<Self>
    where
        P: Payload,
    {
        // First half: what is sent; second half: where it arrives.
        let buffer = platform.payload(size as usize * 2)?;
        let pd = control.alloc_pd()?;
        let cq = control.create_cq(64, 0)?;
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let mr = control.reg_mr(&pd, buffer.bytes(), access)?;
        let caps = QpCaps {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let init = QpInit::rc(&cq, &cq, caps);
        let qp = control.create_qp(&pd, &init)?;
        Ok(Self {
            platform,
            control,
            events,
            pd,
            cq,
            qp,
            mr,
            buffer,
            size,
            receives: 0,
        })
    }

    /// The function's LAN side.
    #[must_use]
    pub const fn lan(&self) -> Lan {
        self.control.lan()
    }

    /// Gives the function its addresses and says which one is used.
    ///
    /// # Errors
    /// As [`AddressArgs::settle`].
    pub fn settle(&mut self, args: &AddressArgs, ips: &[IpAddr]) -> Result<Own> {
        args.settle(&mut self.control, ips)
    }

    /// What the peer needs to know.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            qpn: self.qp.number(),
            psn: 0x10_0000 | self.qp.number().get(),
            address: self.mr.address(),
            rkey: self.mr.rkey(),
        }
    }

    /// Takes the QP to RTS, towards the peer.
    ///
    /// # Errors
    /// The transition that failed.
    pub fn connect(&mut self, peer: &Endpoint, path: e810::Path, mtu: e810::Mtu) -> Result<()> {
        let psn = self.endpoint().psn;
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        for attr in [
            QpAttr::to_init(access),
            QpAttr::to_rtr(path, mtu, peer.qpn, peer.psn),
            QpAttr::to_rts(psn),
        ] {
            self.control.modify_qp(&mut self.qp, &attr)?;
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

    fn sge(&self, memory: SharedBytes) -> Sge {
        Sge {
            addr: memory.address(),
            length: self.size,
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

    pub(super) fn post(&mut self, op: Op, number: u64, peer: &Endpoint) -> Result<()> {
        let outgoing = [self.sge(self.outgoing()?)];
        let incoming = [self.sge(self.incoming()?)];
        let data = Data::Sges(&outgoing);
        let op = match op {
            Op::Send => e810::Op::Send { data, imm: None },
            Op::Write => e810::Op::Write {
                data,
                // Into the peer's incoming half.
                remote: Remote {
                    addr: peer.address + u64::from(self.size),
                    rkey: peer.rkey,
                },
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
        self.qp.post_send(&[SendWr {
            wr_id: number,
            op,
            flags: SendFlags::SIGNALED,
        }])?;
        Ok(())
    }

    /// One look at the completion queue, the events and the deferred work.
    pub(super) fn turn(&mut self, wcs: &mut [Wc]) -> Result<usize> {
        let polled = self.cq.poll(wcs);
        if polled > 0 {
            return Ok(polled);
        }
        let mut failure = None;
        for events in &mut self.events {
            events.poll(&mut |event| {
                if let e810::Event::Async(event) = event {
                    failure = Some(event);
                }
            });
        }
        self.control.service()?;
        if let Some(event) = failure {
            bail!("{event}");
        }
        Ok(0)
    }

    /// Destroys everything in order and shuts the device down.
    ///
    /// # Errors
    /// The first step that failed; what the device may still write is leaked.
    pub fn close(mut self) -> Result<()> {
        let control = &mut self.control;
        control.destroy_qp(self.qp).map_err(|(_, error)| error)?;
        control.destroy_cq(self.cq).map_err(|(_, error)| error)?;
        control.dereg_mr(self.mr).map_err(|(_, error)| error)?;
        control.dealloc_pd(self.pd).map_err(|(_, error)| error)?;
        let end = self.control.shutdown(self.events);
        end.map_err(|failed| failed.error)
            .context("shutting down")?;
        Ok(())
    }

    pub(super) fn take(&mut self, wc: &Wc, sent: &mut u32, received: &mut u32) -> Result<()> {
        ensure!(
            wc.status == WcStatus::Success,
            "request {} of queue pair {} completed with {}",
            wc.wr_id,
            wc.qp_num,
            wc.status
        );
        if is_receive(wc.opcode) {
            self.receives -= 1;
            ensure!(
                wc.byte_len == self.size,
                "{} bytes arrived where {} were sent",
                wc.byte_len,
                self.size
            );
            *received = received.saturating_sub(1);
        } else {
            *sent = sent.saturating_sub(1);
        }
        Ok(())
    }
}

const fn is_receive(opcode: WcOpcode) -> bool {
    matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
}
