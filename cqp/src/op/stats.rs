//! MANAGE_STATS and GATHER_STATS (control-path 4.13).

use e810_hal::Iova;
use e810_hal::bus::PfId;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::{aligned, at_most, bit};
use crate::limits::MAX_STATS_INSTANCES;
use crate::opcode::Opcode;

register_bitfields![u64,
    Q40 [ HMC_FCN_INDEX OFFSET(0) NUMBITS(16) [] ],
    Q24 [
        INST_INDEX OFFSET(0) NUMBITS(7) [],
        USE_HMC_FCN_INDEX OFFSET(60) NUMBITS(1) [],
        // MANAGE_STATS has ALLOC_INST one bit further up.
        USE_INST OFFSET(61) NUMBITS(1) [],
        ALLOC_INST OFFSET(62) NUMBITS(1) []
    ]
];

/// Bytes that GATHER_STATS writes at most (control-path 4.13).
pub const GATHER_BYTES: usize = 1024;

fn instance(index: u8) -> Result<u64> {
    let limit = u64::from(MAX_STATS_INSTANCES).saturating_sub(1);
    let index = at_most("statistics instance", u64::from(index), limit)?;
    Ok(Q24::INST_INDEX.val(index).value)
}

/// MANAGE_STATS: allocates or frees a statistics instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManageStats {
    /// Allocate; the completion's return value is the instance.
    Allocate {
        /// Function it is for (USE_HMC_FCN_INDEX), or the calling one.
        hmc_function: Option<PfId>,
    },
    /// Free.
    Free {
        /// The instance, below 128.
        instance: u8,
        /// Function it is for (USE_HMC_FCN_INDEX), or the calling one.
        hmc_function: Option<PfId>,
    },
}

impl Command for ManageStats {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let (function, fields) = match *self {
            Self::Allocate { hmc_function } => (hmc_function, Q24::ALLOC_INST::SET.value),
            Self::Free {
                instance: index,
                hmc_function,
            } => (hmc_function, instance(index)?),
        };
        let [_, _, _, _, _, q40, ..] = &mut wqe;
        *q40 = function.map_or(0, |pf| u64::from(pf.get()));
        let use_function = bit(Q24::USE_HMC_FCN_INDEX, function.is_some()).value;
        wqe[HEADER] = header(Opcode::ManageStats, fields | use_function);
        Ok(wqe)
    }
}

/// GATHER_STATS: the device writes counters to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatherStats {
    /// Buffer of at least [`GATHER_BYTES`].
    pub buffer: Iova,
    /// HMC_FCN_INDEX; 0 in existing drivers.
    pub hmc_function: u16,
    /// USE_HMC_FCN_INDEX; otherwise the counters of the calling function.
    pub use_hmc_function: bool,
    /// INST_INDEX, below 128; 0 in existing drivers.
    pub instance: u8,
    /// USE_INST.
    pub use_instance: bool,
}

impl GatherStats {
    /// The counters of the calling function, as existing drivers read them.
    #[must_use]
    pub const fn own(buffer: Iova) -> Self {
        Self {
            buffer,
            hmc_function: 0,
            use_hmc_function: false,
            instance: 0,
            use_instance: false,
        }
    }
}

impl Command for GatherStats {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, _, _, q32, q40, ..] = &mut wqe;
        // Counters are whole 64-bit words.
        *q32 = aligned("statistics buffer", self.buffer, 8)?;
        *q40 = Q40::HMC_FCN_INDEX.val(u64::from(self.hmc_function)).value;
        let fields = bit(Q24::USE_HMC_FCN_INDEX, self.use_hmc_function)
            + bit(Q24::USE_INST, self.use_instance);
        wqe[HEADER] = header(Opcode::GatherStats, fields.value | instance(self.instance)?);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden vectors free an instance; that one is allocated is from the
    /// table, control-path 4.13.
    #[test]
    fn manage_stats_follows_the_table() {
        let pf = PfId::new(3);
        let allocate = ManageStats::Allocate { hmc_function: pf };
        assert_eq!(
            allocate.encode(),
            Ok([0, 0, 0, (0x2d << 32) | (1 << 60) | (1 << 62), 0, 3, 0, 0])
        );
        let free = ManageStats::Free {
            instance: 127,
            hmc_function: None,
        };
        assert_eq!(free.encode(), Ok([0, 0, 0, (0x2d << 32) | 127, 0, 0, 0, 0]));
        let bad = ManageStats::Free {
            instance: 128,
            hmc_function: None,
        };
        assert!(bad.encode().is_err());
    }

    #[test]
    fn gather_checks_its_buffer_and_instance() {
        assert!(GatherStats::own(Iova(0x1000)).encode().is_ok());
        assert!(GatherStats::own(Iova(0x1004)).encode().is_err());
        let bad = GatherStats {
            instance: 128,
            ..GatherStats::own(Iova(0))
        };
        assert!(bad.encode().is_err());
    }
}
