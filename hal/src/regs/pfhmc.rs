//! Host memory cache of the function.
//!
//! Each register has a second address, `*_FPMAT`, with the same fields.

registers! {
    in Bar0;

    /// Drops a cached page descriptor. Written after a PD entry of a paged SD
    /// changed in memory; not read back.
    PFHMC_PDINV = WriteOnly 0x52_0300, Pfr, "control-path 2.2" {
        /// Segment descriptor index.
        PMSDIDX [11:0],
        /// Partition select: 1 for the SDs of the protocol engine (control-path
        /// 6.3).
        PMSDPARTSEL [15],
        /// Page descriptor index, relative to its SD.
        PMPDIDX [24:16],
    }

    /// Segment descriptor command. Existing drivers use the CQP command
    /// UPDATE_PE_SDS instead, which carries the same formats.
    PFHMC_SDCMD = ReadOnly 0x52_0000, Pfr, "control-path 2.3" {
        /// Segment descriptor index.
        PMSDIDX [11:0],
        /// Partition select: 1 for the SDs of the protocol engine (control-path
        /// 6.3).
        PMSDPARTSEL [15],
        /// 1 writes the SD.
        PMSDWR [31],
    }

    /// Segment descriptor, bits 31:0; see PFHMC_SDCMD.
    PFHMC_SDDATALOW = ReadOnly 0x52_0100, Pfr, "control-path 2.3" {
        /// The SD is valid.
        PMSDVALID [0],
        /// 0 paged, 1 direct (control-path 6.1).
        PMSDTYPE [1],
        /// Number of backing pages: 512 (control-path 6.1).
        PMSDBPCOUNT [11:2],
        /// Address bits 31:12.
        PMSDDATALOW [31:12],
    }

    /// Segment descriptor, bits 63:32; see PFHMC_SDCMD.
    PFHMC_SDDATAHIGH = ReadOnly 0x52_0200, Pfr, "control-path 2.3" {
        /// Address bits 63:32.
        PMSDDATAHIGH [31:0],
    }

    /// What the host memory cache found wrong. The meanings of type and object
    /// are not in the sources.
    PFHMC_ERRORINFO = ReadOnly 0x52_0400, Pfr, "control-path 2.3" {
        PMF_INDEX [4:0],
        PMF_ISVF [7],
        HMC_ERROR_TYPE [11:8],
        HMC_OBJECT_TYPE [20:16],
        ERROR_DETECTED [31],
    }

    /// Detail of PFHMC_ERRORINFO; its meaning is not in the sources.
    PFHMC_ERRORDATA = ReadOnly 0x52_0500, Pfr, "control-path 2.3" {
        HMC_ERROR_DATA [29:0],
    }

    /// Second address of PFHMC_PDINV.
    PFHMC_PDINV_FPMAT = WriteOnly 0x10_0300, Pfr, "control-path 2.3" {
        /// Segment descriptor index.
        PMSDIDX [11:0],
        /// Partition select: 1 for the SDs of the protocol engine (control-path
        /// 6.3).
        PMSDPARTSEL [15],
        /// Page descriptor index, relative to its SD.
        PMPDIDX [24:16],
    }

    /// Second address of PFHMC_SDCMD.
    PFHMC_SDCMD_FPMAT = ReadOnly 0x10_0000, Pfr, "control-path 2.3" {
        /// Segment descriptor index.
        PMSDIDX [11:0],
        /// Partition select: 1 for the SDs of the protocol engine (control-path
        /// 6.3).
        PMSDPARTSEL [15],
        PMSDWR [31],
    }

    /// Second address of PFHMC_SDDATALOW.
    PFHMC_SDDATALOW_FPMAT = ReadOnly 0x10_0100, Pfr, "control-path 2.3" {
        /// The SD is valid.
        PMSDVALID [0],
        /// 0 paged, 1 direct (control-path 6.1).
        PMSDTYPE [1],
        /// Number of backing pages: 512 (control-path 6.1).
        PMSDBPCOUNT [11:2],
        /// Address bits 31:12.
        PMSDDATALOW [31:12],
    }

    /// Second address of PFHMC_SDDATAHIGH.
    PFHMC_SDDATAHIGH_FPMAT = ReadOnly 0x10_0200, Pfr, "control-path 2.3" {
        /// Address bits 63:32.
        PMSDDATAHIGH [31:0],
    }

    /// Second address of PFHMC_ERRORINFO.
    PFHMC_ERRORINFO_FPMAT = ReadOnly 0x10_0400, Pfr, "control-path 2.3" {
        PMF_INDEX [4:0],
        PMF_ISVF [7],
        HMC_ERROR_TYPE [11:8],
        HMC_OBJECT_TYPE [20:16],
        ERROR_DETECTED [31],
    }

    /// Second address of PFHMC_ERRORDATA.
    PFHMC_ERRORDATA_FPMAT = ReadOnly 0x10_0500, Pfr, "control-path 2.3" {
        HMC_ERROR_DATA [29:0],
    }
}
