//! Responder: the queue of inbound reads (Q1) and the read responses.
//!
//! The queue is sorted by PSN, so that responses are sent in the order in which the requester
//! expects them, even when it repeats requests. It has `2 * ird` slots: `ird` for reads executed
//! for the first time and `ird` for repeated reads, so that late duplicates never displace a new
//! read.

use super::engine::Stop;
use super::host::{Access, Host, READ_ENTRY_WORDS, Right};
use super::psn;
use super::segment;
use super::state::{Ack, QpRcState, Responder};
use super::timing::cost;
use crate::wire::{Aeth, Headers, Opcode, Place, Reth, Syndrome};

/// A pending read.
///
/// Stored as: word 0 address; word 1 length `[31:0]`, rkey `[63:32]`; word 2 PSN `[23:0]`, MSN
/// `[47:24]`, begun 48, again 49; word 3 end PSN `[23:0]`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct PendingRead {
    /// The part that is still to be sent.
    rest: Reth,
    /// PSN of the next response packet.
    psn: u32,
    /// PSN behind the last response packet.
    end: u32,
    /// MSN of its responses.
    msn: u32,
    /// A response packet has been sent.
    begun: bool,
    /// The read is executed again.
    again: bool,
}

impl PendingRead {
    fn to_words(self) -> [u64; READ_ENTRY_WORDS] {
        [
            self.rest.addr,
            u64::from(self.rest.len) | u64::from(self.rest.rkey) << 32,
            u64::from(self.psn)
                | u64::from(self.msn) << 24
                | u64::from(self.begun) << 48
                | u64::from(self.again) << 49,
            u64::from(self.end),
        ]
    }

    /// The casts keep the field in the low bits.
    fn from_words([addr, memory, place, end]: [u64; READ_ENTRY_WORDS]) -> Self {
        Self {
            rest: Reth {
                addr,
                rkey: (memory >> 32) as u32,
                len: memory as u32,
            },
            psn: psn::add(place as u32, 0),
            end: psn::add(end as u32, 0),
            msn: psn::add((place >> 24) as u32, 0),
            begun: place >> 48 & 1 != 0,
            again: place >> 49 & 1 != 0,
        }
    }
}

/// Slots of the queue.
fn capacity(ird: u16) -> u16 {
    ird.saturating_mul(2).max(1)
}

impl Responder {
    /// Pending reads.
    pub(super) fn reads(&self) -> u16 {
        self.reads_new + self.reads_again
    }

    fn read_slot(&self, ird: u16, index: u16) -> u16 {
        (self.read_head + index) % capacity(ird)
    }
}

/// True if one more read can be executed for the first time.
pub(super) fn has_room(state: &QpRcState) -> bool {
    state.responder.reads_new < state.config.ird
}

/// Queues a read of `count` response packets from `psn` on, which the caller has checked. `again`:
/// the read is a repetition.
///
/// `false` if there is no slot for it.
pub(super) fn queue<H: Host + ?Sized>(
    state: &mut QpRcState,
    reth: Reth,
    psn: u32,
    count: u32,
    again: bool,
    host: &mut H,
) -> Result<bool, Stop> {
    let QpRcState {
        config, responder, ..
    } = state;
    let end = psn::add(psn, count);
    let mut read = PendingRead {
        rest: reth,
        psn,
        end,
        msn: responder.msn,
        begun: false,
        again,
    };
    let pending = responder.reads();
    if again {
        // Still pending: it restarts at the PSN that the requester asks for.
        for index in 0..pending {
            let slot = responder.read_slot(config.ird, index);
            let other = PendingRead::from_words(host.load_read(slot)?);
            if other.end == end {
                (read.msn, read.again) = (other.msn, other.again);
                host.store_read(slot, read.to_words())?;
                return Ok(true);
            }
        }
    }
    let used = if again {
        &mut responder.reads_again
    } else {
        &mut responder.reads_new
    };
    if *used >= config.ird {
        return Ok(false);
    }
    *used += 1;
    // Moves later reads back by one slot; a new read is always the last.
    let mut index = pending;
    while let Some(previous) = index.checked_sub(1) {
        let words = host.load_read(responder.read_slot(config.ird, previous))?;
        if !psn::before(psn, PendingRead::from_words(words).psn) {
            break;
        }
        host.store_read(responder.read_slot(config.ird, index), words)?;
        index = previous;
    }
    host.store_read(responder.read_slot(config.ird, index), read.to_words())?;
    Ok(true)
}

/// PSN of the next read response to be sent.
pub(super) fn next_response<H: Host + ?Sized>(
    state: &QpRcState,
    host: &mut H,
) -> Result<Option<u32>, Stop> {
    let responder = &state.responder;
    if responder.reads() == 0 {
        return Ok(None);
    }
    let words = host.load_read(responder.read_slot(state.config.ird, 0))?;
    Ok(Some(PendingRead::from_words(words).psn))
}

/// A read that failed while its responses were being sent.
pub(super) struct Failed {
    /// The response that could not be sent, and the messages completed before the read.
    pub(super) at: Ack,
    pub(super) fault: super::host::Fault,
}

/// Sends response packets of the first pending read. The budget must not be 0.
pub(super) fn respond<H: Host + ?Sized>(
    state: &mut QpRcState,
    host: &mut H,
    budget: &mut u32,
) -> Result<Result<(), Failed>, Stop> {
    let QpRcState {
        config, responder, ..
    } = state;
    let slot = responder.read_slot(config.ird, 0);
    let mut read = PendingRead::from_words(host.load_read(slot)?);
    let access = Access {
        qpn: config.qpn,
        pd: config.pd,
        stag: read.rest.rkey,
        addr: read.rest.addr,
        right: Right::RemoteRead,
    };
    let mut sent = 0;
    loop {
        let len = read.rest.len.min(config.mtu.bytes());
        let ends = read.rest.len == len;
        let opcode = match Place::of(!read.begun, ends) {
            Place::First => Opcode::READ_RESPONSE_FIRST,
            Place::Middle => Opcode::READ_RESPONSE_MIDDLE,
            Place::Last => Opcode::READ_RESPONSE_LAST,
            Place::Only => Opcode::READ_RESPONSE_ONLY,
        };
        let mut headers = Headers::new(segment::bth(config, opcode, read.psn));
        headers.aeth = opcode.has_aeth().then_some(Aeth {
            syndrome: Syndrome::Ack(config.credits),
            msn: read.msn,
        });
        let mut frame = segment::frame(&config.path, &headers, len, host)?;
        if len != 0 {
            let access = Access {
                addr: access.addr.wrapping_add(sent),
                ..access
            };
            if let Err(fault) = host.read(access, frame.payload_mut()) {
                let at = Ack {
                    psn: read.psn,
                    msn: psn::add(read.msn, u32::MAX),
                };
                return Ok(Err(Failed { at, fault }));
            }
        }
        host.transmit(frame.seal());
        *budget = budget.saturating_sub(cost(len));
        sent += u64::from(len);
        read.begun = true;
        read.psn = psn::add(read.psn, 1);
        read.rest.len -= len;
        read.rest.addr = read.rest.addr.wrapping_add(u64::from(len));
        if ends {
            if read.again {
                responder.reads_again = responder.reads_again.saturating_sub(1);
            } else {
                responder.reads_new = responder.reads_new.saturating_sub(1);
            }
            responder.read_head = responder.read_slot(config.ird, 1);
            return Ok(Ok(()));
        }
        if *budget == 0 {
            host.store_read(slot, read.to_words())?;
            return Ok(Ok(()));
        }
    }
}
