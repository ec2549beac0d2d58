//! Requester, receive side: acknowledges, NAKs and read responses.

use super::config::QpConfig;
use super::engine::{DropReason, Outcome, Stop};
use super::host::{Access, Host, Right};
use super::progress::{acknowledge, go_back, not_ready};
use super::psn;
use super::requester::{packets, read_chunk_end};
use super::ring::{fetch_send, send_slot};
use super::state::{QpRcState, Requester, Timer};
use crate::wire::{Aeth, Nak, Packet, Place, Syndrome, Verb};
use crate::wqe::{AeCode, AeSource, Fragments, Operation};

/// Receives a packet that answers a request of this QP.
pub(super) fn handle<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Result<Outcome, Stop> {
    let QpRcState {
        config, requester, ..
    } = state;
    match (packet.headers.bth.opcode.rc(), packet.headers.aeth) {
        (Some((Verb::ReadResponse, place)), aeth) => {
            // A NAK is an acknowledge packet, never part of a read response.
            if aeth.is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack(_))) {
                return Ok(Outcome::Dropped(DropReason::Meaningless));
            }
            read_response(config, requester, packet, place, host)
        }
        (Some((Verb::Acknowledge, _)), Some(aeth)) => {
            answer(config, requester, packet.headers.bth.psn, aeth, host)
        }
        _ => Ok(Outcome::Dropped(DropReason::Meaningless)),
    }
}

/// Number of the last message that a credit code allows when `msn` are completed; `None`: no limit.
fn last_allowed(msn: u32, credits: u8) -> Option<u32> {
    let receives = CREDITS.get(usize::from(credits))?;
    Some(psn::add(msn, *receives))
}

/// Receives that a credit code stands for. Code 31 means that they are not counted.
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

/// True if `psn` has been sent and not acknowledged.
fn outstanding(requester: &Requester, psn: u32) -> bool {
    psn::distance(psn, requester.una_psn) < psn::distance(requester.max_psn, requester.una_psn)
}

fn answer<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    psn: u32,
    Aeth { syndrome, msn }: Aeth,
    host: &mut H,
) -> Result<Outcome, Stop> {
    // "The next packet is missing" may name a packet that was not sent yet.
    let expected_next = syndrome == Syndrome::Nak(Nak::Sequence) && psn == requester.max_psn;
    if !outstanding(requester, psn) && !expected_next {
        return Ok(Outcome::Dropped(DropReason::Stale));
    }
    match syndrome {
        Syndrome::Ack(credits) => {
            requester.limit = last_allowed(msn, credits);
            if !acknowledge(config, requester, psn::add(psn, 1), host)? {
                go_back(config, requester, host)?;
            }
            Ok(Outcome::Accepted)
        }
        Syndrome::Nak(Nak::Sequence) => {
            let before = requester.timer;
            // It acknowledges everything before the packet it asks for.
            acknowledge(config, requester, psn, host)?;
            if requester.una_psn == requester.max_psn {
                return Ok(Outcome::Accepted);
            }
            if let Timer::NotReady(_) = before {
                // Packets in flight behind the refused one. All of them are sent again when the
                // wait is over, not before.
                requester.timer = before;
                return Ok(Outcome::Duplicate);
            }
            go_back(config, requester, host)?;
            Ok(Outcome::Accepted)
        }
        Syndrome::RnrNak(timer_code) => {
            if matches!(requester.timer, Timer::NotReady(_)) {
                return Ok(Outcome::Duplicate);
            }
            if acknowledge(config, requester, psn, host)? {
                not_ready(config, requester, timer_code, host)?;
            } else {
                go_back(config, requester, host)?;
            }
            Ok(Outcome::NotReady)
        }
        Syndrome::Nak(
            nak @ (Nak::InvalidRequest | Nak::RemoteAccess | Nak::RemoteOperation | Nak::Other(_)),
        ) => {
            acknowledge(config, requester, psn, host)?;
            let code = match nak {
                Nak::RemoteAccess => AeCode::IB_REMOTE_ACCESS_ERROR,
                Nak::InvalidRequest => AeCode::IB_INVALID_REQUEST,
                // A code without a meaning is still a refusal.
                _ => AeCode::IB_REMOTE_OP_ERROR,
            };
            let (index, _) = send_slot(config, requester.una.pos);
            Err(Stop::new(code, AeSource::SendQueue, index))
        }
        Syndrome::Reserved(_) => Ok(Outcome::Dropped(DropReason::Meaningless)),
    }
}

fn read_response<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    packet: &Packet<'_>,
    place: Place,
    host: &mut H,
) -> Result<Outcome, Stop> {
    let psn = packet.headers.bth.psn;
    if !outstanding(requester, psn) {
        return Ok(Outcome::Dropped(DropReason::Stale));
    }
    // It acknowledges every request before the read.
    if !acknowledge(config, requester, psn, host)? {
        go_back(config, requester, host)?;
        return Ok(Outcome::OutOfOrder);
    }
    let at = requester.una;
    let (index, _) = send_slot(config, at.pos);
    let wqe = fetch_send(config, at.pos, host)
        .map_err(|error| Stop::fetch(error, AeSource::SendQueue, index))?;
    let Some((wqe, Operation::Read { sink, .. })) = wqe.as_ref().map(|wqe| (wqe, &wqe.operation))
    else {
        return Err(Stop::new(
            AeCode::INVALID_RDMA_WRITE_OR_READ_RESP,
            AeSource::InboundData,
            index,
        ));
    };
    if !config.write_ok {
        return Err(Stop::new(
            AeCode::INVALID_RDMA_WRITE_OR_READ_RESP,
            AeSource::InboundData,
            index,
        ));
    }
    let number = psn::distance(psn, at.first_psn);
    let count = packets(config, wqe);
    let chunk_end = read_chunk_end(number, count);
    let offset = u64::from(number) * u64::from(config.mtu.bytes());
    let wanted = sink
        .total()
        .saturating_sub(offset)
        .min(u64::from(config.mtu.bytes()));
    let ends = number + 1 == chunk_end;
    // The start of a response depends on how often the request was repeated; its end does not.
    if packet.payload.len() as u64 != wanted || place.ends() != ends {
        return Err(Stop::new(
            AeCode::ROCE_RSP_LENGTH_ERROR,
            AeSource::InboundData,
            index,
        ));
    }
    let source = match config.blames_read {
        true => AeSource::SendQueue,
        false => AeSource::InboundData,
    };
    scatter(config, sink, offset, packet.payload, host)
        .map_err(|fault| Stop::fault(fault, source, index))?;
    requester.una_psn = psn::add(psn, 1);
    // A read that was answered after going back, before it was requested again, is not counted, and
    // neither is any read behind it: the count is 0 then.
    if ends {
        requester.reads = requester.reads.saturating_sub(1);
    }
    requester.progress(config, host.now_ns());
    let target = requester.una_psn;
    acknowledge(config, requester, target, host)?;
    Ok(Outcome::Accepted)
}

/// Writes payload bytes to the memory where a receive or a read puts byte `offset` of its message.
pub(super) fn scatter<H: Host + ?Sized>(
    config: &QpConfig,
    fragments: &Fragments,
    offset: u64,
    mut payload: &[u8],
    host: &mut H,
) -> Result<(), super::host::Fault> {
    // A packet is at most 4096 bytes.
    for piece in fragments.span(offset, payload.len() as u32) {
        let (head, rest) = payload.split_at((piece.len as usize).min(payload.len()));
        let access = Access {
            qpn: config.qpn,
            pd: config.pd,
            stag: piece.stag,
            addr: piece.addr,
            right: Right::LocalWrite,
        };
        host.write(access, head)?;
        payload = rest;
    }
    Ok(())
}
