//! Address handles, and addresses as verbs has them; `answer` finds the address of a datagram's
//! sender.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use e810::{Gid, Path};

use crate::abi::objects::{Ah, Pd};
use crate::abi::state::AhAttr;
use crate::control::{CreateAh, DestroyAh, QueryGids, Refused, Resolve};
use crate::device::context::{Object, OpenContext};
use crate::errno::no_object;
use crate::panics::catch_panics;
use crate::pd::PdObject;

pub mod answer;

/// The object behind the `ibv_ah` that a program sees; its number is the `handle`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct AhObject {
    abi: UnsafeCell<Ah>,
    /// The device no longer has it.
    is_retired: AtomicBool,
}

impl AhObject {
    /// The address handle that a program names.
    ///
    /// # Safety
    /// `ah` came from [`create_ah`] and is not destroyed.
    pub(crate) unsafe fn of<'a>(ah: *mut Ah) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*ah.cast::<Self>() }
    }

    /// Destroys it in the device, unless that is done already: 0, or the error.
    ///
    /// # Safety
    /// Its context exists.
    pub(crate) unsafe fn retire(&self) -> c_int {
        if self.is_retired.load(Ordering::Acquire) {
            return 0;
        }
        // SAFETY: it is never written after the creation; a context outlives its objects.
        let (number, open) = unsafe {
            let shown = self.abi.get().read();
            (shown.handle, OpenContext::of(shown.context))
        };
        if let Err(refused) = open.control().ask(DestroyAh { number }) {
            return refused.errno;
        }
        self.is_retired.store(true, Ordering::Release);
        0
    }
}

/// The path to an address: EINVAL without a GID, because RoCE has no other name for it; else the
/// errors of the resolver.
pub(crate) fn path(open: &OpenContext, attr: &AhAttr) -> Result<Path, c_int> {
    if attr.is_global == 0 || attr.port_num != 1 {
        return Err(libc::EINVAL);
    }
    let wrong = |refused: Refused| refused.errno;
    let control = open.control();
    let route = &attr.grh;
    let table = control.ask(QueryGids {}).map_err(wrong)?;
    let own = table.get(route.sgid_index).ok_or(libc::EINVAL)?;
    let destination = Gid(route.dgid.raw).ip();
    if destination.is_unspecified() {
        return Err(libc::EINVAL);
    }
    let found = control
        .ask(Resolve {
            destination,
            vlan: own.vlan,
            limit: None,
        })
        .map_err(wrong)?;
    let mut path = if destination.is_multicast() {
        Path::to_group(route.sgid_index, destination)
    } else {
        Path::new(route.sgid_index, destination, found.mac)
    };
    // As Linux' verbs layer does for RoCE (`ib_resolve_unicast_gid_dmac`): whatever the program
    // gave, the route to a station decides how far packets go. Many programs leave 0 or 1 there.
    path.hop_limit = match destination.is_multicast() {
        true => route.hop_limit,
        false => found.route.hop_limit,
    };
    path.traffic_class = route.traffic_class;
    path.flow_label = route.flow_label & 0xF_FFFF;
    // As irdma does (`irdma_roce_get_vlan_prio`).
    let priority = Path::priority_of(route.traffic_class);
    path.priority = found.route.priority(priority);
    Ok(path)
}

/// An address as queries return it: without the fields that RoCE does not have.
pub(crate) fn queried(given: &AhAttr) -> AhAttr {
    AhAttr {
        grh: given.grh,
        sl: given.sl,
        is_global: 1,
        port_num: 1,
        ..AhAttr::default()
    }
}

/// `ibv_create_ah`.
///
/// # Safety
/// `pd` is a protection domain, and `attr` can be read.
pub unsafe extern "C" fn create_ah(pd: *mut Pd, attr: *mut AhAttr) -> *mut Ah {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let domain = unsafe { PdObject::of(pd) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { domain.open() };
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        let made = path(open, &asked).and_then(|path| {
            let made = open.control().ask(CreateAh {
                pd: domain.number(),
                path,
            });
            made.map_err(|refused| refused.errno)
        });
        let number = match made {
            Ok(number) => number,
            Err(number) => return no_object(number),
        };
        let ah = Box::new(AhObject {
            abi: UnsafeCell::new(Ah {
                context: domain.context(),
                pd,
                handle: number,
            }),
            is_retired: AtomicBool::new(false),
        });
        let ah = Box::into_raw(ah).cast::<Ah>();
        open.enter(Object::Ah(ah));
        ah
    })
}

/// `ibv_destroy_ah`.
///
/// # Safety
/// `ah` came from [`create_ah`], and is not used after this has returned 0.
pub unsafe extern "C" fn destroy_ah(ah: *mut Ah) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's: a context outlives its objects.
        let number = unsafe { AhObject::of(ah).retire() };
        if number != 0 {
            return number;
        }
        // SAFETY: the caller's: made as a box, and nobody uses it any more.
        unsafe {
            OpenContext::leave((*ah).context, &Object::Ah(ah));
            drop(Box::from_raw(ah.cast::<AhObject>()));
        }
        0
    })
}
