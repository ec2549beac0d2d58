//! Packet filter of the protocol engine.
//!
//! Firmware writes these registers, from the DDP package and AdminQ commands; existing drivers
//! never do. Their meanings come from their names.

use crate::bus::{Index, VsiId};

registers! {
    in Bar0;

    /// Filter enable of a VSI. Set through the AdminQ command Update VSI
    /// (control-path 9.9) `[inf filter_register]`.
    VSIQF_PE_CTL1 = ReadOnly 0x41_4000 [VsiId; 4; 767], Corer, "control-path 2.2, 2.10" {
        PE_FLTENA [0],
    }

    /// Filter enable of the PF.
    PFQF_PE_FILTERING_ENA = ReadOnly 0x43_A080, Corer, "control-path 2.10" {
        PE_ENA [0],
    }

    /// Flow director enable of the PF.
    PFQF_FD_ENA = ReadOnly 0x43_A000, Corer, "registers.json" {
        FD_ENA [0],
    }

    /// Hash table size.
    PFQF_PE_CTL1 = ReadOnly 0x47_0000, Corer, "control-path 2.10" {
        PEHSIZE [3:0],
    }

    /// Data size.
    PFQF_PE_CTL2 = ReadOnly 0x47_0040, Corer, "control-path 2.10" {
        PEDSIZE [3:0],
    }

    /// Traffic classes of the filter.
    PFQF_PE_TC_CTL = ReadOnly 0x45_2080, Corer, "control-path 2.10" {
        TC_EN_PF [7:0],
        TC_EN_VF [23:16],
    }

    /// What the filter counts.
    PFQF_PE_ST_CTL = ReadOnly 0x47_0400, Corer, "control-path 2.10" {
        PF_CNT_EN [0],
        VFS_CNT_EN [1],
        VF_CNT_EN [2],
        VF_NUM [23:16],
    }

    /// Buckets in use.
    PFQF_PECNT_0 = ReadOnly 0x47_0200, Corer, "control-path 2.10" {
        BUCKETCNT [17:0],
    }

    /// Filters in use.
    PFQF_PECNT_1 = ReadOnly 0x47_0300, Corer, "control-path 2.10" {
        FLTCNT [17:0],
    }

    /// Hits on short bucket chains (meaning from the name).
    PFQF_PE_CLSN0 = ReadOnly 0x47_0480, Corer, "control-path 2.10" {
        HITSBCNT [31:0],
    }

    /// Hits on long bucket chains (meaning from the name).
    PFQF_PE_CLSN1 = ReadOnly 0x47_0500, Corer, "control-path 2.10" {
        HITLBCNT [31:0],
    }

    /// Head of the free list.
    PFQF_PE_FLHD = ReadOnly 0x47_0100, Corer, "control-path 2.10" {
        FLHD [23:0],
    }

    /// Which chains count as long (meaning from the name).
    GLQF_PE_CTL = ReadOnly 0x47_10C0, Corer, "control-path 2.10" {
        PELONG [3:0],
    }

    /// Treatment of a filter profile.
    GLQF_PE_CTL2 = ReadOnly 0x45_5200 [Index<31>; 4; 31], Corer, "control-path 2.10" {
        TO_QH [1:0],
        APBVT_ENA [2],
    }

    /// Status of the last add or remove.
    GLQF_PE_CMD = ReadOnly 0x47_1080, Corer, "control-path 2.10" {
        ADDREM_STS [23:0],
        ADDREM_ID [31:28],
    }

    /// Field-vector word enable.
    GLQF_PE_FVE = ReadOnly 0x20_E514, Corer, "control-path 2.10" {
        W_ENA [23:0],
    }

    /// Most outstanding requests seen.
    GLQF_PE_OSR_STS = ReadOnly 0x47_1040, Corer, "control-path 2.10" {
        QH_SRCH_MAXOSR [9:0],
        QH_CMD_MAXOSR [25:16],
    }

    /// Count of the accelerated port table.
    GLQF_PE_APBVT_CNT = ReadOnly 0x45_5500, Corer, "control-path 2.10" {
        APBVT_LAN [31:0],
    }

    /// Accelerated port bit vector table: port p is bit p mod 32 of word p / 32
    /// `[inf port_table_bits]`. Managed with a CQP command.
    GLQF_APBVT = ReadOnly 0x45_0000 [Index<2047>; 4; 2047], Corer, "control-path 2.10" {
        APBVT [31:0],
    }

    /// Input set of a profile: which field-vector words it compares.
    GLQF_PEINSET = ReadOnly 0x41_5000 [Index<31>; 4; 31] [Index<5>; 128; 5], Corer, "control-path 2.10" {
        FV_WORD_INDX0 [4:0],
        FV_WORD_VAL0 [7],
        FV_WORD_INDX1 [12:8],
        FV_WORD_VAL1 [15],
        FV_WORD_INDX2 [20:16],
        FV_WORD_VAL2 [23],
        FV_WORD_INDX3 [28:24],
        FV_WORD_VAL3 [31],
    }

    /// A mask over a field-vector word.
    GLQF_PEMASK = ReadOnly 0x41_5400 [Index<15>; 4; 15], Corer, "control-path 2.10" {
        MSK_INDEX [4:0],
        MASK [31:16],
    }

    /// Masks of a profile.
    GLQF_PEMASK_SEL = ReadOnly 0x41_5500 [Index<31>; 4; 31], Corer, "control-path 2.10" {
        MASK_SEL [15:0],
    }

    /// Clears the filter table of a function.
    GLQF_PETABLE_CLR = ReadOnly 0xA_A078 [Index<1>; 4; 1], Corer, "control-path 2.10" {
        VM_VF_NUM [9:0],
        VM_VF_TYPE [11:10],
        PF_NUM [14:12],
        PE_BUSY [16],
        PE_CLEAR [17],
    }
}
