//! The functions about ids, their listeners, and the ends of their connections.

use core::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::slice;
use std::sync::Arc;

use e810_cm::Reason;
use e810_cm::machine::Listen;
use e810_connect::{Answer, Call};
use e810_verbs::errno::fail;
use e810_verbs::panics::catch_panics;

use crate::abi::{CmEvent, CmId, EventChannel, event};
use crate::address;
use crate::channel::get_cm_event;
use crate::devices;
use crate::id::{Id, Phase, space};
use crate::resolve::bind;

/// Requests that wait for a listener, at most: the kernel's `default_backlog`.
const BACKLOG: u32 = 1024;

/// 0, or -1 and errno; a synchronous id waits for the event of what it has asked for.
pub(crate) fn done(id: &Arc<Id>, asked: Result<(), c_int>) -> c_int {
    match asked {
        Err(number) => fail(number),
        Ok(()) if id.state().is_synchronous => waited(id),
        Ok(()) => 0,
    }
}

/// Waits for the next event of a synchronous id, which keeps it.
pub(crate) fn waited(id: &Arc<Id>) -> c_int {
    id.give_up_event();
    let mut event: *mut CmEvent = ptr::null_mut();
    // SAFETY: the id's own channel.
    if unsafe { get_cm_event(id.seen().channel, &raw mut event) } != 0 {
        return -1;
    }
    // SAFETY: only calls of the program change it; the event was given just now.
    let (kind, status) = unsafe {
        (*id.abi()).event = event;
        ((*event).event, (*event).status)
    };
    match (kind, status) {
        (_, 0) => 0,
        (event::REJECTED, _) => fail(libc::ECONNREFUSED),
        (_, ..0) => fail(-status),
        _ => fail(libc::EIO),
    }
}

/// `rdma_create_id`: 0, or -1 and errno. Without a channel the id is synchronous.
///
/// # Safety
/// `channel` is null or an event channel, and `id` can be written.
pub unsafe extern "C" fn create_id(
    channel: *mut EventChannel,
    id: *mut *mut CmId,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    catch_panics(-1, || {
        if devices::all().is_empty() {
            return fail(libc::ENODEV);
        }
        if space(ps).is_none() {
            return fail(libc::EINVAL);
        }
        // SAFETY: the caller's.
        match unsafe { Id::make(channel, context, ps) } {
            Ok(made) => {
                // SAFETY: the caller's.
                unsafe { id.write(made.shown()) };
                0
            }
            Err(number) => fail(number),
        }
    })
}

/// `rdma_destroy_id`: waits until its events are acknowledged. The queue pair stays.
///
/// # Safety
/// `id` exists, and is not used any more.
pub unsafe extern "C" fn destroy_id(id: *mut CmId) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        unsafe { Id::of(id) }.end();
        0
    })
}

/// `rdma_listen`: 0, or -1 and errno.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn listen(id: *mut CmId, backlog: c_int) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // Nothing follows that a synchronous id waits for.
        match begin_listen(&id, backlog) {
            Ok(()) => 0,
            Err(number) => fail(number),
        }
    })
}

fn begin_listen(id: &Arc<Id>, backlog: c_int) -> Result<(), c_int> {
    if id.state().phase == Phase::Idle {
        bind(id, SocketAddr::new(IpAddr::from([0; 4]), 0))?;
    }
    let space = space(id.seen().ps).ok_or(libc::EINVAL)?;
    let (local, device, only_family, phase) = {
        let state = id.state();
        let local = state.local.ok_or(libc::EINVAL)?;
        let only_family = state.options.only_family;
        (local, state.device.clone(), only_family, state.phase)
    };
    if phase != Phase::Bound {
        return Err(libc::EINVAL);
    }
    let devices = device.map_or_else(devices::all, |device| vec![device]);
    let listen = Listen {
        space,
        port: local.port(),
        address: match id.state().own {
            Some(own) => own.ip,
            None => address::any(&local.ip()),
        },
        only_family: only_family || local.is_ipv4(),
        // As the kernel: its limit stands for 0 and for more.
        backlog: u32::try_from(backlog)
            .ok()
            .filter(|backlog| (1..=BACKLOG).contains(backlog))
            .unwrap_or(BACKLOG),
        context: id.token,
    };
    let mut listeners = Vec::new();
    for device in devices {
        let number = match device.call(&Call::Listen(listen)) {
            Ok(Answer::Listener(listener, _)) => {
                listeners.push((device, listener));
                continue;
            }
            other => other.err().unwrap_or(libc::EIO),
        };
        // On all devices, or on none.
        for (device, listener) in listeners {
            let _ = device.call(&Call::Unlisten(listener));
        }
        return Err(number);
    }
    let mut state = id.state();
    state.listeners = listeners;
    state.phase = Phase::Listening;
    Ok(())
}

/// Private data.
///
/// # Safety
/// They can be read.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: u8) -> &'a [u8] {
    match data.is_null() {
        true => &[],
        // SAFETY: the caller's.
        false => unsafe { slice::from_raw_parts(data.cast(), length.into()) },
    }
}

/// `rdma_reject`: 0, or -1 and errno.
///
/// # Safety
/// `id` exists, and `length` bytes of `data` can be read.
pub unsafe extern "C" fn reject(id: *mut CmId, data: *const c_void, length: u8) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        unsafe { reject_with(id, data, length, Reason::CONSUMER_DEFINED) }
    })
}

/// Refuses for a reason.
///
/// # Safety
/// As [`reject`].
pub(crate) unsafe fn reject_with(
    id: *mut CmId,
    data: *const c_void,
    length: u8,
    reason: Reason,
) -> c_int {
    // SAFETY: the caller's.
    let (id, data) = unsafe { (Id::of(id), bytes(data, length)) };
    let rejected = id.connection().and_then(|(device, connection)| {
        // SIDR's status 2 is a refusal (cm-path 3.9).
        let call = match id.is_datagrams() {
            true => Call::Answer(connection, Err(2), data),
            false => Call::Reject(connection, reason, data),
        };
        device.call(&call).map(drop)
    });
    match rejected {
        Ok(()) => 0,
        Err(number) => fail(number),
    }
}

/// `rdma_disconnect`: 0, or -1 and errno; DISCONNECTED follows. The queue pair is in ERROR.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn disconnect(id: *mut CmId) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        if id.state().phase == Phase::Listening {
            return 0;
        }
        id.stop();
        let ended = id
            .connection()
            .and_then(|(device, connection)| device.call(&Call::Disconnect(connection)).map(drop));
        done(&id, ended)
    })
}

/// `rdma_establish`: 0, or -1 and errno. For ids without a queue pair, whose program has brought its own
/// one up.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn establish(id: *mut CmId) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        let is_responded = id.state().phase == Phase::Responded && id.seen().qp.is_null();
        let ready = id.connection().and_then(|(device, connection)| {
            if !is_responded {
                return Err(libc::EINVAL);
            }
            device.call(&Call::Ready(connection)).map(drop)
        });
        match ready {
            Ok(()) => {
                id.state().phase = Phase::Connected;
                0
            }
            Err(number) => fail(number),
        }
    })
}

/// `rdma_notify`: 0, or -1 and errno: the first message has come to the queue pair of one who has
/// accepted. EISCONN for who is connected already.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn notify(id: *mut CmId, event: c_int) -> c_int {
    /// `IBV_EVENT_COMM_EST`.
    const COMM_EST: c_int = 4;
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        let (phase, has_accepted) = {
            let state = id.state();
            (state.phase, state.request.is_some())
        };
        let told = id
            .connection()
            .and_then(|(device, connection)| match (event, phase) {
                (COMM_EST, Phase::Connected) => Err(libc::EISCONN),
                (COMM_EST, Phase::Connecting) if has_accepted => {
                    device.call(&Call::DataArrived(connection)).map(drop)
                }
                _ => Err(libc::EINVAL),
            });
        match told {
            Ok(()) => 0,
            Err(number) => fail(number),
        }
    })
}

/// `rdma_get_src_port`: in network byte order; 0 without one.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn get_src_port(id: *mut CmId) -> u16 {
    catch_panics(0, || {
        // SAFETY: the caller's.
        let local = unsafe { Id::of(id) }.state().local;
        local.map_or(0, |local| local.port().to_be())
    })
}

/// `rdma_get_dst_port`: in network byte order; 0 without one.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn get_dst_port(id: *mut CmId) -> u16 {
    catch_panics(0, || {
        // SAFETY: the caller's.
        let remote = unsafe { Id::of(id) }.state().remote;
        remote.map_or(0, |remote| remote.port().to_be())
    })
}
