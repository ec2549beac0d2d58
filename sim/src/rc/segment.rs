//! One outbound request packet.

use super::config::QpConfig;
use super::engine::Stop;
use super::host::{Access, Host, HostFault, Right};
use crate::wire::{Bth, Frame, Headers, Opcode, Path, Place, Reth};
use crate::wqe::{AeSource, Operation, Payload, Remote, SendWqe};

/// A part of a message: packet `index` of `count`, holding `len` bytes from `offset` on.
#[derive(Copy, Clone, Debug)]
pub(super) struct Segment {
    pub(super) index: u32,
    pub(super) count: u32,
    pub(super) psn: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) ack_request: bool,
}

impl Segment {
    pub(super) fn ends(&self) -> bool {
        self.index + 1 >= self.count
    }

    fn place(&self) -> Place {
        Place::of(self.index == 0, self.ends())
    }
}

/// A header for the peer of this QP.
pub(super) fn bth(config: &QpConfig, opcode: Opcode, psn: u32) -> Bth {
    Bth {
        pkey: config.pkey,
        ..Bth::new(opcode, config.dest_qpn, psn)
    }
}

/// Starts a frame. The headers always match the opcode, and the payload never exceeds the path MTU,
/// so a refusal would be an internal fault of the device.
pub(super) fn frame<H: Host + ?Sized>(
    path: &Path,
    headers: &Headers,
    len: u32,
    host: &mut H,
) -> Result<Frame, Stop> {
    host.start_frame(path, headers, len as usize)
        .map_err(|_| HostFault.into())
}

/// Sends one packet of a send or write.
pub(super) fn transmit<H: Host + ?Sized>(
    config: &QpConfig,
    wqe: &SendWqe,
    wqe_index: u16,
    segment: Segment,
    host: &mut H,
) -> Result<(), Stop> {
    let Some((headers, payload)) = headers(config, wqe, segment) else {
        return Ok(());
    };
    let mut frame = frame(&config.path, &headers, segment.len, host)?;
    gather(
        config,
        payload,
        wqe_index,
        segment,
        frame.payload_mut(),
        host,
    )?;
    host.transmit(frame.seal());
    Ok(())
}

/// Headers of a packet of `wqe`, and the location of its payload; `None` if the operation has no
/// payload of its own.
fn headers<'a>(
    config: &QpConfig,
    wqe: &'a SendWqe,
    segment: Segment,
) -> Option<(Headers, &'a Payload)> {
    let place = segment.place();
    let (opcode, payload, immediate, invalidate, solicited, remote) = match &wqe.operation {
        Operation::Send {
            payload,
            immediate,
            invalidate,
            solicited,
            ..
        } => {
            // A packet cannot carry both an immediate and an invalidate; the opcode of the entry
            // requested the latter.
            let immediate = immediate.filter(|_| invalidate.is_none());
            let opcode = send_opcode(place, immediate.is_some(), invalidate.is_some());
            (opcode, payload, immediate, *invalidate, *solicited, None)
        }
        Operation::Write {
            payload,
            remote,
            immediate,
            solicited,
        } => (
            write_opcode(place, immediate.is_some()),
            payload,
            *immediate,
            None,
            *solicited,
            Some(remote),
        ),
        _ => return None,
    };
    let mut headers = Headers::new(bth(config, opcode, segment.psn));
    headers.bth.ack_request = segment.ack_request;
    // Reserved in a write that uses no receive.
    let has_receive = remote.is_none() || immediate.is_some();
    headers.bth.solicited = solicited && place.ends() && has_receive;
    headers.immediate = immediate.filter(|_| place.ends());
    headers.invalidate = invalidate.filter(|_| place.ends());
    // A message is shorter than 2^31.
    headers.reth = remote
        .filter(|_| place.opens())
        .map(|remote| reth(remote, 0, payload.total() as u32));
    Some((headers, payload))
}

/// The RETH for `len` bytes from `offset` on.
pub(super) fn reth(remote: &Remote, offset: u64, len: u32) -> Reth {
    Reth {
        addr: remote.addr.wrapping_add(offset),
        rkey: remote.rkey,
        len,
    }
}

fn send_opcode(place: Place, immediate: bool, invalidate: bool) -> Opcode {
    match (place, immediate, invalidate) {
        (Place::First, ..) => Opcode::SEND_FIRST,
        (Place::Middle, ..) => Opcode::SEND_MIDDLE,
        (Place::Last, _, true) => Opcode::SEND_LAST_INV,
        (Place::Last, true, _) => Opcode::SEND_LAST_IMM,
        (Place::Last, ..) => Opcode::SEND_LAST,
        (Place::Only, _, true) => Opcode::SEND_ONLY_INV,
        (Place::Only, true, _) => Opcode::SEND_ONLY_IMM,
        (Place::Only, ..) => Opcode::SEND_ONLY,
    }
}

fn write_opcode(place: Place, immediate: bool) -> Opcode {
    match (place, immediate) {
        (Place::First, _) => Opcode::WRITE_FIRST,
        (Place::Middle, _) => Opcode::WRITE_MIDDLE,
        (Place::Last, false) => Opcode::WRITE_LAST,
        (Place::Last, true) => Opcode::WRITE_LAST_IMM,
        (Place::Only, false) => Opcode::WRITE_ONLY,
        (Place::Only, true) => Opcode::WRITE_ONLY_IMM,
    }
}

/// Reads the payload of a segment from host memory, each time it is sent.
fn gather<H: Host + ?Sized>(
    config: &QpConfig,
    payload: &Payload,
    wqe_index: u16,
    segment: Segment,
    mut out: &mut [u8],
    host: &mut H,
) -> Result<(), Stop> {
    match payload {
        Payload::Inline(data) => {
            // Inline data is at most 101 bytes, and so one packet.
            for (to, from) in out.iter_mut().zip(data.as_slice()) {
                *to = *from;
            }
        }
        Payload::Fragments(fragments) => {
            for piece in fragments.span(segment.offset, segment.len) {
                let (head, rest) = out.split_at_mut((piece.len as usize).min(out.len()));
                let access = Access {
                    qpn: config.qpn,
                    pd: config.pd,
                    stag: piece.stag,
                    addr: piece.addr,
                    right: Right::LocalRead,
                };
                host.read(access, head)
                    .map_err(|fault| Stop::fault(fault, AeSource::SendQueue, wqe_index))?;
                out = rest;
            }
        }
    }
    Ok(())
}
