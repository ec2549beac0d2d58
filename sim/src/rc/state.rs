//! The state of one QP as plain data.

use super::config::QpConfig;
use super::host::AsyncEvent;
use super::psn;
use crate::wire::Nak;

/// Mode of the QP (NEXTIWSTATE, control-path 5.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing is sent and packets are dropped.
    Idle = 1,
    /// Ready to send: requester and responder.
    Rts = 2,
    /// SQ drain: started entries are finished, no new send queue entry is started.
    Sqd = 3,
    /// Ready to receive: responder only.
    Rtr = 4,
    /// Stopped, by the engine after an error or by software.
    Error = 6,
}

/// A position in the send queue: ring position of an entry, PSN of its first packet, messages
/// before it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Quanta since the QP started; the ring index is this value modulo the ring size.
    pub(super) pos: u64,
    pub(super) first_psn: u32,
    /// Messages before it, modulo 2^24; its own message number (SSN) is one more.
    pub(super) messages: u32,
}

/// Timer of the requester.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Timer {
    #[default]
    Off,
    /// Retransmission: without a response until this time, send again.
    Retransmit(u64),
    /// RNR: the responder is not ready until this time.
    NotReady(u64),
}

/// Requester half. Invariant, in ring order and PSN order: `una <= next <= max`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requester {
    /// Oldest entry not completed.
    pub(super) una: Cursor,
    /// Oldest unacknowledged PSN, within the entry at `una`.
    pub(super) una_psn: u32,
    /// Entry to send from next.
    pub(super) next: Cursor,
    /// PSN to send next; before `max_psn` while retransmitting.
    pub(super) next_psn: u32,
    /// Position behind the last entry begun and fully sent (or executed) at least once.
    pub(super) max_pos: u64,
    /// PSN behind the last one used.
    pub(super) max_psn: u32,
    /// Read requests sent and not answered in full.
    pub(super) reads: u16,
    /// Number of the last message for which the responder has a receive (LSN), as far as it reports
    /// it.
    pub(super) limit: Option<u32>,
    /// Attempts without progress.
    pub(super) retries: u8,
    /// RNR NAKs without progress.
    pub(super) rnr_retries: u8,
    /// The requester went back and has had no response since: further signs of the same loss are
    /// ignored.
    pub(super) recovering: bool,
    pub(super) timer: Timer,
}

/// The inbound message that has begun and not ended.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Message {
    #[default]
    None,
    /// A send; it fills the receive at `rq_pos`.
    Send { received: u32 },
    /// A write of `total` bytes to `addr`.
    Write {
        addr: u64,
        rkey: u32,
        total: u32,
        received: u32,
    },
}

/// A pending NAK.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Refusal {
    #[default]
    None,
    /// A packet is missing. Once this NAK is sent, no other is sent until the missing packet
    /// arrives.
    Sequence { sent: bool },
    /// No receive was posted.
    NotReady { sent: bool },
    /// The QP stops once this NAK is sent.
    Fatal {
        psn: u32,
        nak: Nak,
        event: AsyncEvent,
    },
}

/// An acknowledge: the PSN it names, and the number of messages completed with that packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) psn: u32,
    pub(super) msn: u32,
}

/// Responder half.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Responder {
    /// Expected PSN.
    pub(super) epsn: u32,
    /// Messages completed, modulo 2^24.
    pub(super) msn: u32,
    /// Receive slots completed since the QP started.
    pub(super) rq_pos: u64,
    pub(super) message: Message,
    /// First used slot of the inbound read queue.
    pub(super) read_head: u16,
    /// Pending reads that are executed for the first time; at most `ird`.
    pub(super) reads_new: u16,
    /// Pending reads that are executed again; at most `ird`.
    pub(super) reads_again: u16,
    /// Acknowledge to send.
    pub(super) ack: Option<Ack>,
    pub(super) refusal: Refusal,
}

/// The complete state of a QP.
///
/// It can be stored with [`to_bytes`](Self::to_bytes) and read back after every call. Outstanding
/// entries are not stored in it. The engine reads them from the send queue again for a response or
/// a retransmission, because software may not reuse them before their completion.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct QpRcState {
    /// The decoded QP context.
    pub config: QpConfig,
    pub(super) mode: Mode,
    pub(super) requester: Requester,
    pub(super) responder: Responder,
}

impl QpRcState {
    /// A QP that has neither sent nor received, in [`Mode::Idle`], with both PSNs 0.
    ///
    /// `config` must satisfy [`QpConfig::validate`].
    #[must_use]
    pub fn new(config: QpConfig) -> Self {
        Self {
            config,
            mode: Mode::Idle,
            requester: Requester::default(),
            responder: Responder::default(),
        }
    }

    /// Present mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode on request of software. The caller must not leave [`Mode::Error`].
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Sets the PSN of the next request (PSNNXT = PSNUNA = PSNMAX, control-path 5.5). Only before
    /// the first request.
    pub fn set_send_psn(&mut self, send_psn: u32) {
        let start = psn::add(send_psn, 0);
        let requester = &mut self.requester;
        requester.una.first_psn = start;
        requester.next.first_psn = start;
        requester.una_psn = start;
        requester.next_psn = start;
        requester.max_psn = start;
    }

    /// Sets the number of the last send for which the peer is assumed to have a receive (LSN),
    /// until the peer reports it. Only before the first request.
    pub fn set_send_limit(&mut self, lsn: u32) {
        self.requester.limit = Some(psn::add(lsn, 0));
    }

    /// Sets the expected PSN (EPSN). Only before the first packet.
    pub fn set_receive_psn(&mut self, receive_psn: u32) {
        self.responder.epsn = psn::add(receive_psn, 0);
    }

    /// Next PSN, oldest unacknowledged PSN, and expected PSN.
    #[must_use]
    pub fn psns(&self) -> (u32, u32, u32) {
        (
            self.requester.max_psn,
            self.requester.una_psn,
            self.responder.epsn,
        )
    }

    /// Time at which [`timer`](super::timer) must be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        match self.requester.timer {
            Timer::Retransmit(at) | Timer::NotReady(at)
                if self.mode == Mode::Rts || self.mode == Mode::Sqd =>
            {
                Some(at)
            }
            _ => None,
        }
    }

    /// Quantum index and polarity of the oldest send queue entry that is not completed, where a
    /// flush starts.
    #[must_use]
    pub fn send_head(&self) -> (u16, bool) {
        super::ring::send_slot(&self.config, self.requester.una.pos)
    }

    /// Quantum index and polarity of the oldest uncompleted receive slot, where a flush starts.
    #[must_use]
    pub fn receive_head(&self) -> (u16, bool) {
        super::ring::receive_slot(&self.config, self.responder.rq_pos)
    }

    /// Skips what a flush has completed: that many quanta of the send queue from
    /// [`send_head`](Self::send_head) on, and that many receive slots from
    /// [`receive_head`](Self::receive_head) on. The QP no longer waits for anything that was sent.
    pub fn pass_flushed(&mut self, send_quanta: u32, receive_slots: u32) {
        let requester = &mut self.requester;
        if send_quanta > 0 {
            let passed = Cursor {
                pos: requester.una.pos + u64::from(send_quanta),
                first_psn: requester.max_psn,
                messages: requester.next.messages,
            };
            *requester = Requester {
                una: passed,
                una_psn: requester.max_psn,
                next: passed,
                next_psn: requester.max_psn,
                max_pos: passed.pos,
                max_psn: requester.max_psn,
                limit: requester.limit,
                ..Requester::default()
            };
        }
        self.responder.rq_pos += u64::from(receive_slots);
    }

    /// True if every send queue entry that was begun has completed (the condition for AE 0x0900 in
    /// [`Mode::Sqd`]).
    #[must_use]
    pub fn send_queue_idle(&self) -> bool {
        let requester = &self.requester;
        requester.una.pos == requester.max_pos
            && requester.una_psn == requester.max_psn
            && requester.next_psn == requester.next.first_psn
    }
}
