//! Datagram queue pairs (RoCE UD): one packet for each send, addressed by an address handle
//! (control-path 4.14, data-path 7).

use crate::findings::kind;
use std::net::Ipv6Addr;

use super::aeq::{Event, Named};
use super::ah::AddressHandle;
use super::cq::Completion;
use super::device::{Device, Unreachable};
use super::env::Env;
use super::fpm::Kind;
use super::host_context::mac_bytes;
use super::qp::{Qp, State};
use super::ring::Memory;
use super::stats::Direction;
use super::ud_multicast::GROUP_QP;
use super::word::{bit, bits, bits8, bits16, bits32};
use crate::rc::{Access, Fault, HostFault, Right, SendCompletion};
use crate::variation::GroupEcho;
use crate::wire::{
    Addresses, Bth, Deth, Frame, Headers, MAX_PAYLOAD, Opcode, Packet, Path, ROCE_UDP_PORT,
};
use crate::wqe::{
    AeCode, AeSource, Cqe, Fragments, MAX_QUANTA, Operation, Payload, QUANTUM, QUANTUM_WORDS,
    SendWqe, Service, UdTarget, WqeError, is_valid, send_quanta,
};

/// Entries sent in one turn.
const BUDGET: u32 = 16;

const XMIT_DGRAM_TOO_LONG: AeCode = AeCode(0x0132);
const XMIT_BAD_PD: AeCode = AeCode(0x0133);
const L4LEN_INVALID: AeCode = AeCode(0x0135);
const INVALID_ARP_ENTRY: AeCode = AeCode(0x0401);
const INVALID_AH_ENTRY: AeCode = AeCode(0x0406);

/// State of a datagram QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UdState {
    /// Quanta of the send queue already processed.
    pub(crate) sent: u64,
    /// Receive slots used.
    pub(crate) received: u64,
    /// PSN of the next packet; receivers do not check it.
    pub(crate) psn: u32,
}

/// The reason for which the QP stops.
pub(super) struct Stop(AeCode);

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Stag(code) => Self(code),
            Fault::Host(_) => Self(AeCode::LOCAL_QP_CATASTROPHIC),
        }
    }
}

impl From<HostFault> for Stop {
    fn from(_: HostFault) -> Self {
        Self(AeCode::LOCAL_QP_CATASTROPHIC)
    }
}

impl From<Unreachable> for Stop {
    fn from(_: Unreachable) -> Self {
        Self(AeCode::LOCAL_QP_CATASTROPHIC)
    }
}

impl From<WqeError> for Stop {
    fn from(error: WqeError) -> Self {
        Self(error.ae())
    }
}

impl Device {
    /// Sends what is posted. `true` if there may be more.
    pub(super) fn serve_ud(&mut self, id: u32, qp: &mut Qp, env: &mut dyn Env) -> bool {
        for _ in 0..BUDGET {
            if qp.state() != State::Rts {
                return false;
            }
            match self.next_datagram(id, qp, env) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(stop) => {
                    let (index, _) = qp.send_head();
                    self.stop_ud(id, qp, stop, AeSource::SendQueue, index, env);
                    return false;
                }
            }
        }
        true
    }

    pub(super) fn stop_ud(
        &mut self,
        id: u32,
        qp: &mut Qp,
        Stop(AeCode(code)): Stop,
        source: AeSource,
        wqe_index: u16,
        env: &mut dyn Env,
    ) {
        qp.other_state = State::Error;
        qp.stopped = true;
        let event = Event {
            code,
            source: source as u8,
            id,
            wqe_index,
            context: Named::Qp(qp.completion_context()),
            state: State::Error as u8,
        };
        self.async_event(event, env);
    }

    /// The words of a ring entry.
    pub(super) fn ring_words(
        &mut self,
        memory: Memory,
        index: u16,
        words: &mut [u64],
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        // Inside a 256-byte chunk, so inside a page.
        let at = memory.at(u64::from(index) * QUANTUM as u64, &mut self.hmc, env);
        let at = self.reached(at, env)?;
        Ok(env.load_words(at, words)?)
    }

    /// Executes the next entry; `false` if none is valid.
    fn next_datagram(&mut self, id: u32, qp: &mut Qp, env: &mut dyn Env) -> Result<bool, Stop> {
        let (index, polarity) = qp.send_head();
        let mut first = [0; QUANTUM_WORDS];
        self.ring_words(qp.send_memory(), index, &mut first, env)?;
        let [.., header] = first;
        if !is_valid(header, polarity) {
            return Ok(false);
        }
        let quanta = send_quanta(header)?;
        if usize::from(index) % MAX_QUANTA + usize::from(quanta) > MAX_QUANTA {
            return Err(WqeError::CrossesChunk { index, quanta }.into());
        }
        let mut words = [0; MAX_QUANTA * QUANTUM_WORDS];
        let words = words
            .get_mut(..usize::from(quanta) * QUANTUM_WORDS)
            .unwrap_or_default();
        self.ring_words(qp.send_memory(), index, words, env)?;
        let wqe = SendWqe::decode(words, polarity, Service::Datagram)?;
        if !wqe.lints.is_empty() {
            let text = format!("QP {id}: send queue entry {index}: {:?}", wqe.lints);
            env.finding(kind::WQE_BITS, text);
        }
        match wqe.operation {
            Operation::Send {
                payload,
                immediate,
                invalidate: None,
                solicited,
                ud,
            } => {
                // L4LEN is the length of a header that raw sends bring themselves (data-path 1.4,
                // 7.3); here the card makes all headers [inf l4len: from the name].
                if bits(header, 45, 42) != 0 {
                    return Err(Stop(L4LEN_INVALID));
                }
                let message = Message {
                    payload,
                    immediate,
                    solicited,
                    target: ud,
                };
                self.send_datagram(id, qp, &message, env)?;
            }
            Operation::Nop => {}
            _ => return Err(Stop(AeCode::WQE_UNEXPECTED_OPCODE)),
        }
        qp.ud.sent += u64::from(quanta);
        if wqe.signaled {
            let done = SendCompletion {
                wqe_index: index,
                op: wqe.opcode,
                psn: qp.ud.psn,
            };
            let cqe = done.cqe(id, qp.completion_context());
            self.complete_ud(qp.send_cq(), &cqe, env)?;
        }
        Ok(true)
    }

    pub(super) fn complete_ud(
        &mut self,
        cq: u32,
        cqe: &Cqe,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        let encode = |polarity, next| cqe.encode(polarity, next);
        let completion = Completion {
            slots: cqe.slots() as u32,
            encode: &encode,
            solicited: cqe.solicited,
        };
        self.complete(cq, &completion, env)
    }

    fn send_datagram(
        &mut self,
        id: u32,
        qp: &mut Qp,
        message: &Message,
        env: &mut dyn Env,
    ) -> Result<(), Stop> {
        let target = message.target;
        if u64::from(target.ah) >= self.hmc.count(Kind::FsiAv) {
            return Err(Stop(INVALID_AH_ENTRY));
        }
        let handle = self.ahs.get(target.ah.into(), &mut self.hmc, env);
        let handle = self.reached(handle, env)?.ok_or(Stop(INVALID_AH_ENTRY))?;
        if handle.pd() != qp.pd() {
            return Err(Stop(XMIT_BAD_PD));
        }
        let len = message.payload.total();
        let mtu = bits(qp.host[6], 29, 16).min(MAX_PAYLOAD as u64);
        if len > mtu {
            return Err(Stop(XMIT_DGRAM_TOO_LONG));
        }
        let arp = self
            .arp(handle.arp_index(), env)?
            .ok_or(Stop(INVALID_ARP_ENTRY))?;
        let path = handle.path(mac_bytes(arp.mac), bits16(qp.host[3], 47, 32));
        let opcode = if message.immediate.is_some() {
            Opcode::UD_SEND_ONLY_IMM
        } else {
            Opcode::UD_SEND_ONLY
        };
        let mut bth = Bth::new(opcode, target.qpn, qp.ud.psn);
        bth.solicited = message.solicited;
        bth.pkey = bits16(qp.host[7], 47, 32);
        let mut headers = Headers::new(bth);
        headers.deth = Some(Deth {
            qkey: if bit(target.qkey.into(), 31) {
                own_qkey(qp)
            } else {
                target.qkey
            },
            src_qp: id,
        });
        headers.immediate = message.immediate;
        // The headers match the opcode, and the length is checked.
        let mut frame = Frame::new(&path, &headers, len as usize).map_err(|_| HostFault)?;
        match &message.payload {
            Payload::Inline(data) => frame.payload_mut().copy_from_slice(data.as_slice()),
            Payload::Fragments(fragments) => {
                self.gather(id, qp, fragments, frame.payload_mut(), env)?;
            }
        }
        qp.ud.psn = qp.ud.psn.wrapping_add(1) & 0xFF_FFFF;
        let frame = frame.seal();
        if env.has_queue_set(qp.queue_set()) {
            self.count(qp, |counters, choices| {
                counters.frame(&frame, Direction::Transmit, choices);
            });
            // DOLOOPBACK: members on this function get the packet too. From the wire a function
            // gets only packets of others.
            let stays = target.qpn == GROUP_QP && bit(handle.flags, 62);
            if stays && let Ok(packet) = Packet::parse(&frame) {
                env.transmit(frame.clone());
                if self.receive_group(&packet, &frame, Some(id), env)
                    && self.config.variation.group_echo == GroupEcho::Sender
                {
                    self.receive_ud(id, qp, &packet, &frame, env);
                }
            } else {
                env.transmit(frame);
            }
        }
        Ok(())
    }

    fn gather(
        &mut self,
        id: u32,
        qp: &Qp,
        fragments: &Fragments,
        mut out: &mut [u8],
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        let allowed = qp.allowed(id);
        for part in fragments.as_slice() {
            let access = Access {
                qpn: id,
                pd: allowed.pd,
                stag: part.stag,
                addr: part.addr,
                right: Right::LocalRead,
            };
            let grant = self.grant(&access, part.len.into(), allowed.privileged, env)?;
            let (now, rest) = out
                .split_at_mut_checked(part.len as usize)
                .unwrap_or_default();
            self.read_grant(&grant, now, env)?;
            out = rest;
        }
        Ok(())
    }
}

/// QKEY of the context: a datagram must carry it to be accepted. A sent datagram carries it if the
/// Q_Key of its request has the highest bit set. Existing drivers pass such a request on as it is,
/// and their management datagrams arrive \[inf qkey_high_bit\].
pub(super) fn own_qkey(qp: &Qp) -> u32 {
    bits32(qp.host[8], 63, 32)
}

/// A datagram to send.
struct Message {
    payload: Payload,
    immediate: Option<u32>,
    solicited: bool,
    target: UdTarget,
}

impl AddressHandle {
    pub(super) fn pd(&self) -> u32 {
        bits32(self.head[1], 63, 48) | bits32(self.head[2], 27, 20) << 16
    }

    pub(super) fn arp_index(&self) -> u16 {
        bits16(self.head[2], 63, 48)
    }

    /// Addresses of the datagrams sent through this handle.
    pub(super) fn path(&self, dst_mac: [u8; 6], src_port: u16) -> Path {
        let [dst_low, dst_high, src_low, src_high] = self.addresses;
        let v6 =
            |high: u64, low: u64| Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        let ip = if bit(self.flags, 59) {
            Addresses::V4 {
                src: (src_low as u32).into(),
                dst: (dst_low as u32).into(),
            }
        } else {
            Addresses::V6 {
                src: v6(src_high, src_low),
                dst: v6(dst_high, dst_low),
            }
        };
        Path {
            src_mac: mac_bytes(bits(self.head[0], 63, 16)),
            dst_mac,
            vlan: bit(self.flags, 60).then(|| bits16(self.head[1], 15, 0)),
            ip,
            tos: bits8(self.head[1], 39, 32),
            ttl: bits8(self.head[2], 39, 32),
            flow_label: bits32(self.head[2], 19, 0),
            src_port,
            dst_port: ROCE_UDP_PORT,
        }
    }
}
