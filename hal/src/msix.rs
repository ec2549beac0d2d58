//! The MSI-X table of a function, for a platform that owns it.
//!
//! Under an operating system the kernel writes the table; on a bare machine nobody else does. The
//! address and the data of a message, which the machine's interrupt controller defines (x86: the
//! local APIC), say which CPU and which of its vectors it means. This file only puts them where
//! the card looks.

use core::ptr::NonNull;

use volatile_register::RW;

use crate::bus::Vector;
use crate::regs::{MSIX_TADD1, MSIX_TMSG, MSIX_TUADD1, MSIX_TVCTRL1};

/// Bytes of an entry of the table (PCI: 16 for any function).
const ENTRY: usize = 16;
/// Most entries a table can have (PCI: Table Size has 11 bits).
const MOST: u16 = 2048;
/// Mask bit of an entry's vector control.
const MASK: u32 = MSIX_TVCTRL1::MASK::SET.value;

/// The contents of the function's MSI-X capability. Table and pending bits share a BAR on this
/// card (control-path 1.2); the capability names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MsixLayout {
    /// Entries of the table, 1 to 2048: Table Size plus one.
    pub entries: u16,
    /// Offset of the table in its BAR, a multiple of 8.
    pub table: u32,
    /// Offset of the pending bits in the same BAR, a multiple of 8.
    pub pending: u32,
}

/// An invalid table, or an entry that is not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MsixError {
    /// The capability and the BAR do not match.
    #[error(
        "an MSI-X table of {} entries at {:#x} and pending bits at {:#x} do not fit a BAR of {len} bytes: map the whole BAR that the capability names",
        layout.entries, layout.table, layout.pending
    )]
    Layout {
        /// The contents of the capability.
        layout: MsixLayout,
        /// Bytes of the BAR.
        len: usize,
    },
    /// The table has no such entry.
    #[error("the MSI-X table has {entries} entries and none for {vector}: use a lower one")]
    NoEntry {
        /// The vector asked for.
        vector: Vector,
        /// Entries there are.
        entries: u16,
    },
    /// A message is written to a multiple of 4.
    #[error("an MSI-X message cannot go to {address:#x}: the address is a multiple of 4")]
    Address {
        /// The address asked for.
        address: u64,
    },
}

/// The table and the pending bits of one function, mapped into this address
/// space.
///
/// An entry belongs to the owner of its vector: two threads may change two different entries at a
/// time, but not the same one.
#[derive(Clone, Copy, Debug)]
pub struct MsixTable {
    bar: NonNull<u8>,
    layout: MsixLayout,
}

// SAFETY: a device's registers may be accessed from any thread, also at one time:
// they are no memory of the program. The contract of `new` keeps the mapping
// alive, and allows memory in their place to one thread at a time.
unsafe impl Send for MsixTable {}
// SAFETY: as above.
unsafe impl Sync for MsixTable {}

impl MsixTable {
    /// Wraps the mapping of the whole BAR that the capability names, `len`
    /// bytes at `bar`.
    ///
    /// # Errors
    /// [`MsixError::Layout`] for no entry or more than 2048, offsets that are
    /// not multiples of 8 or not inside the BAR, or a `bar` that is not
    /// 4-aligned. The layout comes from the device and is not trusted.
    ///
    /// # Safety
    /// `bar` points to `len` bytes of that BAR of an E810, mapped uncached, that stay
    /// mapped while any copy is used. Meanwhile the table is written through copies
    /// alone. Memory may stand in for it where one thread at a time uses all copies:
    /// these accesses are not atomic.
    pub unsafe fn new(bar: NonNull<u8>, len: usize, layout: MsixLayout) -> Result<Self, MsixError> {
        let inside = |start: u32, bytes: usize| {
            let end = (start as usize).checked_add(bytes);
            start.is_multiple_of(8) && end.is_some_and(|end| end <= len)
        };
        let entries = usize::from(layout.entries);
        let fits = (1..=MOST).contains(&layout.entries)
            && inside(layout.table, entries.saturating_mul(ENTRY))
            && inside(layout.pending, entries.div_ceil(64).saturating_mul(8))
            && bar.addr().get().is_multiple_of(4);
        match fits {
            true => Ok(Self { bar, layout }),
            false => Err(MsixError::Layout { layout, len }),
        }
    }

    /// Entries of the table: vectors that the function can have.
    #[must_use]
    pub const fn entries(&self) -> u16 {
        self.layout.entries
    }

    /// Makes `vector` send `data` to `address`, and unmasks it. The entry is masked while it
    /// changes.
    ///
    /// # Errors
    /// [`MsixError::NoEntry`], [`MsixError::Address`]; nothing was changed.
    ///
    /// # Safety
    /// The function may write the four bytes of `data` to `address` at any time
    /// from now on, until [`MsixTable::mask`] of the vector has returned or it is
    /// connected anew: they are a message to an interrupt controller, whose handler
    /// is there, or `address` is four bytes of memory that the device may write.
    pub unsafe fn connect(&self, vector: Vector, address: u64, data: u32) -> Result<(), MsixError> {
        let control = self.control(vector)?;
        if !address.is_multiple_of(4) {
            return Err(MsixError::Address { address });
        }
        set_mask(control, true);
        for (offset, value) in [
            (MSIX_TADD1.offset(vector), address as u32),
            (MSIX_TUADD1.offset(vector), (address >> 32) as u32),
            (MSIX_TMSG.offset(vector), data),
        ] {
            // SAFETY: writing an entry that is masked has no effect of its own;
            // what its message will do is the caller's promise.
            unsafe { self.table(offset).write(value.to_le()) };
        }
        set_mask(control, false);
        Ok(())
    }

    /// Masks `vector`: once this has returned no message of it leaves the card any more. Messages
    /// that it would have sent become pending.
    ///
    /// # Errors
    /// [`MsixError::NoEntry`].
    pub fn mask(&self, vector: Vector) -> Result<(), MsixError> {
        set_mask(self.control(vector)?, true);
        Ok(())
    }

    /// Unmasks `vector`; what is pending is sent at once.
    ///
    /// # Errors
    /// [`MsixError::NoEntry`].
    pub fn unmask(&self, vector: Vector) -> Result<(), MsixError> {
        set_mask(self.control(vector)?, false);
        Ok(())
    }

    /// Whether `vector` has a message that its mask holds back.
    ///
    /// # Errors
    /// [`MsixError::NoEntry`].
    pub fn is_pending(&self, vector: Vector) -> Result<bool, MsixError> {
        self.has(vector)?;
        let (word, bit) = (vector.get() / 32, vector.get() % 32);
        let offset = self.layout.pending.wrapping_add(word.wrapping_mul(4));
        let pending = u32::from_le(self.register(offset).read());
        Ok(pending >> bit & 1 != 0)
    }

    fn has(&self, vector: Vector) -> Result<(), MsixError> {
        let entries = self.layout.entries;
        match vector.get() < u32::from(entries) {
            true => Ok(()),
            false => Err(MsixError::NoEntry { vector, entries }),
        }
    }

    /// Vector control of an entry that there is.
    fn control(&self, vector: Vector) -> Result<&RW<u32>, MsixError> {
        self.has(vector)?;
        Ok(self.table(MSIX_TVCTRL1.offset(vector)))
    }

    /// The register `offset` bytes into the table, of an entry that there is.
    fn table(&self, offset: u32) -> &RW<u32> {
        self.register(self.layout.table.wrapping_add(offset))
    }

    fn register(&self, offset: u32) -> &RW<u32> {
        // SAFETY: `offset` is 4-aligned and of an entry below `entries`, or of
        // its pending bit; `new` has checked that all of them are inside the
        // mapping, and its alignment. The reference exists for this one volatile
        // access.
        unsafe { self.bar.add(offset as usize).cast::<RW<u32>>().as_ref() }
    }
}

/// Writes the mask bit of an entry, leaves the reserved bits, and reads back: the write has
/// reached the card when this returns.
fn set_mask(control: &RW<u32>, masked: bool) {
    let others = u32::from_le(control.read()) & !MASK;
    let value = if masked { others | MASK } else { others };
    // SAFETY: the mask of an entry that the caller owns.
    unsafe { control.write(value.to_le()) };
    let _ = control.read();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    const LAYOUT: MsixLayout = MsixLayout {
        entries: 3,
        table: 0x10,
        pending: 0x48,
    };

    fn memory() -> Vec<u32> {
        vec![0; 0x50 / 4]
    }

    fn table(memory: &mut [u32], layout: MsixLayout) -> Result<MsixTable, MsixError> {
        let bar = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
        // SAFETY: the vector outlives the table in each test, which reaches it
        // by this pointer alone.
        unsafe { MsixTable::new(bar, memory.len() * 4, layout) }
    }

    fn vector(number: u16) -> Vector {
        Vector::new(number).unwrap()
    }

    #[test]
    fn an_entry_is_address_data_and_no_mask() {
        let mut memory = memory();
        // As after a reset, with a reserved bit that is to stay.
        memory[0x10 / 4 + 7] = 0x8000_0001_u32.to_le();
        let table = table(&mut memory, LAYOUT).unwrap();
        // SAFETY: no device sends it.
        unsafe { table.connect(vector(1), 0x1_fee0_1000, 0x41) }.unwrap();
        table.mask(vector(2)).unwrap();
        let entry = |n: usize| {
            memory[4 + 4 * n..8 + 4 * n]
                .iter()
                .map(|w| u32::from_le(*w))
        };
        assert!(entry(0).eq([0; 4]));
        assert!(entry(1).eq([0xfee0_1000, 1, 0x41, 0x8000_0000]));
        assert!(entry(2).eq([0, 0, 0, 1]));
        assert_eq!(table.entries(), 3);
        table.unmask(vector(2)).unwrap();
        assert_eq!(memory[0x10 / 4 + 11], 0);
    }

    #[test]
    fn pending_bits_are_read_from_their_own_place() {
        let mut memory = memory();
        memory[0x48 / 4] = 0b010_u32.to_le();
        let table = table(&mut memory, LAYOUT).unwrap();
        let pending = [0, 1, 2].map(|number| table.is_pending(vector(number)));
        assert_eq!(pending, [Ok(false), Ok(true), Ok(false)]);
    }

    #[test]
    fn the_second_word_of_pending_bits_is_found() {
        let layout = MsixLayout {
            entries: 40,
            table: 0x10,
            pending: 0x8,
        };
        let mut memory = vec![0_u32; 0x290 / 4];
        memory[0xc / 4] = 0x80_u32.to_le();
        let table = table(&mut memory, layout).unwrap();
        assert_eq!(table.is_pending(vector(39)), Ok(true));
        assert_eq!(table.is_pending(vector(7)), Ok(false));
    }

    #[test]
    fn what_is_not_there_is_refused_and_nothing_written() {
        let mut memory = memory();
        let table = table(&mut memory, LAYOUT).unwrap();
        let none = MsixError::NoEntry {
            vector: vector(3),
            entries: 3,
        };
        // SAFETY: nothing is connected.
        let connect = |vector, address| unsafe { table.connect(vector, address, 1) };
        assert_eq!(connect(vector(3), 0), Err(none));
        assert_eq!(table.mask(vector(3)), Err(none));
        assert_eq!(table.unmask(vector(3)), Err(none));
        assert_eq!(table.is_pending(vector(3)), Err(none));
        let odd = MsixError::Address {
            address: 0xfee0_0002,
        };
        assert_eq!(connect(vector(0), 0xfee0_0002), Err(odd));
        assert!(memory.iter().all(|word| *word == 0));
    }

    #[test]
    fn a_layout_that_does_not_fit_is_refused() {
        let mut memory = memory();
        let wrong = [
            MsixLayout {
                entries: 0,
                ..LAYOUT
            },
            MsixLayout {
                entries: 5,
                ..LAYOUT
            },
            MsixLayout {
                entries: 2049,
                ..LAYOUT
            },
            MsixLayout {
                table: 0x14,
                ..LAYOUT
            },
            MsixLayout {
                table: 0x28,
                ..LAYOUT
            },
            MsixLayout {
                pending: 0x50,
                ..LAYOUT
            },
            MsixLayout {
                pending: !7,
                ..LAYOUT
            },
        ];
        for layout in wrong {
            let error = table(&mut memory, layout).unwrap_err();
            assert_eq!(error, MsixError::Layout { layout, len: 0x50 });
            assert!(error.to_string().contains("do not fit a BAR of 80 bytes"));
        }
        let bar = NonNull::new(memory.as_mut_ptr().cast::<u8>()).unwrap();
        // SAFETY: no access follows an error; one byte on is inside the vector.
        assert!(unsafe { MsixTable::new(bar.add(1), 0x4f, LAYOUT) }.is_err());
    }
}
