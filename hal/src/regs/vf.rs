//! What a virtual function sees: **not in the PF's BAR0**.
//!
//! The offsets count from the start of a VF's own BAR0, so these constants give
//! offsets and nothing else. Their fields are those of the PF's registers.

use crate::bus::Index;

registers! {
    in VfBar0;

    /// GLINT_DYN_CTL of the VF.
    VFINT_DYN_CTLN = Trigger 0x3800 [Index<63>; 4; 63], Corer, "control-path 2.3; registers.json" {
        INTENA [0],
        CLEARPBA [1],
        SWINT_TRIG [2],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [4:3],
        INTERVAL [16:5],
        SW_ITR_INDX_ENA [24],
        SW_ITR_INDX [26:25],
        WB_ON_ITR [30],
        INTENA_MSK [31],
    }

    /// PFPE_CQPTAIL of the VF.
    VFPE_CQPTAIL1 = ReadWrite 0xA000, Vfr, "control-path 2.3; registers.json" {
        WQTAIL [10:0],
        CQP_OP_ERR [31],
    }

    /// PFPE_CQPDB of the VF.
    VFPE_CQPDB1 = WriteOnly 0xBC00, Vfr, "vf-path 3" {
        WQHEAD [10:0],
    }

    /// PFPE_CCQPSTATUS of the VF.
    VFPE_CCQPSTATUS1 = ReadWrite 0xB800, Vfr, "vf-path 3" {
        CCQP_DONE [0],
        HMC_PROFILE [6:4],
        RDMA_EN_VFS [21:16],
        CCQP_ERR [31],
    }

    /// PFPE_CCQPHIGH of the VF.
    VFPE_CCQPHIGH1 = WriteOnly 0x9800, Vfr, "vf-path 3" {
        PECCQPHIGH [31:0],
    }

    /// PFPE_CCQPLOW of the VF.
    VFPE_CCQPLOW1 = WriteOnly 0xAC00, Vfr, "vf-path 3" {
        PECCQPLOW [31:0],
    }

    /// PFPE_CQARM of the VF.
    VFPE_CQARM1 = WriteOnly 0xB400, Vfr, "vf-path 3" {
        PECQID [18:0],
    }

    /// PFPE_CQACK of the VF.
    VFPE_CQACK1 = WriteOnly 0xB000, Vfr, "vf-path 3" {
        PECQID [18:0],
    }

    /// PFPE_AEQALLOC of the VF.
    VFPE_AEQALLOC1 = WriteOnly 0xA400, Vfr, "vf-path 3" {
        AECOUNT [31:0],
    }

    /// PFPE_CQPERRCODES of the VF.
    VFPE_CQPERRCODES1 = ReadOnly 0x9C00, Vfr, "vf-path 3" {
        CQP_MINOR_CODE [15:0],
        CQP_MAJOR_CODE [31:16],
    }

    /// PFPE_WQEALLOC of the VF.
    VFPE_WQEALLOC1 = WriteOnly 0xC000, Vfr, "vf-path 3" {
        PEQPID [17:0],
        WQE_DESC_INDEX [31:20],
    }
}
