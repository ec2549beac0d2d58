//! Protection domains.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;

use crate::abi::device::Context;
use crate::abi::objects::Pd;
use crate::device::context::{Object, OpenContext};
use crate::errno::{self, no_object};
use crate::panics::catch_panics;

/// What a protection domain has behind what libibverbs shows of it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PdObject {
    abi: UnsafeCell<Pd>,
    number: u32,
}

impl PdObject {
    /// The protection domain that a program names.
    ///
    /// # Safety
    /// `pd` came from [`alloc_pd`] and was not deallocated.
    pub(crate) unsafe fn of<'a>(pd: *mut Pd) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*pd.cast::<Self>() }
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn context(&self) -> *mut Context {
        // SAFETY: it is never written after the creation.
        unsafe { (*self.abi.get()).context }
    }

    /// Its context.
    ///
    /// # Safety
    /// That is open.
    pub(crate) unsafe fn open<'a>(&self) -> &'a OpenContext {
        // SAFETY: the caller's.
        unsafe { OpenContext::of(self.context()) }
    }
}

/// `ibv_alloc_pd`.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn alloc_pd(context: *mut Context) -> *mut Pd {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let number = match open.control().alloc_pd() {
            Ok(number) => number,
            Err(refused) => return no_object(errno::of(&refused)),
        };
        let pd = Box::new(PdObject {
            abi: UnsafeCell::new(Pd {
                context,
                handle: number,
            }),
            number,
        });
        let pd = Box::into_raw(pd).cast::<Pd>();
        open.enter(Object::Pd(pd));
        pd
    })
}

/// `ibv_dealloc_pd`: 0, or EBUSY while regions, queue pairs or address handles are in it.
///
/// # Safety
/// `pd` came from [`alloc_pd`], and is not used after this has returned 0.
pub unsafe extern "C" fn dealloc_pd(pd: *mut Pd) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { PdObject::of(pd) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { object.open() };
        if let Err(refused) = open.control().dealloc_pd(object.number) {
            return errno::of(&refused);
        }
        open.leave(&Object::Pd(pd));
        // SAFETY: the caller's: made as a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(pd.cast::<PdObject>()) });
        0
    })
}
