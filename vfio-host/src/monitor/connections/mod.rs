//! Snapshots of a function's connection manager.

mod screen;
#[cfg(test)]
pub(super) mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use e810_backends::buffer::Payload;
use e810_backends::interrupts::HostPlatform;
use e810_cm::Reason;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Counters, ListenerOverview, Overview, State};
use e810_hal::Ns;
use e810_node::connections::Connections;
use serde::{Deserialize, Serialize};

pub use screen::{print, summary};

/// The most connections, and the most listeners, of a function in a snapshot.
pub const MOST: usize = 256;

/// The connection manager of a function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConnectionsSnapshot {
    /// Number of connections, with those that are left out.
    pub total: u64,
    /// How many of them are in each state.
    pub states: BTreeMap<String, u64>,
    /// At most [`MOST`]: those in TIMEWAIT last, otherwise the newest first.
    pub connections: Vec<ConnectionSnapshot>,
    /// Number of listeners, with those that are left out.
    pub total_listeners: u64,
    /// At most [`MOST`], by port.
    pub listeners: Vec<ListenerSnapshot>,
    /// What the manager has counted since the function was brought up.
    pub counters: CountersSnapshot,
}

/// A connection, or a question about a UD queue pair.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConnectionSnapshot {
    /// Its communication id, which peers see.
    pub id: u32,
    /// Its state, such as `ESTABLISHED`.
    pub state: String,
    /// `active` if this side has asked for it, else `passive`.
    pub role: String,
    /// The function's address.
    pub own: String,
    /// The peer's address.
    pub peer: String,
    /// The port of the peer's program, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_port: Option<u16>,
    /// VLAN, if it is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The function's queue pair, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_qp: Option<u32>,
    /// The peer's queue pair, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_qp: Option<u32>,
    /// What was asked for.
    #[serde(flatten)]
    pub service: ServiceSnapshot,
    /// Time since it was asked for, in ns.
    pub age_ns: u64,
    /// How often its last message was sent again.
    pub repeats: u8,
}

/// What a peer asks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ServiceSnapshot {
    /// Whose ports these are: `tcp`, `udp` or `ib`.
    pub space: String,
    pub port: u16,
    /// Both in the form that messages have.
    pub service_id: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListenerSnapshot {
    /// The own address; an unspecified one for all.
    pub own: String,
    /// What it listens for.
    #[serde(flatten)]
    pub service: ServiceSnapshot,
    /// Requests that may wait for its program.
    pub backlog: u32,
    /// Requests that wait.
    pub waiting: u32,
}

/// What a connection manager has counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountersSnapshot {
    /// Messages by name.
    pub sent: BTreeMap<String, u64>,
    /// Messages by name.
    pub received: BTreeMap<String, u64>,
    /// Messages sent again because no answer came.
    pub repeated: u64,
    /// Messages received again.
    pub duplicates: u64,
    /// Requests that the manager or a program has refused, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Datagrams dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl ConnectionsSnapshot {
    /// The state of a manager.
    pub(crate) fn of<P: HostPlatform + Payload>(manager: &mut Connections<P>, now: Ns) -> Self {
        let all = manager.overview().into_iter().map(|(_, each)| each);
        let (all, listeners) = (all.collect::<Vec<_>>(), manager.listeners());
        let counters = CountersSnapshot::of(&manager.counters(), manager.not_sent());
        Self::new(all, listeners, counters, now, &mut |each| {
            manager.peer_port(each.id)
        })
    }

    fn new(
        mut all: Vec<Overview>,
        listeners: Vec<ListenerOverview>,
        counters: CountersSnapshot,
        now: Ns,
        peer_port: &mut dyn FnMut(&Overview) -> Option<u16>,
    ) -> Self {
        let mut states = BTreeMap::new();
        for each in &all {
            *states.entry(each.state.name().to_owned()).or_default() += 1;
        }
        let total = all.len() as u64;
        all.sort_by_key(|each| (each.state == State::TimeWait, Reverse(each.since), each.id));
        all.truncate(MOST);
        let connections = all.iter();
        let connections = connections.map(|each| connection(each, now, peer_port(each)));
        let total_listeners = listeners.len() as u64;
        let mut listeners: Vec<_> = listeners.iter().map(listener).collect();
        listeners.sort_by(|one, other| (&one.service, &one.own).cmp(&(&other.service, &other.own)));
        listeners.truncate(MOST);
        Self {
            total,
            states,
            connections: connections.collect(),
            total_listeners,
            listeners,
            counters,
        }
    }
}

fn connection(each: &Overview, now: Ns, peer_port: Option<u16>) -> ConnectionSnapshot {
    let [own_qp, peer_qp] = each
        .queue_pairs
        .map(|number| (number != 0).then_some(number));
    ConnectionSnapshot {
        id: each.id.number(),
        state: each.state.name().to_owned(),
        role: if each.is_active { "active" } else { "passive" }.to_owned(),
        own: each.own.to_string(),
        peer: each.peer.to_string(),
        peer_port,
        vlan: each.vlan,
        own_qp,
        peer_qp,
        service: service(each.space, each.port),
        age_ns: now.0.saturating_sub(each.since.0),
        repeats: each.repeats,
    }
}

fn listener(each: &ListenerOverview) -> ListenerSnapshot {
    let listen = each.listen;
    ListenerSnapshot {
        own: listen.address.to_string(),
        service: service(listen.space, listen.port),
        backlog: listen.backlog,
        waiting: each.waiting,
    }
}

fn service(space: PortSpace, port: u16) -> ServiceSnapshot {
    let name = match space {
        PortSpace::Tcp => "tcp",
        PortSpace::Udp => "udp",
        PortSpace::Ib => "ib",
        PortSpace::Ipoib => "ipoib",
    };
    ServiceSnapshot {
        space: name.to_owned(),
        port,
        service_id: space.service_id(port),
    }
}

impl CountersSnapshot {
    fn of(counters: &Counters, not_sent: u64) -> Self {
        let messages = |counts: [u64; 11]| {
            let names = Counters::MESSAGES.iter().map(|name| (*name).to_owned());
            names.zip(counts).collect()
        };
        let mut rejected = BTreeMap::new();
        for (number, count) in (0..).zip(counters.rejected) {
            let name = Reason(number).name().unwrap_or("OTHER");
            *rejected.entry(name.to_owned()).or_default() += count;
        }
        let dropped = [
            ("no_message", counters.no_message),
            ("stray", counters.stray),
            ("no_slot", counters.no_slot),
            ("source_full", counters.source_full),
            ("gave_way", counters.gave_way),
            ("backlog_full", counters.backlog_full),
            ("answers_dropped", counters.answers_dropped),
            ("not_sent", not_sent),
        ];
        Self {
            sent: messages(counters.sent),
            received: messages(counters.received),
            repeated: counters.repeated,
            duplicates: counters.duplicates,
            rejected,
            dropped: dropped.map(|(name, count)| (name.to_owned(), count)).into(),
        }
    }
}
