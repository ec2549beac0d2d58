//! The state machine: datagrams and times in; datagrams, events and times out.
//!
//! The caller gives each datagram that arrives to [`Machine::receive`], sends what
//! [`Machine::transmit`] gives, calls [`Machine::poll`] at [`Machine::deadline`], and takes events
//! with [`Machine::event`]. Each of these does bounded work, and none of them waits.
//!
//! A request is first [unreached](Machine::unreached): nobody knows whether its sender answers at its
//! address. There is room for a few of these, and when that is full, one chosen at random gives
//! way. So a flood of invented senders takes no place from requests that a program waits for.

mod calls;
mod config;
mod counters;
mod ending;
mod error;
mod incoming;
mod known;
mod life;
mod listener;
mod outgoing;
mod overview;
mod requests;
mod secret;
mod slot;
mod tables;
#[cfg(test)]
mod tests;
mod timers;
mod views;

use e810_types::MacAddr;

use crate::{GID, Mad};

pub use calls::{Accept, Connect, Path};
pub use config::Config;
pub use counters::Counters;
pub use error::Error;
pub use listener::{Listen, Listener, ListenerId};
pub use overview::{ListenerOverview, Overview};
pub use slot::{Slot, State};
pub use views::{Event, Reply, Request};

use config::{LONGEST, ack_timeout, time};
use secret::{FIRST, Secret};
use tables::{Bag, Heap, NONE, Ring, Timer, Timers};

/// Name of a connection, which is its communication id too: a peer sees it. No other connection has
/// it for thousands of uses of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl core::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Where a datagram came from, or goes to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Origin {
    /// The peer's GID.
    pub remote: [u8; GID],
    /// The GID of this function that it came to.
    pub local: [u8; GID],
    /// The frame's source address; for what is sent, nothing that counts.
    pub mac: MacAddr,
    /// The frame's VLAN.
    pub vlan: Option<u16>,
    /// Of the packet (cm-path 1.3).
    pub flow_label: u32,
    /// Of the packet.
    pub traffic_class: u8,
}

impl Origin {
    const NOWHERE: Self = Self {
        remote: [0; GID],
        local: [0; GID],
        mac: MacAddr([0; 6]),
        vlan: None,
        flow_label: 0,
        traffic_class: 0,
    };
}

/// To whom a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Destination {
    /// The connection that it is of; `None` for an answer to one that is not known.
    pub connection: Option<ConnectionId>,
    /// Its address, or where the datagram that it answers came from.
    pub origin: Origin,
    /// The address whose neighbour the way goes by.
    pub via: [u8; GID],
    /// Which of the connection's messages it is: a bit of `due`.
    message: u8,
    /// The message's place among the counters.
    kind: usize,
}

/// Answers to datagrams about no connection that wait to be sent.
const ANSWERS: usize = 32;
/// Counts of sources.
const SOURCES: usize = 256;

struct Slots<'t>(&'t mut [Slot]);

impl Slots<'_> {
    fn get(&self, index: u32) -> Option<&Slot> {
        self.0.get(index as usize)
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.0.get_mut(index as usize)
    }
}

impl Timers for Slots<'_> {
    fn timer(&mut self, slot: u32) -> Option<&mut Timer> {
        self.get_mut(slot).map(|slot| &mut slot.timer)
    }
}

/// The connection manager of a function. In this order, because what is near the start is reached by
/// shorter instructions.
#[repr(C)]
pub struct Machine<'t> {
    slots: Slots<'t>,
    listeners: &'t mut [Listener],
    by_id: &'t mut [u32],
    by_qp: &'t mut [u32],
    secret: Secret,
    config: Config,
    free: Ring<'t>,
    sends: Ring<'t>,
    fresh: Ring<'t>,
    timers: Heap<'t>,
    unreached: Bag<'t>,
    /// Bits of an index in [`slots`](Self::slots).
    index_bits: u32,
    port: u16,
    /// The last datagram that was sent was an answer.
    was_answer: bool,
    /// Random numbers made so far.
    serial: u64,
    answer: usize,
    answers_waiting: usize,
    counters: Counters,
    /// The slot at which the last search for an ended connection stopped.
    hand: u32,
    /// The last search found none, and none has ended since.
    none_waits: bool,
    of_source: [u16; SOURCES],
    answers: [(Origin, Mad); ANSWERS],
}

/// What the machine needs.
#[derive(Debug)]
pub struct Tables<'t> {
    /// One for each connection, in TIMEWAIT too. [`Slot::EMPTY`].
    pub slots: &'t mut [Slot],
    /// One for each listener. [`Listener::EMPTY`].
    pub listeners: &'t mut [Listener],
    /// As many as [`Tables::words`] says.
    pub words: &'t mut [u32],
}

impl Tables<'_> {
    /// Words for a number of slots.
    #[must_use]
    pub const fn words(slots: usize) -> usize {
        let rings = slots.saturating_mul(4);
        let unreached = unreached(slots);
        rings
            .saturating_add(unreached)
            .saturating_add(buckets(slots).saturating_mul(2))
    }
}

/// Takes words off the rest, which has them.
#[inline(never)]
fn take<'t>(rest: &mut &'t mut [u32], len: usize) -> &'t mut [u32] {
    let words = core::mem::take(rest);
    let (taken, others) = words.split_at_mut_checked(len).unwrap_or_default();
    *rest = others;
    taken
}

/// Requests whose sender is not known to answer: at most a quarter of all slots.
const fn unreached(slots: usize) -> usize {
    slots.div_ceil(4)
}

const fn buckets(slots: usize) -> usize {
    match slots.checked_next_power_of_two() {
        Some(buckets) => buckets,
        None => slots,
    }
}

impl<'t> Machine<'t> {
    /// A machine without connections. `random` differs from start to start, and nobody else knows
    /// it.
    ///
    /// # Errors
    /// [`Error::Words`] if there are too few words, [`Error::Slots`] for no slot, or more than
    /// 2^20.
    pub fn new(config: Config, tables: Tables<'t>, random: [u8; 16]) -> Result<Self, Error> {
        let Tables {
            slots,
            listeners,
            words,
        } = tables;
        let count = slots.len();
        if count == 0 || count > 1 << 20 {
            return Err(Error::Slots { slots: count });
        }
        let needed = Tables::words(count);
        if words.len() < needed {
            return Err(Error::Words {
                given: words.len(),
                needed,
            });
        }
        let mut rest = words;
        let mut take = |len| take(&mut rest, len);
        let mut machine = Self {
            config,
            secret: Secret::new(random),
            index_bits: usize::BITS - count.saturating_sub(1).leading_zeros(),
            listeners,
            free: Ring::new(take(count)),
            sends: Ring::new(take(count)),
            fresh: Ring::new(take(count)),
            timers: Heap::new(take(count)),
            unreached: Bag::new(take(unreached(count))),
            by_id: take(buckets(count)),
            by_qp: take(buckets(count)),
            slots: Slots(slots),
            of_source: [0; SOURCES],
            answers: [(Origin::NOWHERE, [0; 256]); ANSWERS],
            answer: 0,
            answers_waiting: 0,
            was_answer: false,
            serial: 0,
            port: 0,
            counters: Counters::NONE,
            hand: 0,
            none_waits: false,
        };
        machine.begin(config, random);
        Ok(machine)
    }

    /// Ends it, and makes another one of its tables. Nobody is told.
    #[must_use]
    pub fn renew(mut self, config: Config, random: [u8; 16]) -> Self {
        self.begin(config, random);
        self
    }

    /// How many connections there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.0.len()
    }

    /// Everything as at the start. In place: a machine is large.
    fn begin(&mut self, config: Config, random: [u8; 16]) {
        self.config = config;
        self.secret = Secret::new(random);
        self.by_id.fill(NONE);
        self.by_qp.fill(NONE);
        self.slots.0.iter_mut().for_each(Slot::clear);
        self.listeners.fill(Listener::EMPTY);
        for ring in [&mut self.free, &mut self.sends, &mut self.fresh] {
            ring.clear();
        }
        self.timers.clear_all();
        self.unreached.clear();
        (0..self.slots.0.len() as u32).for_each(|slot| self.free.push(slot));
        self.of_source = [0; SOURCES];
        self.answers_waiting = 0;
        self.was_answer = false;
        self.serial = 0;
        self.port = self.secret.number(FIRST, [0, 0]) as u16;
        self.counters = Counters::NONE;
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Slots that no connection uses.
    #[must_use]
    pub const fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// The slot of a connection.
    fn find(&self, id: u32) -> Option<u32> {
        let index = self.secret.restore(id) & (1_u32 << self.index_bits).wrapping_sub(1);
        let slot = self.slot(index)?;
        (id != 0 && slot.comm_id == id).then_some(index)
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index)
    }

    /// A number of 24 bits that nobody can guess.
    fn random_psn(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.secret.number(secret::PSN, [self.serial, 0]) as u32 & 0x00FF_FFFF
    }
}

impl core::fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Machine")
            .field("slots", &self.slots.0.len())
            .field("free", &self.free.len())
            .field("unreached", &self.unreached.len())
            .finish_non_exhaustive()
    }
}
