//! Both ends of connections in one process, on a simulated function of it: events, what they have, and
//! what ends.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod as_linux;

// UNSAFETY: calls a C library, and follows its pointers, as a program does.

use core::ffi::{c_int, c_void};
use std::env;
use std::process::Command;
use std::ptr;

use e810_rdmacm::abi::{CmEvent, CmId, ConnParam, EventChannel, JoinMcAttr, event, port_space};
use e810_rdmacm::calls::{
    create_id, destroy_id, disconnect, get_dst_port, get_src_port, listen, reject,
};
use e810_rdmacm::channel::{
    ack_cm_event, create_event_channel, destroy_event_channel, get_cm_event, migrate_id,
};
use e810_rdmacm::connecting::{accept, connect};
use e810_rdmacm::multicast::{join_multicast_ex, leave_multicast};
use e810_rdmacm::options::set_option;
use e810_rdmacm::queue_pairs::{create_qp, destroy_qp};
use e810_rdmacm::resolve::{bind_addr, resolve_addr, resolve_route};
use e810_verbs::abi::constants::qp_type;
use e810_verbs::abi::make::{QpCap, QpInitAttr};

/// The variable of the process that has the function.
const PART: &str = "E810_PART";
const PORT: u16 = 7471;

/// Runs this test again as a process of its own, because a process chooses its devices once.
fn as_a_program(part: &str) {
    as_a_program_on(part, "sim@10.8.1.1/24");
}

/// The same, with these functions.
fn as_a_program_on(part: &str, functions: &str) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", part, "--nocapture"])
        .env(PART, part);
    command
        .env("E810_VERBS", functions)
        .env("E810_VERBS_PANICS", "1");
    let name = part.replace("::", "-");
    let folder = env::temp_dir().join(format!("e810-rdmacm-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let status = command.env("E810_LOCKS", &folder).status().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(status.success(), "{part}: {status}");
}

fn is_program(part: &str) -> bool {
    env::var(PART).is_ok_and(|own| own == part)
}

fn address(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_be_bytes([10, 8, 1, 1]).to_be(),
        },
        sin_zero: [0; 8],
    }
}

fn id(channel: *mut EventChannel) -> *mut CmId {
    let mut id = ptr::null_mut();
    // SAFETY: a channel, and a place for the id.
    let made = unsafe { create_id(channel, &raw mut id, ptr::null_mut(), port_space::TCP) };
    assert_eq!(made, 0);
    id
}

/// The next event, which is this one.
#[track_caller]
fn next(channel: *mut EventChannel, wanted: c_int) -> *mut CmEvent {
    let mut event = ptr::null_mut();
    // SAFETY: a channel, and a place for the event.
    assert_eq!(unsafe { get_cm_event(channel, &raw mut event) }, 0);
    // SAFETY: it was not acknowledged.
    let got = unsafe { ((*event).event, (*event).status) };
    assert_eq!(got.0, wanted, "status {}", got.1);
    event
}

#[track_caller]
fn takes(channel: *mut EventChannel, wanted: c_int) {
    let event = next(channel, wanted);
    // SAFETY: it is not used any more.
    assert_eq!(unsafe { ack_cm_event(event) }, 0);
}

/// Whether nothing waits in a channel.
fn is_quiet(channel: *mut EventChannel) -> bool {
    let mut poll = libc::pollfd {
        // SAFETY: it exists.
        fd: unsafe { (*channel).fd },
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor.
    unsafe { libc::poll(&raw mut poll, 1, 200) == 0 }
}

fn attributes(kind: c_int) -> QpInitAttr {
    QpInitAttr {
        qp_context: ptr::null_mut(),
        send_cq: ptr::null_mut(),
        recv_cq: ptr::null_mut(),
        srq: ptr::null_mut(),
        cap: QpCap {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        qp_type: kind,
        sq_sig_all: 1,
    }
}

fn queue_pair(id: *mut CmId) {
    let mut attr = attributes(qp_type::RC);
    // SAFETY: an id with a device.
    assert_eq!(unsafe { create_qp(id, ptr::null_mut(), &raw mut attr) }, 0);
    // SAFETY: the id exists.
    let made = unsafe { id.read() };
    assert!(!made.qp.is_null() && !made.send_cq.is_null() && !made.recv_cq_channel.is_null());
}

fn param(data: &[u8]) -> ConnParam {
    ConnParam {
        private_data: data.as_ptr().cast::<c_void>(),
        private_data_len: data.len() as u8,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: 0,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}

/// An id that has asked the listener.
fn asks(channel: *mut EventChannel) -> *mut CmId {
    let active = id(channel);
    let mut to = address(PORT);
    let to = (&raw mut to).cast();
    // SAFETY: the id and the address exist.
    unsafe {
        assert_eq!(resolve_addr(active, ptr::null_mut(), to, 1000), 0);
        takes(channel, event::ADDR_RESOLVED);
        assert_eq!(resolve_route(active, 1000), 0);
        takes(channel, event::ROUTE_RESOLVED);
        assert_eq!((*active).route.num_paths, 1);
        queue_pair(active);
        let mut param = param(b"hello");
        assert_eq!(connect(active, &raw mut param), 0);
    }
    active
}

#[test]
fn ids_connect_and_end_and_each_event_comes_once() {
    const PART: &str = "ids_connect_and_end_and_each_event_comes_once";
    if !is_program(PART) {
        return as_a_program(PART);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    let listener = id(passives);
    let mut own = address(PORT);
    // SAFETY: ids, channels and events are used while they exist; what they say is.
    unsafe {
        assert_eq!(bind_addr(listener, (&raw mut own).cast()), 0);
        assert_eq!(u16::from_be(get_src_port(listener)), PORT);
        assert_eq!(listen(listener, 4), 0);
        let second = id(passives);
        let bound = bind_addr(second, (&raw mut own).cast());
        assert_eq!(bound, -1, "somebody listens there");
        assert_eq!(destroy_id(second), 0);

        // One is refused.
        let active = asks(actives);
        let request = next(passives, event::CONNECT_REQUEST);
        let (passive, of) = ((*request).id, (*request).listen_id);
        assert_eq!(of, listener);
        let conn = (*request).param.conn;
        let data = std::slice::from_raw_parts(conn.private_data.cast::<u8>(), 56);
        assert_eq!((&data[..5], data[5]), (&b"hello"[..], 0));
        assert_eq!(conn.private_data_len, 56);
        assert_eq!(get_dst_port(passive), get_src_port(active));
        assert_eq!(ack_cm_event(request), 0);
        assert_eq!(reject(passive, b"no".as_ptr().cast(), 2), 0);
        assert_eq!(destroy_id(passive), 0);
        let refused = next(actives, event::REJECTED);
        assert_eq!((*refused).status, 28);
        assert_eq!(ack_cm_event(refused), 0);
        destroy_qp(active);
        assert_eq!(destroy_id(active), 0);

        // Two are accepted; both ends of one end it at a time.
        for both_end in [true, false] {
            let active = asks(actives);
            let request = next(passives, event::CONNECT_REQUEST);
            let passive = (*request).id;
            assert_eq!(ack_cm_event(request), 0);
            // Its events come to another channel.
            let other = create_event_channel();
            assert_eq!(migrate_id(passive, other), 0);
            queue_pair(passive);
            let mut param = param(b"welcome");
            assert_eq!(accept(passive, &raw mut param), 0);
            let established = next(actives, event::ESTABLISHED);
            let data = (*established).param.conn.private_data.cast::<u8>();
            assert_eq!(std::slice::from_raw_parts(data, 7), b"welcome");
            assert_eq!(ack_cm_event(established), 0);
            takes(other, event::ESTABLISHED);
            assert_eq!(disconnect(active), 0);
            if both_end {
                assert_eq!(disconnect(passive), 0);
                // As rping does, which leaves the id with the pointer.
                assert_eq!(e810_verbs::qp::destroy_qp((*active).qp), 0);
            }
            takes(other, event::DISCONNECTED);
            if !both_end {
                assert_eq!(disconnect(passive), 0);
            }
            takes(actives, event::DISCONNECTED);
            for channel in [other, actives] {
                // That all of it is over is told half a second later.
                if !is_quiet(channel) {
                    takes(channel, event::TIMEWAIT_EXIT);
                }
            }
            if !both_end {
                destroy_qp(active);
            }
            destroy_qp(passive);
            for end in [active, passive] {
                assert_eq!(destroy_id(end), 0);
            }
            destroy_event_channel(other);
        }
        assert!(is_quiet(passives), "another event");

        // A request that nobody takes ends with its listener.
        let active = asks(actives);
        assert!(!is_quiet(passives), "no request");
        assert_eq!(destroy_id(listener), 0);
        takes(actives, event::REJECTED);
        assert!(is_quiet(passives), "an event of what is gone");
        destroy_qp(active);
        assert_eq!(destroy_id(active), 0);
        destroy_event_channel(passives);
        destroy_event_channel(actives);
    }
}

/// Nobody has the address of these.
#[test]
fn a_peer_is_waited_for_as_long_as_the_program_says() {
    const PART: &str = "a_peer_is_waited_for_as_long_as_the_program_says";
    if !is_program(PART) {
        return as_a_program(PART);
    }
    let channel = create_event_channel();
    let (patient, hasty) = (id(channel), id(channel));
    let mut nobody = address(PORT);
    nobody.sin_addr.s_addr = u32::from_be_bytes([10, 8, 1, 77]).to_be();
    // SAFETY: ids, channels and events are used while they exist.
    unsafe {
        let to = (&raw mut nobody).cast();
        // Longer than a function waits for a neighbour by itself.
        assert_eq!(resolve_addr(patient, ptr::null_mut(), to, 600_000), 0);
        for limit in [0, 100, 4000] {
            assert_eq!(resolve_addr(hasty, ptr::null_mut(), to, limit), 0);
            let event = next(channel, event::ADDR_ERROR);
            assert_eq!(((*event).id, (*event).status), (hasty, -libc::ETIMEDOUT));
            assert_eq!(ack_cm_event(event), 0);
        }
        // It is not waited for until its time is over.
        assert_eq!(destroy_id(patient), 0);
        assert!(is_quiet(channel));
        assert_eq!(destroy_id(hasty), 0);
        destroy_event_channel(channel);
    }
}

fn number() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

#[test]
fn what_cannot_be_is_refused() {
    const PART: &str = "what_cannot_be_is_refused";
    if !is_program(PART) {
        return as_a_program(PART);
    }
    let channel = create_event_channel();
    let mut made = ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        assert_eq!(create_id(channel, &raw mut made, ptr::null_mut(), 1), -1);
        assert_eq!(number(), libc::EINVAL);
        let id = id(channel);
        let mut param = param(&[0; 57]);
        assert_eq!(connect(id, &raw mut param), -1);
        assert_eq!(number(), libc::EINVAL, "it has no route");
        assert_eq!(resolve_route(id, 1000), -1);
        assert_eq!(accept(id, ptr::null_mut()), -1);
        assert_eq!(disconnect(id), -1);
        let mut elsewhere = address(0);
        elsewhere.sin_addr.s_addr = u32::from_be_bytes([10, 9, 9, 9]).to_be();
        assert_eq!(bind_addr(id, (&raw mut elsewhere).cast()), -1);
        assert_eq!(number(), libc::EADDRNOTAVAIL);
        let mut long = 0_u64;
        assert_eq!(set_option(id, 0, 0, (&raw mut long).cast(), 8), -1);
        assert_eq!(number(), libc::EINVAL);
        assert_eq!(set_option(id, 0, 9, (&raw mut long).cast(), 1), -1);
        assert_eq!(number(), libc::ENOSYS);
        let mut tos = 16_u8;
        assert_eq!(set_option(id, 0, 0, (&raw mut tos).cast(), 1), 0);
        // Nobody has this address.
        let mut nobody = address(PORT);
        nobody.sin_addr.s_addr = u32::from_be_bytes([10, 8, 1, 77]).to_be();
        assert_eq!(
            resolve_addr(id, ptr::null_mut(), (&raw mut nobody).cast(), 1),
            0
        );
        let failed = next(channel, event::ADDR_ERROR);
        assert_eq!((*failed).status, -libc::ETIMEDOUT);
        assert_eq!(ack_cm_event(failed), 0);
        assert_eq!(leave_multicast(id, (&raw mut nobody).cast()), -1);
        assert_eq!(number(), libc::EADDRNOTAVAIL);
        let mut join = JoinMcAttr {
            comp_mask: 3,
            join_flags: 1,
            addr: (&raw mut nobody).cast(),
        };
        assert_eq!(join_multicast_ex(id, &raw mut join, ptr::null_mut()), -1);
        assert_eq!(number(), libc::EOPNOTSUPP);
        assert_eq!(destroy_id(id), 0);
        destroy_event_channel(channel);
    }
}
