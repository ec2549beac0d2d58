//! What is live, as a program of librdmacm knows it.

use core::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use e810_rdmacm::abi::{CmEvent, CmId, EventChannel, port_space};
use e810_verbs::abi::objects::{CompChannel, Cq, Mr, Pd, Qp};
use e810_verbs::abi::state::AhAttr;

use crate::world::{Arena, Pool};

/// Where an id stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Idle,
    /// It has an address.
    Bound,
    /// ADDR_RESOLVED or ADDR_ERROR follows.
    Resolving,
    Resolved,
    /// ROUTE_RESOLVED follows.
    Routing,
    Routed,
    Listening,
    /// A peer has asked for it.
    Requested,
    /// It has asked a peer.
    Asked,
    /// It has accepted.
    Accepted,
    /// Its peer has accepted, and its queue pair is the program's own.
    Responded,
    Connected,
    /// It was told that it is disconnected.
    Ended,
    /// Refused, or it has refused.
    Over,
}

/// Queues that were made for an id's queue pair, and stay when the id alone is destroyed.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub qp: *mut Qp,
    pub cqs: [*mut Cq; 2],
    pub channels: [*mut CompChannel; 2],
}

/// A group that an id is in.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub address: SocketAddr,
    pub word: usize,
    /// MULTICAST_JOIN was taken.
    pub is_told: bool,
}

#[derive(Clone, Debug)]
pub struct LiveChannel {
    /// The program's pointer.
    pub ptr: *mut EventChannel,
}

#[derive(Clone, Debug)]
pub struct LiveId {
    /// The program's pointer.
    pub ptr: *mut CmId,
    /// Where its events come.
    pub channel: usize,
    /// `enum rdma_port_space`.
    pub space: c_int,
    /// The program's, in the id.
    pub word: usize,
    pub phase: Phase,
    /// As it was bound, or is shown.
    pub local: Option<SocketAddr>,
    pub conn: Option<usize>,
    /// 0 for who asks, 1 for who is asked.
    pub side: usize,
    /// A queue pair that the program has made and brings up itself.
    pub hand: Option<*mut Qp>,
    /// Its queue pair was taken out of its way by a call.
    pub is_stopped: bool,
    /// Kinds of events of its connection that were taken, as bits.
    pub seen: u32,
    /// Events that were taken and are not acknowledged.
    pub held: u32,
    pub reuses: bool,
    /// Nobody has the address that it resolves.
    pub is_lost: bool,
    /// Its neighbour may have no time to answer: over an IPv6 address the first answer takes seconds.
    pub is_hasty: bool,
    /// Where datagrams to its peer go: address, queue pair, key.
    pub to: Option<(AhAttr, u32, u32)>,
    pub groups: Vec<Group>,
}

impl LiveId {
    #[must_use]
    pub fn is_datagrams(&self) -> bool {
        matches!(self.space, port_space::UDP | port_space::IPOIB)
    }

    /// What the library shows of it.
    #[must_use]
    pub fn shown(&self) -> CmId {
        // SAFETY: it is live.
        unsafe { self.ptr.read() }
    }

    /// The queue pair of its connection.
    #[must_use]
    pub fn qp(&self) -> *mut Qp {
        self.hand.unwrap_or(self.shown().qp)
    }

    /// Whether a kind of event was taken.
    #[must_use]
    pub fn has_seen(&self, event: c_int) -> bool {
        self.seen & 1 << event != 0
    }
}

/// A connection, from the call that asks for it.
#[derive(Clone, Debug)]
pub struct Conn {
    /// Both ends, while they are live.
    pub ends: [Option<usize>; 2],
    /// The asking end's port, and what its request names as its queue pair.
    pub port: u16,
    pub qpn: u32,
    pub space: c_int,
    /// The listener that was asked for, if one was live.
    pub listener: Option<usize>,
    /// What the listener is to see.
    pub data: Vec<u8>,
    /// The request was taken.
    pub is_requested: bool,
    /// What the asking end is to see of who accepts.
    pub reply: Option<Vec<u8>>,
    /// The status of a refusal, and what the asking end is to see of it.
    pub refusal: Option<(c_int, Vec<u8>)>,
    /// What an end has ended: by a call, or because it is destroyed.
    pub is_down: [bool; 2],
    /// Something was done that crosses what the other end may do at the same time.
    pub odd: bool,
}

/// An event that was taken and is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct HeldEvent {
    pub ptr: *mut CmEvent,
    /// The id that waits for it when it is destroyed.
    pub of: usize,
}

/// A region of the sequence's memory, of a protection domain.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub pd: *mut Pd,
    pub mr: *mut Mr,
}

#[derive(Debug, Default)]
#[expect(missing_docs, reason = "a pool a kind of object")]
pub struct World {
    pub channels: Pool<LiveChannel>,
    pub ids: Pool<LiveId>,
    pub conns: Pool<Conn>,
    pub held: Vec<HeldEvent>,
    pub left: Vec<Left>,
    pub regions: Vec<Region>,
    /// Protection domains of the sequence, one a device.
    pub pds: Vec<*mut Pd>,
    /// Completion queues of the sequence, one a device.
    pub cqs: Vec<*mut Cq>,
    pub arena: Option<Arena>,
    /// For words and numbers that nothing else has.
    pub count: u32,
}

impl World {
    /// An id by the program's pointer.
    #[must_use]
    pub fn id_of(&self, ptr: *mut CmId) -> Option<usize> {
        let mut all = self.ids.iter();
        all.find(|(_, id)| id.ptr == ptr).map(|(at, _)| at)
    }

    /// A connection becomes one of which little is known.
    pub fn odd(&mut self, id: usize) {
        if let Some(conn) = self.ids.get(id).conn {
            self.conns.get_mut(conn).odd = true;
        }
    }

    /// The other end of an id's connection.
    #[must_use]
    pub fn peer(&self, id: usize) -> Option<usize> {
        let id = self.ids.get(id);
        self.conns.get(id.conn?).ends[1 - id.side]
    }
}

/// Reads a socket address of the C library.
#[must_use]
pub fn address_of(storage: &[u64; 16]) -> Option<SocketAddr> {
    let at = storage.as_ptr();
    // SAFETY: all of it can be read as either.
    unsafe {
        match c_int::from(at.cast::<u16>().read()) {
            libc::AF_INET => {
                let it = at.cast::<libc::sockaddr_in>().read();
                let ip = Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(it.sin_port)).into())
            }
            libc::AF_INET6 => {
                let it = at.cast::<libc::sockaddr_in6>().read();
                let ip = Ipv6Addr::from(it.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, u16::from_be(it.sin6_port), 0, 0).into())
            }
            _ => None,
        }
    }
}

/// The same the other way; and its length.
#[must_use]
pub fn storage_of(address: SocketAddr) -> ([u64; 16], u32) {
    let mut storage = [0; 16];
    let at = storage.as_mut_ptr();
    // SAFETY: there is room for either.
    unsafe {
        match address {
            SocketAddr::V4(v4) => {
                let it = at.cast::<libc::sockaddr_in>();
                (*it).sin_family = libc::AF_INET as u16;
                (*it).sin_port = v4.port().to_be();
                (*it).sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                (storage, 16)
            }
            SocketAddr::V6(v6) => {
                let it = at.cast::<libc::sockaddr_in6>();
                (*it).sin6_family = libc::AF_INET6 as u16;
                (*it).sin6_port = v6.port().to_be();
                (*it).sin6_addr.s6_addr = v6.ip().octets();
                (storage, 28)
            }
        }
    }
}

/// The own addresses of the two functions.
#[must_use]
pub fn own(device: usize, is_v6: bool) -> IpAddr {
    let last = device as u8 + 1;
    match is_v6 {
        false => Ipv4Addr::new(10, 8, 1, last).into(),
        true => Ipv6Addr::new(0xFD00, 8, 0, 0, 0, 0, 0, last.into()).into(),
    }
}
