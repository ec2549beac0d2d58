//! Protection domains.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::abi::device::Context;
use crate::abi::objects::Pd;
use crate::async_events::ProgramPointer;
use crate::control::{AllocPd, DeallocPd};
use crate::device::context::{Object, OpenContext};
use crate::errno::no_object;
use crate::panics::catch_panics;

/// The object behind the `ibv_pd` that a program sees.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PdObject {
    abi: UnsafeCell<Pd>,
    number: u32,
    role: Role,
}

/// What a protection domain means to the device.
#[derive(Debug)]
enum Role {
    Own {
        /// How many parent domains it has.
        parents: AtomicU32,
        /// The device no longer has it.
        is_retired: AtomicBool,
    },
    /// Another name for a protection domain, which outlives it.
    Parent(ProgramPointer<Pd>),
    /// Another name for a protection domain of another context.
    Imported,
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

    /// Deallocates it in the device, unless that is done already: 0, or the error. The device does
    /// not know parent domains.
    ///
    /// # Safety
    /// Its context exists.
    pub(crate) unsafe fn retire(&self) -> c_int {
        let Role::Own { is_retired, .. } = &self.role else {
            return 0;
        };
        if is_retired.load(Ordering::Acquire) {
            return 0;
        }
        // SAFETY: the caller's.
        let open = unsafe { self.open() };
        if let Err(refused) = open.control().ask(DeallocPd {
            number: self.number,
        }) {
            return refused.errno;
        }
        is_retired.store(true, Ordering::Release);
        0
    }

    /// Its context.
    ///
    /// # Safety
    /// The context is open.
    pub(crate) unsafe fn open<'a>(&self) -> &'a OpenContext {
        // SAFETY: the caller's.
        unsafe { OpenContext::of(self.context()) }
    }
}

/// Makes a name for the domain with this number.
fn make(context: *mut Context, number: u32, role: Role) -> *mut Pd {
    let pd = Box::new(PdObject {
        abi: UnsafeCell::new(Pd {
            context,
            handle: number,
        }),
        number,
        role,
    });
    Box::into_raw(pd).cast()
}

/// A parent domain of a protection domain. A parent domain of a parent domain is one of the same
/// protection domain. A parent domain of an imported domain holds as little as that does: either
/// may be deallocated first.
pub(crate) fn parent(of: &PdObject) -> *mut Pd {
    let own = match &of.role {
        Role::Own { .. } => ProgramPointer(of.abi.get()),
        Role::Parent(own) => *own,
        Role::Imported => return import(of.context(), of.number),
    };
    // SAFETY: it is not deallocated while it has parents, nor while the caller names it.
    if let Role::Own { parents, .. } = unsafe { &PdObject::of(own.0).role } {
        parents.fetch_add(1, Ordering::AcqRel);
    }
    make(of.context(), of.number, Role::Parent(own))
}

/// Another name for a domain of another context.
pub(crate) fn import(context: *mut Context, number: u32) -> *mut Pd {
    make(context, number, Role::Imported)
}

/// Frees only the name.
///
/// # Safety
/// It came from [`import`], and is not used again.
pub(crate) unsafe fn forget(pd: *mut Pd) {
    // SAFETY: the caller's: made as a box.
    drop(unsafe { Box::from_raw(pd.cast::<PdObject>()) });
}

/// `ibv_alloc_pd`.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn alloc_pd(context: *mut Context) -> *mut Pd {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let number = match open.control().ask(AllocPd {}) {
            Ok(number) => number,
            Err(refused) => return no_object(refused.errno),
        };
        let role = Role::Own {
            parents: AtomicU32::new(0),
            is_retired: AtomicBool::new(false),
        };
        let pd = make(context, number, role);
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
        match &object.role {
            Role::Own { parents, .. } => {
                // Also if the context is closed: the parents name it.
                if parents.load(Ordering::Acquire) > 0 {
                    return libc::EBUSY;
                }
                // SAFETY: the caller's: a context outlives its objects.
                let number = unsafe { object.retire() };
                if number != 0 {
                    return number;
                }
                // SAFETY: the caller's: nobody uses it any more.
                unsafe {
                    OpenContext::leave(object.context(), &Object::Pd(pd));
                    forget(pd);
                }
                return 0;
            }
            Role::Parent(of) => {
                // SAFETY: it is not deallocated while it has parents.
                if let Role::Own { parents, .. } = unsafe { &PdObject::of(of.0).role } {
                    parents.fetch_sub(1, Ordering::AcqRel);
                }
            }
            Role::Imported => {}
        }
        // SAFETY: the caller's: nobody uses it any more.
        unsafe { forget(pd) };
        0
    })
}
