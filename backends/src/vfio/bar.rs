//! BAR0 of a function, mapped.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use e810_hal::bus::BAR0_LEN;
use e810_hal::{Bar0, Bus, RegOffset};
use memmap2::{MmapOptions, MmapRaw};
use vfio_bindings::bindings::vfio::{
    VFIO_REGION_INFO_FLAG_MMAP, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};

use super::device_info::Region;

/// BAR0, mapped while this value or a clone exists.
#[derive(Clone, Debug)]
pub struct BarRegisters {
    registers: Bar0,
    _map: Arc<MmapRaw>,
}

impl Bus for BarRegisters {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        self.registers.read32(off)
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        self.registers.write32(off, value);
    }
}

/// Why BAR0 cannot be used.
#[derive(Debug)]
pub(super) enum BarError {
    /// The region is not what the driver needs.
    Unfit(String),
    /// The mapping failed.
    System(io::Error),
}

impl BarRegisters {
    /// Maps the region `bar0` of `device`.
    pub(super) fn new(device: &File, bar0: &Region) -> Result<Self, BarError> {
        check(bar0.flags, bar0.size, bar0.areas.as_deref()).map_err(BarError::Unfit)?;
        // Doorbells and every register of the tables; not the rest.
        let len = BAR0_LEN as usize;
        let map = MmapOptions::new()
            .offset(bar0.offset)
            .len(len)
            .map_raw(device)
            .map_err(BarError::System)?;
        let registers = NonNull::new(map.as_mut_ptr()).and_then(|base| {
            // SAFETY: a mapping of that length of a device's registers, which lives as long as this
            // value or a clone; only through these is a copy of it available. The kernel has put
            // the device behind an IOMMU: it can access only what the user maps for it.
            unsafe { Bar0::new(base, len) }
        });
        let registers = registers.ok_or_else(|| BarError::Unfit("it is not aligned".to_owned()))?;
        Ok(Self {
            registers,
            _map: Arc::new(map),
        })
    }
}

/// Checks that everything that the driver uses can be read, written and mapped.
fn check(flags: u32, size: u64, areas: Option<&[(u64, u64)]>) -> Result<(), String> {
    let needed = u64::from(BAR0_LEN);
    let all = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE | VFIO_REGION_INFO_FLAG_MMAP;
    if size < needed || flags & all != all {
        return Err(format!(
            "it has {size} bytes and access flags {flags:#x}; {needed} bytes that can be read, written and mapped are needed"
        ));
    }
    let covers = |(offset, size): &(u64, u64)| *offset == 0 && *size >= needed;
    match areas {
        // Without a list the whole region can be mapped.
        None => Ok(()),
        Some(areas) if areas.iter().any(covers) => Ok(()),
        Some(areas) => Err(format!(
            "the kernel maps only these parts of it (offset, bytes): {areas:x?}; the first {needed:#x} bytes are needed in one"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDED: u64 = BAR0_LEN as u64;

    #[test]
    fn a_region_is_mapped_by_its_capabilities() {
        assert!(check(7, NEEDED, None).is_ok());
        assert!(check(15, 4 * NEEDED, Some(&[(0, NEEDED), (2 * NEEDED, 4096)])).is_ok());
        for (flags, size, areas) in [
            (3, NEEDED, None),
            (5, NEEDED, None),
            (7, NEEDED - 1, None),
            (7, NEEDED, Some(&[][..])),
            (7, NEEDED, Some(&[(4096, NEEDED)][..])),
            (
                7,
                NEEDED,
                Some(&[(0, NEEDED / 2), (NEEDED / 2, NEEDED)][..]),
            ),
        ] {
            assert!(
                check(flags, size, areas).is_err(),
                "{flags} {size} {areas:?}"
            );
        }
    }
}
