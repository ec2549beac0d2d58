//! The CCQ: the completion queue that the CQP's commands complete on
//! (control-path 4.4).
//!
//! [`CompletionRing`] holds only the consumer's indexes; words, barrier and bus are passed to it,
//! as in [`crate::ring`].

use e810_hal::regs::PFPE_CQARM;
use e810_hal::ring::Consumer;
use e810_hal::{Barrier, Bus, DmaWord, DmaWords};
use tock_registers::register_bitfields;

use crate::error::{Error, Result};
use crate::limits::CCQ_ID;

register_bitfields![u64,
    Q16 [ OPRETVAL OFFSET(0) NUMBITS(32) [] ],
    Q24 [
        MINERR OFFSET(0) NUMBITS(16) [],
        MAJERR OFFSET(16) NUMBITS(16) [],
        WQEIDX OFFSET(32) NUMBITS(15) [],
        ERROR OFFSET(55) NUMBITS(1) [],
        VALID OFFSET(63) NUMBITS(1) []
    ],
    Arm [
        ARM_NEXT OFFSET(14) NUMBITS(1) [],
        ARM_SEQ_NUM OFFSET(16) NUMBITS(2) []
    ]
];

/// Word of the shadow area with the consumer index (q0).
const SHADOW_INDEX: usize = 0;
/// Word of the shadow area with the arm fields (q32).
const SHADOW_ARM: usize = 4;

/// The parts of a CCQ entry that a consumer uses.
///
/// OP and SQ are ignored: existing drivers take the opcode from the WQE,
/// and what the device puts there is not in the sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CcqEntry {
    /// q8: the cookie of the CQP host context.
    pub cookie: u64,
    /// OPRETVAL.
    pub ret_val: u32,
    /// WQEIDX of the completed WQE.
    pub index: u32,
    /// ERROR.
    pub error: bool,
    /// MAJERR; only meaningful with ERROR.
    pub major: u16,
    /// MINERR; FLUSH_WQES reports through it without ERROR.
    pub minor: u16,
}

impl CcqEntry {
    /// Decodes the four words of an entry whose VALID bit was checked.
    #[must_use]
    pub fn decode(words: &[u64; 4]) -> Self {
        let [_, q8, q16, q24] = *words;
        // Each field is as wide as the type it goes to, or narrower.
        Self {
            cookie: q8,
            ret_val: Q16::OPRETVAL.read(q16) as u32,
            index: Q24::WQEIDX.read(q24) as u32,
            error: Q24::ERROR.is_set(q24),
            major: Q24::MAJERR.read(q24) as u16,
            minor: Q24::MINERR.read(q24) as u16,
        }
    }
}

/// Consumer side of the CCQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletionRing {
    consumer: Consumer,
    arm_sequence: u64,
}

impl CompletionRing {
    /// A CCQ of `entries`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for none.
    pub fn new(entries: u32) -> Result<Self> {
        let consumer = Consumer::new(entries).ok_or(Error::Invalid {
            what: "the CCQ has at least one entry",
        })?;
        Ok(Self {
            consumer,
            arm_sequence: 0,
        })
    }

    /// Index of the entry that the device writes next.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.consumer.index()
    }

    /// The entry at the head, if the device has written it.
    pub fn peek<W: DmaWords + ?Sized>(
        &self,
        entries: &W,
        barrier: &(impl Barrier + ?Sized),
    ) -> Option<CcqEntry> {
        let [q0, q8, q16, q24] = entries.block::<4>(self.consumer.index() as usize)?;
        let valid = q24.observe();
        if Q24::VALID.is_set(valid) != self.consumer.polarity() {
            return None;
        }
        // VALID first: the device wrote it last.
        barrier.from_device();
        Some(CcqEntry::decode(&[q0.get(), q8.get(), q16.get(), valid]))
    }

    /// Frees the entry at the head: writes the new index to the shadow area.
    pub fn advance<W: DmaWords + ?Sized>(&mut self, shadow: &W, barrier: &(impl Barrier + ?Sized)) {
        self.consumer.advance();
        if let Some(word) = shadow.words().get(SHADOW_INDEX) {
            word.publish(u64::from(self.consumer.index()));
        }
        // The device must see the room before the SQ entry is used again.
        barrier.to_device();
    }

    /// Asks for an event with the next completion.
    ///
    /// SW_CQ_SELECT and ARM_NEXT_SE stay 0: the CCQ is never resized, and its
    /// completions are not solicited.
    pub fn arm<W: DmaWords + ?Sized>(
        &mut self,
        shadow: &W,
        barrier: &(impl Barrier + ?Sized),
        bus: &(impl Bus + ?Sized),
    ) {
        self.arm_sequence = self.arm_sequence.wrapping_add(1);
        let word = Arm::ARM_NEXT::SET + Arm::ARM_SEQ_NUM.val(self.arm_sequence);
        if let Some(cell) = shadow.words().get(SHADOW_ARM) {
            cell.publish(word.value);
        }
        // The arm word before the doorbell that makes the device read it.
        barrier.to_device();
        PFPE_CQARM.write(bus, PFPE_CQARM::PECQID.val(CCQ_ID));
    }
}

#[cfg(test)]
mod tests;
