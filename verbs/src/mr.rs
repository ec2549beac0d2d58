//! Memory regions.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use e810::AccessFlags;

use crate::abi::constants::access;
use crate::abi::objects::{Mr, Pd};
use crate::control::{DeregMr, Kind, Memory, RegMr, ReregMr};
use crate::device::context::{Object, OpenContext};
use crate::errno::{fail, no_object};
use crate::limits::complain_of;
use crate::panics::catch_panics;
use crate::pd::PdObject;

/// A program's access rights as the driver has them. Atomic operations and memory windows, which
/// the device does not support, may be allowed all the same: programs ask for them with every
/// region, and existing drivers ignore that (verbs-abi 4.5). Pages of any size are found without
/// HUGETLB. Invalid rights are refused before unsupported ones, as in `ib_check_mr_access` of
/// Linux.
fn rights(flags: c_uint) -> Result<AccessFlags, c_int> {
    let mut rights = AccessFlags::empty();
    for (flag, right) in [
        (access::LOCAL_WRITE, AccessFlags::LOCAL_WRITE),
        (access::REMOTE_WRITE, AccessFlags::REMOTE_WRITE),
        (access::REMOTE_READ, AccessFlags::REMOTE_READ),
        (access::ZERO_BASED, AccessFlags::ZERO_BASED),
    ] {
        rights.set(right, flags & flag != 0);
    }
    let not_offered = access::ON_DEMAND | access::FLUSH_GLOBAL | access::FLUSH_PERSISTENT;
    let known = access::LOCAL_WRITE
        | access::REMOTE_WRITE
        | access::REMOTE_READ
        | access::REMOTE_ATOMIC
        | access::MW_BIND
        | access::ZERO_BASED
        | access::HUGETLB
        | access::OPTIONAL
        | not_offered;
    let remote = access::REMOTE_WRITE | access::REMOTE_ATOMIC;
    if flags & !known != 0 || (flags & remote != 0 && flags & access::LOCAL_WRITE == 0) {
        return Err(libc::EINVAL);
    }
    if flags & not_offered != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(rights)
}

/// Rights that peers have through a queue pair. Others mean nothing there, and are ignored, as by
/// existing drivers.
pub(crate) fn qp_rights(flags: c_uint) -> AccessFlags {
    let mut rights = AccessFlags::empty();
    for (flag, right) in [
        (access::LOCAL_WRITE, AccessFlags::LOCAL_WRITE),
        (access::REMOTE_WRITE, AccessFlags::REMOTE_WRITE),
        (access::REMOTE_READ, AccessFlags::REMOTE_READ),
    ] {
        rights.set(right, flags & flag != 0);
    }
    rights
}

/// The object behind the `ibv_mr` that a program sees.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MrObject {
    abi: UnsafeCell<Mr>,
    /// The device no longer has it: its context was closed, or a change removed it and could not
    /// restore it.
    is_retired: AtomicBool,
}

impl MrObject {
    /// The region that a program names.
    ///
    /// # Safety
    /// `mr` came from [`reg_mr`] and was not deregistered.
    pub(crate) unsafe fn of<'a>(mr: *mut Mr) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*mr.cast::<Self>() }
    }

    /// Deregisters it in the device, unless that is done already: 0, or the error.
    ///
    /// # Safety
    /// Its context exists.
    pub(crate) unsafe fn retire(&self) -> c_int {
        if self.is_retired.load(Ordering::Acquire) {
            return 0;
        }
        // SAFETY: the caller's: nobody changes it at the same time, and a context outlives its
        // objects.
        let (key, open) = unsafe {
            let shown = self.abi.get().read();
            (shown.handle, OpenContext::of(shown.context))
        };
        if let Err(refused) = open.control().ask(DeregMr { key }) {
            return refused.errno;
        }
        self.is_retired.store(true, Ordering::Release);
        0
    }
}

/// `ibv_reg_mr`.
///
/// # Safety
/// `pd` is a protection domain. What a peer or a request writes there is the program's business;
/// memory that does not exist, or that must not be written, is an error.
pub unsafe extern "C" fn reg_mr(
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut Mr {
    // SAFETY: the caller's.
    unsafe { reg_mr_iova2(pd, address, length, address as u64, flags as c_uint) }
}

/// `ibv_reg_mr_iova`: peers and requests name the first byte by `iova`.
///
/// # Safety
/// As [`reg_mr`].
pub unsafe extern "C" fn reg_mr_iova(
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_int,
) -> *mut Mr {
    // SAFETY: the caller's.
    unsafe { reg_mr_iova2(pd, address, length, iova, flags as c_uint) }
}

/// `ibv_reg_mr_iova2`.
///
/// # Safety
/// As [`reg_mr`].
pub unsafe extern "C" fn reg_mr_iova2(
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_uint,
) -> *mut Mr {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let domain = unsafe { PdObject::of(pd) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { domain.open() };
        let rights = match rights(flags) {
            Ok(rights) => rights,
            Err(number) => return no_object(number),
        };
        let memory = Memory {
            address: address as usize,
            length,
        };
        // Such a region is addressed by offsets, whatever the address of its first byte would be
        // otherwise.
        let iova = match rights.contains(AccessFlags::ZERO_BASED) {
            true => address as u64,
            false => iova,
        };
        let made = open.control().ask(RegMr {
            pd: domain.number(),
            memory,
            iova,
            access: rights,
        });
        let key = match made {
            Ok(key) => key,
            Err(refused) => {
                complain_of("memory is not registered", &refused);
                return no_object(refused.errno);
            }
        };
        let mr = Box::new(MrObject {
            abi: UnsafeCell::new(Mr {
                context: domain.context(),
                pd,
                addr: address,
                length,
                handle: key,
                lkey: key,
                rkey: key,
            }),
            is_retired: AtomicBool::new(false),
        });
        let mr = Box::into_raw(mr).cast::<Mr>();
        open.enter(Object::Mr(mr));
        mr
    })
}

/// Another name for a region that belongs to another context.
///
/// # Safety
/// `pd` is a protection domain.
pub(crate) unsafe fn import(pd: *mut Pd, key: u32) -> *mut Mr {
    let mr = Box::new(MrObject {
        abi: UnsafeCell::new(Mr {
            // SAFETY: the caller's.
            context: unsafe { PdObject::of(pd) }.context(),
            pd,
            addr: ptr::null_mut(),
            length: 0,
            handle: key,
            lkey: key,
            rkey: key,
        }),
        is_retired: AtomicBool::new(false),
    });
    Box::into_raw(mr).cast()
}

/// Frees only the name.
///
/// # Safety
/// It came from [`import`], and is not used again.
pub(crate) unsafe fn forget(mr: *mut Mr) {
    // SAFETY: the caller's: made as a box.
    drop(unsafe { Box::from_raw(mr.cast::<MrObject>()) });
}

/// `ibv_dereg_mr`.
///
/// # Safety
/// `mr` came from [`reg_mr`], and is not used after this has returned 0.
pub unsafe extern "C" fn dereg_mr(mr: *mut Mr) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { MrObject::of(mr) };
        // SAFETY: the caller's: a context outlives its objects.
        let number = unsafe { object.retire() };
        if number != 0 {
            return number;
        }
        // SAFETY: the caller's: made as a box, and nobody uses it any more.
        unsafe {
            OpenContext::leave((*mr).context, &Object::Mr(mr));
            forget(mr);
        }
        0
    })
}

/// What `ibv_rereg_mr` changes: `enum ibv_rereg_mr_flags`.
mod change {
    use core::ffi::c_int;

    pub(super) const TRANSLATION: c_int = 1;
    pub(super) const PD: c_int = 1 << 1;
    pub(super) const ACCESS: c_int = 1 << 2;
}

/// `IBV_REREG_MR_ERR_INPUT`: the region is unchanged.
const INPUT: c_int = -1;
/// `IBV_REREG_MR_ERR_CMD`: it is gone, and can only be deregistered.
const CMD: c_int = -4;

/// `ibv_rereg_mr`: 0, or one of verbs' negative numbers.
///
/// # Safety
/// `mr` and, if it is changed, `pd` are valid; as [`reg_mr`].
pub unsafe extern "C" fn rereg_mr(
    mr: *mut Mr,
    what: c_int,
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    flags: c_int,
) -> c_int {
    catch_panics(CMD, || {
        // SAFETY: the caller's.
        let object = unsafe { MrObject::of(mr) };
        // SAFETY: the caller's: nobody else changes it at the same time.
        let shown = unsafe { object.abi.get().read() };
        // SAFETY: the caller's: a context outlives its objects. A parent domain need not outlive
        // its regions.
        let open = unsafe { OpenContext::of(shown.context) };
        let wrong = |number| {
            fail(number);
            INPUT
        };
        if what & !(change::TRANSLATION | change::PD | change::ACCESS) != 0 || what == 0 {
            return wrong(libc::EINVAL);
        }
        let access = match what & change::ACCESS {
            0 => None,
            _ => match rights(flags as c_uint) {
                Ok(rights) => Some(rights),
                Err(number) => return wrong(number),
            },
        };
        let moved = what & change::TRANSLATION != 0;
        if moved && (address.is_null() || length == 0) {
            return wrong(libc::EINVAL);
        }
        let new_pd = (what & change::PD != 0).then_some(pd);
        // SAFETY: the caller's.
        let is_own = |pd: *mut Pd| unsafe { !pd.is_null() && (*pd).context == shown.context };
        if new_pd.is_some_and(|pd| !is_own(pd)) {
            return wrong(libc::EINVAL);
        }
        // SAFETY: the caller's.
        let domain = new_pd.map(|pd| unsafe { PdObject::of(pd) });
        if domain.is_some_and(|domain| domain.context() != shown.context) {
            return wrong(libc::EINVAL);
        }
        let changes = ReregMr {
            key: shown.handle,
            pd: domain.map(PdObject::number),
            access,
            memory: moved.then_some(Memory {
                address: address as usize,
                length,
            }),
            iova: None,
        };
        let key = match open.control().ask(changes) {
            Ok(key) => key,
            Err(lost) if lost.kind == Kind::MrLost => {
                object.is_retired.store(true, Ordering::Release);
                fail(lost.errno);
                return CMD;
            }
            Err(refused) => {
                complain_of("memory is not registered", &refused);
                return wrong(refused.errno);
            }
        };
        let mut now = shown;
        (now.handle, now.lkey, now.rkey) = (key, key, key);
        if moved {
            (now.addr, now.length) = (address, length);
        }
        now.pd = new_pd.unwrap_or(now.pd);
        // SAFETY: the caller's: nobody else changes it at the same time.
        unsafe { object.abi.get().write(now) };
        0
    })
}
