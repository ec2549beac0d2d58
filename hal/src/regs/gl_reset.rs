//! Resets, and the registers to wait for afterwards.
//!
//! A PF reset clears `PFPE_*` and `PFHMC_*`; `GLINT_*`, `GLHMC_*`,
//! PFINT_AEQCTL and VSIQF_PE_CTL1 need a core reset (control-path 9.2).

registers! {
    in Bar0;

    /// PF reset.
    PFGEN_CTRL = Trigger 0x9_1000, Corer, "control-path 2.7, 9.2" {
        /// Written 1: resets the PF. Reads 0 when the reset is done.
        PFSWR [0],
    }

    /// State of the PF reset (meaning from the name).
    PFGEN_PFRSTAT = ReadOnly 0x9_1080, Corer, "control-path 2.7" {
        PFRD [0],
    }

    /// Driver unload (meaning from the name).
    PFGEN_DRUN = ReadOnly 0x9_1180, Corer, "control-path 2.7" {
        DRVUNLD [0],
    }

    /// State of the global resets.
    GLGEN_RSTAT = ReadOnly 0xB_8188, Por, "control-path 2.7, 9.2" {
        /// 0: no global reset is running.
        DEVSTATE [1:0],
        RESET_TYPE [3:2] = [Corer = 1, Globr = 2, Empr = 3],
        CORERCNT [5:4],
        GLOBRCNT [7:6],
        EMPRCNT [9:8],
        TIME_TO_RST [15:10],
        RTRIG_FLR [16],
        RTRIG_ECC [17],
        RTRIG_FW_AUX [18],
    }

    /// Control of the global resets.
    GLGEN_RSTCTL = ReadOnly 0xB_8180, Por, "control-path 2.7, 9.2" {
        /// Delay before a global reset, in units of
        /// [`GRSTDEL_UNIT_MS`](super::super::GRSTDEL_UNIT_MS).
        GRSTDEL [5:0],
        ECC_RST_ENA [8],
        ECC_RT_EN [30],
        FLR_RT_EN [31],
    }

    /// Starts a core, global or firmware reset.
    GLGEN_RTRIG = Trigger 0xB_8190, Corer, "control-path 2.7, 9.2" {
        CORER [0],
        GLOBR [1],
        EMPFWR [2],
    }

    /// Which units have loaded their configuration after a reset; see
    /// [`ULD_DONE`].
    GLNVM_ULD = ReadOnly 0xB_6008, Por, "control-path 2.7, 9.2" {
        PCIER_DONE [0],
        PCIER_DONE_1 [1],
        CORER_DONE [3],
        GLOBR_DONE [4],
        POR_DONE [5],
        POR_DONE_1 [8],
        PCIER_DONE_2 [9],
        PE_DONE [10],
        HLP_CORE_DONE [11],
        HLP_FULL_DONE [12],
    }

    /// State of the firmware. Existing drivers also read recovery mode from it,
    /// [`FWSM_RECOVERY`].
    GL_MNG_FWSM = ReadOnly 0xB_6134, Por, "control-path 2.7, 9.2" {
        /// Firmware is loading, in the existing drivers' reading. Overlaps RSV5
        /// of the register list: both are kept.
        FW_LOADING [30],
        EEP_RELOAD_IND [10],
        RSV1 [14:11],
        RSV2 [15],
        PCIR_AL_FAILURE [16],
        POR_AL_FAILURE [17],
        RSV3 [18],
        EXT_ERR_IND [24:19],
        RSV4 [25],
        RESERVED_11 [29:26],
        RSV5 [31:30],
    }
}

/// Unit of GLGEN_RSTCTL.GRSTDEL in ms (control-path 2.7).
pub const GRSTDEL_UNIT_MS: u32 = 100;

/// GLNVM_ULD: the bits that are all set once a reset is over, value 0x33B
/// (control-path 2.7, 9.2).
pub const ULD_DONE: u32 = GLNVM_ULD::PCIER_DONE::SET.value
    | GLNVM_ULD::PCIER_DONE_1::SET.value
    | GLNVM_ULD::CORER_DONE::SET.value
    | GLNVM_ULD::GLOBR_DONE::SET.value
    | GLNVM_ULD::POR_DONE::SET.value
    | GLNVM_ULD::POR_DONE_1::SET.value
    | GLNVM_ULD::PCIER_DONE_2::SET.value;

/// GLNVM_ULD: [`ULD_DONE`] and PE_DONE, awaited when the function is known to
/// be capable of RDMA: value 0x73B (control-path 2.7, 9.2).
pub const ULD_DONE_RDMA: u32 = ULD_DONE | GLNVM_ULD::PE_DONE::SET.value;

/// GL_MNG_FWSM: firmware runs in recovery mode (bit 1 of the FW_MODES field
/// \[2:0\] that existing drivers know and the register list does not name;
/// control-path 2.7).
pub const FWSM_RECOVERY: u32 = 1 << 1;
