//! Entry points of the RC engine, and how an error stops the QP.

use super::host::{AsyncEvent, Fault, Host, HostFault};
use super::ring::FetchError;
use super::state::{Mode, QpRcState};
use super::timing::POLL_BUDGET;
use super::{progress, requester, requester_rx, responder, responder_tx};
use crate::wire::{Addresses, Packet, Verb};
use crate::wqe::{AeCode, AeSource};

/// Outcome of a received packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted and executed.
    Accepted,
    /// A duplicate: acknowledged or executed again.
    Duplicate,
    /// An earlier packet is missing.
    OutOfOrder,
    /// No receive is posted for the packet.
    NotReady,
    /// Refused, or a NAK: the QP stops.
    Refused,
    /// Ignored.
    Dropped(DropReason),
}

/// Why a packet is ignored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The mode does not allow it.
    Mode,
    /// Not a packet of a reliable connection.
    Service,
    /// Another destination QP.
    Qp,
    /// Another partition.
    Partition,
    /// Not between the two addresses of this connection.
    Address,
    /// Another VLAN.
    Vlan,
    /// A transport header version that does not exist.
    Version,
    /// A response without an outstanding request.
    Stale,
    /// A malformed response.
    Meaningless,
    /// A NAK is pending.
    Refusing,
}

/// The reason for which the QP stops.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Stop(pub(super) AsyncEvent);

impl Stop {
    pub(super) fn new(code: AeCode, source: AeSource, wqe_index: u16) -> Self {
        Self(AsyncEvent {
            code,
            source,
            wqe_index,
        })
    }

    /// A failed access on behalf of `source`.
    pub(super) fn fault(fault: Fault, source: AeSource, wqe_index: u16) -> Self {
        match fault {
            Fault::Stag(code) => Self::new(code, source, wqe_index),
            Fault::Host(fault) => fault.into(),
        }
    }

    /// An entry that could not be fetched or decoded.
    pub(super) fn fetch(error: FetchError, source: AeSource, wqe_index: u16) -> Self {
        match error {
            FetchError::Wqe(error) => Self::new(error.ae(), source, wqe_index),
            FetchError::Host => HostFault.into(),
        }
    }
}

impl From<HostFault> for Stop {
    fn from(_: HostFault) -> Self {
        Self::new(AeCode::LOCAL_QP_CATASTROPHIC, AeSource::None, 0)
    }
}

fn stop<H: Host + ?Sized>(state: &mut QpRcState, host: &mut H, Stop(event): Stop) {
    state.mode = Mode::Error;
    host.report(event);
}

/// Sends the packets that may be sent now, within [`POLL_BUDGET`]. Returns `true` if there are
/// more: call again.
pub fn poll<H: Host + ?Sized>(state: &mut QpRcState, host: &mut H) -> bool {
    let mut budget = POLL_BUDGET;
    let result = match state.mode {
        Mode::Idle | Mode::Error => Ok(false),
        Mode::Rtr => responder_tx::poll(state, host, &mut budget),
        Mode::Rts | Mode::Sqd => responder_tx::poll(state, host, &mut budget)
            .and_then(|more| requester::poll(state, host, &mut budget).map(|again| more || again)),
    };
    result.unwrap_or_else(|reason| {
        stop(state, host, reason);
        false
    })
}

/// Handles a time-out. Returns `true` if [`poll`] has packets to send now.
pub fn timer<H: Host + ?Sized>(state: &mut QpRcState, host: &mut H) -> bool {
    if state.next_deadline().is_none_or(|at| host.now_ns() < at) {
        return false;
    }
    match progress::time_out(state, host) {
        Ok(()) => true,
        Err(reason) => {
            stop(state, host, reason);
            false
        }
    }
}

/// Processes a received packet. Call [`poll`] afterwards: it sends the response.
pub fn handle_packet<H: Host + ?Sized>(
    state: &mut QpRcState,
    packet: &Packet<'_>,
    host: &mut H,
) -> Outcome {
    if let Some(reason) = unwanted(state, packet) {
        return Outcome::Dropped(reason);
    }
    let response = matches!(
        packet.headers.bth.opcode.rc(),
        Some((
            Verb::Acknowledge | Verb::ReadResponse | Verb::AtomicResponse,
            _
        ))
    );
    let result = match (response, state.mode) {
        (true, Mode::Rts | Mode::Sqd) => requester_rx::handle(state, packet, host),
        (false, Mode::Rtr | Mode::Rts | Mode::Sqd) => Ok(responder::handle(state, packet, host)),
        _ => return Outcome::Dropped(DropReason::Mode),
    };
    result.unwrap_or_else(|reason| {
        stop(state, host, reason);
        Outcome::Refused
    })
}

/// The reason to ignore the packet, if any.
fn unwanted(state: &QpRcState, packet: &Packet<'_>) -> Option<DropReason> {
    let config = &state.config;
    let bth = &packet.headers.bth;
    if !bth.opcode.is_reliable_connection() {
        return Some(DropReason::Service);
    }
    if bth.version != 0 {
        return Some(DropReason::Version);
    }
    if bth.dest_qp != config.qpn {
        return Some(DropReason::Qp);
    }
    if !may_talk(bth.pkey, config.pkey) {
        return Some(DropReason::Partition);
    }
    let expected: Addresses = config.path.ip.reversed();
    if packet.path.ip != expected {
        return Some(DropReason::Address);
    }
    // That it is checked is [inf vlan_checked]: it follows from the name of a bit of later cards
    // that disables the check (DIS_VLAN_CHECKS, control-path 5.2). A tag with a priority only does
    // not count.
    let id = |vlan: Option<u16>| vlan.map_or(0, |tag| tag & 0xFFF);
    (id(packet.path.vlan) != id(config.path.vlan)).then_some(DropReason::Vlan)
}

/// Whether two partition keys belong to the same partition. The top bit tells full from limited
/// membership: two limited members may not communicate.
#[must_use]
pub fn may_talk(theirs: u16, ours: u16) -> bool {
    theirs & 0x7FFF == ours & 0x7FFF && (theirs | ours) & 0x8000 != 0
}
