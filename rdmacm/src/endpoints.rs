//! `rdma_create_ep`: an id with an address and a queue pair in one call; and the requests of such a
//! listener.

use core::ffi::c_int;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use e810_verbs::abi::make::QpInitAttr;
use e810_verbs::abi::objects::Pd;
use e810_verbs::errno::{self, fail};
use e810_verbs::fork::PerProcess;
use e810_verbs::panics::catch_panics;

use crate::abi::{AddrInfo, CmId, event};
use crate::calls::waited;
use crate::id::Id;
use crate::queue_pairs::{create_qp, destroy_qp};
use crate::resolve::{bind_addr, resolve_addr, resolve_route};

/// What an address is looked up for, in [`AddrInfo::flags`].
pub(crate) const PASSIVE: c_int = 1;
/// How long the resolution of an endpoint may take, in ms.
const LIMIT: c_int = 2000;

/// The queue pair that each request of a listener gets.
#[derive(Clone, Copy, Debug)]
struct OfRequests(*mut Pd, QpInitAttr);

// SAFETY: any thread may use a protection domain and what else is named there.
unsafe impl Send for OfRequests {}

/// By the tokens of listeners.
static OF_REQUESTS: PerProcess<Mutex<HashMap<u64, OfRequests>>> = PerProcess::new();

fn with_requests<R>(act: impl FnOnce(&mut HashMap<u64, OfRequests>) -> R) -> R {
    let all = OF_REQUESTS.get_or_init(Mutex::default);
    act(&mut all.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The endpoint is gone, however it was destroyed.
pub(crate) fn is_gone(token: u64) {
    with_requests(|all| all.remove(&token));
}

/// Gives a request the queue pair that its listener's endpoint was made with.
pub(crate) fn like(listener: &Id, made: &Arc<Id>) -> Result<(), c_int> {
    let Some(OfRequests(pd, mut attr)) = with_requests(|all| all.get(&listener.token).copied())
    else {
        return Ok(());
    };
    attr.qp_type = listener.seen().qp_type;
    // SAFETY: the program keeps what it has named as long as it takes requests.
    match unsafe { create_qp(made.shown(), pd, &raw mut attr) } {
        0 => Ok(()),
        _ => Err(errno::now()),
    }
}

/// `rdma_create_ep`: 0, or -1 and errno. The id is synchronous.
///
/// # Safety
/// `id` can be written; `info` can be read, and `attr` is null or can be read and written; `pd` is null
/// or a protection domain.
pub unsafe extern "C" fn create_ep(
    id: *mut *mut CmId,
    info: *mut AddrInfo,
    pd: *mut Pd,
    attr: *mut QpInitAttr,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let info = unsafe { info.read() };
        // SAFETY: null makes a channel.
        let made = match unsafe { Id::make(ptr::null_mut(), ptr::null_mut(), info.port_space) } {
            Ok(made) => made,
            Err(number) => return fail(number),
        };
        let shown = made.shown();
        // SAFETY: the caller's; the id was made just now.
        let done = unsafe {
            match info.flags & PASSIVE {
                0 => active(shown, &info, pd, attr),
                _ => passive(&made, &info, pd, attr),
            }
        };
        if done != 0 {
            let number = errno::now();
            made.end();
            return fail(number);
        }
        // SAFETY: the caller's.
        unsafe { id.write(shown) };
        0
    })
}

/// # Safety
/// As [`create_ep`].
unsafe fn active(id: *mut CmId, info: &AddrInfo, pd: *mut Pd, attr: *mut QpInitAttr) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        if resolve_addr(id, info.src_addr, info.dst_addr, LIMIT) != 0
            || resolve_route(id, LIMIT) != 0
        {
            return -1;
        }
        if attr.is_null() {
            return 0;
        }
        (*attr).qp_type = info.qp_type;
        create_qp(id, pd, attr)
    }
}

/// # Safety
/// As [`create_ep`].
unsafe fn passive(id: &Arc<Id>, info: &AddrInfo, pd: *mut Pd, attr: *mut QpInitAttr) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        if bind_addr(id.shown(), info.src_addr) != 0 {
            return -1;
        }
        if !attr.is_null() {
            let requests = OfRequests(pd, attr.read());
            with_requests(|all| all.insert(id.token, requests));
        }
        (*id.abi()).qp_type = info.qp_type;
        if !pd.is_null() {
            (*id.abi()).pd = pd;
        }
    }
    0
}

/// `rdma_get_request`: 0, or -1 and errno. Waits for a peer that asks a synchronous listener. The new id
/// keeps the event, in which is what the peer has said.
///
/// # Safety
/// `listener` exists, and `id` can be written.
pub unsafe extern "C-unwind" fn get_request(listener: *mut CmId, id: *mut *mut CmId) -> c_int {
    // SAFETY: the caller's.
    if !catch_panics(false, || unsafe { Id::of(listener) }.state().is_synchronous) {
        return fail(libc::EINVAL);
    }
    // SAFETY: as above. A thread that waits here can be cancelled.
    if unsafe { waited(listener) } != 0 {
        return -1;
    }
    catch_panics(-1, || {
        // SAFETY: as above.
        let listener = unsafe { Id::of(listener) };
        let event = listener.seen().event;
        // SAFETY: the listener keeps it, until it is given on.
        let (kind, requested) = unsafe { ((*event).event, (*event).id) };
        if kind != event::CONNECT_REQUEST {
            return fail(libc::EINVAL);
        }
        // SAFETY: it was made for this event.
        let made = unsafe { Id::of(requested) };
        // SAFETY: null makes a channel.
        if let Err(number) = unsafe { made.migrate(ptr::null_mut()) } {
            return fail(number);
        }
        // SAFETY: only calls of the program change both: what the peer has said is the new id's.
        unsafe {
            (*listener.abi()).event = ptr::null_mut();
            (*made.abi()).event = event;
        }
        if let Err(number) = like(&listener, &made) {
            made.end();
            return fail(number);
        }
        // SAFETY: the caller's.
        unsafe { id.write(requested) };
        0
    })
}

/// `rdma_destroy_ep`: the id and its queue pair.
///
/// # Safety
/// `id` exists, and is not used any more.
pub unsafe extern "C" fn destroy_ep(id: *mut CmId) {
    catch_panics((), || {
        // SAFETY: the caller's.
        unsafe {
            destroy_qp(id);
            Id::of(id).end();
        }
    });
}
