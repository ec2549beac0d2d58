//! Queue pairs: states (control-path 5.3) and the device's own fields. The fields written by the
//! host are in `host_context`.

use super::contexts::{Context, Reader, Writer};
use super::fpm::Kind;
use super::in_flight::InFlight;
use super::touched::Touched;
use super::ud::UdState;
use super::word::{bit, bits8, bits16, bits32, flag, put};
use crate::rc::{QP_STATE_BYTES, QpRcState};
use crate::wire::Template;

/// Words of the host context.
pub(crate) const HOST_WORDS: usize = 32;

/// QPTYPE (control-path 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum QpType {
    Iwarp = 1,
    Uda = 2,
    RoceRc = 3,
    RoceUd = 4,
}

impl QpType {
    /// From the field of a command.
    pub(crate) fn new(code: u8) -> Option<Self> {
        [Self::Iwarp, Self::Uda, Self::RoceRc, Self::RoceUd]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// Whether the model carries traffic of such a queue pair. The other two types belong to iWARP:
    /// its connections, and those that its driver uses to manage them.
    pub(crate) fn is_served(self) -> bool {
        matches!(self, Self::RoceRc | Self::RoceUd)
    }
}

/// QP state (NEXTIWSTATE, IWSTATE; control-path 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    Invalid = 0,
    Idle = 1,
    Rts = 2,
    /// Closing, on iWARP.
    Sqd = 3,
    Rtr = 4,
    Terminate = 5,
    Error = 6,
}

impl State {
    /// From a 3-bit field.
    pub(crate) fn new(code: u8) -> Option<Self> {
        [
            Self::Invalid,
            Self::Idle,
            Self::Rts,
            Self::Sqd,
            Self::Rtr,
            Self::Terminate,
            Self::Error,
        ]
        .into_iter()
        .find(|state| *state as u8 == code)
    }

    /// Whether MODIFY_QP may lead there. The reference gives the codes and what Linux does (5.3,
    /// 5.5); the table is \[inf state_changes\] from that.
    pub(crate) fn may_become(self, next: Self, kind: QpType) -> bool {
        match (self, next) {
            (_, Self::Error) => true,
            (Self::Idle, Self::Idle | Self::Rtr) | (Self::Rtr, Self::Rts) => true,
            // RoCE reaches RTS only through RTR.
            (Self::Idle, Self::Rts) => matches!(kind, QpType::Iwarp | QpType::Uda),
            (Self::Rts | Self::Sqd, Self::Rts | Self::Sqd) => true,
            (Self::Rts | Self::Sqd | Self::Terminate, Self::Terminate) => kind == QpType::Iwarp,
            _ => false,
        }
    }
}

/// A queue pair.
#[derive(Clone, Debug)]
pub(crate) struct Qp {
    /// The host context, as far as it was taken.
    pub(crate) host: [u64; HOST_WORDS],
    pub(crate) kind: QpType,
    /// State of a QP that is not RoCE RC; for RoCE RC the state is in `rc`.
    pub(crate) other_state: State,
    /// Queue addresses are PBLE indexes (VQ).
    pub(crate) mapped: bool,
    /// IOVA of the shadow area.
    pub(crate) shadow: u64,
    /// The RC engine's state; `None` for the other types, and when the stored state is damaged.
    pub(crate) rc: Option<Box<QpRcState>>,
    /// Entries that a RoCE RC queue pair has sent; not stored.
    pub(super) in_flight: InFlight,
    /// What its packets have in common; not stored.
    pub(super) template: Template,
    /// Its transmit FIFO entries; not stored.
    pub(super) touched: Touched,
    /// AE 0x0900 is due when the send queue is idle.
    pub(crate) draining: bool,
    /// SUSPEND_QP was executed; the QP returns to RTS.
    pub(crate) suspended: bool,
    /// The device stopped the QP itself (an AE said so).
    pub(crate) stopped: bool,
    /// The driver has requested ERROR, whatever the answer was.
    pub(crate) error_requested: bool,
    /// MODIFY_QP has moved it to ERROR.
    pub(crate) modified_to_error: bool,
    /// FLUSH_WQES was executed for the send queue.
    pub(crate) send_flushed: bool,
    /// FLUSH_WQES was executed for the receive queue.
    pub(crate) receive_flushed: bool,
    /// Quanta flushed from the send queue, counted from the oldest entry that is not completed.
    pub(crate) flushed_send: u32,
    /// Quanta flushed from the receive queue.
    pub(crate) flushed_receive: u32,
    /// Last HW_SQ_TAIL written to the shadow area.
    pub(crate) shadow_tail: u16,
    /// Progress of a RoCE UD queue pair.
    pub(crate) ud: UdState,
}

impl Qp {
    /// A QP as CREATE_QP makes it, without its protocol state.
    pub(crate) fn new(kind: QpType, host: [u64; HOST_WORDS], mapped: bool, shadow: u64) -> Self {
        Self {
            host,
            kind,
            other_state: State::Idle,
            mapped,
            shadow,
            rc: None,
            in_flight: InFlight::default(),
            template: Template::default(),
            touched: Touched::default(),
            draining: false,
            suspended: false,
            stopped: false,
            error_requested: false,
            modified_to_error: false,
            send_flushed: false,
            receive_flushed: false,
            flushed_send: 0,
            flushed_receive: 0,
            shadow_tail: 0,
            ud: UdState::default(),
        }
    }

    /// Quantum index and polarity of the oldest send queue entry not completed.
    pub(crate) fn send_head(&self) -> (u16, bool) {
        match &self.rc {
            Some(rc) => rc.send_head(),
            None => place(self.ud.sent, self.send_quanta(), 1),
        }
    }

    /// Quantum index and polarity of the oldest receive not used.
    pub(crate) fn receive_head(&self) -> (u16, bool) {
        match &self.rc {
            Some(rc) => rc.receive_head(),
            None => {
                let slot = self.receive_slot_quanta();
                place(self.ud.received, self.receive_quanta() / slot, slot)
            }
        }
    }

    /// Continues behind the flushed entries, which are complete.
    pub(crate) fn pass_flushed(&mut self) {
        let receives = self.flushed_receive / self.receive_slot_quanta();
        match &mut self.rc {
            Some(rc) => rc.pass_flushed(self.flushed_send, receives),
            None => {
                self.ud.sent += u64::from(self.flushed_send);
                self.ud.received += u64::from(receives);
            }
        }
        self.in_flight = InFlight::default();
        (self.flushed_send, self.flushed_receive) = (0, 0);
        (self.send_flushed, self.receive_flushed) = (false, false);
    }

    /// The present state.
    pub(crate) fn state(&self) -> State {
        match &self.rc {
            Some(rc) => State::new(rc.mode() as u8).unwrap_or(State::Error),
            None => self.other_state,
        }
    }
}

/// Quantum index of the `n`-th slot since the start in a ring of `slots` slots of `quanta` each,
/// and the valid bit of its lap: 1 in the first.
fn place(n: u64, slots: u32, quanta: u32) -> (u16, bool) {
    let slots = u64::from(slots.max(1));
    // A ring that passed the checks at creation has at most 32768 quanta.
    let index = n % slots * u64::from(quanta);
    (index as u16, (n / slots).is_multiple_of(2))
}

impl Context for Qp {
    const KIND: Kind = Kind::Qp;
    const WORDS: usize = HOST_WORDS + QP_STATE_BYTES / 8 + 6;

    fn save(&self, words: &mut Writer<'_>) {
        for word in self.host {
            words.put(word);
        }
        words.put(self.shadow);
        words.put(
            put(self.kind as u64, 2, 0)
                | put(self.other_state as u64, 6, 4)
                | flag(self.mapped, 8)
                | flag(self.draining, 9)
                | flag(self.suspended, 10)
                | flag(self.stopped, 11)
                | flag(self.rc.is_some(), 12)
                | flag(self.error_requested, 13)
                | flag(self.modified_to_error, 14)
                | flag(self.send_flushed, 32)
                | flag(self.receive_flushed, 33)
                | put(self.shadow_tail.into(), 31, 16),
        );
        words.put(put(self.flushed_send.into(), 31, 0) | put(self.flushed_receive.into(), 63, 32));
        words.put(self.ud.sent);
        words.put(self.ud.received);
        words.put(self.ud.psn.into());
        let bytes = self
            .rc
            .as_ref()
            .map_or([0; QP_STATE_BYTES], |rc| rc.to_bytes());
        let (chunks, _) = bytes.as_chunks::<8>();
        for chunk in chunks {
            words.put(u64::from_le_bytes(*chunk));
        }
    }

    fn load(words: &mut Reader<'_>) -> Self {
        let host = std::array::from_fn(|_| words.take());
        let shadow = words.take();
        let flags = words.take();
        let flushed = words.take();
        let ud = UdState {
            sent: words.take(),
            received: words.take(),
            psn: words.take() as u32,
        };
        let mut bytes = [0; QP_STATE_BYTES];
        let (chunks, _) = bytes.as_chunks_mut::<8>();
        for chunk in chunks {
            *chunk = words.take().to_le_bytes();
        }
        let kind = QpType::new(bits8(flags, 2, 0)).unwrap_or(QpType::RoceRc);
        Self {
            host,
            kind,
            other_state: State::new(bits8(flags, 6, 4)).unwrap_or(State::Error),
            mapped: bit(flags, 8),
            shadow,
            rc: bit(flags, 12)
                .then(|| QpRcState::from_bytes(&bytes).ok().map(Box::new))
                .flatten(),
            in_flight: InFlight::default(),
            template: Template::default(),
            touched: Touched::default(),
            draining: bit(flags, 9),
            suspended: bit(flags, 10),
            stopped: bit(flags, 11),
            error_requested: bit(flags, 13),
            modified_to_error: bit(flags, 14),
            send_flushed: bit(flags, 32),
            receive_flushed: bit(flags, 33),
            flushed_send: bits32(flushed, 31, 0),
            flushed_receive: bits32(flushed, 63, 32),
            shadow_tail: bits16(flags, 31, 16),
            ud,
        }
    }
}
