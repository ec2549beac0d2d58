//! LAN-side registers that drivers access and that do not affect the RDMA engine.
//!
//! Names, bounds and reset sources are from the full register list (`ice_hw_autogen.h` of DPDK's
//! ice driver). The selection follows the ice driver of Linux 6.12: every register that its header
//! of that name defines, except those that lan-path 16.1 leaves out, and those of its register
//! dump, whose reset source is `[inf dump_reset]` (lan-path 20.1). These registers keep what is
//! written; the few with side effects are in [`bar`](crate::bar). The last two belong to the
//! engine: FreeBSD's irdma writes them before it starts the engine, and their reset source is
//! `[inf freebsd_reset]` (field-evidence 7). A 40-bit counter is a row of two elements for each
//! instance, low half first.

use e810_hal::RegOffset;
use e810_hal::reg::{AccessKind, IndexInfo};
use e810_hal::regs::{Element, FieldInfo, RegInfo, Reset, Space};

/// No bit of these registers is known to be undefined.
const ALL_BITS: &[FieldInfo] = &[FieldInfo {
    name: "VALUE",
    hi: 31,
    lo: 0,
}];

macro_rules! registers {
    ($($name:ident = $offset:literal, [$(($stride:literal, $max:literal)),*], $reset:ident;)+) => {
        &[$(RegInfo {
            name: stringify!($name),
            space: Space::Bar0,
            offset: $offset,
            index: &[$(IndexInfo { stride: $stride, max: $max }),*],
            reset: Reset::$reset,
            access: AccessKind::ReadWrite,
            fields: ALL_BITS,
            source: "ice_hw_autogen.h",
        }),+]
    };
}

/// All of them, by offset.
pub(super) static TABLE: &[RegInfo] = registers! {
    VP_MDET_TX_TDPU = 0x4_0000, [(4, 255)], Corer;
    GLTDPU_TCB_CMD_BOB = 0x4_975C, [(4, 8)], Corer;
    GLTDPU_TCLAN_COMP_BOB = 0x4_9ADC, [(4, 8)], Corer;
    GLTDPU_PSM_UPDATE_BOB = 0x4_9B5C, [(4, 8)], Corer;
    VPLAN_RX_QBASE = 0x7_2000, [(4, 255)], Corer;
    VPLAN_RXQ_MAPENA = 0x7_3000, [(4, 255)], Corer;
    VPLAN_TXQ_MAPENA = 0x7_3800, [(4, 255)], Corer;
    PRTDCB_GENC = 0x8_3000, [], Corer;
    PRTDCB_GENS = 0x8_3020, [], Corer;
    GLGEN_GPIO_CTL = 0x8_80C8, [(4, 6)], Por;
    PFTSYN_SEM = 0x8_8880, [], Pfr;
    VPGEN_VFRTRIG = 0x9_0000, [(4, 255)], Corer;
    VPGEN_VFRSTAT = 0x9_0800, [(4, 255)], Corer;
    GLGEN_VFLRSTAT = 0x9_3A04, [(4, 7)], Corer;
    VPINT_ALLOC_PCI = 0x9_D000, [(4, 255)], Pcir;
    PFPM_WUS = 0x9_DB80, [], Por;
    PFPM_WUFC = 0x9_DC00, [], Por;
    GLPCI_PCIERR = 0x9_DEB0, [], Corer;
    PF_PCI_CIAD = 0x9_E500, [], Flr;
    PF_PCI_CIAA = 0x9_E580, [], Flr;
    PRTDCB_TLPM_REG_DM = 0xA_0000, [(4, 3)], Corer;
    TCDCB_TLPM_WAIT_DM = 0xA_0080, [(4, 31)], Corer;
    GLDCB_TLPM_PCI_DM = 0xA_0180, [], Corer;
    GLDCB_TLPM_TC2PFC = 0xA_0194, [], Corer;
    PFHH_SEM = 0xA_4200, [], Pfr;
    PRTRPB_RDPC = 0xA_C260, [], Corer;
    GLTCB_CMD_IN_BOB = 0xA_E288, [(4, 8)], Corer;
    GLPSM_DEBUG_CTL_STATUS = 0xB_0600, [], Corer;
    GLPSM0_DEBUG_FIFO_OVERFLOW_DETECT = 0xB_0680, [], Corer;
    GLPSM0_DEBUG_FIFO_UNDERFLOW_DETECT = 0xB_0684, [], Corer;
    GLPSM0_DEBUG_DT_OUT_OF_WINDOW = 0xB_0688, [], Corer;
    GLPSM0_DEBUG_INTF_HW_ERROR_DETECT = 0xB_069C, [], Corer;
    GLPSM0_DEBUG_MISC_HW_ERROR_DETECT = 0xB_06A0, [], Corer;
    GLPSM1_DEBUG_FIFO_OVERFLOW_DETECT = 0xB_0E80, [], Corer;
    GLPSM1_DEBUG_FIFO_UNDERFLOW_DETECT = 0xB_0E84, [], Corer;
    GLPSM1_DEBUG_SRL_FIFO_OVERFLOW_DETECT = 0xB_0E88, [], Corer;
    GLPSM1_DEBUG_SRL_FIFO_UNDERFLOW_DETECT = 0xB_0E8C, [], Corer;
    GLPSM1_DEBUG_MISC_HW_ERROR_DETECT = 0xB_0E90, [], Corer;
    GLPSM2_DEBUG_FIFO_OVERFLOW_DETECT = 0xB_1680, [], Corer;
    GLPSM2_DEBUG_FIFO_UNDERFLOW_DETECT = 0xB_1684, [], Corer;
    GLPSM2_DEBUG_MISC_HW_ERROR_DETECT = 0xB_1688, [], Corer;
    GLGEN_STAT = 0xB_612C, [], Por;
    PFPM_APM = 0xB_8080, [], Por;
    PRTGEN_STATUS = 0xB_8100, [], Por;
    GLGEN_MAC_LINK_TOPO = 0xB_81DC, [], Corer;
    PRTDCB_TCUPM_REG_CM = 0xB_C360, [(4, 3)], Corer;
    PRTDCB_TCUPM_REG_DM = 0xB_C3A0, [(4, 3)], Corer;
    GLPCI_CNF2 = 0xB_E004, [], Pcir;
    GLPCI_CUR_CLNT_COMMON = 0xB_FD84, [], Corer;
    GLPCI_CUR_CLNT_PIPEMON = 0xB_FD88, [], Corer;
    GLPCI_WATMK_CLNT_PIPEMON = 0xB_FD90, [], Corer;
    VP_MDET_TX_TCLAN = 0xF_B800, [(4, 255)], Corer;
    PF_MDET_TX_TCLAN = 0xF_C000, [], Corer;
    GL_MDET_TX_TCLAN = 0xF_C068, [], Corer;
    GLLAN_TCLAN_FETCH_CTL_FBK_BOB_CTL = 0xF_C148, [(4, 8)], Corer;
    GLLAN_TCLAN_FETCH_CTL_PROC_BOB_CTL = 0xF_C188, [(4, 8)], Corer;
    GLLAN_TCLAN_CACHE_CTL_BOB_CTL = 0xF_C1C8, [(4, 8)], Corer;
    GLLAN_TCLAN_FETCH_CTL_SCHED_BOB_CTL = 0xF_C248, [(4, 8)], Corer;
    GLLAN_TCLAN_FETCH_CTL_PCIE_RD_BOB_CTL = 0xF_C288, [(4, 8)], Corer;
    VPINT_MBX_CTL = 0x16_A000, [(4, 767)], Corer;
    PFINT_TSYN_MSK = 0x16_C980, [(4, 7)], Corer;
    VPLAN_TX_QBASE = 0x1D_1800, [(4, 255)], Corer;
    PF_MBX_ATQBAL = 0x22_E100, [], Corer;
    PF_MBX_ATQBAH = 0x22_E180, [], Corer;
    PF_MBX_ATQLEN = 0x22_E200, [], Pfr;
    PF_MBX_ATQH = 0x22_E280, [], Corer;
    PF_MBX_ATQT = 0x22_E300, [], Corer;
    PF_MBX_ARQBAL = 0x22_E380, [], Corer;
    PF_MBX_ARQBAH = 0x22_E400, [], Corer;
    PF_MBX_ARQLEN = 0x22_E480, [], Pfr;
    PF_MBX_ARQH = 0x22_E500, [], Corer;
    PF_MBX_ARQT = 0x22_E580, [], Corer;
    PF_SB_ATQBAL = 0x22_FC00, [], Corer;
    PF_SB_ATQBAH = 0x22_FC80, [], Corer;
    PF_SB_ATQLEN = 0x22_FD00, [], Pfr;
    PF_SB_ATQH = 0x22_FD80, [], Corer;
    PF_SB_ATQT = 0x22_FE00, [], Corer;
    PF_SB_ARQBAL = 0x22_FE80, [], Corer;
    PF_SB_ARQBAH = 0x22_FF00, [], Corer;
    PF_SB_ARQLEN = 0x22_FF80, [], Pfr;
    PF_SB_ARQH = 0x23_0000, [], Corer;
    PF_SB_ARQT = 0x23_0080, [], Corer;
    PF_SB_REM_DEV_CTL = 0x23_00F0, [], Corer;
    QRX_ITR = 0x29_2000, [(4, 2047)], Corer;
    GLLAN_RCTL_0 = 0x29_41F8, [], Corer;
    PF_MDET_RX = 0x29_4280, [], Corer;
    VP_MDET_RX = 0x29_4400, [(4, 255)], Corer;
    GL_MDET_RX = 0x29_4C00, [], Corer;
    GLV_RDPC = 0x29_4C04, [(4, 767)], Corer;
    VP_MDET_TX_PQM = 0x2D_2000, [(4, 255)], Corer;
    PF_MDET_TX_PQM = 0x2D_2C80, [], Corer;
    GL_MDET_TX_PQM = 0x2D_2E00, [], Corer;
    GLV_GOTC = 0x30_0000, [(4, 1535)], Corer;
    GLV_UPTC = 0x30_A000, [(4, 1535)], Corer;
    GLV_MPTC = 0x30_C000, [(4, 1535)], Corer;
    GLV_BPTC = 0x30_E000, [(4, 1535)], Corer;
    GLV_TEPC = 0x31_2000, [(4, 767)], Corer;
    GLSWID_RUPP = 0x34_5000, [(4, 255)], Corer;
    GLPRT_GORC = 0x38_0000, [(4, 15)], Corer;
    GLPRT_MLFC = 0x38_0040, [(8, 7)], Corer;
    GLPRT_MRFC = 0x38_0080, [(8, 7)], Corer;
    GLPRT_CRCERRS = 0x38_0100, [(8, 7)], Corer;
    GLPRT_RLEC = 0x38_0140, [(8, 7)], Corer;
    GLPRT_ILLERRC = 0x38_01C0, [(8, 7)], Corer;
    GLPRT_RUC = 0x38_0200, [(8, 7)], Corer;
    GLPRT_ROC = 0x38_0240, [(8, 7)], Corer;
    GLPRT_LXONRXC = 0x38_0280, [(8, 7)], Corer;
    GLPRT_LXOFFRXC = 0x38_02C0, [(8, 7)], Corer;
    GLPRT_PXONRXC = 0x38_0300, [(8, 7), (64, 7)], Corer;
    GLPRT_PXOFFRXC = 0x38_0500, [(8, 7), (64, 7)], Corer;
    GLPRT_RXON2OFFCNT = 0x38_0700, [(8, 7), (64, 7)], Corer;
    GLPRT_PRC64 = 0x38_0900, [(4, 15)], Corer;
    GLPRT_PRC127 = 0x38_0940, [(4, 15)], Corer;
    GLPRT_PRC255 = 0x38_0980, [(4, 15)], Corer;
    GLPRT_PRC511 = 0x38_09C0, [(4, 15)], Corer;
    GLPRT_PRC1023 = 0x38_0A00, [(4, 15)], Corer;
    GLPRT_PRC1522 = 0x38_0A40, [(4, 15)], Corer;
    GLPRT_PRC9522 = 0x38_0A80, [(4, 15)], Corer;
    GLPRT_RFC = 0x38_0AC0, [(8, 7)], Corer;
    GLPRT_RJC = 0x38_0B00, [(8, 7)], Corer;
    GLPRT_GOTC = 0x38_0B40, [(4, 15)], Corer;
    GLPRT_PTC64 = 0x38_0B80, [(4, 15)], Corer;
    GLPRT_PTC127 = 0x38_0BC0, [(4, 15)], Corer;
    GLPRT_PTC255 = 0x38_0C00, [(4, 15)], Corer;
    GLPRT_PTC511 = 0x38_0C40, [(4, 15)], Corer;
    GLPRT_PTC1023 = 0x38_0C80, [(4, 15)], Corer;
    GLPRT_PTC1522 = 0x38_0CC0, [(4, 15)], Corer;
    GLPRT_PTC9522 = 0x38_0D00, [(4, 15)], Corer;
    GLPRT_PXONTXC = 0x38_0D40, [(8, 7), (64, 7)], Corer;
    GLPRT_PXOFFTXC = 0x38_0F40, [(8, 7), (64, 7)], Corer;
    GLPRT_LXONTXC = 0x38_1140, [(8, 7)], Corer;
    GLPRT_LXOFFTXC = 0x38_1180, [(8, 7)], Corer;
    GLPRT_UPTC = 0x38_11C0, [(4, 15)], Corer;
    GLPRT_MPTC = 0x38_1200, [(4, 15)], Corer;
    GLPRT_BPTC = 0x38_1240, [(4, 15)], Corer;
    GLPRT_TDOLD = 0x38_1280, [(8, 7)], Corer;
    GLPRT_UPRC = 0x38_1300, [(4, 15)], Corer;
    GLPRT_MPRC = 0x38_1340, [(4, 15)], Corer;
    GLPRT_BPRC = 0x38_1380, [(4, 15)], Corer;
    GLSTAT_FD_CNT0 = 0x3A_0000, [(4, 8191)], Corer;
    GLV_GORC = 0x3B_0000, [(4, 1535)], Corer;
    GLV_UPRC = 0x3B_2000, [(4, 1535)], Corer;
    GLV_MPRC = 0x3B_4000, [(4, 1535)], Corer;
    GLV_BPRC = 0x3B_6000, [(4, 1535)], Corer;
    VSIQF_HASH_CTL = 0x40_D000, [(4, 767)], Corer;
    GLQF_HSYMM = 0x40_F000, [(4, 127), (512, 5)], Corer;
    GLQF_HMASK = 0x40_FC00, [(4, 31)], Corer;
    GLQF_HMASK_SEL = 0x41_0000, [(4, 127)], Corer;
    GLQF_FDMASK_SEL = 0x41_0400, [(4, 127)], Corer;
    GLQF_FDMASK = 0x41_0800, [(4, 31)], Corer;
    GLQF_FDINSET = 0x41_2000, [(4, 127), (512, 5)], Corer;
    GLQF_FDSWAP = 0x41_3000, [(4, 127), (512, 5)], Corer;
    GLFLXP_RXDID_FLX_WRD_0 = 0x45_C800, [(4, 63)], Corer;
    GLFLXP_RXDID_FLX_WRD_1 = 0x45_C900, [(4, 63)], Corer;
    GLFLXP_RXDID_FLX_WRD_2 = 0x45_CA00, [(4, 63)], Corer;
    GLFLXP_RXDID_FLX_WRD_3 = 0x45_CB00, [(4, 63)], Corer;
    GLFLXP_RXDID_FLAGS = 0x45_D000, [(4, 63), (256, 4)], Corer;
    GLQF_FD_SIZE = 0x46_0010, [], Corer;
    GLQF_FD_CNT = 0x46_0018, [], Corer;
    PFQF_FD_SIZE = 0x46_0100, [], Corer;
    VSIQF_FD_SIZE = 0x46_2000, [(4, 767)], Corer;
    VSIQF_FD_CNT = 0x46_4000, [(4, 767)], Pfr;
    GLPE_WQMTXIDXADDR = 0x50_E000, [], Corer;
    GLPE_WQMTXIDXDATA = 0x50_E004, [], Corer;
};

/// The register at `off`, if it is a LAN-side register.
pub(super) fn find(off: RegOffset) -> Option<Element> {
    TABLE
        .iter()
        .find_map(|register| register.element_at(off.get()))
}

/// Offsets of the registers that do more than keep what is written.
pub(crate) mod place {
    use e810_hal::RegOffset;

    pub(crate) const GL_PREEXT_L2_PMASK0: RegOffset = RegOffset::new(0x20_F0FC);
    pub(crate) const GL_PREEXT_L2_PMASK1: RegOffset = RegOffset::new(0x20_F108);
    pub(crate) const PRTDCB_GENS: RegOffset = RegOffset::new(0x8_3020);
    pub(crate) const GLQF_FD_SIZE: RegOffset = RegOffset::new(0x46_0010);
    pub(crate) const PFQF_FD_SIZE: RegOffset = RegOffset::new(0x46_0100);
    pub(crate) const GLQF_FD_CNT: RegOffset = RegOffset::new(0x46_0018);

    /// Elements of the queue registers: receive and transmit.
    const RX_QUEUES: u32 = 2048;
    const TX_QUEUES: u32 = 16384;

    fn element(off: RegOffset, base: u32, count: u32) -> Option<u16> {
        let at = off.get().checked_sub(base)?;
        (at < count * 4).then_some((at / 4) as u16)
    }

    /// GLFLXP_RXDID_FLAGS(`rxdid`, 0).
    pub(crate) const fn rxdid_flags(rxdid: u32) -> RegOffset {
        RegOffset::new(0x45_D000 + 4 * (rxdid & 63))
    }

    /// The receive queue whose QRX_CTRL is at `off`.
    pub(crate) fn rx_control(off: RegOffset) -> Option<u16> {
        element(off, 0x12_0000, RX_QUEUES)
    }

    /// The receive queue whose QRX_TAIL is at `off`.
    pub(crate) fn rx_tail(off: RegOffset) -> Option<u16> {
        element(off, 0x29_0000, RX_QUEUES)
    }

    /// QRX_TAIL of a receive queue.
    pub(crate) fn rx_tail_of(queue: u16) -> Option<RegOffset> {
        RegOffset::try_new(0x29_0000 + u32::from(queue) * 4)
    }

    /// QRX_CONTEXT(`dword`) of a receive queue.
    pub(crate) fn rx_context(dword: u32, queue: u16) -> Option<RegOffset> {
        RegOffset::try_new(0x28_0000 + dword * 0x2000 + u32::from(queue) * 4)
    }

    /// QRXFLXP_CNTXT of a receive queue.
    pub(crate) fn rx_profile(queue: u16) -> Option<RegOffset> {
        RegOffset::try_new(0x48_0000 + u32::from(queue) * 4)
    }

    /// QINT_RQCTL of a receive queue.
    pub(crate) fn rx_interrupt(queue: u16) -> Option<RegOffset> {
        RegOffset::try_new(0x15_0000 + u32::from(queue) * 4)
    }

    /// The transmit queue whose QTX_COMM_DBELL is at `off`.
    pub(crate) fn tx_doorbell(off: RegOffset) -> Option<u16> {
        element(off, 0x2C_0000, TX_QUEUES)
    }

    /// VSIQF_FD_CNT of a VSI.
    pub(crate) fn vsi_filters(vsi: u16) -> Option<RegOffset> {
        RegOffset::try_new(0x46_4000 + u32::from(vsi) * 4)
    }

    /// QTX_COMM_HEAD of a transmit queue.
    pub(crate) fn tx_head(queue: u16) -> Option<RegOffset> {
        RegOffset::try_new(0xE_0000 + u32::from(queue) * 4)
    }

    /// QINT_TQCTL of a transmit queue.
    pub(crate) fn tx_interrupt(queue: u16) -> Option<RegOffset> {
        RegOffset::try_new(0x14_0000 + u32::from(queue) * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use e810_hal::regs;

    #[test]
    fn no_register_is_here_and_with_the_engines() {
        for register in TABLE {
            let off = RegOffset::new(register.offset);
            assert_eq!(regs::find(off), None, "{}", register.name);
            assert_eq!(find(off).unwrap().register.name, register.name);
        }
    }

    #[test]
    fn elements_have_names() {
        let name = |off| find(RegOffset::new(off)).unwrap().to_string();
        assert_eq!(name(0x29_2010), "QRX_ITR(4)");
        assert_eq!(name(0x45_D104), "GLFLXP_RXDID_FLAGS(1, 1)");
        assert_eq!(name(0x38_0004), "GLPRT_GORC(1)");
        assert_eq!(place::rx_control(RegOffset::new(0x12_0010)), Some(4));
        assert_eq!(place::tx_doorbell(RegOffset::new(0x2C_0008)), Some(2));
        assert_eq!(place::tx_doorbell(RegOffset::new(0x2D_0000)), None);
    }
}
