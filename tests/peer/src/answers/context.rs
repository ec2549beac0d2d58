//! Registration of the driver, contexts.

// UNSAFETY: C calls these functions with pointers to its own structures.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use e810_verbs::abi::device::{Context, VerbsContext};

use super::{code, fill_answer, unsupported};
use crate::abi::{ContextOps, ContextReply, DeviceOps, reply_offset};

/// What the library registered when it was loaded. Its constructor says nothing
/// of who loads it, so there is no other place for it than a static.
static DRIVER: AtomicPtr<DeviceOps> = AtomicPtr::new(ptr::null_mut());
/// The functions of a context: one constant table of the library.
static OPS: AtomicPtr<ContextOps> = AtomicPtr::new(ptr::null_mut());

/// The driver, once the library is loaded.
pub(crate) fn driver() -> *const DeviceOps {
    DRIVER.load(Ordering::Acquire)
}

/// The functions of contexts, once one was opened.
pub(crate) fn context_ops() -> *const ContextOps {
    OPS.load(Ordering::Acquire)
}

#[unsafe(no_mangle)]
extern "C" fn verbs_register_driver_34(ops: *mut DeviceOps) {
    DRIVER.store(ops, Ordering::Release);
}

#[unsafe(no_mangle)]
extern "C" fn verbs_set_ops(_: *mut VerbsContext, ops: *mut ContextOps) {
    OPS.store(ops, Ordering::Release);
}

/// `abi_compat` of a context that has a `verbs_context` around it.
const EXTENDED: usize = usize::MAX;

/// `_verbs_init_and_alloc_context`: zeroed memory of the library's size, with
/// a context at the offset it asks for.
///
/// # Safety
/// Called by the library, whose type has `size` bytes and a `verbs_context` at
/// `offset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn _verbs_init_and_alloc_context(
    device: *mut c_void,
    cmd_fd: c_int,
    size: usize,
    offset: *mut c_void,
    _driver_id: u32,
) -> *mut c_void {
    let offset = offset.addr();
    if offset + size_of::<VerbsContext>() > size {
        return ptr::null_mut();
    }
    // SAFETY: any arguments will do. The library frees it with `free`.
    let memory = unsafe { libc::calloc(1, size) };
    if memory.is_null() {
        return memory;
    }
    // SAFETY: inside the allocation (checked), zeroed, and aligned as C needs
    // it, since the library's own field lies there.
    let context = unsafe { &mut *memory.cast::<u8>().add(offset).cast::<VerbsContext>() };
    context.sz = size_of::<VerbsContext>();
    context.context.device = device.cast();
    context.context.cmd_fd = cmd_fd;
    context.context.async_fd = -1;
    context.context.abi_compat = EXTENDED;
    memory
}

/// Nothing of ours is in a context.
#[unsafe(no_mangle)]
extern "C" fn verbs_uninit_context(_: *mut VerbsContext) {}

/// GEN_2 as data-path 5.1 describes it.
const E810: ContextReply = ContextReply {
    max_pds: 1 << 18,
    max_qps: 1 << 18,
    wq_size: 0,
    kernel_ver: 5,
    rsvd: [0; 3],
    // RTS_AE and CQ_RESIZE.
    feature_flags: 0b11,
    db_mmap_key: 0,
    max_hw_wq_frags: 13,
    max_hw_read_sges: 13,
    max_hw_inline: 101,
    max_hw_rq_quanta: 32768,
    max_hw_wq_quanta: 32768,
    min_hw_cq_size: 1,
    max_hw_cq_size: 1_048_575,
    max_hw_sq_chunk: 8,
    hw_rev: 2,
    rsvd2: 0,
};

/// `ibv_cmd_get_context`: what the device can do.
///
/// # Safety
/// Called by the library with an answer of `answer_bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_get_context(
    _: *mut VerbsContext,
    _request: *mut c_void,
    _request_bytes: usize,
    answer: *mut c_void,
    answer_bytes: usize,
) -> c_int {
    // SAFETY: passed on.
    code(unsafe { fill_answer(answer, answer_bytes, reply_offset::GET_CONTEXT, E810) })
}

/// `ibv_query_gid`: the library wants to know that there is one.
///
/// # Safety
/// `gid` points to 16 writable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(_: *mut Context, _: u8, _: c_int, gid: *mut [u8; 16]) -> c_int {
    if gid.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: writable (contract).
    unsafe { gid.write([0; 16]) };
    0
}

/// Nothing here forks.
#[unsafe(no_mangle)]
extern "C" fn ibv_dontfork_range(_: *mut c_void, _: usize) -> c_int {
    0
}

/// As [`ibv_dontfork_range`].
#[unsafe(no_mangle)]
extern "C" fn ibv_dofork_range(_: *mut c_void, _: usize) -> c_int {
    0
}

unsupported!(ibv_cmd_query_device_any, ibv_cmd_query_port);

pub(super) const EXPORTED: &[*const ()] = &[
    verbs_register_driver_34 as *const (),
    verbs_set_ops as *const (),
    _verbs_init_and_alloc_context as *const (),
    verbs_uninit_context as *const (),
    ibv_cmd_get_context as *const (),
    ibv_query_gid as *const (),
    ibv_dontfork_range as *const (),
    ibv_dofork_range as *const (),
    ibv_cmd_query_device_any as *const (),
    ibv_cmd_query_port as *const (),
];
