//! Protocol engine of the whole device: readiness, errors, drop counters.
//!
//! The engine is ready when the three `GLPE_CPUSTATUS` registers hold [`CPU_READY`]. For MDQ,
//! PEPM, PSQ, TSCD and the object caches the sources give only the registers.

use crate::bus::{Index, PfId};

registers! {
    in Bar0;

    /// State of protocol engine CPU 0; [`CPU_READY`] when it runs.
    GLPE_CPUSTATUS0 = ReadOnly 0x50_BA5C, Corer, "control-path 2.2" {
        PECPUSTATUS0 [31:0],
    }

    /// State of protocol engine CPU 1; [`CPU_READY`] when it runs.
    GLPE_CPUSTATUS1 = ReadOnly 0x50_BA60, Corer, "control-path 2.2" {
        PECPUSTATUS1 [31:0],
    }

    /// State of protocol engine CPU 2; [`CPU_READY`] when it runs.
    GLPE_CPUSTATUS2 = ReadOnly 0x50_BA64, Corer, "control-path 2.2" {
        PECPUSTATUS2 [31:0],
    }

    /// Code of a critical error; read when PFINT_OICR.PE_CRITERR is set. Any
    /// code but [`CRITERR_Q1`] asks for a PF reset.
    GLPE_CRITERR = ReadOnly 0x53_4000, Unknown, "control-path 2.2" {
        CODE [31:0],
    }

    /// AEQEs dropped.
    GLPE_PFAEQEDROPCNT = ReadOnly 0x50_3240 [PfId; 4; 7], Corer, "control-path 2.3" {
        AEQEDROPCNT [15:0],
    }

    /// CEQEs dropped.
    GLPE_PFCEQEDROPCNT = ReadOnly 0x50_3220 [PfId; 4; 7], Corer, "control-path 2.3" {
        CEQEDROPCNT [15:0],
    }

    /// CQEs dropped.
    GLPE_PFCQEDROPCNT = ReadOnly 0x50_3200 [PfId; 4; 7], Corer, "control-path 2.3" {
        CQEDROPCNT [15:0],
    }

    /// Failed allocations from the free list of XF.
    GLPE_PFFLMXMITALLOCERR = ReadOnly 0x50_B900 [PfId; 4; 7], Corer, "control-path 2.3" {
        ERROR_COUNT [15:0],
    }

    /// Failed allocations from the free list of Q1.
    GLPE_PFFLMQ1ALLOCERR = ReadOnly 0x50_B920 [PfId; 4; 7], Corer, "control-path 2.3" {
        ERROR_COUNT [15:0],
    }

    /// Failed allocations from the free list of RRF.
    GLPE_PFFLMRRFALLOCERR = ReadOnly 0x50_B940 [PfId; 4; 7], Corer, "control-path 2.3" {
        ERROR_COUNT [15:0],
    }

    /// Failed allocations from the free list of OOISC.
    GLPE_PFFLMOOISCALLOCERR = ReadOnly 0x50_B960 [PfId; 4; 7], Corer, "control-path 2.3" {
        ERROR_COUNT [15:0],
    }

    /// 50 µs counter of the TCP clock (meaning from the name).
    GLPE_PFTCPNOW50USCNT = ReadOnly 0x50_B8C0 [PfId; 4; 7], Corer, "control-path 2.3" {
        CNT [31:0],
    }

    /// Invalidation of a function in the CQM (meaning from the name).
    GLPE_CQM_FUNC_INVALIDATE = ReadOnly 0x50_3300, Corer, "control-path 2.3" {
        PF_NUM [2:0],
        VM_VF_NUM [12:3],
        VM_VF_TYPE [14:13],
        ENABLE [31],
    }

    /// MDQ base.
    GLPE_MDQ_BASE = ReadOnly 0x53_6000 [Index<511>; 4; 511], Corer, "control-path 2.3" {
        MDOC_INDEX [27:0],
    }

    /// MDQ head and tail.
    GLPE_MDQ_PTR = ReadOnly 0x53_7000 [Index<511>; 4; 511], Corer, "control-path 2.3" {
        MDQ_HEAD [13:0],
        MDQ_TAIL [29:16],
    }

    /// MDQ size.
    GLPE_MDQ_SIZE = ReadOnly 0x53_6800 [Index<511>; 4; 511], Corer, "control-path 2.3" {
        MDQ_SIZE [13:0],
    }

    /// Receive data path. Intel's FreeBSD driver sets the field to 3 when it
    /// starts the engine, Linux does not touch it, and no source says why; here
    /// it is only read (name from the list of another driver).
    GL_RDPU_CNTRL = ReadOnly 0x5_2054, Corer, "field-evidence 7" {
        PE_ACK_REQ_PM_TH [15:10],
    }

    /// PEPM enable and halt.
    GLPE_PEPM_CTRL = ReadOnly 0x50_C000, Perst, "control-path 2.3" {
        PEPM_ENABLE [0],
        PEPM_HALT [8],
        PEPM_PUSH_MARGIN [23:16],
    }

    /// PEPM deallocation: credits of a queue.
    GLPE_PEPM_DEALLOC = ReadOnly 0x50_C004, Perst, "control-path 2.3" {
        MDQ_CREDITS [13:0],
        PSQ_CREDITS [18:14],
        PQID [27:19],
        PORT [30:28],
        DEALLOC_RDY [31],
    }

    /// PEPM count of PSQs.
    GLPE_PEPM_PSQ_COUNT = ReadOnly 0x50_C020, Perst, "control-path 2.3" {
        PEPM_PSQ_COUNT [15:0],
    }

    /// PEPM thresholds of a PSQ and an MDQ.
    GLPE_PEPM_THRESH = ReadOnly 0x50_C840 [Index<511>; 4; 511], Perst, "control-path 2.3" {
        PEPM_PSQ_THRESH [4:0],
        PEPM_MDQ_THRESH [29:16],
    }

    /// MDQ credits between push and PEPM.
    GLPE_PUSH_PEPM = ReadOnly 0x53_241C, Corer, "control-path 2.3" {
        MDQ_CREDITS [7:0],
    }

    /// TSCD drain at a function-level reset (meaning from the name).
    GLPE_TSCD_FLR = ReadOnly 0x51_E24C [Index<3>; 4; 3], Corer, "control-path 2.3" {
        DRAIN_VCTR_ID [1:0],
        PORT [4:2],
        PF_NUM [7:5],
        VM_VF_TYPE [9:8],
        VM_VF_NUM [25:16],
        VLD [31],
    }

    /// MDQ credits between TSCD and PEPM.
    GLPE_TSCD_PEPM = ReadOnly 0x51_E228, Corer, "control-path 2.3" {
        MDQ_CREDITS [7:0],
    }

    /// Shape of a cache (meaning from the name).
    GLPEOC0_CACHESIZE = ReadOnly 0x51_40A8, Corer, "control-path 2.3" {
        WORD_SIZE [7:0],
        SETS [19:8],
        WAYS [23:20],
    }

    /// Shape of a cache (meaning from the name).
    GLPEOC1_CACHESIZE = ReadOnly 0x51_60A8, Corer, "control-path 2.3" {
        WORD_SIZE [7:0],
        SETS [19:8],
        WAYS [23:20],
    }
}

/// GLPE_CPUSTATUS0..2 when the protocol engine is ready. Other values are not
/// in the sources (control-path 2.2, 3.1).
pub const CPU_READY: u32 = 0x80;

/// GLPE_CRITERR: a Q1 resource error, which is only logged; any other code
/// asks for a PF reset (control-path 2.2).
pub const CRITERR_Q1: u32 = 0x0001_024D;
