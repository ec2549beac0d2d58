//! Import of contexts, protection domains and regions that another part of the process has made.
//!
//! A context's `cmd_fd` names it, also after the descriptor was duplicated. Processes cannot share
//! them: a function belongs to one process.

use core::ffi::c_int;
use core::ptr;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::device::Context;
use crate::abi::objects::{Mr, Pd};
use crate::async_events::ProgramPointer;
use crate::device::context::{Object, OpenContext, open_device};
use crate::errno::no_object;
use crate::fork::{PerProcess, Process};
use crate::mr;
use crate::panics::catch_panics;
use crate::pd;
use crate::shown::Shown;

type Contexts = Vec<(u64, ProgramPointer<Context>)>;

/// Open contexts of this process, by the number that their descriptor holds.
fn open_contexts() -> MutexGuard<'static, Contexts> {
    static OPEN: PerProcess<Mutex<Contexts>> = PerProcess::new();
    let open = OPEN.get_or_init(Mutex::default).lock();
    open.unwrap_or_else(PoisonError::into_inner)
}

/// The first bytes of a descriptor of this library.
const MAGIC: u64 = 0x6538_3130_2d76_6462;

/// A descriptor that names a context.
#[derive(Debug)]
pub(crate) struct CommandFd {
    shown: Shown,
    number: u64,
}

impl CommandFd {
    /// A descriptor with a new number.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new() -> io::Result<Self> {
        let number = crate::control::Token::next().0;
        // SAFETY: a name and a flag.
        let fd = unsafe { libc::memfd_create(c"e810-verbs".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made just now.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let process = Process::this().word();
        for (at, word) in [MAGIC, process, number].into_iter().enumerate() {
            file.write_all_at(&word.to_ne_bytes(), at as u64 * 8)?;
        }
        let shown = Shown::new(file.into())?;
        Ok(Self { shown, number })
    }

    pub(crate) const fn fd(&self) -> RawFd {
        self.shown.number()
    }

    /// Adds the context: it is open.
    pub(crate) fn enter(&self, context: *mut Context) {
        open_contexts().push((self.number, ProgramPointer(context)));
    }

    /// Removes the context: it is closed.
    pub(crate) fn leave(&self) {
        open_contexts().retain(|(number, _)| *number != self.number);
    }
}

/// The number in a descriptor, if it names a context of this process.
fn number_in(fd: RawFd) -> Option<u64> {
    let mut words = [0u64; 3];
    // SAFETY: room for as many bytes; the descriptor is the caller's, and may be any.
    let read = unsafe { libc::pread(fd, words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    let [magic, process, number] = words;
    let is_ours = magic == MAGIC && process == Process::this().word();
    (read == size_of_val(&words) as isize && is_ours).then_some(number)
}

/// `ibv_import_device`: a context of the device whose context the descriptor names. It takes
/// ownership of the descriptor, as rdma-core's does.
///
/// # Safety
/// `fd` is a descriptor that the caller gives away.
pub unsafe extern "C" fn import_device(fd: c_int) -> *mut Context {
    catch_panics(ptr::null_mut(), || {
        let found = number_in(fd).and_then(|wanted| {
            let open = open_contexts();
            let (_, context) = open.iter().find(|(number, _)| *number == wanted)?;
            // SAFETY: it is in the list, so it is open.
            Some(unsafe { (*context.0).device })
        });
        let Some(device) = found else {
            return no_object(libc::EINVAL);
        };
        // SAFETY: as above: of an open context.
        let opened = unsafe { open_device(device) };
        if !opened.is_null() {
            // SAFETY: the caller's.
            unsafe { libc::close(fd) };
        }
        opened
    })
}

/// Whether an open context of the same device has an object that satisfies `is_it`.
fn exists(open: &OpenContext, is_it: impl Fn(&Object) -> bool) -> bool {
    let contexts = open_contexts();
    contexts.iter().any(|(_, context)| {
        // SAFETY: it is in the list, so it is open.
        let other = unsafe { OpenContext::of(context.0) };
        other.is_of_same_device(open) && other.has(&is_it)
    })
}

/// `ibv_import_pd`: the protection domain with this `handle` in another context of the device.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn import_pd(context: *mut Context, handle: u32) -> *mut Pd {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        // SAFETY: it is live.
        let is_it = |object: &Object| matches!(object, Object::Pd(pd) if unsafe { (**pd).handle } == handle);
        if !exists(open, is_it) {
            return no_object(libc::EINVAL);
        }
        pd::import(context, handle)
    })
}

/// `ibv_unimport_pd`: the domain itself stays.
///
/// # Safety
/// `pd` came from [`import_pd`], and is not used again.
pub unsafe extern "C" fn unimport_pd(pd: *mut Pd) {
    // SAFETY: the caller's.
    catch_panics((), || unsafe { pd::forget(pd) });
}

/// `ibv_import_mr`: the region with this `handle` in another context of the device. Its address and
/// length are not reported, as with rdma-core.
///
/// # Safety
/// `pd` is a protection domain.
pub unsafe extern "C" fn import_mr(pd: *mut Pd, handle: u32) -> *mut Mr {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let open = unsafe { pd::PdObject::of(pd).open() };
        // SAFETY: it is live.
        let is_it = |object: &Object| matches!(object, Object::Mr(mr) if unsafe { (**mr).handle } == handle);
        if !exists(open, is_it) {
            return no_object(libc::EINVAL);
        }
        // SAFETY: the caller's.
        unsafe { mr::import(pd, handle) }
    })
}

/// `ibv_unimport_mr`: the region itself stays.
///
/// # Safety
/// `mr` came from [`import_mr`], and is not used again.
pub unsafe extern "C" fn unimport_mr(mr: *mut Mr) {
    // SAFETY: the caller's.
    catch_panics((), || unsafe { mr::forget(mr) });
}
