//! Asking for an event: the arm word of a CQ's shadow area (data-path 4.6).

use tock_registers::{LocalRegisterCopy, register_bitfields};

/// Which completion is to raise an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Notify {
    /// The next one.
    Any,
    /// The next solicited one, or the next error.
    Solicited,
}

register_bitfields! { u64,
    /// q4 of the shadow area (byte 32).
    ARM [
        /// Buffer switches of resizes that software has finished.
        SW_CQ_SELECT OFFSET(0) NUMBITS(14) [],
        /// Event at any completion.
        ARM_NEXT OFFSET(14) NUMBITS(1) [],
        /// Event at a solicited completion.
        ARM_NEXT_SE OFFSET(15) NUMBITS(1) [],
        /// Counts requests, so that the device tells a new one from an old.
        ARM_SEQ_NUM OFFSET(16) NUMBITS(2) []
    ]
}

/// The arm word. Software writes it and never takes it from the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ArmWord(u64);

impl ArmWord {
    /// The word with the given bits; those that are not defined are dropped.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & 0x3_FFFF)
    }

    /// The word as the device reads it.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The next request. A solicited one takes back a pending request for any
    /// completion (data-path 4.6).
    #[must_use]
    pub fn request(self, notify: Notify) -> Self {
        let mut word = LocalRegisterCopy::<u64, ARM::Register>::new(self.0);
        let sequence = word.read(ARM::ARM_SEQ_NUM).wrapping_add(1);
        word.modify(
            ARM::ARM_SEQ_NUM.val(sequence)
                + ARM::ARM_NEXT_SE::SET
                + ARM::ARM_NEXT.val((notify == Notify::Any).into()),
        );
        Self(word.get())
    }

    /// `buffers` buffers that a resize replaced are drained.
    #[must_use]
    pub fn released(self, buffers: u32) -> Self {
        let mut word = LocalRegisterCopy::<u64, ARM::Register>::new(self.0);
        let count = word.read(ARM::SW_CQ_SELECT).wrapping_add(buffers.into());
        word.modify(ARM::SW_CQ_SELECT.val(count));
        Self(word.get())
    }
}

/// When to arm in hardware (data-path 4.7, the user-space policy).
///
/// After every request in hardware the CQ counts as armed until its owner has
/// taken the event. Meanwhile a request for any completion goes to the hardware
/// again; one for a solicited completion waits, and becomes a request for any
/// completion when the event is taken: that may notify too much, never too
/// little.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ArmPolicy {
    armed: bool,
    waiting: bool,
}

impl ArmPolicy {
    /// A request; what to ask the hardware for now.
    pub(crate) const fn request(&mut self, notify: Notify) -> Option<Notify> {
        if self.armed && matches!(notify, Notify::Solicited) {
            self.waiting = true;
            return None;
        }
        self.armed = true;
        self.waiting = false;
        Some(notify)
    }

    /// The owner took an event; what to ask the hardware for now.
    pub(crate) const fn event(&mut self) -> Option<Notify> {
        if self.waiting {
            self.waiting = false;
            return Some(Notify::Any);
        }
        self.armed = false;
        None
    }
}

#[cfg(test)]
mod model;
