//! Thread domains and parent domains, which are only hints for this device.
//!
//! A thread domain promises that one thread at a time uses its objects. Their locks are kept: an
//! uncontended lock costs two atomic accesses. A program's own allocators are refused: the memory
//! of rings is the device's.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;

use crate::abi::device::Context;
use crate::abi::make::ParentDomainInitAttr;
use crate::abi::objects::{Pd, Td};
use crate::errno::no_object;
use crate::panics::catch_panics;
use crate::pd::{PdObject, parent};

/// A thread domain.
#[derive(Debug)]
#[repr(C)]
struct TdObject {
    abi: UnsafeCell<Td>,
}

/// `ibv_alloc_td`.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn alloc_td(context: *mut Context, _: *mut c_void) -> *mut Td {
    catch_panics(ptr::null_mut(), || {
        let td = Box::new(TdObject {
            abi: UnsafeCell::new(Td { context }),
        });
        Box::into_raw(td).cast()
    })
}

/// `ibv_dealloc_td`.
///
/// # Safety
/// `td` came from [`alloc_td`], and is not used again.
pub unsafe extern "C" fn dealloc_td(td: *mut Td) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's: made as a box.
        drop(unsafe { Box::from_raw(td.cast::<TdObject>()) });
        0
    })
}

/// `ibv_alloc_parent_domain`: EOPNOTSUPP with allocators.
///
/// # Safety
/// `context` is open, and `attr` names a protection domain of it.
pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut Context,
    attr: *mut ParentDomainInitAttr,
) -> *mut Pd {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        if asked.pd.is_null() {
            return no_object(libc::EINVAL);
        }
        if asked.comp_mask != 0 {
            return no_object(libc::EOPNOTSUPP);
        }
        // SAFETY: the caller's.
        let of = unsafe { PdObject::of(asked.pd) };
        if of.context() != context {
            return no_object(libc::EINVAL);
        }
        parent(of)
    })
}
