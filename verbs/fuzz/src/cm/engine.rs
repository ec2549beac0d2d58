//! A sequence of calls: what it begins with, what is drawn, and how all of it is destroyed.

use core::ffi::c_int;
use core::mem;

use e810_rdmacm::abi::port_space;
use e810_verbs::abi::device::Context;
use e810_verbs::abi::query::DeviceAttr;

use super::acts::{connect, ids, info, migrate, multicast, queue_pairs, resolve, sockets};
use super::world::{LiveId, Phase, World, address_of};
use super::{awaited, endpoints, events, transfer};
use crate::engine::null;
use crate::run::{Run, call, rdma};
use crate::world::Arena;

/// Bytes of the memory that messages are in.
const MEMORY: usize = 1 << 15;
/// Ids that are live at a time, about.
const IDS: usize = 14;
/// Each so many sequences one waits until all of its connections are over, which takes half a second,
/// and one asks for an address that nobody has, which takes seconds.
const LONG: u64 = 4;
pub(super) const LOST: u64 = 16;
/// Steps until there is a connection, at most.
const SOON: usize = 3000;
/// Ports of a thread, from the first one on.
const PORTS: u16 = 256;
const FIRST_PORT: u16 = 7000;

/// A sequence.
#[derive(Debug)]
pub struct CmEngine {
    /// Its calls.
    pub run: Run,
    /// What is live.
    pub world: World,
    /// The contexts of the two functions, which the library keeps open.
    pub ctxs: [*mut Context; 2],
    /// READs that a function answers, and that it has outstanding.
    pub depths: [u8; 2],
    /// The first of its ports.
    ports: u16,
}

impl CmEngine {
    /// One of a thread.
    #[must_use]
    pub fn new(mut run: Run, thread: u64) -> Self {
        let mut count: c_int = 0;
        let list = rdma!(run, get_devices(&raw mut count));
        assert!(!list.is_null() && count == 2, "two functions, not {count}");
        // SAFETY: as many as it says.
        let ctxs = unsafe { [*list, *list.add(1)] };
        rdma!(run, free_devices(list));
        // SAFETY: numbers only.
        let mut attr: DeviceAttr = unsafe { mem::zeroed() };
        let answer = call!(run, query_device(ctxs[0], &raw mut attr));
        assert_eq!(answer, 0, "a function that is there");
        let most = |count: c_int| u8::try_from(count).unwrap_or(u8::MAX);
        Self {
            run,
            world: World {
                arena: Some(Arena::new(MEMORY)),
                count: (thread as u32) << 16,
                ..World::default()
            },
            ctxs,
            depths: [most(attr.max_qp_rd_atom), most(attr.max_qp_init_rd_atom)],
            ports: FIRST_PORT + PORTS * thread as u16,
        }
    }

    /// One of a few ports that ids of this thread share; the last ones nobody listens at.
    pub fn port(&mut self) -> u16 {
        self.ports + self.run.draw.below(6) as u16
    }

    /// A port at which nobody listens.
    pub fn no_port(&mut self) -> u16 {
        self.ports + 100 + self.run.draw.below(8) as u16
    }

    /// A number that nothing else has.
    pub fn number(&mut self) -> u32 {
        self.world.count += 1;
        self.world.count
    }

    /// Which function a context is of.
    #[must_use]
    pub fn device_of(&self, context: *mut Context) -> usize {
        usize::from(context == self.ctxs[1])
    }

    /// Ends the process, with an id.
    pub fn wrong(&self, at: usize, what: &str) -> ! {
        let id = self.world.ids.get(at);
        let conn = id.conn.map(|conn| self.world.conns.get(conn));
        let remote = address_of(&id.shown().route.addr.dst);
        let all = self.world.ids.iter();
        let listeners = all.filter(|(_, id)| id.phase == Phase::Listening);
        let listeners: Vec<_> = listeners.map(|(at, id)| (at, id.space, id.local)).collect();
        self.run.fail(&format!(
            "{what}: id {at} is {id:?}, to {remote:?}, of {conn:?}; listeners {listeners:?}"
        ));
    }

    /// Makes what every sequence has.
    pub fn begin(&mut self) {
        for _ in 0..2 {
            migrate::new_channel(self);
        }
        transfer::begin(self);
        for device in [0, 1] {
            multicast::in_and_out(self, device);
        }
        for _ in 0..2 {
            ids::listener(self, port_space::TCP);
        }
        ids::listener(self, port_space::UDP);
    }

    /// Makes a call, or some that belong together.
    pub fn step(&mut self) {
        if self.world.ids.len() < 3 {
            self.begin_more();
        }
        match self.run.draw.below(1000) {
            0..250 => events::pump(self, 0),
            250..300 => events::acknowledge(self),
            300..650 => self.advance(),
            650..700 => self.begin_more(),
            700..720 => ids::destroy_any(self),
            720..760 => ids::option(self),
            760..780 => ids::ports(self),
            780..790 => ids::bind_any(self),
            790..800 => ids::listen_any(self),
            800..815 => resolve::any(self),
            815..850 => queue_pairs::any(self),
            850..880 => connect::any(self),
            880..900 => migrate::any(self),
            900..915 => multicast::any(self),
            915..935 => info::any(self),
            935..965 => sockets::any(self),
            965..968 => endpoints::any(self),
            _ => transfer::any(self),
        }
    }

    /// Another id.
    fn begin_more(&mut self) {
        if self.world.ids.len() >= IDS {
            return ids::destroy_any(self);
        }
        let listens = |id: &LiveId| id.phase == Phase::Listening;
        let listeners = self.world.ids.iter().filter(|(_, id)| listens(id)).count();
        if listeners < 3 || self.run.draw.once_in(12) && listeners < 6 {
            let space = self.space();
            ids::listener(self, space);
        } else {
            ids::create_any(self);
        }
    }

    /// A port space; mostly that of connections.
    pub fn space(&mut self) -> c_int {
        self.run.draw.number(&[
            port_space::TCP,
            port_space::TCP,
            port_space::TCP,
            port_space::UDP,
            port_space::UDP,
            port_space::IB,
        ])
    }

    /// The next call of an id on its way, or none.
    fn advance(&mut self) {
        let wanted =
            |id: &LiveId| !matches!(id.phase, Phase::Listening | Phase::Asked | Phase::Accepted);
        let Some(at) = self.world.ids.pick(&mut self.run.draw, wanted) else {
            return events::pump(self, 1);
        };
        match self.world.ids.get(at).phase {
            Phase::Idle if self.run.draw.once_in(3) => ids::bind(self, at),
            Phase::Idle | Phase::Bound => resolve::address(self, at),
            Phase::Resolving | Phase::Routing => events::pump(self, 1),
            Phase::Resolved => resolve::route(self, at),
            Phase::Routed | Phase::Requested => {
                let has_none = self.world.ids.get(at).qp().is_null();
                if has_none && !self.run.draw.once_in(8) {
                    return queue_pairs::create_right(self, at);
                }
                match self.world.ids.get(at).phase {
                    Phase::Routed => connect::ask(self, at),
                    _ if self.run.draw.once_in(6) => connect::reject(self, at),
                    _ => connect::accept(self, at),
                }
            }
            Phase::Responded => connect::establish(self, at),
            Phase::Connected if self.run.draw.once_in(4) => connect::disconnect(self, at),
            Phase::Connected => transfer::of(self, at),
            Phase::Ended if self.run.draw.once_in(2) => connect::disconnect(self, at),
            // It may be told that all of it is over.
            Phase::Ended if !self.run.draw.once_in(8) => events::pump(self, 0),
            Phase::Ended | Phase::Over => ids::destroy(self, at),
            Phase::Listening | Phase::Asked | Phase::Accepted => {}
        }
    }

    /// Ends what is connected, from both sides; there is something soon.
    fn end_connections(&mut self) {
        for _ in 0..SOON {
            let mut all = self.world.ids.iter();
            let is_one = all.any(|(at, id)| {
                let conn = id.conn.map(|conn| self.world.conns.get(conn));
                let is_whole = conn.is_some_and(|conn| !conn.odd);
                let peer = self
                    .world
                    .peer(at)
                    .map(|peer| self.world.ids.get(peer).phase);
                !id.is_datagrams()
                    && is_whole
                    && (id.phase, peer) == (Phase::Connected, Some(Phase::Connected))
            });
            drop(all);
            if is_one {
                break;
            }
            self.step();
        }
        let all: Vec<usize> = self.world.ids.iter().map(|(at, _)| at).collect();
        for at in all {
            let phase = self.world.ids.get(at).phase;
            if matches!(phase, Phase::Connected | Phase::Ended) {
                connect::disconnect(self, at);
            }
        }
    }

    /// Waits for what has to come, and destroys all.
    pub fn end(&mut self) {
        let waits_long = self.run.seed.is_multiple_of(LONG);
        if waits_long {
            self.end_connections();
        }
        if self.run.seed.is_multiple_of(LOST) {
            resolve::nobody(self);
        }
        awaited::settle(self, waits_long);
        while let Some(at) = self.world.ids.pick(&mut self.run.draw, |_| true) {
            ids::destroy(self, at);
        }
        while !self.world.held.is_empty() {
            events::acknowledge(self);
        }
        queue_pairs::end_left(self);
        let channels: Vec<_> = self.world.channels.iter().map(|(at, _)| at).collect();
        for at in channels {
            migrate::end_channel(self, at);
        }
        transfer::end(self);
        self.world.arena = None;
    }
}

/// A pointer that is none, of a kind that the caller knows.
pub(super) fn none<T>() -> *mut T {
    null()
}
