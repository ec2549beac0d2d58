//! What irdma calls the structures that it prints (texts in the module of Linux 6.12).

use e810_card::record::words_from_hex;
use e810_cqp::Opcode;

/// A command of the Control QP. Where one opcode has two texts there, its bytes decide.
pub(super) fn command(opcode: Opcode, bytes: &str) -> &'static str {
    let header = words_from_hex(bytes).and_then(|words| words.get(3).copied());
    let header = header.unwrap_or(0);
    match opcode {
        Opcode::CreateQp => "WQE: QP_CREATE WQE",
        Opcode::ModifyQp => "WQE: QP_MODIFY WQE",
        Opcode::DestroyQp => "WQE: QP_DESTROY WQE",
        Opcode::CreateCq => "WQE: CQ_CREATE WQE",
        Opcode::ModifyCq => "WQE: CQ_MODIFY WQE",
        // The queue of the Control QP's completions is CQ 0.
        Opcode::DestroyCq if header & 0x7_FFFF == 0 => "WQE: CCQ_DESTROY WQE",
        Opcode::DestroyCq => "WQE: CQ_DESTROY WQE",
        // MR: a region, otherwise a window (control-path 4.10).
        Opcode::AllocStag if header >> 43 & 1 == 0 => "WQE: MW_ALLOC WQE",
        Opcode::AllocStag => "WQE: ALLOC_STAG WQE",
        Opcode::RegMr => "WQE: MR_REG_NS WQE",
        Opcode::DeallocStag => "WQE: DEALLOC_STAG WQE",
        // FREEENTRY.
        Opcode::ManageLocMac if header >> 62 & 1 == 1 => "WQE: DEL_LOCAL_MAC_IPADDR WQE",
        Opcode::ManageLocMac => "WQE: ADD_LOCAL_MAC WQE",
        // ENTRYVALID: an entry is made, otherwise deleted (control-path 4.11).
        Opcode::ManageArp if header >> 42 & 1 == 1 => "WQE: ARP_CACHE_ENTRY WQE",
        Opcode::ManageArp => "WQE: ARP_CACHE_DEL_ENTRY WQE",
        Opcode::ManagePushPages => "WQE: MANAGE_PUSH_PAGES WQE",
        Opcode::UploadContext => "WQE: QP_UPLOAD_CTX WQE",
        Opcode::AllocateLocMac => "WQE: ALLOCATE_LOCAL_MAC WQE",
        Opcode::ManageHmcPmFuncTable => "WQE: MANAGE_HMC_PM_FUNC_TABLE WQE",
        Opcode::CreateCeq => "WQE: CEQ_CREATE WQE",
        Opcode::DestroyCeq => "WQE: CEQ_DESTROY WQE",
        Opcode::CreateAeq => "WQE: AEQ_CREATE WQE",
        Opcode::DestroyAeq => "WQE: AEQ_DESTROY WQE",
        Opcode::CreateAddrHandle | Opcode::ModifyAddrHandle | Opcode::DestroyAddrHandle => {
            "WQE: MANAGE_AH WQE"
        }
        Opcode::UpdatePeSds => "WQE: UPDATE_PE_SDS WQE",
        Opcode::QueryFpmVal => "WQE: QUERY_FPM WQE",
        Opcode::CommitFpmVal => "WQE: COMMIT_FPM_VAL WQE",
        // GENERATE_AE, without a flush (control-path 4.12).
        Opcode::FlushWqes if header >> 59 & 1 == 1 && header >> 61 & 3 == 0 => "WQE: GEN_AE WQE",
        Opcode::FlushWqes => "WQE: QP_FLUSH WQE",
        Opcode::ManageApbvt => "WQE: MANAGE_APBVT WQE",
        Opcode::ManageQuadHash => "WQE: MANAGE_QHASH WQE",
        Opcode::CreateMcastGrp | Opcode::ModifyMcastGrp | Opcode::DestroyMcastGrp => {
            "WQE: MANAGE_MCG WQE"
        }
        Opcode::SuspendQp => "WQE: SUSPEND_QP WQE",
        Opcode::ResumeQp => "WQE: RESUME_QP WQE",
        Opcode::ShmcPagesAllocated => "WQE: SHMC_PAGES_ALLOCATED WQE",
        Opcode::WorkSchedNode => "WQE: MANAGE_WS WQE",
        Opcode::ManageStats => "WQE: MANAGE_STATS WQE",
        Opcode::GatherStats => "STATS: GATHER_STATS WQE",
        Opcode::UpMap => "WQE: UPMAP WQE",
        // irdma prints none of these.
        _ => "WQE: WQE",
    }
}

/// Memory that such a command names.
pub(super) const fn memory(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::CreateQp | Opcode::ModifyQp => "WQE: QP_HOST CTX WQE",
        Opcode::UpdatePeSds => "WQE: UPDATE_PE_SDS WQE Buffer",
        Opcode::CommitFpmVal => "HMC: COMMIT FPM BUFFER",
        Opcode::QueryFpmVal => "HMC: QUERY FPM BUFFER",
        Opcode::CreateMcastGrp | Opcode::ModifyMcastGrp => "WQE: MCG_HOST CTX WQE",
        // irdma prints none of these.
        _ => "WQE: BUFFER",
    }
}

/// The operation of a send request (data-path 1.5).
pub(super) fn send(bytes: &str) -> &'static str {
    let header = words_from_hex(bytes).and_then(|words| words.get(3).copied());
    match header.unwrap_or(0) >> 32 & 0x3F {
        0x00 | 0x0D => "RDMA write",
        0x01 => "RDMA read",
        0x03 | 0x05 => "send",
        0x04 | 0x06 => "send with invalidate",
        0x08 => "bind",
        0x09 => "fast registration",
        0x0A => "local invalidate",
        0x0B => "RDMA read with invalidate",
        0x0C => "nop",
        0x0F => "fetch and add",
        0x11 => "compare and swap",
        _ => "a request without a name",
    }
}
