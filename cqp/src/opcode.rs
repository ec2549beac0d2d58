//! CQP opcodes and their names.
//!
//! ```
//! use e810_cqp::Opcode;
//!
//! assert_eq!(Opcode::CreateCq.code(), 0x03);
//! assert_eq!(Opcode::from_code(0x16).to_string(), "CREATE_CEQ");
//! assert_eq!(Opcode::from_code(0x17).to_string(), "opcode 0x17");
//! ```

use core::fmt;

macro_rules! opcodes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)+) => {
        /// Six-bit opcode of a CQP WQE, header bits \[37:32\] (control-path 4.6).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub enum Opcode {
            $($(#[$doc])* $variant,)+
            /// An opcode that control-path 4.6 does not list.
            Unknown(u8),
        }

        impl Opcode {
            /// Every opcode with a name.
            pub const NAMED: &'static [Self] = &[$(Self::$variant),+];

            /// The opcode with the number `code`; unknown numbers are kept.
            #[must_use]
            pub const fn from_code(code: u8) -> Self {
                match code {
                    $($code => Self::$variant,)+
                    other => Self::Unknown(other),
                }
            }

            /// The number of this opcode.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)+
                    Self::Unknown(code) => code,
                }
            }

            /// The name in control-path 4.6, or "unknown opcode".
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Unknown(_) => "unknown opcode",
                }
            }
        }
    };
}

opcodes! {
    /// Creates a QP.
    CreateQp = 0x00, "CREATE_QP";
    /// Changes state or context of a QP.
    ModifyQp = 0x01, "MODIFY_QP";
    /// Destroys a QP.
    DestroyQp = 0x02, "DESTROY_QP";
    /// Creates a CQ.
    CreateCq = 0x03, "CREATE_CQ";
    /// Resizes a CQ.
    ModifyCq = 0x04, "MODIFY_CQ";
    /// Destroys a CQ.
    DestroyCq = 0x05, "DESTROY_CQ";
    /// Allocates an STag for a region or a window.
    AllocStag = 0x09, "ALLOC_STAG";
    /// Registers a memory region.
    RegMr = 0x0a, "REG_MR";
    /// Reads an STag; its format is not in the sources.
    QueryStag = 0x0b, "QUERY_STAG";
    /// Registers a shared region; its format is not in the sources.
    RegSmr = 0x0c, "REG_SMR";
    /// Frees an STag.
    DeallocStag = 0x0d, "DEALLOC_STAG";
    /// Adds or deletes a local MAC table entry.
    ManageLocMac = 0x0e, "MANAGE_LOC_MAC_TABLE";
    /// Adds or deletes an ARP table entry.
    ManageArp = 0x0f, "MANAGE_ARP";
    /// PBLE backing pages of a VF; its format is not in the sources.
    ManageVfPbleBp = 0x10, "MANAGE_VF_PBLE_BP";
    /// Allocates or frees a push page.
    ManagePushPages = 0x11, "MANAGE_PUSH_PAGES";
    /// Reads the feature list.
    QueryRdmaFeatures = 0x12, "QUERY_RDMA_FEATURES";
    /// Writes a QP context to host memory.
    UploadContext = 0x13, "UPLOAD_CONTEXT";
    /// Allocates a local MAC table entry.
    AllocateLocMac = 0x14, "ALLOCATE_LOC_MAC_TABLE_ENTRY";
    /// HMC function table of VFs.
    ManageHmcPmFuncTable = 0x15, "MANAGE_HMC_PM_FUNC_TABLE";
    /// Creates a CEQ.
    CreateCeq = 0x16, "CREATE_CEQ";
    /// Destroys a CEQ.
    DestroyCeq = 0x18, "DESTROY_CEQ";
    /// Creates the AEQ.
    CreateAeq = 0x19, "CREATE_AEQ";
    /// Destroys the AEQ.
    DestroyAeq = 0x1b, "DESTROY_AEQ";
    /// Creates an address handle.
    CreateAddrHandle = 0x1c, "CREATE_ADDR_HANDLE";
    /// Changes an address handle.
    ModifyAddrHandle = 0x1d, "MODIFY_ADDR_HANDLE";
    /// Destroys an address handle.
    DestroyAddrHandle = 0x1e, "DESTROY_ADDR_HANDLE";
    /// Sets or clears segment descriptors.
    UpdatePeSds = 0x1f, "UPDATE_PE_SDS";
    /// Reads the function's HMC limits.
    QueryFpmVal = 0x20, "QUERY_FPM_VAL";
    /// Commits object counts, returns their places.
    CommitFpmVal = 0x21, "COMMIT_FPM_VAL";
    /// Flushes work requests, or generates an AE.
    FlushWqes = 0x22, "FLUSH_WQES";
    /// Adds or removes an accelerated port.
    ManageApbvt = 0x23, "MANAGE_APBVT";
    /// Does nothing; its format is not in the sources.
    Nop = 0x24, "NOP";
    /// Adds, deletes or modifies a quad-hash entry.
    ManageQuadHash = 0x25, "MANAGE_QUAD_HASH_TABLE_ENTRY";
    /// Creates a multicast group.
    CreateMcastGrp = 0x26, "CREATE_MCAST_GRP";
    /// Changes a multicast group.
    ModifyMcastGrp = 0x27, "MODIFY_MCAST_GRP";
    /// Destroys a multicast group.
    DestroyMcastGrp = 0x28, "DESTROY_MCAST_GRP";
    /// Suspends a QP.
    SuspendQp = 0x29, "SUSPEND_QP";
    /// Resumes a QP on another queue set.
    ResumeQp = 0x2a, "RESUME_QP";
    /// Says that all static HMC objects are backed.
    ShmcPagesAllocated = 0x2b, "SHMC_PAGES_ALLOCATED";
    /// Adds, modifies or deletes a node of the work scheduler.
    WorkSchedNode = 0x2c, "WORK_SCHED_NODE";
    /// Allocates or frees a statistics instance.
    ManageStats = 0x2d, "MANAGE_STATS";
    /// Writes counters to host memory.
    GatherStats = 0x2e, "GATHER_STATS";
    /// Maps user priorities.
    UpMap = 0x2f, "UP_MAP";
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(code) => write!(f, "opcode {code:#04x}"),
            named => f.write_str(named.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_opcode_and_back() {
        for code in 0..=u8::MAX {
            assert_eq!(Opcode::from_code(code).code(), code);
        }
        for (i, op) in Opcode::NAMED.iter().enumerate() {
            assert_eq!(Opcode::from_code(op.code()), *op);
            for other in &Opcode::NAMED[i + 1..] {
                assert_ne!(op.name(), other.name());
                assert_ne!(op.code(), other.code());
            }
        }
    }
}
