//! The doorbell page, to which a process writes that owns queues, but not the function.
//!
//! It is one page inside BAR0, mapped uncached. Existing drivers ring through it from user space,
//! and through PFPE_WQEALLOC and PFPE_CQARM in the kernel (control-path 2.1, 2.9); that both do
//! the same for the function itself is `[inf doorbell_page]`.

use crate::reg::{Reg, WriteOnly};

use super::pfpe::{PFPE_CQARM, PFPE_WQEALLOC};

/// Offset of the doorbell page in BAR0, in bytes (control-path 2.9).
pub const DOORBELL_PAGE: u32 = 0x7F_0000;

/// Length of the doorbell page in bytes (control-path 2.9).
pub const DOORBELL_PAGE_LEN: u32 = 4096;

/// Offset of the send queue doorbell in the page (control-path 2.9).
pub const DOORBELL_WQE_ALLOC: u32 = 0x00;

/// Offset of the CQ arm doorbell in the page (control-path 2.9).
pub const DOORBELL_CQ_ARM: u32 = 0x40;

/// Send queue doorbell: write the QP id. Fields of PFPE_WQEALLOC. Other offsets
/// of the page than this and [`DB_CQ_ARM`] are not in the sources.
pub const DB_WQE_ALLOC: Reg<PFPE_WQEALLOC::Register, WriteOnly> =
    Reg::new(DOORBELL_PAGE + DOORBELL_WQE_ALLOC);

/// CQ arm doorbell: write the CQ id, after the shadow area. Fields of
/// PFPE_CQARM.
pub const DB_CQ_ARM: Reg<PFPE_CQARM::Register, WriteOnly> =
    Reg::new(DOORBELL_PAGE + DOORBELL_CQ_ARM);
