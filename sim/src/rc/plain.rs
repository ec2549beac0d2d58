//! Messages of one packet with plain entries: most of all traffic.
//!
//! This code does what [`requester`](super::requester) and [`responder`](super::responder) do with
//! such a message, without the decoding and decisions that it does not need. It leaves everything
//! else to them, and also every message that must be refused before an access.

use super::config::QpConfig;
use super::engine::Stop;
use super::host::{Access, Fault, Host, ReceiveCompletion, Right, Ring, Sent};
use super::responder::end_message;
use super::ring::receive_slot;
use super::segment;
use super::state::{Message, QpRcState, Requester};
use crate::wire::{Headers, Opcode, Packet, Reth};
use crate::wqe::{AeSource, Fragment, PlainSend, QUANTUM, QUANTUM_WORDS, is_valid, plain_receive};

/// Sends the entry at `next`, whose words are given, if it is plain, not begun yet, and may be sent
/// now. Returns the bytes of its payload; `None` if the entry was left alone.
pub(super) fn send<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    words: &[u64; QUANTUM_WORDS],
    (index, polarity): (u16, bool),
    host: &mut H,
) -> Result<Option<u32>, Stop> {
    let at = requester.next;
    let begun = requester.next_psn != at.first_psn || at.pos < requester.max_pos;
    let Some(plain) = PlainSend::decode(words, polarity).filter(|_| !begun) else {
        return Ok(None);
    };
    let len = plain.fragment.len;
    let fits = len <= config.mtu.bytes() && requester.in_flight() < config.window;
    if !fits || plain.remote.is_none() && requester.is_out_of_credit(config) {
        return Ok(None);
    }
    let opcode = match plain.remote {
        Some(_) => Opcode::WRITE_ONLY,
        None => Opcode::SEND_ONLY,
    };
    let mut headers = Headers::new(segment::bth(config, opcode, requester.next_psn));
    headers.bth.ack_request = true;
    // Reserved in a write that uses no receive.
    headers.bth.solicited = plain.solicited && plain.remote.is_none();
    headers.reth = plain.remote.map(|remote| segment::reth(&remote, 0, len));
    let mut frame = segment::frame(&config.path, &headers, len, host)?;
    let access = local(config, &plain.fragment, Right::LocalRead);
    host.read(access, frame.payload_mut())
        .map_err(|fault| Stop::fault(fault, AeSource::SendQueue, index))?;
    host.transmit(frame.seal());
    requester.use_psns(config, 1, host.now_ns());
    host.remember(Sent {
        pos: at.pos,
        quanta: 1,
        opcode: plain.opcode,
        signaled: plain.signaled,
        message: true,
        packets: 1,
    });
    requester.next = at.behind_quanta(1, true, requester.next_psn);
    requester.max_pos = requester.next.pos;
    Ok(Some(len))
}

/// Executes a SEND in sequence if it and the receive that it uses are plain; false if it was left
/// alone.
pub(super) fn receive<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Result<bool, Stop> {
    let QpRcState {
        config, responder, ..
    } = state;
    let bth = &packet.headers.bth;
    // A packet is at most 4096 bytes.
    let len = packet.payload.len() as u32;
    let plain = bth.opcode == Opcode::SEND_ONLY
        && responder.message == Message::None
        && (1..=config.mtu.bytes()).contains(&len)
        && config.rq_slot_quanta == 1;
    if !plain {
        return Ok(false);
    }
    let (index, polarity) = receive_slot(config, responder.rq_pos);
    let words = host.load_quantum(Ring::Receive, u32::from(index) * QUANTUM as u32)?;
    let [.., header] = words;
    let fragment = is_valid(header, polarity).then(|| plain_receive(&words, polarity));
    let Some(fragment) = fragment.flatten().filter(|room| len <= room.len) else {
        return Ok(false);
    };
    host.write(local(config, &fragment, Right::LocalWrite), packet.payload)
        .map_err(|fault| Stop::fault(fault, AeSource::ReceiveQueue, index))?;
    host.complete_receive(&ReceiveCompletion {
        wqe_index: index,
        op: bth.opcode.0,
        byte_len: len,
        immediate: None,
        invalidated: None,
        solicited: bth.solicited,
        psn: bth.psn,
    })?;
    responder.rq_pos += 1;
    end_message(state);
    Ok(true)
}

/// Executes a WRITE of one packet in sequence if nothing has to be refused before its access; false
/// if it was left alone.
pub(super) fn write<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Result<bool, Fault> {
    let config = &state.config;
    let (Opcode::WRITE_ONLY, Some(Reth { addr, rkey, len })) =
        (packet.headers.bth.opcode, packet.headers.reth)
    else {
        return Ok(false);
    };
    let plain = state.responder.message == Message::None
        && config.write_ok
        && len as usize == packet.payload.len()
        && (1..=config.mtu.bytes()).contains(&len);
    if plain {
        let access = Access {
            qpn: config.qpn,
            pd: config.pd,
            stag: rkey,
            addr,
            right: Right::RemoteWrite,
        };
        host.write(access, packet.payload)?;
        end_message(state);
    }
    Ok(plain)
}

fn local(config: &QpConfig, fragment: &Fragment, right: Right) -> Access {
    Access {
        qpn: config.qpn,
        pd: config.pd,
        stag: fragment.stag,
        addr: fragment.addr,
        right,
    }
}
