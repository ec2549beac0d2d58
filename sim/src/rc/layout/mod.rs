//! The state as bytes, for a device that keeps its QP contexts in host memory.
//!
//! All fields are little-endian; gaps are zero and not read.
//!
//! | offset | content |
//! |---|---|
//! | 0 | magic `RC11` (4), mode (1), last message allowed (4; all ones: any) |
//! | 16 | QP number, destination QP, PD (4 each), P_Key, MTU (2 each), SQ quanta, RQ quanta (4 each), RQ slot quanta, ORD, retry, RNR retry (1 each), IRD (2), flags (1): read ok 0, write ok 1, VLAN 2, IPv6 3, credits obeyed 4; credits, RNR timer (1 each), window (4), time-out (8) |
//! | 64 | source MAC, destination MAC (6 each), VLAN tag (2), source IP, destination IP (16 each, IPv4 in the first 4), TOS, TTL (1 each), flow label (4), source port, destination port (2 each) |
//! | 128 | cursors "oldest not completed" and "next" (position 8, first PSN 4, messages before 3 each), position behind the last (8), PSNs: oldest not acknowledged, next, behind the last (4 each), reads sent (2), retries, RNR retries, recovering, timer kind (1 each), timer (8) |
//! | 192 | expected PSN, MSN (4 each), RQ position (8), message kind (1), address (8), rkey, total, received (4 each), read head, new reads, repeated reads (2 each), MSN of the acknowledge (4) |
//! | 240 | acknowledge pending (1), its PSN (4), refusal kind, its flag or NAK (1 each), its PSN (4), AE code (2), AE source (1), WQE index (2) |

mod codec;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use codec::StateError;
use codec::{Reader, Writer};

use super::config::{PathMtu, QpConfig};
use super::host::AsyncEvent;
use super::state::{Ack, Cursor, Message, Mode, QpRcState, Refusal, Requester, Responder, Timer};
use crate::wire::{Addresses, Path, Syndrome};
use crate::wqe::{AeCode, AeSource};

/// Bytes of a stored state.
pub const QP_STATE_BYTES: usize = 256;

/// Stands for "no credit limit"; no message has this number.
const NO_LIMIT: u32 = u32::MAX;

const MAGIC: [u8; 4] = *b"RC11";

impl QpRcState {
    #[must_use]
    pub fn to_bytes(&self) -> [u8; QP_STATE_BYTES] {
        let mut bytes = [0; QP_STATE_BYTES];
        let mut out = Writer(&mut bytes);
        out.section(16, |out| {
            out.put(MAGIC);
            out.u8(self.mode as u8);
            out.u32(self.requester.limit.unwrap_or(NO_LIMIT));
        });
        out.section(48, |out| put_config(out, &self.config));
        out.section(64, |out| put_path(out, &self.config.path));
        out.section(64, |out| put_requester(out, &self.requester));
        out.section(48, |out| put_message(out, &self.responder));
        out.section(16, |out| put_answers(out, &self.responder));
        bytes
    }

    /// The state that [`to_bytes`](Self::to_bytes) stored.
    ///
    /// # Errors
    /// [`StateError`] if a field holds a value that is never stored. Damage that leaves valid
    /// fields is not detected.
    pub fn from_bytes(bytes: &[u8; QP_STATE_BYTES]) -> Result<Self, StateError> {
        let mut all = Reader(bytes);
        let mut input = all.section(16)?;
        if input.take()? != MAGIC {
            return Err(StateError("magic"));
        }
        let mode = match input.u8()? {
            1 => Mode::Idle,
            2 => Mode::Rts,
            3 => Mode::Sqd,
            4 => Mode::Rtr,
            6 => Mode::Error,
            _ => return Err(StateError("mode")),
        };
        let limit = match input.u32()? {
            NO_LIMIT => None,
            limit if limit >> 24 == 0 => Some(limit),
            _ => return Err(StateError("limit")),
        };
        let config = get_config(&mut all.section(48)?, &mut all.section(64)?)?;
        let requester = Requester {
            limit,
            ..get_requester(&mut all.section(64)?)?
        };
        let responder = get_responder(&mut all.section(48)?, &mut all.section(16)?)?;
        if responder.reads_new.max(responder.reads_again) > config.ird
            || responder.read_head >= 2 * config.ird
        {
            return Err(StateError("read queue"));
        }
        Ok(Self {
            config,
            mode,
            requester,
            responder,
        })
    }
}

fn put_config(out: &mut Writer<'_>, config: &QpConfig) {
    out.u32(config.qpn);
    out.u32(config.dest_qpn);
    out.u32(config.pd);
    out.u16(config.pkey);
    out.u16(config.mtu as u16);
    out.u32(config.sq_quanta);
    out.u32(config.rq_quanta);
    out.put([
        config.rq_slot_quanta,
        config.ord,
        config.retry,
        config.rnr_retry,
    ]);
    out.u16(config.ird);
    let ipv6 = matches!(config.path.ip, Addresses::V6 { .. });
    out.u8(u8::from(config.read_ok)
        | u8::from(config.write_ok) << 1
        | u8::from(config.path.vlan.is_some()) << 2
        | u8::from(ipv6) << 3
        | u8::from(config.obeys_credits) << 4
        | u8::from(config.blames_read) << 5);
    out.put([config.credits, config.rnr_timer]);
    out.u32(config.window);
    out.u64(config.retransmit_ns);
}

fn get_config(input: &mut Reader<'_>, path: &mut Reader<'_>) -> Result<QpConfig, StateError> {
    let [qpn, dest_qpn, pd] = [input.u32()?, input.u32()?, input.u32()?];
    let pkey = input.u16()?;
    let mtu = PathMtu::try_from(input.u16()?).map_err(|_| StateError("MTU"))?;
    let [sq_quanta, rq_quanta] = [input.u32()?, input.u32()?];
    let [rq_slot_quanta, ord, retry, rnr_retry] = input.take()?;
    let ird = input.u16()?;
    let flags = input.u8()?;
    let [credits, rnr_timer] = input.take()?;
    let config = QpConfig {
        qpn,
        dest_qpn,
        pd,
        pkey,
        path: get_path(path, flags & 4 != 0, flags & 8 != 0)?,
        mtu,
        sq_quanta,
        rq_quanta,
        rq_slot_quanta,
        ord,
        ird,
        retry,
        rnr_retry,
        window: input.u32()?,
        retransmit_ns: input.u64()?,
        credits,
        rnr_timer,
        obeys_credits: flags & 16 != 0,
        blames_read: flags & 32 != 0,
        read_ok: flags & 1 != 0,
        write_ok: flags & 2 != 0,
    };
    config.validate().map_err(|_| StateError("configuration"))?;
    // The host context allows one of five values; here a driver may have overwritten it.
    if !(1..=128).contains(&config.ird) {
        return Err(StateError("configuration"));
    }
    Ok(config)
}

fn put_path(out: &mut Writer<'_>, path: &Path) {
    out.put(path.src_mac);
    out.put(path.dst_mac);
    out.u16(path.vlan.unwrap_or_default());
    let widen = |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    };
    let (src, dst) = match path.ip {
        Addresses::V4 { src, dst } => (widen(src), widen(dst)),
        Addresses::V6 { src, dst } => (src.octets(), dst.octets()),
    };
    out.put(src);
    out.put(dst);
    out.u8(path.tos);
    out.u8(path.ttl);
    out.u32(path.flow_label);
    out.u16(path.src_port);
    out.u16(path.dst_port);
}

fn get_path(input: &mut Reader<'_>, tagged: bool, ipv6: bool) -> Result<Path, StateError> {
    let (src_mac, dst_mac, tag) = (input.take()?, input.take()?, input.u16()?);
    let (src, dst): ([u8; 16], [u8; 16]) = (input.take()?, input.take()?);
    let narrow = |[a, b, c, d, ..]: [u8; 16]| Ipv4Addr::new(a, b, c, d);
    let ip = if ipv6 {
        Addresses::V6 {
            src: Ipv6Addr::from(src),
            dst: Ipv6Addr::from(dst),
        }
    } else {
        Addresses::V4 {
            src: narrow(src),
            dst: narrow(dst),
        }
    };
    Ok(Path {
        src_mac,
        dst_mac,
        vlan: tagged.then_some(tag),
        ip,
        tos: input.u8()?,
        ttl: input.u8()?,
        flow_label: input.u32()?,
        src_port: input.u16()?,
        dst_port: input.u16()?,
    })
}

fn put_requester(out: &mut Writer<'_>, requester: &Requester) {
    for cursor in [requester.una, requester.next] {
        out.u64(cursor.pos);
        out.u32(cursor.first_psn);
        let [low, middle, high, _] = cursor.messages.to_le_bytes();
        out.put([low, middle, high]);
    }
    out.u64(requester.max_pos);
    out.u32(requester.una_psn);
    out.u32(requester.next_psn);
    out.u32(requester.max_psn);
    out.u16(requester.reads);
    let (kind, at) = match requester.timer {
        Timer::Off => (0, 0),
        Timer::Retransmit(at) => (1, at),
        Timer::NotReady(at) => (2, at),
    };
    out.put([
        requester.retries,
        requester.rnr_retries,
        requester.recovering.into(),
        kind,
    ]);
    out.u64(at);
}

fn get_cursor(input: &mut Reader<'_>) -> Result<Cursor, StateError> {
    let (pos, first_psn) = (input.pos()?, input.psn()?);
    let [low, middle, high] = input.take()?;
    Ok(Cursor {
        pos,
        first_psn,
        messages: u32::from_le_bytes([low, middle, high, 0]),
    })
}

fn get_requester(input: &mut Reader<'_>) -> Result<Requester, StateError> {
    let una = get_cursor(input)?;
    let next = get_cursor(input)?;
    let max_pos = input.pos()?;
    let [una_psn, next_psn, max_psn] = [input.psn()?, input.psn()?, input.psn()?];
    let reads = input.u16()?;
    let [retries, rnr_retries, recovering, kind] = input.take()?;
    let at = input.u64()?;
    let timer = match kind {
        0 => Timer::Off,
        1 => Timer::Retransmit(at),
        2 => Timer::NotReady(at),
        _ => return Err(StateError("timer")),
    };
    Ok(Requester {
        una,
        una_psn,
        next,
        next_psn,
        max_pos,
        max_psn,
        reads,
        limit: None,
        retries,
        rnr_retries,
        recovering: recovering != 0,
        timer,
    })
}

fn put_message(out: &mut Writer<'_>, responder: &Responder) {
    out.u32(responder.epsn);
    out.u32(responder.msn);
    out.u64(responder.rq_pos);
    let (kind, addr, [rkey, total, received]) = match responder.message {
        Message::None => (0, 0, [0; 3]),
        Message::Send { received } => (1, 0, [0, 0, received]),
        Message::Write {
            addr,
            rkey,
            total,
            received,
        } => (2, addr, [rkey, total, received]),
    };
    out.u8(kind);
    out.u64(addr);
    out.u32(rkey);
    out.u32(total);
    out.u32(received);
    out.u16(responder.read_head);
    out.u16(responder.reads_new);
    out.u16(responder.reads_again);
    out.u32(responder.ack.map_or(0, |ack| ack.msn));
}

fn put_answers(out: &mut Writer<'_>, responder: &Responder) {
    out.u8(responder.ack.is_some().into());
    out.u32(responder.ack.map_or(0, |ack| ack.psn));
    let nothing = AsyncEvent {
        code: AeCode(0),
        source: AeSource::None,
        wqe_index: 0,
    };
    let (kind, detail, psn, event) = match responder.refusal {
        Refusal::None => (0, 0, 0, nothing),
        Refusal::Sequence { sent } => (1, sent.into(), 0, nothing),
        Refusal::NotReady { sent } => (2, sent.into(), 0, nothing),
        Refusal::Fatal { psn, nak, event } => (3, Syndrome::Nak(nak).encode(), psn, event),
    };
    out.put([kind, detail]);
    out.u32(psn);
    out.u16(event.code.0);
    out.u8(event.source as u8);
    out.u16(event.wqe_index);
}

fn get_responder(
    input: &mut Reader<'_>,
    answers: &mut Reader<'_>,
) -> Result<Responder, StateError> {
    let (epsn, msn, rq_pos) = (input.psn()?, input.psn()?, input.pos()?);
    let kind = input.u8()?;
    let (addr, rkey, total, received) = (input.u64()?, input.u32()?, input.u32()?, input.u32()?);
    let message = match kind {
        0 => Message::None,
        1 => Message::Send { received },
        2 => Message::Write {
            addr,
            rkey,
            total,
            received,
        },
        _ => return Err(StateError("message")),
    };
    let [read_head, reads_new, reads_again] = [input.u16()?, input.u16()?, input.u16()?];
    let msn_of_ack = input.psn()?;
    let (pending, psn_of_ack) = (answers.u8()? != 0, answers.psn()?);
    let ack = Ack {
        psn: psn_of_ack,
        msn: msn_of_ack,
    };
    let refusal = get_refusal(answers)?;
    Ok(Responder {
        epsn,
        msn,
        rq_pos,
        message,
        read_head,
        reads_new,
        reads_again,
        ack: pending.then_some(ack),
        refusal,
    })
}

fn get_refusal(input: &mut Reader<'_>) -> Result<Refusal, StateError> {
    let [kind, detail] = input.take()?;
    let psn = input.psn()?;
    let (code, source, wqe_index) = (input.u16()?, input.u8()?, input.u16()?);
    Ok(match kind {
        0 => Refusal::None,
        1 => Refusal::Sequence { sent: detail != 0 },
        2 => Refusal::NotReady { sent: detail != 0 },
        3 => {
            let Syndrome::Nak(nak) = Syndrome::decode(detail) else {
                return Err(StateError("NAK"));
            };
            let source = match source {
                0x0 => AeSource::None,
                0x1 => AeSource::ReceiveQueue,
                0x5 => AeSource::SendQueue,
                0x9 => AeSource::InboundData,
                0xD => AeSource::OutboundReadResponse,
                _ => return Err(StateError("event source")),
            };
            Refusal::Fatal {
                psn,
                nak,
                event: AsyncEvent {
                    code: AeCode(code),
                    source,
                    wqe_index,
                },
            }
        }
        _ => return Err(StateError("refusal")),
    })
}
