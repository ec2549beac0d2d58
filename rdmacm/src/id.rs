//! Ids: what a program calls a connection, a listener, or a queue pair for datagrams.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use e810_cm::ip::PortSpace;
use e810_cm::machine::{ConnectionId, ListenerId};
use e810_connect::{Attributes, Call, Requested};
use e810_verbs::abi::constants::qp_type;
use e810_verbs::acknowledged::Acknowledged;
use e810_verbs::fork::PerProcess;

use crate::abi::{Addr, CmEvent, CmId, EventChannel, PathRec, Route, event, port_space};
use crate::address::{self, NONE};
use crate::channel::{Channel, Queue};
use crate::devices::{Device, Own};
use crate::endpoints;
use crate::happening::{Given, Happening};
use crate::options::Options;

/// Where an id stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Idle,
    /// It has an address.
    Bound,
    Resolving,
    /// It has a device and the peer's address.
    Resolved,
    /// It may connect.
    Routed,
    Listening,
    /// A peer has asked for it.
    Requested,
    /// A peer was asked, or accepted.
    Connecting,
    /// The peer has accepted, and the program is to bring its queue pair up.
    Responded,
    Connected,
    Ending,
}

/// What changes of an id.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) device: Option<Arc<Device>>,
    /// The own address, once there is one.
    pub(crate) own: Option<Own>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) listeners: Vec<(Arc<Device>, ListenerId)>,
    pub(crate) request: Option<Requested>,
    /// How its queue pair is brought up, as the connection manager said last.
    pub(crate) attributes: Option<Box<Attributes>>,
    /// The program has disconnected it; DISCONNECTED may not be here yet.
    pub(crate) has_left: bool,
    /// Requests that wait for it, at most.
    pub(crate) backlog: u32,
    /// Its port is one that the library has chosen.
    pub(crate) has_any_port: bool,
    pub(crate) options: Options,
    /// READs that the peer may have outstanding; for the rights of the queue pair.
    pub(crate) responder_resources: u8,
    /// Groups that it is in, with the program's address and word.
    pub(crate) groups: Vec<(SocketAddr, usize)>,
    /// The path of its route, which programs see.
    path: Option<Box<PathRec>>,
    /// It waits for what it asks for, on a channel of its own.
    pub(crate) is_synchronous: bool,
    queue: Arc<Queue>,
    /// The program has destroyed it, and hears nothing of it any more.
    pub(crate) is_over: bool,
    /// Requests that came to it when nobody took them any more.
    unwanted: Vec<(Arc<Device>, ConnectionId)>,
}

/// The object behind the `rdma_cm_id` that a program sees.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Id {
    abi: UnsafeCell<CmId>,
    /// Its name at the connection manager.
    pub(crate) token: u64,
    state: Mutex<State>,
    events: Acknowledged,
}

// SAFETY: programs use ids in any thread. Of the part that they see, the library writes what it
// says of each call, when the program makes the call or before it takes the event.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

/// All ids, by their tokens. A child of fork has its own: a thread of its parent, one of this library,
/// may have had the lock.
static IDS: PerProcess<Mutex<HashMap<u64, Arc<Id>>>> = PerProcess::new();

fn with_ids<R>(act: impl FnOnce(&mut HashMap<u64, Arc<Id>>) -> R) -> R {
    let ids = IDS.get_or_init(Mutex::default);
    act(&mut ids.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The id with a token.
pub(crate) fn find(token: u64) -> Option<Arc<Id>> {
    with_ids(|ids| ids.get(&token).cloned())
}

/// All ids of which `is_it` is true.
pub(crate) fn all(is_it: impl Fn(&Id) -> bool) -> Vec<Arc<Id>> {
    let all: Vec<_> = with_ids(|ids| ids.values().cloned().collect());
    all.into_iter().filter(|id| is_it(id)).collect()
}

/// The port space with this number; `None` for one that is none.
pub(crate) const fn space(number: c_int) -> Option<PortSpace> {
    match number {
        port_space::TCP => Some(PortSpace::Tcp),
        port_space::UDP => Some(PortSpace::Udp),
        port_space::IPOIB => Some(PortSpace::Ipoib),
        port_space::IB => Some(PortSpace::Ib),
        _ => None,
    }
}

impl Id {
    /// Makes an id whose events come to a channel; without one it is synchronous.
    ///
    /// # Errors
    /// The number for `errno`.
    ///
    /// # Safety
    /// `channel` is null or an event channel.
    pub(crate) unsafe fn make(
        channel: *mut EventChannel,
        context: *mut c_void,
        space: c_int,
    ) -> Result<Arc<Self>, c_int> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let is_synchronous = channel.is_null();
        let channel = match is_synchronous {
            true => Channel::make()?,
            false => channel,
        };
        // SAFETY: the caller's, or made just now.
        let queue = unsafe { Channel::of(channel) }.queue().clone();
        let id = Arc::new(Self {
            abi: UnsafeCell::new(CmId {
                verbs: ptr::null_mut(),
                channel,
                context,
                qp: ptr::null_mut(),
                route: Route {
                    addr: Addr {
                        src: NONE,
                        dst: NONE,
                        sgid: e810_verbs::abi::state::Gid::default(),
                        dgid: e810_verbs::abi::state::Gid::default(),
                        pkey: 0,
                    },
                    path_rec: ptr::null_mut(),
                    num_paths: 0,
                },
                ps: space,
                port_num: 0,
                event: ptr::null_mut(),
                send_cq_channel: ptr::null_mut(),
                send_cq: ptr::null_mut(),
                recv_cq_channel: ptr::null_mut(),
                recv_cq: ptr::null_mut(),
                srq: ptr::null_mut(),
                pd: ptr::null_mut(),
                qp_type: match space {
                    port_space::UDP | port_space::IPOIB => qp_type::UD,
                    _ => qp_type::RC,
                },
            }),
            token: NEXT.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(State {
                phase: Phase::Idle,
                device: None,
                own: None,
                local: None,
                remote: None,
                connection: None,
                listeners: Vec::new(),
                request: None,
                attributes: None,
                has_left: false,
                backlog: 0,
                has_any_port: false,
                options: Options::default(),
                responder_resources: 0,
                groups: Vec::new(),
                path: None,
                is_synchronous,
                queue,
                is_over: false,
                unwanted: Vec::new(),
            }),
            events: Acknowledged::default(),
        });
        with_ids(|ids| ids.insert(id.token, id.clone()));
        Ok(id)
    }

    /// The id that a program names.
    ///
    /// # Safety
    /// `id` came from [`Self::shown`] and is not destroyed.
    pub(crate) unsafe fn of(id: *mut CmId) -> Arc<Self> {
        // SAFETY: the caller's: it is the first field of one, which is kept in an `Arc`.
        unsafe {
            Arc::increment_strong_count(id.cast::<Self>().cast_const());
            Arc::from_raw(id.cast::<Self>().cast_const())
        }
    }

    /// What programs see of it.
    pub(crate) fn shown(self: &Arc<Self>) -> *mut CmId {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// The part that programs see, to be read and written field by field.
    pub(crate) const fn abi(&self) -> *mut CmId {
        self.abi.get()
    }

    /// A copy of it.
    pub(crate) fn seen(&self) -> CmId {
        // SAFETY: it is always written whole, or fields of it.
        unsafe { self.abi.get().read() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes from one of some phases to another: of two threads that try, one does.
    ///
    /// # Errors
    /// EINVAL: it is in none of these.
    pub(crate) fn step(&self, from: &[Phase], to: Phase) -> Result<Phase, c_int> {
        let mut state = self.state();
        match from.contains(&state.phase) {
            true => Ok(core::mem::replace(&mut state.phase, to)),
            false => Err(libc::EINVAL),
        }
    }

    pub(crate) const fn events(&self) -> &Acknowledged {
        &self.events
    }

    pub(crate) fn is_datagrams(&self) -> bool {
        self.seen().qp_type == qp_type::UD
    }

    /// The device that it has.
    ///
    /// # Errors
    /// EINVAL: none yet.
    pub(crate) fn device(&self) -> Result<Arc<Device>, c_int> {
        self.state().device.clone().ok_or(libc::EINVAL)
    }

    /// Its connection, and who has it.
    ///
    /// # Errors
    /// EINVAL: there is none.
    pub(crate) fn connection(&self) -> Result<(Arc<Device>, ConnectionId), c_int> {
        let state = self.state();
        let device = state.device.clone().ok_or(libc::EINVAL)?;
        Ok((device, state.connection.ok_or(libc::EINVAL)?))
    }

    /// Gives it a device and an own address.
    pub(crate) fn bind_to(&self, state: &mut State, device: &Arc<Device>, own: Own, port: u16) {
        state.own = Some(own);
        state.device = Some(device.clone());
        self.set_local(state, SocketAddr::new(own.ip, port));
        // SAFETY: fields that the program reads after the call, or the event, that this belongs to.
        unsafe {
            let abi = self.abi.get();
            (*abi).verbs = device.context;
            (*abi).port_num = 1;
            (*abi).route.addr.sgid.raw = own.gid.0;
            (*abi).route.addr.pkey = 0xFFFF_u16.to_be();
            if (*abi).pd.is_null() {
                (*abi).pd = device.pd;
            }
        }
    }

    pub(crate) fn set_local(&self, state: &mut State, local: SocketAddr) {
        state.local = Some(local);
        // SAFETY: as in `bind_to`.
        unsafe { (*self.abi.get()).route.addr.src = address::stored(local) };
    }

    pub(crate) fn set_remote(&self, state: &mut State, remote: SocketAddr) {
        state.remote = Some(remote);
        let gid = e810::GidEntry::untagged(remote.ip()).gid;
        // SAFETY: as in `bind_to`.
        unsafe {
            let abi = self.abi.get();
            (*abi).route.addr.dst = address::stored(remote);
            (*abi).route.addr.dgid.raw = gid.0;
        }
    }

    /// Shows the path of its route.
    pub(crate) fn show_path(&self, state: &mut State, path: PathRec) {
        let path = state.path.insert(Box::new(path));
        // SAFETY: as in `bind_to`; the box stays where it is until the id ends.
        unsafe {
            let abi = self.abi.get();
            (*abi).route.path_rec = &raw mut **path;
            (*abi).route.num_paths = 1;
        }
    }

    /// Puts an event into its channel; false if it is destroyed, or there is no room.
    pub(crate) fn tell(&self, happening: Happening) -> bool {
        // With the lock, so that it misses neither a migration nor the end.
        let state = self.state();
        !state.is_over && state.queue.put(Arc::new(happening))
    }

    /// Puts an event without anything else into its channel.
    pub(crate) fn tell_plainly(self: &Arc<Self>, event: c_int, status: c_int) {
        let _ = self.tell(Happening::of(self.clone(), event, status));
    }

    /// Its events come to another channel.
    ///
    /// # Errors
    /// The number for `errno`.
    ///
    /// # Safety
    /// `channel` is null or an event channel.
    pub(crate) unsafe fn migrate(
        self: &Arc<Self>,
        channel: *mut EventChannel,
    ) -> Result<(), c_int> {
        let is_synchronous = channel.is_null();
        if is_synchronous && self.state().is_synchronous {
            return Err(libc::EINVAL);
        }
        let channel = match is_synchronous {
            true => Channel::make()?,
            false => channel,
        };
        // SAFETY: the caller's, or made just now.
        let queue = unsafe { Channel::of(channel) }.queue().clone();
        let mut state = self.state();
        let was_synchronous = state.is_synchronous;
        let moved = self.take_events(&state.queue);
        for happening in moved {
            // Who asks a listener belongs where the program hears of it: the old channel may be
            // destroyed. Nobody else knows such an id yet.
            if happening.listener.is_some() {
                happening.id.state().queue = queue.clone();
                // SAFETY: as below.
                unsafe { (*happening.id.abi()).channel = channel };
            }
            queue.put(happening);
        }
        state.queue = queue;
        state.is_synchronous = is_synchronous;
        // SAFETY: nobody else changes it; the program reads it after the call.
        let old = unsafe {
            let abi = self.abi.get();
            core::mem::replace(&mut (*abi).channel, channel)
        };
        drop(state);
        if was_synchronous {
            self.give_up_event();
            // SAFETY: it was this id's own.
            unsafe { Channel::free(old) };
        }
        self.events.wait();
        Ok(())
    }

    /// Makes an id for a peer that asks this listener, and tells of it. One that is destroyed, or has
    /// no room, refuses it when it ends.
    pub(crate) fn is_asked(
        self: &Arc<Self>,
        (device, connection): (Arc<Device>, ConnectionId),
        begin: impl FnOnce(&Arc<Self>),
        happening: impl FnOnce(Arc<Self>) -> Happening,
    ) {
        // With the lock: as long as it is not migrated and not destroyed, it has its channel.
        let mut state = self.state();
        let seen = self.seen();
        let made = match state.is_over {
            true => Err(libc::EINVAL),
            // SAFETY: as above.
            false => unsafe { Self::make(seen.channel, seen.context, seen.ps) },
        };
        if let Ok(id) = made {
            id.state().options = state.options;
            begin(&id);
            if state.queue.put(Arc::new(happening(id.clone()))) {
                return;
            }
            id.forget();
        }
        state.unwanted.push((device, connection));
    }

    /// Drops those of its events that wait and are not to be kept.
    pub(crate) fn drop_events(self: &Arc<Self>, is_kept: impl Fn(&Happening) -> bool) {
        let state = self.state();
        state
            .queue
            .purge(|happening| !Arc::ptr_eq(happening.reported(), self) || is_kept(happening));
    }

    /// Takes what waits for it out of a queue.
    fn take_events(self: &Arc<Self>, queue: &Queue) -> Vec<Arc<Happening>> {
        let taken = Mutex::new(Vec::new());
        queue.purge(|happening| {
            let of = happening.listener.as_ref().unwrap_or(&happening.id);
            if !Arc::ptr_eq(of, self) {
                return true;
            }
            let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.push(happening.clone());
            false
        });
        taken.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acknowledges the event that a synchronous id keeps.
    pub(crate) fn give_up_event(&self) {
        // SAFETY: only calls of the program change it.
        let event: *mut CmEvent = unsafe {
            let abi = self.abi.get();
            core::mem::replace(&mut (*abi).event, ptr::null_mut())
        };
        if !event.is_null() {
            // SAFETY: it was given to this id, and not taken back.
            unsafe { Given::take_back(event) };
        }
    }

    /// A request whose listener is gone, and that nobody has heard of.
    pub(crate) fn forget(&self) {
        with_ids(|ids| ids.remove(&self.token));
    }

    /// Ends it: its listeners and its connection, and the events that wait. Waits until those that a
    /// program has taken are acknowledged.
    pub(crate) fn end(self: &Arc<Self>) {
        let (listeners, connection) = {
            let mut state = self.state();
            state.is_over = true;
            let listeners = core::mem::take(&mut state.listeners);
            let connection = state.connection.take().zip(state.device.clone());
            (listeners, connection)
        };
        for (device, listener) in listeners {
            let _ = device.call(&Call::Unlisten(listener));
        }
        endpoints::is_gone(self.token);
        // Only now: until then requests may have come to it, which the manager takes for known.
        with_ids(|ids| ids.remove(&self.token));
        let unwanted = core::mem::take(&mut self.state().unwanted);
        for (device, connection) in unwanted {
            let _ = device.call(&Call::Release(connection));
        }
        if let Some((connection, device)) = connection {
            // One that the manager has forgotten needs nothing.
            let _ = device.call(&Call::Release(connection));
        }
        self.give_up_event();
        self.end_requests();
        self.events.wait();
        let (is_synchronous, channel) = {
            let state = self.state();
            (state.is_synchronous, self.seen().channel)
        };
        if is_synchronous {
            // SAFETY: this id's own, and nobody waits there any more.
            unsafe { Channel::free(channel) };
        }
    }

    /// Drops its events that wait; requests among them end, because nobody takes them.
    pub(crate) fn end_requests(self: &Arc<Self>) {
        let queue = self.state().queue.clone();
        for happening in self.take_events(&queue) {
            if happening.event == event::CONNECT_REQUEST {
                happening.id.end();
            }
        }
    }

    /// Own and peer's address.
    ///
    /// # Errors
    /// EINVAL before they are known.
    pub(crate) fn ends(&self) -> Result<(Own, SocketAddr, SocketAddr), c_int> {
        let state = self.state();
        let own = state.own.ok_or(libc::EINVAL)?;
        let local = state.local.ok_or(libc::EINVAL)?;
        Ok((own, local, state.remote.ok_or(libc::EINVAL)?))
    }

    /// Whether a connection is its own. What is told of one may come before the answer that names it.
    pub(crate) fn is_of(&self, connection: ConnectionId) -> bool {
        let mut state = self.state();
        if state.phase == Phase::Connecting && state.connection.is_none() {
            state.connection = Some(connection);
        }
        state.connection == Some(connection)
    }
}
