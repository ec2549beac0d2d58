//! Error details of the engine: the registers behind HMC_ERR, PE_CRITERR
//! and PE_PUSH (control-path 2.2, 2.3, 2.6).
//!
//! The sources give the fields of these registers by name but, except for one code, no meaning of
//! their values. So names and numbers are all that can be printed.
//!
//! ```
//! use e810_adminq::oicr::HmcError;
//!
//! let error = HmcError::decode(1 << 31 | 14 << 16 | 3 << 8 | 2, 0x40).ok_or("no error")?;
//! assert_eq!(
//!     error.to_string(),
//!     "HMC error of PF 2: HMC_OBJECT_TYPE 14 (PBLE [inf]), HMC_ERROR_TYPE 3, HMC_ERROR_DATA 0x40"
//! );
//! # Ok::<(), &str>(())
//! ```

use core::fmt;

use e810_hal::bus::Bus;
use e810_hal::clock::live;
use e810_hal::regs::{CRITERR_Q1, GLPE_CRITERR, PFHMC_ERRORDATA, PFHMC_ERRORINFO};

use super::Causes;
use crate::error::Result;

/// Kinds of HMC object, by the numbers of drivers and firmware (control-path 6.2). That
/// HMC_OBJECT_TYPE uses the same numbers is `[inf hmc_object_names]`.
const OBJECTS: [&str; 21] = [
    "QP", "CQ", "SRQ", "HTE", "ARP", "APBVT", "MR", "XF", "XFFL", "Q1", "Q1FL", "TIMER", "FSIMC",
    "FSIAV", "PBLE", "RRF", "RRFFL", "HDR", "MD", "OOISC", "OOISCFFL",
];

/// PFHMC_ERRORINFO and PFHMC_ERRORDATA: what failed in the host memory cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HmcError {
    /// PMF_INDEX: number of the function, 5 bits.
    pub function: u8,
    /// PMF_ISVF: the function is a virtual one.
    pub is_vf: bool,
    /// HMC_ERROR_TYPE, 4 bits; what the values mean is not in the sources.
    pub error_type: u8,
    /// HMC_OBJECT_TYPE, 5 bits.
    pub object_type: u8,
    /// HMC_ERROR_DATA, 30 bits; its meaning is not in the sources.
    pub data: u32,
}

impl HmcError {
    /// The fields; `None` unless ERROR_DETECTED is set in `info`.
    #[must_use]
    pub fn decode(info: u32, data: u32) -> Option<Self> {
        if !PFHMC_ERRORINFO::ERROR_DETECTED.is_set(info) {
            return None;
        }
        Some(Self {
            function: PFHMC_ERRORINFO::PMF_INDEX.read(info) as u8,
            is_vf: PFHMC_ERRORINFO::PMF_ISVF.is_set(info),
            error_type: PFHMC_ERRORINFO::HMC_ERROR_TYPE.read(info) as u8,
            object_type: PFHMC_ERRORINFO::HMC_OBJECT_TYPE.read(info) as u8,
            data: PFHMC_ERRORDATA::HMC_ERROR_DATA.read(data),
        })
    }

    /// Reads the registers; `None` when they hold no error.
    ///
    /// # Errors
    /// [`Error::Wait`](crate::Error::Wait) when the device is gone.
    pub fn read(bus: &(impl Bus + ?Sized)) -> Result<Option<Self>> {
        hmc_registers(bus).map(|[info, data]| Self::decode(info, data))
    }

    /// Name of the kind of object `[inf hmc_object_names]`; `None` for a number that has none.
    #[must_use]
    pub fn object(&self) -> Option<&'static str> {
        OBJECTS.get(usize::from(self.object_type)).copied()
    }
}

impl fmt::Display for HmcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_vf { "VF" } else { "PF" };
        write!(
            f,
            "HMC error of {kind} {}: HMC_OBJECT_TYPE {}",
            self.function, self.object_type
        )?;
        if let Some(object) = self.object() {
            write!(f, " ({object} [inf])")?;
        }
        write!(
            f,
            ", HMC_ERROR_TYPE {}, HMC_ERROR_DATA {:#x}",
            self.error_type, self.data
        )
    }
}

/// PFHMC_ERRORINFO and PFHMC_ERRORDATA.
fn hmc_registers(bus: &(impl Bus + ?Sized)) -> Result<[u32; 2]> {
    Ok([
        live("PFHMC_ERRORINFO", PFHMC_ERRORINFO.get(bus))?,
        live("PFHMC_ERRORDATA", PFHMC_ERRORDATA.get(bus))?,
    ])
}

/// GLPE_CRITERR in the only critical error in a published log of a card: a MODIFY_QP had failed
/// with 0xFFFF/0x8003 140 ms before (field-evidence 5).
const CRITERR_SEEN: u32 = 0x0001_1424;

/// GLPE_CRITERR: the code of a critical error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct CriticalError(pub u32);

impl CriticalError {
    /// Whether existing drivers only log it and continue.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        self.0 == CRITERR_Q1
    }
}

impl fmt::Display for CriticalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = if self.is_harmless() {
            "no entry for an inbound READ (Q1) was left; raise the number of READs that the HMC has room for"
        } else if self.0 == CRITERR_SEEN {
            "no source says what the code means; seen after a MODIFY_QP that failed, as one incident with it"
        } else {
            "no source says what the code means"
        };
        write!(
            f,
            "critical error: GLPE_CRITERR {:#010x}: {meaning}",
            self.0
        )
    }
}

/// Causes, and what the engine's registers say about them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Details {
    /// The causes.
    pub causes: Causes,
    /// GLPE_CRITERR, with [`Causes::PE_CRITERR`] and [`Causes::PE_PUSH`].
    pub critical: Option<CriticalError>,
    /// PFHMC_ERRORINFO and PFHMC_ERRORDATA as read, with [`Causes::HMC_ERR`].
    pub hmc_registers: Option<[u32; 2]>,
    /// The same, decoded into fields; `None` also when the registers say that there is no error.
    pub hmc: Option<HmcError>,
}

impl Details {
    /// Reads the registers that give details of `causes`; a few reads, which do not include the
    /// causes themselves. Their contents stay until a reset, so a second error may not show.
    ///
    /// # Errors
    /// [`Error::Wait`](crate::Error::Wait) when the device is gone.
    pub fn read(bus: &(impl Bus + ?Sized), causes: Causes) -> Result<Self> {
        let critical = if causes.intersects(Causes::PE_CRITERR.union(Causes::PE_PUSH)) {
            let code = live("GLPE_CRITERR", GLPE_CRITERR.get(bus))?;
            Some(CriticalError(code))
        } else {
            None
        };
        let hmc_registers = if causes.contains(Causes::HMC_ERR) {
            Some(hmc_registers(bus)?)
        } else {
            None
        };
        Ok(Self {
            causes,
            critical,
            hmc_registers,
            hmc: hmc_registers.and_then(|[info, data]| HmcError::decode(info, data)),
        })
    }
}

impl fmt::Display for Details {
    /// Causes and registers, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, word) in self.causes.words().enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            write!(f, "{separator}{word}")?;
        }
        // Always the raw values: nobody has published what they hold after an error.
        if let Some([info, data]) = self.hmc_registers {
            write!(
                f,
                "; PFHMC_ERRORINFO {info:#010x}, PFHMC_ERRORDATA {data:#010x}"
            )?;
        }
        if let Some(hmc) = &self.hmc {
            write!(f, "; {hmc}")?;
        }
        if let Some(critical) = &self.critical {
            write!(f, "; {critical}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use core::cell::RefCell;
    use e810_hal::RegOffset;
    use std::collections::BTreeMap;
    use std::string::ToString;
    use std::vec::Vec;

    /// Registers that read as given, and 0.
    #[derive(Default)]
    struct Registers {
        values: BTreeMap<u32, u32>,
        reads: RefCell<Vec<u32>>,
    }

    impl Bus for Registers {
        fn read32(&self, off: RegOffset) -> u32 {
            self.reads.borrow_mut().push(off.get());
            self.values.get(&off.get()).copied().unwrap_or(0)
        }
        fn write32(&self, off: RegOffset, _: u32) {
            panic!("a write to {off:?}");
        }
    }

    const INFO: u32 = 0x52_0400;
    const DATA: u32 = 0x52_0500;
    const CRITERR: u32 = 0x53_4000;

    fn registers(values: &[(u32, u32)]) -> Registers {
        Registers {
            values: values.iter().copied().collect(),
            ..Registers::default()
        }
    }

    #[test]
    fn every_field_has_its_bits() {
        let ones = HmcError::decode(u32::MAX, u32::MAX).unwrap();
        let expected = HmcError {
            function: 0x1F,
            is_vf: true,
            error_type: 0xF,
            object_type: 0x1F,
            data: 0x3FFF_FFFF,
        };
        assert_eq!(ones, expected);
        for (bit, expected) in [
            (4, (0x10, false, 0, 0)),
            (7, (0, true, 0, 0)),
            (11, (0, false, 8, 0)),
            (20, (0, false, 0, 0x10)),
            // Bits that no field has.
            (5, (0, false, 0, 0)),
            (15, (0, false, 0, 0)),
            (30, (0, false, 0, 0)),
        ] {
            let error = HmcError::decode(1 << 31 | 1 << bit, 0).unwrap();
            let fields = (
                error.function,
                error.is_vf,
                error.error_type,
                error.object_type,
            );
            assert_eq!(fields, expected, "bit {bit}");
        }
        assert_eq!(HmcError::decode(!(1 << 31), u32::MAX), None);
    }

    #[test]
    fn what_has_no_name_has_its_number() {
        let error = HmcError::decode(1 << 31 | 1 << 7 | 21 << 16, 7).unwrap();
        assert_eq!(error.object(), None);
        assert_eq!(
            error.to_string(),
            "HMC error of VF 0: HMC_OBJECT_TYPE 21, HMC_ERROR_TYPE 0, HMC_ERROR_DATA 0x7"
        );
        let named = (0..32).filter_map(|kind| HmcError::decode(1 << 31 | kind << 16, 0)?.object());
        assert_eq!(named.count(), OBJECTS.len());
    }

    #[test]
    fn only_the_registers_of_the_causes_are_read() {
        for (causes, reads) in [
            (Causes::MAL_DETECT | Causes::GRST, &[][..]),
            (Causes::HMC_ERR, &[INFO, DATA]),
            (Causes::PE_CRITERR, &[CRITERR]),
            (Causes::PE_PUSH, &[CRITERR]),
            (Causes::HMC_ERR | Causes::PE_CRITERR, &[CRITERR, INFO, DATA]),
        ] {
            let bus = registers(&[]);
            let details = Details::read(&bus, causes).unwrap();
            assert_eq!(*bus.reads.borrow(), reads, "{causes:?}");
            assert_eq!(details.hmc, None, "nothing is detected");
        }
    }

    #[test]
    fn details_are_words_on_a_line() {
        let bus = registers(&[
            (INFO, 1 << 31 | 1 << 16 | 2 << 8),
            (DATA, 0x123),
            (CRITERR, CRITERR_Q1),
        ]);
        let causes = Causes::HMC_ERR | Causes::PE_CRITERR;
        let text = Details::read(&bus, causes).unwrap().to_string();
        assert_eq!(
            text,
            "the host memory cache failed, critical error of the RDMA engine; \
             PFHMC_ERRORINFO 0x80010200, PFHMC_ERRORDATA 0x00000123; \
             HMC error of PF 0: HMC_OBJECT_TYPE 1 (CQ [inf]), HMC_ERROR_TYPE 2, HMC_ERROR_DATA 0x123; \
             critical error: GLPE_CRITERR 0x0001024d: no entry for an inbound READ (Q1) was left; \
             raise the number of READs that the HMC has room for"
        );
        let bus = registers(&[(CRITERR, 0x55)]);
        let text = Details::read(&bus, Causes::PE_PUSH).unwrap().to_string();
        assert_eq!(
            text,
            "a push page failed; critical error: GLPE_CRITERR 0x00000055: \
             no source says what the code means"
        );
        // Nothing is detected, and what there is shows all the same.
        let bus = registers(&[(INFO, 1 << 16), (DATA, 0x44)]);
        let text = Details::read(&bus, Causes::HMC_ERR).unwrap().to_string();
        assert_eq!(
            text,
            "the host memory cache failed; \
             PFHMC_ERRORINFO 0x00010000, PFHMC_ERRORDATA 0x00000044"
        );
        let seen = CriticalError(CRITERR_SEEN).to_string();
        assert!(seen.contains("MODIFY_QP"), "{seen}");
    }

    #[test]
    fn a_device_that_is_gone_is_said_so() {
        let bus = registers(&[(INFO, u32::MAX)]);
        let gone = Details::read(&bus, Causes::HMC_ERR);
        assert!(matches!(gone, Err(Error::Wait(_))), "{gone:?}");
        let bus = registers(&[(CRITERR, u32::MAX)]);
        let gone = Details::read(&bus, Causes::PE_CRITERR);
        assert!(matches!(gone, Err(Error::Wait(_))), "{gone:?}");
    }
}
