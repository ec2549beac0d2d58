//! Responder, receive side: executes inbound requests in order.

use super::config::QpConfig;
use super::engine::{DropReason, Outcome, Stop};
use super::host::{Access, Fault, Host, HostFault, Invalidator, ReceiveCompletion, Right, Ring};
use super::inbound_reads;
use super::plain;
use super::psn;
use super::requester::MAX_MESSAGE;
use super::requester_rx::scatter;
use super::responder_tx::nak_for;
use super::ring::{fetch_receive, receive_slot};
use super::state::{Ack, Message, QpRcState, Refusal};
use crate::wire::{Nak, Opcode, Packet, Place, Reth, Verb};
use crate::wqe::{AeCode, AeSource, ReceiveWqe};

/// Why a request in sequence is not executed.
enum Deny {
    /// No receive is posted.
    NotReady,
    /// The QP stops, after a NAK.
    Fatal(Nak, Stop),
}

impl Deny {
    /// The request is not for this QP or is malformed.
    fn invalid(code: AeCode, source: AeSource, wqe_index: u16) -> Self {
        Self::Fatal(Nak::InvalidRequest, Stop::new(code, source, wqe_index))
    }

    /// The access to remote memory was refused.
    fn remote(fault: Fault, source: AeSource, wqe_index: u16) -> Self {
        Self::Fatal(nak_for(fault), Stop::fault(fault, source, wqe_index))
    }
}

impl From<Stop> for Deny {
    fn from(stop: Stop) -> Self {
        Self::Fatal(Nak::RemoteOperation, stop)
    }
}

impl From<HostFault> for Deny {
    fn from(fault: HostFault) -> Self {
        Stop::from(fault).into()
    }
}

/// Receives a request. Sends nothing; see [`answers`](super::responder_tx).
pub(super) fn handle<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Outcome {
    if matches!(state.responder.refusal, Refusal::Fatal { .. }) {
        return Outcome::Dropped(DropReason::Refusing);
    }
    let bth = packet.headers.bth;
    let epsn = state.responder.epsn;
    if psn::before(bth.psn, epsn) {
        return duplicate(state, packet, host);
    }
    if bth.psn != epsn {
        if state.responder.refusal == Refusal::None {
            state.responder.refusal = Refusal::Sequence { sent: false };
        }
        return Outcome::OutOfOrder;
    }
    match execute(state, packet, host) {
        Ok(psns) => {
            let responder = &mut state.responder;
            responder.epsn = psn::add(epsn, psns);
            if bth.ack_request && psns_are_acknowledged(bth.opcode) {
                responder.ack = Some(Ack {
                    psn: bth.psn,
                    msn: responder.msn,
                });
            }
            // A pending sequence NAK will name the PSN that is expected when it is sent.
            if responder.refusal != (Refusal::Sequence { sent: false }) {
                responder.refusal = Refusal::None;
            }
            Outcome::Accepted
        }
        Err(Deny::NotReady) => {
            state.responder.refusal = Refusal::NotReady { sent: false };
            Outcome::NotReady
        }
        Err(Deny::Fatal(nak, Stop(event))) => {
            state.responder.refusal = Refusal::Fatal {
                psn: epsn,
                nak,
                event,
            };
            Outcome::Refused
        }
    }
}

/// A read is answered by its responses, everything else by an acknowledge.
fn psns_are_acknowledged(opcode: Opcode) -> bool {
    opcode != Opcode::READ_REQUEST
}

/// Executes a request in sequence; returns the PSNs it uses.
fn execute<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Result<u32, Deny> {
    if host.takes_shortcuts() {
        let written = plain::write(state, packet, host)
            .map_err(|fault| Deny::remote(fault, AeSource::InboundData, 0))?;
        if written || plain::receive(state, packet, host)? {
            return Ok(1);
        }
    }
    let unexpected = Deny::invalid(AeCode::RDMAP_UNEXPECTED_OPCODE, AeSource::InboundData, 0);
    let Some((verb, place)) = packet.headers.bth.opcode.rc() else {
        return Err(unexpected);
    };
    let in_turn = match (verb, state.responder.message) {
        (_, Message::None) => place.opens(),
        (Verb::Send, Message::Send { .. }) | (Verb::Write, Message::Write { .. }) => !place.opens(),
        _ => false,
    };
    let mtu = state.config.mtu.bytes() as usize;
    let len = packet.payload.len();
    let right_size = match place {
        Place::First | Place::Middle => len == mtu,
        Place::Last => (1..=mtu).contains(&len),
        Place::Only => len <= mtu,
    };
    if !in_turn || !right_size {
        return Err(unexpected);
    }
    match (verb, packet.headers.reth) {
        (Verb::Send, _) => send(state, packet, place, host),
        (Verb::Write, reth) => write(state, packet, reth, place, host),
        (Verb::ReadRequest, Some(reth)) => read(state, packet, reth, host),
        _ => Err(unexpected),
    }
}

/// The receive to fill next.
fn receive<H: Host + ?Sized>(state: &QpRcState, host: &mut H) -> Result<(ReceiveWqe, u16), Deny> {
    let (index, _) = receive_slot(&state.config, state.responder.rq_pos);
    let wqe = fetch_receive(&state.config, state.responder.rq_pos, host)
        .map_err(|error| Stop::fetch(error, AeSource::ReceiveQueue, index))?
        .ok_or(Deny::NotReady)?;
    Ok((wqe, index))
}

fn send<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    place: Place,
    host: &mut H,
) -> Result<u32, Deny> {
    let (wqe, index) = receive(state, host)?;
    let received = match state.responder.message {
        Message::Send { received } => received,
        _ => 0,
    };
    // A packet is at most 4096 bytes.
    let total = u64::from(received) + packet.payload.len() as u64;
    if total > wqe.fragments.total() || total > MAX_MESSAGE {
        let code = AeCode::DDP_MESSAGE_TOO_LONG_FOR_AVAILABLE_BUFFER;
        return Err(Deny::invalid(code, AeSource::ReceiveQueue, index));
    }
    scatter(
        &state.config,
        &wqe.fragments,
        received.into(),
        packet.payload,
        host,
    )
    .map_err(|fault| Stop::fault(fault, AeSource::ReceiveQueue, index))?;
    if place.ends() {
        if let Some(stag) = packet.headers.invalidate {
            host.invalidate(stag, Invalidator::Remote)
                .map_err(|fault| Deny::remote(fault, AeSource::ReceiveQueue, index))?;
        }
        finish(state, packet, &wqe, index, total as u32, host)?;
    } else {
        state.responder.message = Message::Send {
            received: total as u32,
        };
    }
    Ok(1)
}

fn write<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    reth: Option<Reth>,
    place: Place,
    host: &mut H,
) -> Result<u32, Deny> {
    let invalid = || {
        Deny::invalid(
            AeCode::INVALID_RDMA_WRITE_OR_READ_RESP,
            AeSource::InboundData,
            0,
        )
    };
    let (addr, rkey, total, received) = match (state.responder.message, reth) {
        (
            Message::Write {
                addr,
                rkey,
                total,
                received,
            },
            _,
        ) => (addr, rkey, total, received),
        (_, Some(Reth { addr, rkey, len })) => {
            if !state.config.write_ok || u64::from(len) > MAX_MESSAGE {
                return Err(invalid());
            }
            if len != 0 {
                let access = remote_access(&state.config, addr, rkey, Right::RemoteWrite);
                host.check(access, len)
                    .map_err(|fault| Deny::remote(fault, AeSource::InboundData, 0))?;
            }
            (addr, rkey, len, 0)
        }
        _ => return Err(invalid()),
    };
    // A packet is at most 4096 bytes.
    let now = received.saturating_add(packet.payload.len() as u32);
    if place.ends() != (now == total) || now > total {
        return Err(invalid());
    }
    // The receive for an immediate must exist before memory changes.
    let receive = packet
        .headers
        .immediate
        .map(|_| receive(state, host))
        .transpose()?;
    if !packet.payload.is_empty() {
        let access = remote_access(
            &state.config,
            addr.wrapping_add(received.into()),
            rkey,
            Right::RemoteWrite,
        );
        host.write(access, packet.payload)
            .map_err(|fault| Deny::remote(fault, AeSource::InboundData, 0))?;
    }
    match receive {
        Some((wqe, index)) => finish(state, packet, &wqe, index, total, host)?,
        None if place.ends() => end_message(state),
        None => {
            state.responder.message = Message::Write {
                addr,
                rkey,
                total,
                received: now,
            }
        }
    }
    Ok(1)
}

fn read<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    reth: Reth,
    host: &mut H,
) -> Result<u32, Deny> {
    let source = AeSource::OutboundReadResponse;
    if !state.config.read_ok || u64::from(reth.len) > MAX_MESSAGE {
        return Err(Deny::invalid(AeCode::INVALID_RDMA_READ_REQUEST, source, 0));
    }
    if reth.len != 0 {
        let access = remote_access(&state.config, reth.addr, reth.rkey, Right::RemoteRead);
        host.check(access, reth.len)
            .map_err(|fault| Deny::remote(fault, source, 0))?;
    }
    if !inbound_reads::has_room(state) {
        return Err(Deny::invalid(AeCode::IB_RREQ_AND_Q1_FULL, source, 0));
    }
    let count = psn::packets(reth.len.into(), state.config.mtu.bytes());
    // The responses count the read as completed.
    end_message(state);
    inbound_reads::queue(state, reth, packet.headers.bth.psn, count, false, host)?;
    Ok(count)
}

fn remote_access(config: &QpConfig, addr: u64, rkey: u32, right: Right) -> Access {
    Access {
        qpn: config.qpn,
        pd: config.pd,
        stag: rkey,
        addr,
        right,
    }
}

pub(super) fn end_message(state: &mut QpRcState) {
    state.responder.message = Message::None;
    state.responder.msn = psn::add(state.responder.msn, 1);
}

/// The message has filled a receive.
fn finish<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    wqe: &ReceiveWqe,
    wqe_index: u16,
    byte_len: u32,
    host: &mut H,
) -> Result<(), Deny> {
    if !wqe.lints.is_empty() {
        host.lint(Ring::Receive, wqe_index, wqe.lints);
    }
    let headers = &packet.headers;
    host.complete_receive(&ReceiveCompletion {
        wqe_index,
        op: headers.bth.opcode.0,
        byte_len,
        immediate: headers.immediate,
        invalidated: headers.invalidate,
        solicited: headers.bth.solicited,
        psn: headers.bth.psn,
    })?;
    state.responder.rq_pos += 1;
    end_message(state);
    Ok(())
}

/// A request that was already executed.
fn duplicate<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Outcome {
    let bth = packet.headers.bth;
    let epsn = state.responder.epsn;
    match (bth.opcode.rc(), packet.headers.reth) {
        (Some((Verb::ReadRequest, _)), Some(reth)) => read_again(state, bth.psn, reth, host),
        (Some((Verb::Send | Verb::Write, _)), _) => {
            // The newest executed packet is acknowledged, whether or not the copy requests it (IBA
            // C9-105).
            state.responder.ack = Some(Ack {
                psn: psn::add(epsn, u32::MAX),
                msn: state.responder.msn,
            });
            Outcome::Duplicate
        }
        _ => Outcome::Dropped(DropReason::Meaningless),
    }
}

/// Executes a read again. A read that may no longer be executed is ignored: it may be a late copy
/// of a read that was answered long ago, and whose memory was taken back since.
fn read_again<H: Host + ?Sized>(
    state: &mut QpRcState,
    psn: u32,
    reth: Reth,
    host: &mut H,
) -> Outcome {
    let count = psn::packets(reth.len.into(), state.config.mtu.bytes());
    let known =
        u64::from(reth.len) <= MAX_MESSAGE && count <= psn::distance(state.responder.epsn, psn);
    let access = remote_access(&state.config, reth.addr, reth.rkey, Right::RemoteRead);
    if !known || !state.config.read_ok || reth.len != 0 && host.check(access, reth.len).is_err() {
        return Outcome::Dropped(DropReason::Stale);
    }
    match inbound_reads::queue(state, reth, psn, count, true, host) {
        Ok(true) => Outcome::Duplicate,
        Ok(false) => Outcome::Dropped(DropReason::Stale),
        Err(Stop(event)) => {
            state.responder.refusal = Refusal::Fatal {
                psn: state.responder.epsn,
                nak: Nak::RemoteOperation,
                event,
            };
            Outcome::Refused
        }
    }
}
