//! UPDATE_PE_SDS: sets and clears segment descriptors (control-path 6.6).

use e810_hal::Iova;
use e810_hal::bus::PfId;
use tock_registers::register_bitfields;

use super::{HEADER, Wqe, header};
use crate::error::{Error, Result};
use crate::field::{aligned, bit, fit};
use crate::limits::SD_SLOT_BYTES;
use crate::opcode::Opcode;

register_bitfields![u64,
    Q24 [ ENTRY_COUNT OFFSET(0) NUMBITS(4) [] ],
    Entry [ ENTRY_VALID OFFSET(63) NUMBITS(1) [] ],
    SdCmd [
        PMSDIDX OFFSET(0) NUMBITS(12) [],
        PARTSEL OFFSET(15) NUMBITS(1) [],
        PMSDWR OFFSET(31) NUMBITS(1) []
    ],
    SdData [
        VALID OFFSET(0) NUMBITS(1) [],
        TYPE OFFSET(1) NUMBITS(1) [ Paged = 0, Direct = 1 ],
        BPCOUNT OFFSET(2) NUMBITS(10) []
    ]
];

/// Entries that stand in the WQE itself.
pub const INLINE_SDS: usize = 3;
/// Entries of one command: three inline and eight in the 128-byte slot.
pub const MAX_SDS_PER_COMMAND: usize = 11;
/// Backing pages of an SD; always 512 (control-path 6.1).
const PAGES_PER_SD: u64 = 512;
/// Format: the address is bits [63:12].
const PAGE: u64 = 4096;

/// TYPE of a segment descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SdKind {
    /// The address is that of a page of 512 page descriptors.
    Paged,
    /// The address is that of 2 MiB of backing.
    Direct,
}

/// One SD change: 16 bytes, as they stand in the WQE or in the SD slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SdEntry {
    /// SDCMD.
    pub command: u32,
    /// SDDATA.
    pub data: u64,
}

fn command_word(index: u32) -> Result<u32> {
    let word = fit("SD index", SdCmd::PMSDIDX, index)? + SdCmd::PARTSEL::SET + SdCmd::PMSDWR::SET;
    // The fields end at bit 31.
    Ok(word.value as u32)
}

fn data_word(kind: SdKind, valid: bool) -> u64 {
    let kind = match kind {
        SdKind::Paged => SdData::TYPE::Paged,
        SdKind::Direct => SdData::TYPE::Direct,
    };
    (bit(SdData::VALID, valid) + kind + SdData::BPCOUNT.val(PAGES_PER_SD)).value
}

impl SdEntry {
    /// Makes SD `index` (FPM-relative) valid, with `address` as its backing or
    /// its page of page descriptors (4 KiB aligned).
    ///
    /// # Errors
    /// [`Error::OutOfRange`] above index 4095, [`Error::Misaligned`].
    pub fn set(index: u32, kind: SdKind, address: Iova) -> Result<Self> {
        Ok(Self {
            command: command_word(index)?,
            data: aligned("SD backing", address, PAGE)? | data_word(kind, true),
        })
    }

    /// Clears SD `index`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] above index 4095.
    pub fn clear(index: u32, kind: SdKind) -> Result<Self> {
        Ok(Self {
            command: command_word(index)?,
            data: data_word(kind, false),
        })
    }

    /// The two words of the entry in an SD slot.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        [self.command as u64, self.data]
    }
}

/// UPDATE_PE_SDS.
///
/// Entries after the third stand in a 128-byte slot that the CQP provides, so
/// this is posted with [`Cqp::submit_sds`](crate::Cqp::submit_sds) rather than
/// as a [`Command`](super::Command).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpdatePeSds<'a> {
    /// Function.
    pub function: PfId,
    /// 1 to 11 changes.
    pub entries: &'a [SdEntry],
    /// The 128-aligned slot with the entries after the third.
    pub slot: Iova,
}

impl UpdatePeSds<'_> {
    /// The WQE with its VALID bit clear.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than 11 entries, [`Error::Invalid`] for
    /// none, [`Error::Misaligned`] for the slot.
    pub fn encode(&self) -> Result<Wqe> {
        if self.entries.len() > MAX_SDS_PER_COMMAND {
            return Err(Error::OutOfRange {
                field: "SDs in one command",
                value: self.entries.len() as u64,
                limit: MAX_SDS_PER_COMMAND as u64,
            });
        }
        let Some(first) = self.entries.first() else {
            return Err(Error::Invalid {
                what: "an SD update has at least one entry",
            });
        };
        let in_slot = self.entries.len().saturating_sub(INLINE_SDS) as u64;
        let slot = aligned("SD slot", self.slot, u64::from(SD_SLOT_BYTES))?;
        let mut wqe = Wqe::default();
        let [q0, q8, q16, q24, q32, q40, q48, q56] = &mut wqe;
        [*q0, *q8] = first.words();
        *q16 = u64::from(self.function.get());
        if in_slot > 0 {
            *q16 |= slot;
        }
        for (entry, (command, data)) in self.entries.iter().skip(1).zip([(q32, q40), (q48, q56)]) {
            [*command, *data] = entry.words();
            *command |= Entry::ENTRY_VALID::SET.value;
        }
        *q24 = header(Opcode::UpdatePeSds, Q24::ENTRY_COUNT.val(in_slot).value);
        debug_assert!(wqe[HEADER] != 0, "the header has an opcode");
        Ok(wqe)
    }

    /// The entries that go to the slot.
    pub fn slot_entries(&self) -> impl Iterator<Item = SdEntry> + '_ {
        self.entries.iter().skip(INLINE_SDS).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_the_table() {
        let direct = SdEntry::set(0x123, SdKind::Direct, Iova(0x4000_0000)).unwrap();
        assert_eq!(direct.command, 0x8000_8123);
        assert_eq!(direct.data, 0x4000_0000 | 512 << 2 | 0b11);
        let paged = SdEntry::set(1, SdKind::Paged, Iova(0x1000)).unwrap();
        assert_eq!(paged.data, 0x1000 | 512 << 2 | 0b01);
        let cleared = SdEntry::clear(1, SdKind::Direct).unwrap();
        assert_eq!(cleared.words(), [0x8000_8001, 512 << 2 | 0b10]);
    }

    #[test]
    fn bad_entries_are_refused() {
        assert!(SdEntry::set(4096, SdKind::Direct, Iova(0)).is_err());
        assert!(SdEntry::set(0, SdKind::Direct, Iova(0x800)).is_err());
        assert!(SdEntry::clear(4096, SdKind::Paged).is_err());
        let function = PfId::new(0).unwrap();
        let update = |entries: &[SdEntry], slot| {
            UpdatePeSds {
                function,
                entries,
                slot: Iova(slot),
            }
            .encode()
        };
        assert!(matches!(update(&[], 0), Err(Error::Invalid { .. })));
        assert!(update(&[SdEntry::default(); 12], 0).is_err());
        assert!(update(&[SdEntry::default(); 11], 0x40).is_err());
        assert!(update(&[SdEntry::default(); 11], 0x80).is_ok());
    }
}
