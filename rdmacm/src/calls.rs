//! The functions about ids, their listeners, and the ends of their connections.

use core::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::slice;
use std::sync::Arc;

use e810_cm::Reason;
use e810_cm::machine::{Listen, ListenerId};
use e810_connect::{Answer, Call};
use e810_verbs::errno::fail;
use e810_verbs::panics::catch_panics;

use crate::abi::{CmEvent, CmId, EventChannel, event};
use crate::address;
use crate::channel::get_cm_event;
use crate::devices::{self, Device};
use crate::id::{self, Id, Phase, space};
use crate::resolve::{bind, check_port, free_port, ports};

/// Requests that wait for a listener, at most: the kernel's `default_backlog`.
const BACKLOG: u32 = 1024;

/// 0, or -1 and errno; a synchronous id waits for the event of what it has asked for. A waiting thread
/// can be cancelled, so this is called where nothing has a destructor, and not in [`catch_panics`].
///
/// # Safety
/// `id` exists.
pub(crate) unsafe fn done(id: *mut CmId, asked: Result<(), c_int>) -> c_int {
    if let Err(number) = asked {
        return fail(number);
    }
    // SAFETY: the caller's.
    match catch_panics(false, || unsafe { Id::of(id) }.state().is_synchronous) {
        // SAFETY: as above.
        true => unsafe { waited(id) },
        false => 0,
    }
}

/// Waits for the next event of a synchronous id, which keeps it. Where it is called: as [`done`].
///
/// # Safety
/// `id` exists.
pub(crate) unsafe fn waited(id: *mut CmId) -> c_int {
    let mut event: *mut CmEvent = ptr::null_mut();
    let channel = catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        id.give_up_event();
        id.seen().channel
    });
    // SAFETY: the id's own channel.
    if channel.is_null() || unsafe { get_cm_event(channel, &raw mut event) } != 0 {
        return -1;
    }
    catch_panics(-1, || {
        // SAFETY: only calls of the program change it; the event was given just now.
        let (kind, status) = unsafe {
            (*id).event = event;
            ((*event).event, (*event).status)
        };
        match (kind, status) {
            (_, 0) => 0,
            (event::REJECTED, _) => fail(libc::ECONNREFUSED),
            (_, ..0) => fail(-status),
            _ => fail(libc::EIO),
        }
    })
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
        if !devices::are_known() {
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
    id.step(&[Phase::Bound], Phase::Listening)?;
    let listeners = listen_at_port(id, backlog);
    match listeners {
        Ok(listeners) => {
            id.state().listeners = listeners;
            Ok(())
        }
        Err(number) => {
            let _ = id.step(&[Phase::Listening], Phase::Bound);
            Err(number)
        }
    }
}

type Listeners = Vec<(Arc<Device>, ListenerId)>;

/// At the port of an id; if the library has chosen it, and another program listens there, at another
/// one.
fn listen_at_port(id: &Arc<Id>, backlog: c_int) -> Result<Listeners, c_int> {
    /// All programs of a function have fewer ports.
    const TRIES: usize = 1000;
    let local = id.state().local.ok_or(libc::EINVAL)?;
    {
        let _ports = ports();
        // As the kernel: who listens shares its port with nobody.
        check_port(id, local, false)?;
    }
    for _ in 0..TRIES {
        match listen_everywhere(id, backlog) {
            Err(libc::EADDRINUSE) if id.state().has_any_port => {
                let _ports = ports();
                let port = free_port(id)?;
                id.set_local(&mut id.state(), SocketAddr::new(local.ip(), port));
            }
            listening => return listening,
        }
    }
    Err(libc::EADDRINUSE)
}

/// On all devices of its address, or on none.
fn listen_everywhere(id: &Arc<Id>, backlog: c_int) -> Result<Listeners, c_int> {
    let device = {
        let mut state = id.state();
        // As the kernel: its limit stands for 0 and for more.
        let asked = u32::try_from(backlog).unwrap_or_default();
        let is_usual = (1..=BACKLOG).contains(&asked);
        state.backlog = if is_usual { asked } else { BACKLOG };
        state.device.clone()
    };
    let mut listeners = Vec::new();
    for device in device.map_or_else(devices::all, |device| vec![device]) {
        match listen_on(id, &device) {
            Ok(listener) => listeners.push((device, listener)),
            Err(number) => {
                for (device, listener) in listeners {
                    let _ = device.call(&Call::Unlisten(listener));
                }
                id.end_requests();
                return Err(number);
            }
        }
    }
    Ok(listeners)
}

fn listen_on(id: &Id, device: &Device) -> Result<ListenerId, c_int> {
    let space = space(id.seen().ps).ok_or(libc::EINVAL)?;
    let listen = {
        let state = id.state();
        let local = state.local.ok_or(libc::EINVAL)?;
        let any = address::any(&local.ip());
        Listen {
            space,
            port: local.port(),
            address: state.own.map_or(any, |own| own.ip),
            only_family: state.options.is_of_family(local),
            backlog: state.backlog,
            context: id.token,
        }
    };
    match device.call(&Call::Listen(listen))? {
        Answer::Listener(listener, _) => Ok(listener),
        _ => Err(libc::EIO),
    }
}

/// Those that listen on all devices, there are and there will be.
fn everywhere() -> Vec<Arc<Id>> {
    id::all(|id| {
        let state = id.state();
        state.phase == Phase::Listening && state.device.is_none()
    })
}

pub(crate) fn is_listened_everywhere() -> bool {
    !everywhere().is_empty()
}

/// A device is there again: who listens everywhere listens there, too.
pub(crate) fn listen_again(device: &Arc<Device>) {
    for id in everywhere() {
        // If another program has got the port meanwhile, nobody can be told, as in the kernel.
        let Ok(listener) = listen_on(&id, device) else {
            continue;
        };
        let mut state = id.state();
        if !state.is_over {
            state
                .listeners
                .retain(|(before, _)| before.listed != device.listed);
            state.listeners.push((device.clone(), listener));
            continue;
        }
        drop(state);
        let _ = device.call(&Call::Unlisten(listener));
    }
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
pub unsafe extern "C-unwind" fn disconnect(id: *mut CmId) -> c_int {
    let begun = catch_panics(Err(libc::EIO), || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        if id.state().phase == Phase::Listening {
            return Ok(false);
        }
        id.stop();
        let (device, connection) = id.connection()?;
        // As the kernel: it does not matter whether there is anything to end yet, or any more.
        if device.call(&Call::Disconnect(connection)).is_ok() {
            id.state().has_left = true;
        }
        Ok(true)
    });
    match begun {
        Ok(false) => 0,
        // SAFETY: the caller's.
        begun => unsafe { done(id, begun.map(drop)) },
    }
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
        let ready = id.connection().and_then(|(device, connection)| {
            if !id.seen().qp.is_null() {
                return Err(libc::EINVAL);
            }
            // First: its end may be told at once.
            id.step(&[Phase::Responded], Phase::Connected)?;
            let ready = device.call(&Call::Ready(connection)).map(drop);
            if ready.is_err() {
                let _ = id.step(&[Phase::Connected], Phase::Responded);
            }
            ready
        });
        match ready {
            Ok(()) => 0,
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
