//! Asking for an event: the arm word of a CQ's shadow area (data-path 4.6).

use tock_registers::{LocalRegisterCopy, register_bitfields};

/// Which completion is to raise an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[doc(alias = "ib_cq_notify_flags")]
pub enum Notify {
    /// The next one.
    #[doc(alias = "IB_CQ_NEXT_COMP")]
    Any,
    /// The next solicited one, or the next error.
    #[doc(alias = "IB_CQ_SOLICITED")]
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

    /// The next request. A solicited request withdraws a pending request for any completion
    /// (data-path 4.6).
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

/// What a completion queue and its events know about the outstanding request: two bits of a word
/// in the slot. The poller sets them; the device's event clears both, software's event the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Pending(u64);

impl Pending {
    /// No request.
    pub(crate) const NONE: Self = Self(0);
    /// The program wants to be notified, and the device was asked.
    pub(crate) const ASKED: Self = Self(NOTIFY | DEVICE);

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits & (NOTIFY | DEVICE))
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The program wants to be notified, and was not yet.
    pub(crate) const fn is_wanted(self) -> bool {
        self.0 & NOTIFY != 0
    }

    /// The device was asked, and its event was not seen yet.
    pub(crate) const fn is_with_device(self) -> bool {
        self.0 & DEVICE != 0
    }

    /// Software notified the program; the request to the device stands.
    pub(crate) const fn notified(self) -> Self {
        Self(self.0 & !NOTIFY)
    }

    /// The program wants to be notified by the device's outstanding event.
    pub(crate) const fn wanted(self) -> Self {
        Self(self.0 | NOTIFY)
    }
}

const NOTIFY: u64 = 1;
const DEVICE: u64 = 2;

/// When to arm in hardware (data-path 4.7, the policy of kernel drivers, with a limit).
///
/// A request to the device stands for every later request that it covers, until its event is
/// seen. Only a request for any completion, made while one for a solicited completion is
/// outstanding, asks the device again.
///
/// The device ignores a request whose two-bit sequence number it already knows, and it may look
/// at the arm word late. If it did not look at four requests in between, it would ignore them
/// all, and the program would sleep for ever. (User-space drivers, which do not see the event
/// queue, ask anew each time.) Here each request but the first needs an event of the device since
/// the previous one, or turns a solicited one. So with one turn in the life of a queue there are
/// never more than two requests that the device has not looked at. From then on, a queue whose
/// request was turned is armed for any completion: its program is notified too often rather than
/// never.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ArmPolicy {
    /// The last request to the device was for a solicited completion.
    solicited: bool,
    /// A request was turned.
    turned: bool,
}

impl ArmPolicy {
    /// Makes a request; returns what to ask the device for now, if anything.
    pub(crate) fn request(&mut self, notify: Notify, pending: Pending) -> Option<Notify> {
        if pending.is_with_device() {
            if notify == Notify::Solicited || !self.solicited {
                return None;
            }
            self.turned = true;
        }
        self.solicited = notify == Notify::Solicited && !self.turned;
        Some(match self.solicited {
            true => Notify::Solicited,
            false => Notify::Any,
        })
    }
}

#[cfg(test)]
mod model;
