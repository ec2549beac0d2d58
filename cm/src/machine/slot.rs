//! One connection, or one question for a UD QP.

use e810_types::Ns;

use super::Origin;
use super::tables::{NONE, Timer};
use crate::ip::PortSpace;
use crate::{GID, Mad};

/// Where a connection stands (cm-path 4). A listener is no connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum State {
    /// Over: it waits for its owner, or for its last message to be sent.
    Idle,
    /// The REQ is sent.
    ReqSent,
    /// The peer takes longer for its answer.
    MraReqReceived,
    /// A REQ is here; a repeated one is answered with an MRA.
    ReqReceived,
    /// The REP is here; a repeated one is answered with an MRA.
    RepReceived,
    /// The REP is sent.
    RepSent,
    /// The peer takes longer for its answer.
    MraRepReceived,
    /// Connected.
    Established,
    /// The DREQ is sent.
    DreqSent,
    /// A DREQ is here.
    DreqReceived,
    /// Messages of the connection may still arrive.
    TimeWait,
    /// The SIDR_REQ is sent.
    SidrReqSent,
    /// A SIDR_REQ is here.
    SidrReqReceived,
}

impl State {
    /// Its name, as cm-path 4 has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "IDLE",
            Self::ReqSent => "REQ_SENT",
            Self::MraReqReceived => "MRA_REQ_RCVD",
            Self::ReqReceived => "REQ_RCVD",
            Self::RepReceived => "REP_RCVD",
            Self::RepSent => "REP_SENT",
            Self::MraRepReceived => "MRA_REP_RCVD",
            Self::Established => "ESTABLISHED",
            Self::DreqSent => "DREQ_SENT",
            Self::DreqReceived => "DREQ_RCVD",
            Self::TimeWait => "TIMEWAIT",
            Self::SidrReqSent => "SIDR_REQ_SENT",
            Self::SidrReqReceived => "SIDR_REQ_RCVD",
        }
    }
}

/// Messages that are to be sent, as bits. They are sent in this order.
pub(super) mod due {
    pub(in crate::machine) const MRA: u8 = 1 << 0;
    pub(in crate::machine) const RTU: u8 = 1 << 1;
    /// The slot's own datagram.
    pub(in crate::machine) const KEPT: u8 = 1 << 2;
    pub(in crate::machine) const DREP: u8 = 1 << 3;
}

/// Events that the owner has not taken, as bits. Each happens once at most, in this order.
pub(super) mod news {
    pub(in crate::machine) const REQUEST: u8 = 1 << 0;
    pub(in crate::machine) const ACCEPTED: u8 = 1 << 1;
    pub(in crate::machine) const ESTABLISHED: u8 = 1 << 2;
    pub(in crate::machine) const REJECTED: u8 = 1 << 3;
    pub(in crate::machine) const UNREACHABLE: u8 = 1 << 4;
    pub(in crate::machine) const DISCONNECTED: u8 = 1 << 5;
    pub(in crate::machine) const OVER: u8 = 1 << 6;
}

/// Room for a connection. What is in it is the machine's. In this order, because what is near the
/// start is reached by shorter instructions.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Slot {
    /// 0 while it is free.
    pub(super) comm_id: u32,
    pub(super) remote_comm_id: u32,
    pub(super) remote_qpn: u32,
    pub(super) local_qpn: u32,
    /// Its place among the requests whose sender is not known to answer.
    pub(super) unreached: u32,
    pub(super) listener: u32,
    pub(super) state: State,
    pub(super) due: u8,
    pub(super) news: u8,
    /// The program still has it.
    pub(super) is_owned: bool,
    pub(super) is_active: bool,
    pub(super) is_in_sends: bool,
    pub(super) is_in_news: bool,
    /// The end was told, or is about to be.
    pub(super) is_end_told: bool,
    /// It counts for its listener.
    pub(super) is_in_backlog: bool,
    pub(super) is_id_known: bool,
    pub(super) is_qp_known: bool,
    pub(super) retries: u8,
    /// Repeats that are left.
    pub(super) retries_left: u8,
    /// As in messages: 4.096 µs · 2^n.
    pub(super) ack_timeout: u8,
    pub(super) space: PortSpace,
    pub(super) reason: u16,
    /// That was asked for, by either side.
    pub(super) port: u16,
    /// The next in its chains.
    pub(super) next_by_id: u32,
    pub(super) next_by_qp: u32,
    pub(super) remote_guid: u64,
    /// Of its own messages, and of answers to the peer's request.
    pub(super) tid: u64,
    pub(super) timer: Timer,
    /// Time between repeats.
    pub(super) interval: Ns,
    /// Of the program.
    pub(super) context: u64,
    pub(super) local_psn: u32,
    /// How often it was used.
    pub(super) generation: u32,
    /// When it was asked for: when the request was sent, or when its sender was found.
    pub(super) since: Ns,
    /// Of the DREQ that is to be answered.
    pub(super) dreq_tid: u64,
    pub(super) origin: Origin,
    /// Whose neighbour the way goes by: the source of the request's packet (cm-path 1.3).
    pub(super) via: [u8; GID],
    /// The datagram that it sends and repeats: REQ, REP, DREQ, REJ, SIDR_REQ or SIDR_REP.
    pub(super) kept: Mad,
    /// The datagram of the last event that has one.
    pub(super) received: Mad,
}

impl Slot {
    /// A free one.
    pub const EMPTY: Self = Self {
        comm_id: 0,
        generation: 0,
        state: State::Idle,
        context: 0,
        is_owned: false,
        is_active: false,
        space: PortSpace::Tcp,
        port: 0,
        since: Ns::ZERO,
        listener: NONE,
        tid: 0,
        dreq_tid: 0,
        remote_comm_id: 0,
        remote_guid: 0,
        remote_qpn: 0,
        local_qpn: 0,
        local_psn: 0,
        origin: Origin::NOWHERE,
        via: [0; GID],
        timer: Timer::OFF,
        interval: Ns::ZERO,
        retries: 0,
        retries_left: 0,
        ack_timeout: 0,
        due: 0,
        is_in_sends: false,
        news: 0,
        is_in_news: false,
        is_end_told: false,
        reason: 0,
        kept: [0; 256],
        received: [0; 256],
        unreached: NONE,
        is_in_backlog: false,
        next_by_id: NONE,
        next_by_qp: NONE,
        is_id_known: false,
        is_qp_known: false,
    };

    /// Empties it. A function of its own, because it is long.
    #[inline(never)]
    pub(super) const fn clear(&mut self) {
        *self = Self::EMPTY;
    }
}

impl core::fmt::Debug for Slot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slot")
            .field("comm_id", &self.comm_id)
            .field("state", &self.state)
            .field("local_qpn", &self.local_qpn)
            .field("remote_qpn", &self.remote_qpn)
            .finish_non_exhaustive()
    }
}
