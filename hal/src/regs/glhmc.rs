//! How the host memory cache is divided among the functions.
//!
//! Written by firmware and by the CQP commands, not by the driver.

use crate::bus::{Index, PfId};

registers! {
    in Bar0;

    /// Segment descriptors of a PF: presumably what the FPM query reports as
    /// FIRST_PE_SD and MAX_PE_SDS `[inf sd_partition]`.
    GLHMC_SDPART = ReadOnly 0x52_0800 [PfId; 4; 7], Corer, "control-path 2.8" {
        PMSDBASE [11:0],
        PMSDSIZE [28:16],
    }

    /// The protocol engine's part of GLHMC_SDPART.
    GLHMC_PFPESDPART = ReadOnly 0x52_0880 [PfId; 4; 7], Corer, "control-path 2.8" {
        PMSDBASE [11:0],
        PMSDSIZE [28:16],
    }

    /// Completion event queues of a PF.
    GLHMC_CEQPART = ReadOnly 0x50_31C0 [PfId; 4; 7], Corer, "control-path 2.8" {
        PMCEQBASE [9:0],
        PMCEQSIZE [25:16],
    }

    /// QPs of a PF.
    GLHMC_DBQPPART = ReadOnly 0x50_44C0 [PfId; 4; 7], Corer, "control-path 2.8" {
        PMDBQPBASE [13:0],
        PMDBQPSIZE [30:16],
    }

    /// CQs of a PF.
    GLHMC_DBCQPART = ReadOnly 0x50_3180 [PfId; 4; 7], Corer, "control-path 2.8" {
        PMDBCQBASE [13:0],
        PMDBCQSIZE [30:16],
    }

    /// Most QPs; the MAX register of the QP object.
    GLHMC_DBQPMAX = ReadOnly 0x52_20EC, Corer, "control-path 2.8" {
        GLHMC_DBQPMAX [18:0],
    }

    /// Most CQs; the MAX register of the CQ object.
    GLHMC_DBCQMAX = ReadOnly 0x52_20F0, Corer, "control-path 2.8" {
        GLHMC_DBCQMAX [19:0],
    }

    /// Segment descriptor as firmware writes it, bits 31:0.
    GLHMC_FWSDDATALOW = ReadOnly 0x52_2074, Corer, "control-path 2.8" {
        /// The SD is valid.
        PMSDVALID [0],
        /// 0 paged, 1 direct (control-path 6.1).
        PMSDTYPE [1],
        /// Number of backing pages: 512 (control-path 6.1).
        PMSDBPCOUNT [11:2],
        /// Address bits 31:12.
        PMSDDATALOW [31:12],
    }

    /// Segment descriptor as firmware writes it, bits 63:32.
    GLHMC_FWSDDATAHIGH = ReadOnly 0x52_2078, Corer, "control-path 2.8" {
        /// Address bits 63:32.
        PMSDDATAHIGH [31:0],
    }

    /// PFHMC_PDINV for firmware.
    GLHMC_FWPDINV = ReadOnly 0x52_207C, Corer, "control-path 2.8" {
        /// Segment descriptor index.
        PMSDIDX [11:0],
        /// Partition select: 1 for the SDs of the protocol engine (control-path
        /// 6.3).
        PMSDPARTSEL [15],
        /// Page descriptor index, relative to its SD.
        PMPDIDX [24:16],
    }

    /// PFHMC_PDINV for a VF; not used on a PF.
    GLHMC_VFPDINV = ReadOnly 0x52_8300 [Index<31>; 4; 31], Corer, "control-path 2.2" {
        /// Segment descriptor index.
        PMSDIDX [11:0],
        /// Partition select: 1 for the SDs of the protocol engine (control-path
        /// 6.3).
        PMSDPARTSEL [15],
        /// Page descriptor index, relative to its SD.
        PMPDIDX [24:16],
    }
}
