//! What the connection manager tells becomes events of ids. The thread that hears it gives no
//! commands: what has to be done is done when a program takes the event (cm-path 6.7).

use core::ffi::c_int;
use std::net::SocketAddr;
use std::sync::Arc;

use e810::Gid;
use e810_cm::ip::PortSpace;
use e810_cm::machine::ConnectionId;
use e810_connect::{News, PrivateData, Requested, Told};
use e810_verbs::abi::state::{AhAttr, GlobalRoute};

use crate::abi::event;
use crate::devices::{self, Own};
use crate::happening::{Happening, With};
use crate::id::{self, Id, Phase};

/// Bytes of private data that events show, whatever the peer has written.
const OF_REQUEST: usize = 56;
const OF_QUESTION: usize = 180;
/// In port space IB there is no header before it.
const OF_PLAIN_REQUEST: usize = 92;
const OF_REPLY: usize = 196;
const OF_REFUSAL: usize = 148;
const OF_ANSWER: usize = 136;

/// The status of an answer to a question that is no yes.
const TIMED_OUT: c_int = -libc::ETIMEDOUT;

/// As many bytes as a message has, zeros at the end.
fn padded(data: &PrivateData, bytes: usize) -> PrivateData {
    let mut padded = data.clone();
    // There is room for all of them.
    let _ = padded.resize(bytes, 0);
    padded
}

fn find(device: usize, connection: ConnectionId) -> Option<Arc<Id>> {
    let is_it = |id: &Id| {
        let state = id.state();
        let is_of = state.device.as_ref().is_some_and(|of| of.key() == device);
        is_of && state.connection == Some(connection)
    };
    id::all(is_it).pop()
}

/// Something of a connection was told.
pub(crate) fn told(device: usize, told: &Told) {
    if let News::Requested(request) = &told.news {
        return requested(device, told.id, told.context, request);
    }
    // The name that it was asked for with, or that of a request.
    let id = id::find(told.context).filter(|id| id.is_of(told.id));
    let Some(id) = id.or_else(|| find(device, told.id)) else {
        return;
    };
    // As the kernel: a program hears of a request first when it has accepted it. If its peer is gone,
    // that fails.
    if id.state().phase == Phase::Requested {
        return;
    }
    // It has ended, whatever its program hears next.
    if matches!(told.news, News::Rejected { .. } | News::Unreachable) {
        id.state().phase = Phase::Ending;
    }
    let happening = |event, status| Happening::of(id.clone(), event, status);
    let happening = match &told.news {
        News::Accepted {
            responder_resources,
            initiator_depth,
            private_data,
        } => Happening {
            with: With::Connection {
                responder_resources: *initiator_depth,
                initiator_depth: *responder_resources,
                flow_control: false,
                retry_count: 0,
                rnr_retry_count: 0,
                srq: false,
                qpn: 0,
            },
            private_data: padded(private_data, OF_REPLY),
            ..happening(event::CONNECT_RESPONSE, 0)
        },
        News::Answered {
            qpn,
            qkey,
            private_data,
        } => Happening {
            with: With::Datagrams {
                address: address_of_peer(&id),
                qpn: *qpn,
                qkey: *qkey,
                context: 0,
            },
            private_data: padded(private_data, OF_ANSWER),
            ..happening(event::ESTABLISHED, 0)
        },
        News::Established => {
            id.state().phase = Phase::Connected;
            happening(event::ESTABLISHED, 0)
        }
        News::Rejected {
            reason,
            private_data,
        } if id.is_datagrams() => Happening {
            private_data: padded(private_data, OF_ANSWER),
            ..happening(event::UNREACHABLE, reason.0.into())
        },
        News::Rejected {
            reason,
            private_data,
        } => Happening {
            private_data: padded(private_data, OF_REFUSAL),
            ..happening(event::REJECTED, reason.0.into())
        },
        News::Unreachable => happening(event::UNREACHABLE, TIMED_OUT),
        News::Disconnected => {
            // Once, as the kernel does: when both ends end it at a time, each also hears an answer.
            if std::mem::replace(&mut id.state().phase, Phase::Ending) == Phase::Ending {
                return;
            }
            happening(event::DISCONNECTED, 0)
        }
        News::Over => happening(event::TIMEWAIT_EXIT, 0),
        _ => return,
    };
    id.tell(happening);
}

/// A peer asks for a connection: a new id.
fn requested(device: usize, connection: ConnectionId, token: u64, request: &Requested) {
    let Some(listener) = id::find(token) else {
        // It has ended, and what it has not taken is refused.
        return;
    };
    let Some(device) = devices::known(device) else {
        return;
    };
    let port = listener.state().local.map_or(0, |local| local.port());
    let own = Own {
        index: 0,
        ip: request.destination,
        gid: e810::GidEntry::untagged(request.destination).gid,
        vlan: request.vlan,
    };
    let begin = |id: &Arc<Id>| {
        let mut state = id.state();
        id.bind_to(&mut state, &device, own, port);
        let remote = SocketAddr::new(request.source, request.source_port);
        id.set_remote(&mut state, remote);
        state.connection = Some(connection);
        state.request = Some(request.clone());
        state.phase = Phase::Requested;
    };
    let is_question = request.space.is_datagrams();
    let with = match is_question {
        true => With::Datagrams {
            address: AhAttr::default(),
            qpn: 0,
            qkey: 0,
            context: 0,
        },
        // What the peer answers is what this side may have outstanding (cm-path 6.5).
        false => With::Connection {
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            flow_control: request.flow_control,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            srq: request.srq,
            qpn: request.qpn,
        },
    };
    let bytes = match request.space {
        PortSpace::Tcp => OF_REQUEST,
        PortSpace::Udp | PortSpace::Ipoib => OF_QUESTION,
        PortSpace::Ib => OF_PLAIN_REQUEST,
    };
    let happening = |id| Happening {
        id,
        listener: Some(listener.clone()),
        event: event::CONNECT_REQUEST,
        status: 0,
        with,
        private_data: padded(&request.private_data, bytes),
    };
    listener.is_asked((device.clone(), connection), begin, happening);
}

/// Where datagrams to an id's peer go.
pub(crate) fn address_of_peer(id: &Id) -> AhAttr {
    let Ok((own, _, remote)) = id.ends() else {
        return AhAttr::default();
    };
    address(
        own,
        e810::GidEntry::untagged(remote.ip()).gid,
        id.state().options.tos,
    )
}

/// Where datagrams to a GID go.
pub(crate) fn address(own: Own, to: Gid, tos: u8) -> AhAttr {
    AhAttr {
        grh: GlobalRoute {
            dgid: e810_verbs::abi::state::Gid { raw: to.0 },
            flow_label: 0,
            sgid_index: own.index,
            hop_limit: 64,
            traffic_class: tos,
        },
        is_global: 1,
        port_num: 1,
        ..AhAttr::default()
    }
}

/// A device is gone: each id of it is told once.
pub(crate) fn device_is_gone(device: usize) {
    for id in of_device(device) {
        id.tell_plainly(event::DEVICE_REMOVAL, 0);
    }
}

fn of_device(device: usize) -> Vec<Arc<Id>> {
    let is_of = |id: &Id| {
        let seen = id.seen().verbs;
        !seen.is_null() && seen.addr() == device
    };
    id::all(is_of)
}
