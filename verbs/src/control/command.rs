//! Commands and answers: plain data, and with some answers what was made for the data path.

use std::any::Any;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use e810::{
    AccessFlags, AttrMask, DeviceAttr, GidEntry, Path, PortAttr, QpAttr, QpCaps, QpType, QueriedQp,
};

use e810_node::route::Neighbour;

use crate::rings::{CqRings, QpRings};

/// A name that the library gives a queue pair or a completion queue, for events: never given
/// twice in a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token(pub u64);

impl Token {
    /// One that was not given before.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a part of an object that is not the control path's has to know of a command, in the form
/// that the same [`ControlPlane`](super::ControlPlane)'s rings take it in.
pub type Handover = Box<dyn Any + Send>;

/// Memory of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    pub address: usize,
    /// Bytes.
    pub length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewQp {
    pub pd: u32,
    /// Kind of service.
    pub qp_type: QpType,
    pub send_cq: u32,
    pub recv_cq: u32,
    /// Sizes asked for.
    pub caps: QpCaps,
    /// Every send request is signaled.
    pub signal_all: bool,
    /// What events call it.
    pub token: Token,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrChanges {
    /// Another protection domain.
    pub pd: Option<u32>,
    /// Other rights.
    pub access: Option<AccessFlags>,
    pub memory: Option<Memory>,
}

/// What is asked of the control path. Objects are named by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Command {
    /// What the device offers.
    QueryDevice,
    /// What a port says of itself.
    QueryPort(u8),
    /// An entry of the GID table.
    QueryGid(u8),
    /// An entry of a port's P_Key table.
    QueryPkey {
        /// The port, from 1.
        port: u8,
        index: u16,
    },
    /// Where packets to an address go that come from one on a VLAN, or on none. May take as long as
    /// a neighbour may take to answer.
    Resolve(IpAddr, Option<u16>),
    AllocPd,
    /// It is not needed any more.
    DeallocPd(u32),
    /// Registers memory.
    RegMr {
        pd: u32,
        memory: Memory,
        /// What its first byte is called.
        iova: u64,
        access: AccessFlags,
    },
    /// Changes a region, named by its key.
    ReregMr(u32, MrChanges),
    /// Deregisters one, named by its key.
    DeregMr(u32),
    /// Makes a completion queue.
    CreateCq {
        /// Completions it has room for at least.
        entries: u32,
        /// The completion vector of its events.
        vector: u16,
        /// What events call it.
        token: Token,
    },
    /// Gives one room for so many; nobody polls it meanwhile.
    ResizeCq(u32, u32),
    DestroyCq(u32),
    CreateQp(NewQp),
    /// Changes one, but not to RESET.
    ModifyQp(u32, Box<QpAttr>),
    /// What one says of itself.
    QueryQp(u32, AttrMask),
    /// To RESET with these attributes, first: the device has it no more. Its completion queues
    /// forget it then.
    BeginReset(u32, Box<QpAttr>),
    /// Second: it is opened again. Its queues restart then.
    Reopen(u32),
    /// Third: the device has it again.
    FinishReset(u32),
    DestroyQp(u32),
    /// Makes an address handle.
    CreateAh(u32, Path),
    DestroyAh(u32),
    /// Takes a queue pair into a multicast group.
    AttachMcast(u32, IpAddr),
    /// Takes it out.
    DetachMcast(u32, IpAddr),
}

impl Command {
    /// Whether it takes memory.
    pub(crate) const fn makes_something(&self) -> bool {
        matches!(
            self,
            Self::AllocPd
                | Self::RegMr { .. }
                | Self::ReregMr(..)
                | Self::CreateCq { .. }
                | Self::ResizeCq(..)
                | Self::CreateQp(_)
                | Self::CreateAh(..)
                | Self::AttachMcast(..)
                | Self::Resolve(..)
        )
    }
}

#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    Done,
    /// The number of what was made.
    Number(u32),
    /// Of [`Command::QueryDevice`].
    Device(DeviceAttr),
    /// Of [`Command::QueryPort`].
    Port(PortAttr),
    /// Of [`Command::QueryGid`]: `None` where there is none.
    Gid(Option<GidEntry>),
    /// Of [`Command::QueryPkey`].
    Pkey(u16),
    /// Of [`Command::Resolve`].
    Resolved(Neighbour),
    /// The key of a region, for local use and for peers.
    Key(u32),
    /// Of [`Command::CreateCq`].
    Cq {
        number: u32,
        /// Completions it has room for.
        entries: u32,
        /// Where it is polled.
        rings: Box<dyn CqRings>,
    },
    /// Of [`Command::ResizeCq`].
    CqResized {
        /// Completions it has room for.
        entries: u32,
        /// For [`LockedCq::resized`](crate::rings::LockedCq::resized); `None` where nothing
        /// changed.
        handover: Option<Handover>,
    },
    /// Of [`Command::CreateQp`].
    Qp {
        number: u32,
        /// Sizes granted.
        caps: QpCaps,
        /// Where requests are posted.
        rings: Box<dyn QpRings>,
    },
    /// Of [`Command::QueryQp`].
    QueriedQp(Box<QueriedQp>),
    /// For the rings of the object.
    Handover(Handover),
}
