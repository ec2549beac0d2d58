//! Interrupt causes of the function that are not CEQs.

use crate::bus::VfId;

registers! {
    in Bar0;

    /// Other interrupt causes. Reading clears them; writing a 1 sets a cause.
    /// What is said of causes other than the RDMA ones comes from their names.
    PFINT_OICR = ReadClears 0x16_CA00, Corer, "control-path 2.6" {
        /// Event pending (meaning from the name).
        INTEVENT [0],
        QUEUE [1],
        /// Timestamp of a transmission is there.
        TSYN_TX [11],
        TSYN_EVNT [12],
        TSYN_TGT [13],
        HLP_RDY [14],
        CPM_RDY [15],
        /// Memory error.
        ECC_ERR [16],
        RSV2 [18:17],
        /// Malicious driver detected.
        MAL_DETECT [19],
        /// A global reset was requested.
        GRST [20],
        /// PCI error.
        PCI_EXCEPTION [21],
        GPIO [22],
        RSV3 [23],
        STORM_DETECT [24],
        /// Link state changed.
        LINK_STAT_CHANGE [25],
        /// Host memory cache error: request a PF reset.
        HMC_ERR [26],
        /// Push error: request a PF reset.
        PE_PUSH [27],
        /// Critical protocol engine error: read GLPE_CRITERR.
        PE_CRITERR [28],
        /// A VF had a function-level reset.
        VFLR [29],
        XLR_HW_DONE [30],
        /// Software interrupt.
        SWINT [31],
    }

    /// Which other causes may interrupt; see [`OICR_ENABLED`].
    PFINT_OICR_ENA = ReadWrite 0x16_C900, Corer, "control-path 2.6" {
        RSV0 [0],
        /// Bit n of the register enables cause n.
        INT_ENA [31:1],
    }

    /// Vector of the other causes.
    PFINT_OICR_CTL = ReadWrite 0x16_CA80, Corer, "control-path 2.6" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Vector of the asynchronous event queue; layout of GLINT_CEQCTL, values
    /// [`CAUSE_ENABLED`](super::CAUSE_ENABLED) and
    /// [`CAUSE_DISABLED`](super::CAUSE_DISABLED).
    PFINT_AEQCTL = ReadWrite 0x16_CB00, Corer, "control-path 2.2, 2.4" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Vector of the AdminQ.
    PFINT_FW_CTL = ReadWrite 0x16_C800, Corer, "control-path 2.6" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Vector of the mailbox between PF and VFs.
    PFINT_MBX_CTL = ReadWrite 0x16_B280, Corer, "control-path 2.6" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Vector of the sideband queue.
    PFINT_SB_CTL = ReadWrite 0x16_B600, Corer, "control-path 2.6" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Device-global vectors of this PF.
    PFINT_ALLOC = ReadOnly 0x1D_2600, Corer, "control-path 1.3, 2.6" {
        /// First vector, device-global.
        FIRST [10:0],
        /// Last vector, device-global.
        LAST [22:12],
        /// The range is assigned.
        VALID [31],
    }

    /// As PFINT_ALLOC, but cleared by a PCI reset only.
    PFINT_ALLOC_PCI = ReadOnly 0x9_D800, Pcir, "control-path 1.3, 2.6" {
        /// First vector, device-global.
        FIRST [10:0],
        /// Last vector, device-global.
        LAST [22:12],
        /// The range is assigned.
        VALID [31],
    }

    /// Device-global vectors of a VF. Written by drivers that have VFs.
    VPINT_ALLOC = ReadOnly 0x1D_1000 [VfId; 4; 255], Corer, "control-path 1.3; registers.json" {
        /// First vector, device-global.
        FIRST [10:0],
        /// Last vector, device-global.
        LAST [22:12],
        /// The range is assigned.
        VALID [31],
    }
}

/// PFINT_OICR_ENA: the causes existing drivers enable, value 0x3C390000
/// (control-path 2.6).
pub const OICR_ENABLED: u32 = PFINT_OICR::ECC_ERR::SET.value
    | PFINT_OICR::MAL_DETECT::SET.value
    | PFINT_OICR::GRST::SET.value
    | PFINT_OICR::PCI_EXCEPTION::SET.value
    | PFINT_OICR::VFLR::SET.value
    | OICR_RDMA;

/// PFINT_OICR: the causes that concern RDMA, value 0x1C000000 (control-path
/// 2.6).
pub const OICR_RDMA: u32 = PFINT_OICR::HMC_ERR::SET.value
    | PFINT_OICR::PE_PUSH::SET.value
    | PFINT_OICR::PE_CRITERR::SET.value;
