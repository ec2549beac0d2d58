//! One side of `pingpong`: posts requests, and has the memory where messages arrive.

use crate::handshake::RemoteQp;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use e810::{
    AccessFlags, Control, DATAGRAM_QKEY, Data, EventSet, Mtu, Path, QpCaps, QpType, RecvWr, Remote,
    SendFlags, SendWr, Tuning, UdTarget, Wc, WcOpcode,
};
use e810_backends::interrupts::HostPlatform;
use e810_hal::SharedBytes;

use super::MESSAGE_LIMIT;
use super::invalidated_key::{InvalidatedKey, KEY_BYTES};
use crate::measure::endpoint::{Endpoint, EndpointPlan, succeeded};
use crate::measure::op::PingpongOp;
use crate::measure::wait_mode::WaitMode;
use crate::monitor::SnapshotPublisher;
use crate::output::ending::after_failure;

/// Receives kept posted on each side.
pub(super) const RECEIVES: u64 = 4;
/// Number of the requests that register keys; messages count from 0.
const KEY: u64 = u64::MAX;
/// Bytes before the message in the receive of a datagram.
pub(super) const GRH: usize = 40;

/// One side of the exchange.
#[derive(Debug)]
pub struct PingpongEndpoint<P: HostPlatform> {
    pub(crate) endpoint: Endpoint<P>,
    qp_type: QpType,
    size: u32,
    receives: u64,
    /// Bytes of the next message to arrive.
    arriving: u32,
    /// Where datagrams go.
    target: Option<UdTarget>,
    /// The key that its peer invalidates.
    invalidated_key: Option<InvalidatedKey<P>>,
}

/// The parameters of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PingpongEndpointPlan {
    /// How messages are carried.
    pub qp_type: QpType,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Messages invalidate keys.
    pub invalidate: bool,
    /// The queue pair gets its own counters.
    pub counters: bool,
    /// How it waits for completions.
    pub wait_mode: WaitMode,
    /// The tuning of its queue pair.
    pub tuning: Tuning,
}

impl<P: HostPlatform> PingpongEndpoint<P> {
    /// Creates PD, CQ, QP and registered memory on a ready device, whose snapshots go to
    /// `publisher`.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub fn new(
        platform: P,
        control: Control<P>,
        events: EventSet<P>,
        plan: PingpongEndpointPlan,
        publisher: Option<SnapshotPublisher>,
    ) -> Result<Self> {
        let PingpongEndpointPlan {
            qp_type,
            size,
            invalidate,
            counters,
            wait_mode,
            tuning,
        } = plan;
        // First the outgoing message, then the places where messages arrive: a late datagram must
        // not overwrite one that is being verified.
        let incoming = match qp_type.is_datagram() {
            false => size as usize,
            true => (GRH + size as usize) * RECEIVES as usize,
        };
        let access = match qp_type.is_datagram() {
            false => {
                AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ
            }
            true => AccessFlags::LOCAL_WRITE,
        };
        let objects = EndpointPlan {
            bytes: size as usize + incoming,
            access,
            cqes: 64,
            qps: 1,
            qp_type,
            caps: QpCaps {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
            fast_register: invalidate,
            counters,
            tuning,
            qkey: DATAGRAM_QKEY,
            wait_mode,
            options: None,
        };
        let mut side = Self {
            endpoint: Endpoint::new(platform, control, events, &objects, publisher)?,
            qp_type,
            size,
            receives: 0,
            arriving: size,
            target: None,
            invalidated_key: None,
        };
        if invalidate && let Err(error) = side.make_key() {
            return Err(after_failure(error, side.close()));
        }
        Ok(side)
    }

    fn make_key(&mut self) -> Result<()> {
        let memory = self.outgoing()?;
        let invalidated_key = InvalidatedKey::new(&mut self.endpoint, memory)?;
        self.endpoint.offer_key(invalidated_key.key());
        self.invalidated_key = Some(invalidated_key);
        Ok(())
    }

    /// Takes the QP to RTS, connected to the peer.
    ///
    /// # Errors
    /// The transition that failed, or a message that is too long for a datagram on this path.
    pub fn connect(&mut self, peer: Vec<RemoteQp>, path: Path, mtu: Mtu) -> Result<()> {
        let is_datagram = self.qp_type.is_datagram();
        ensure!(
            !is_datagram || self.size <= mtu.bytes(),
            "--size {}: a datagram carries at most the path MTU, {} bytes; give a smaller size or a larger --path-mtu",
            self.size,
            mtu.bytes()
        );
        self.endpoint.connect(peer, path, mtu)?;
        if let Some(invalidated_key) = &mut self.invalidated_key {
            match self.endpoint.remote(0)?.invalidate {
                Some(key) => invalidated_key.set_theirs(key),
                None => log::warn!("the peer has no keys to invalidate: plain SENDs go to it"),
            }
        }
        if is_datagram {
            self.target = Some(self.endpoint.target(&path)?);
        }
        Ok(())
    }

    /// From here on, sends datagrams to the members of a group.
    ///
    /// # Errors
    /// The device refused the address handle, or it is not connected.
    pub fn send_to_group(&mut self, path: &Path, group: IpAddr) -> Result<()> {
        self.target = Some(self.endpoint.group_target(path, group)?);
        Ok(())
    }

    pub(super) fn outgoing(&self) -> Result<SharedBytes> {
        self.endpoint.memory(0, self.size as usize)
    }

    pub(super) fn incoming(&self) -> Result<SharedBytes> {
        let size = self.size as usize;
        self.endpoint.memory(size, size)
    }

    /// The receive of a datagram: the GRH area and the message.
    pub(super) fn slot(&self, slot: u64) -> Result<SharedBytes> {
        let (size, bytes) = (self.size as usize, GRH + self.size as usize);
        let offset = usize::try_from(slot % RECEIVES)? * bytes;
        self.endpoint.memory(size + offset, bytes)
    }

    pub(super) fn post_receives(&mut self) -> Result<()> {
        let sge = self.endpoint.sge(self.incoming()?);
        while self.receives < RECEIVES {
            let sges = [sge];
            self.endpoint.qp(0)?.post_recv(&[RecvWr {
                wr_id: self.receives,
                sges: &sges,
            }])?;
            self.receives += 1;
        }
        Ok(())
    }

    /// Posts the receive of a datagram.
    pub(super) fn post_slot(&mut self, slot: u64) -> Result<()> {
        let sges = [self.endpoint.sge(self.slot(slot)?)];
        let wr_id = slot;
        self.endpoint
            .qp(0)?
            .post_recv(&[RecvWr { wr_id, sges: &sges }])?;
        Ok(())
    }

    /// Sends the outgoing message as datagram `number`.
    pub(super) fn post_datagram(&mut self, number: u64) -> Result<()> {
        let sges = [self.endpoint.sge(self.outgoing()?)];
        let to = self.target.context("not connected")?;
        let op = e810::Op::UdSend {
            data: Data::Sges(&sges),
            imm: Some(low(number)),
            to,
        };
        self.post_op(number, op)
    }

    /// Sets the bytes of the next message to arrive.
    pub(super) fn expect(&mut self, bytes: u32) {
        self.arriving = bytes;
    }

    /// Sends a message without payload.
    pub(super) fn post_sign(&mut self, number: u64) -> Result<()> {
        let data = Data::Sges(&[]);
        self.post_op(number, e810::Op::Send { data, imm: None })
    }

    /// A WRITE that the peer gets a completion of.
    pub(super) fn post_write_imm(&mut self, number: u64) -> Result<()> {
        let sges = [self.endpoint.sge(self.outgoing()?)];
        let op = e810::Op::Write {
            data: Data::Sges(&sges),
            remote: self.peer_incoming()?,
            imm: Some(low(number)),
        };
        self.post_op(number, op)
    }

    /// The peer's outgoing half.
    fn peer_outgoing(&self) -> Result<Remote> {
        let peer = self.endpoint.remote(0)?;
        Ok(Remote {
            addr: peer.address,
            rkey: peer.rkey,
        })
    }

    /// The peer's incoming half.
    fn peer_incoming(&self) -> Result<Remote> {
        let peer = self.endpoint.remote(0)?;
        Ok(Remote {
            // The peer's device checks the bounds.
            addr: peer.address.wrapping_add(self.size.into()),
            rkey: peer.rkey,
        })
    }

    fn post_op(&mut self, wr_id: u64, op: e810::Op<'_>) -> Result<()> {
        let flags = SendFlags::SIGNALED;
        self.endpoint
            .qp(0)?
            .post_send(&[SendWr { wr_id, op, flags }])?;
        Ok(())
    }

    /// Puts the key of this side at the beginning of the outgoing message, if messages invalidate
    /// keys.
    pub(super) fn put_key(&self) -> Result<()> {
        if let Some(invalidated_key) = &self.invalidated_key {
            let key = invalidated_key.key().to_le_bytes();
            self.outgoing()?.write(0, &key)?;
        }
        Ok(())
    }

    /// Takes the peer's key from the message that arrived, and returns whether it invalidated this
    /// side's key, if messages invalidate keys.
    pub(super) fn take_key(&mut self) -> Result<bool> {
        let incoming = self.incoming()?;
        let Some(invalidated_key) = &mut self.invalidated_key else {
            return Ok(true);
        };
        if invalidated_key.theirs().is_some() {
            let mut key = [0; KEY_BYTES as usize];
            incoming.read(0, &mut key)?;
            invalidated_key.set_theirs(u32::from_le_bytes(key));
        }
        Ok(invalidated_key.is_invalidated())
    }

    /// Bytes before the payload of an incoming message.
    pub(super) fn key_bytes(&self) -> usize {
        let theirs = self
            .invalidated_key
            .as_ref()
            .and_then(InvalidatedKey::theirs);
        theirs.map_or(0, |_| KEY_BYTES as usize)
    }

    /// Replaces the key that was invalidated and registers the new one; returns whether that posted
    /// a request.
    pub(super) fn renew_key(&mut self) -> Result<bool> {
        if let Some(invalidated_key) = &mut self.invalidated_key {
            invalidated_key.renew(self.endpoint.control())?;
        }
        self.post_key()
    }

    /// Registers the key of this side.
    fn post_key(&mut self) -> Result<bool> {
        let Some(invalidated_key) = &self.invalidated_key else {
            return Ok(false);
        };
        let request = invalidated_key.request();
        self.post_op(KEY, e810::Op::FastRegister(&request))?;
        Ok(true)
    }

    /// Registers the first key, before the peer begins.
    ///
    /// # Errors
    /// The queue or the device refuses it.
    pub(super) fn register_first_key(&mut self) -> Result<()> {
        let mut open = u32::from(self.post_key()?);
        let start = self.endpoint.now();
        let mut wcs = [Wc::default(); 1];
        while open > 0 {
            if self.endpoint.poll(&mut wcs)? > 0 {
                self.take(&wcs[0], &mut open, &mut 0)?;
                continue;
            }
            ensure!(
                self.endpoint.now() - start < MESSAGE_LIMIT,
                "a key was not registered within {MESSAGE_LIMIT}"
            );
            self.endpoint.relax();
        }
        Ok(())
    }

    pub(super) fn post(&mut self, op: PingpongOp, number: u64) -> Result<()> {
        let outgoing = [self.endpoint.sge(self.outgoing()?)];
        let incoming = [self.endpoint.sge(self.incoming()?)];
        let data = Data::Sges(&outgoing);
        let op = match op {
            PingpongOp::Send => e810::Op::Send { data, imm: None },
            PingpongOp::SendInv => match self
                .invalidated_key
                .as_ref()
                .and_then(InvalidatedKey::theirs)
            {
                Some(rkey) => e810::Op::SendInv { data, rkey },
                None => e810::Op::Send { data, imm: None },
            },
            PingpongOp::Write => e810::Op::Write {
                data,
                remote: self.peer_incoming()?,
                imm: None,
            },
            PingpongOp::Read => e810::Op::Read {
                into: &incoming,
                remote: self.peer_outgoing()?,
            },
        };
        self.post_op(number, op)
    }

    /// As [`Endpoint::close`].
    pub fn close(self) -> Result<()> {
        let mut endpoint = self.endpoint;
        let freed = self.invalidated_key.map_or(Ok(()), |invalidated_key| {
            invalidated_key.free(endpoint.control())
        });
        // Otherwise the error would be that the protection domain is in use.
        freed?;
        endpoint.close()
    }

    pub(super) fn take(&mut self, wc: &Wc, sent: &mut u32, received: &mut u32) -> Result<()> {
        succeeded(wc)?;
        if is_receive(wc.opcode) {
            self.receives = self.receives.saturating_sub(1);
            if let Some(invalidated_key) = &mut self.invalidated_key {
                invalidated_key.arrived(wc);
            }
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

/// The part of a message number that fits immediate data.
pub(super) const fn low(number: u64) -> u32 {
    number as u32
}

pub(super) const fn is_receive(opcode: WcOpcode) -> bool {
    matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
}
