//! What librdmacm and the kernel do, and this library did otherwise.

mod functions;
mod ports;
mod races;
mod states;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e810_attach::messages::{CallBytes, Connecting};
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Listen, ListenerId};
use e810_connect::Call;
use e810_rdmacm::abi::AddrInfo;
use e810_rdmacm::calls::{establish, notify};
use e810_rdmacm::endpoints::{create_ep, destroy_ep, get_request};
use e810_rdmacm::multicast::join_multicast;
use e810_rdmacm::refused::reject_ece;
use e810_verbs::device::context::OpenContext;

use super::*;

const ONE: &str = "sim@10.8.1.1/24,fd00:8::1/64";
const TWO: &str = "sim:wire=rdmacm-tests,mac=02:00:00:00:01:00@10.8.1.1 sim:wire=rdmacm-tests,mac=02:00:00:00:01:01@10.8.1.2";
/// As many as the device has.
const MOST: u8 = 255;

fn id_of(channel: *mut EventChannel, space: c_int) -> *mut CmId {
    let mut id = ptr::null_mut();
    // SAFETY: a channel, and a place for the id.
    let made = unsafe { create_id(channel, &raw mut id, ptr::null_mut(), space) };
    assert_eq!(made, 0);
    id
}

fn of_bytes(bytes: [u8; 4], port: u16) -> libc::sockaddr_in {
    let mut address = address(port);
    address.sin_addr.s_addr = u32::from_ne_bytes(bytes);
    address
}

#[track_caller]
fn is_refused(answer: c_int, wanted: c_int) {
    assert_eq!((answer, number()), (-1, wanted));
}

/// One who listens at [`PORT`].
fn listens(channel: *mut EventChannel, space: c_int) -> *mut CmId {
    let listener = id_of(channel, space);
    let mut own = address(PORT);
    // SAFETY: the id and the address exist.
    unsafe {
        assert_eq!(bind_addr(listener, (&raw mut own).cast()), 0);
        assert_eq!(listen(listener, 0), 0);
    }
    listener
}

/// One that may ask the listener.
fn routed(channel: *mut EventChannel, space: c_int) -> *mut CmId {
    let active = id_of(channel, space);
    let mut to = address(PORT);
    // SAFETY: the id and the address exist.
    unsafe {
        assert_eq!(
            resolve_addr(active, ptr::null_mut(), (&raw mut to).cast(), 1000),
            0
        );
        takes(channel, event::ADDR_RESOLVED);
        assert_eq!(resolve_route(active, 1000), 0);
        takes(channel, event::ROUTE_RESOLVED);
    }
    active
}

/// The id of the next request.
fn requested(channel: *mut EventChannel) -> *mut CmId {
    let request = next(channel, event::CONNECT_REQUEST);
    // SAFETY: it is acknowledged once.
    unsafe {
        let id = (*request).id;
        assert_eq!(ack_cm_event(request), 0);
        id
    }
}

/// 0, or the number in `errno`.
fn answer(answer: c_int) -> c_int {
    if answer == 0 { 0 } else { number() }
}

/// Event and status of what happens in so many milliseconds.
fn happens_within(channel: *mut EventChannel, ms: c_int) -> Option<(c_int, c_int)> {
    let mut poll = libc::pollfd {
        // SAFETY: it exists.
        fd: unsafe { (*channel).fd },
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor; the event is acknowledged once.
    unsafe {
        if libc::poll(&raw mut poll, 1, ms) != 1 {
            return None;
        }
        let mut event = ptr::null_mut();
        assert_eq!(get_cm_event(channel, &raw mut event), 0);
        let got = ((*event).event, (*event).status);
        ack_cm_event(event);
        Some(got)
    }
}

fn reuses(id: *mut CmId, mut on: c_int) -> c_int {
    // SAFETY: the id exists.
    answer(unsafe { set_option(id, 0, 1, (&raw mut on).cast(), 4) })
}

/// As another program on the function of an id does.
fn another_listens(id: *mut CmId, address: [u8; 4], port: u16) -> ListenerId {
    let call = CallBytes::of(&Call::Listen(Listen {
        space: PortSpace::Tcp,
        port,
        address: IpAddr::from(address),
        only_family: true,
        backlog: 1,
        // No id of this process has this word.
        context: 1 << 60,
    }));
    let listening = match *asks(id, call) {
        e810_connect::Answer::Listener(listener, _) => Some(listener),
        _ => None,
    };
    listening.unwrap()
}

fn ends(id: *mut CmId, listener: ListenerId) {
    asks(id, CallBytes::of(&Call::Unlisten(listener)));
}

fn asks(id: *mut CmId, call: CallBytes) -> Box<e810_connect::Answer> {
    // SAFETY: the id exists, and has a function.
    let control = unsafe { OpenContext::of((*id).verbs) }.control();
    control.ask(Connecting { call }).unwrap().unwrap()
}

#[test]
fn channels() {
    const PART: &str = "as_linux::channels";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    // SAFETY: ids, channels and events are used while they exist.
    unsafe {
        let channel = create_event_channel();
        is_refused(get_cm_event(channel, ptr::null_mut()), libc::EINVAL);
        // A synchronous id stays one.
        let waits = id_of(ptr::null_mut(), port_space::TCP);
        is_refused(migrate_id(waits, ptr::null_mut()), libc::EINVAL);
        assert_eq!(destroy_id(waits), 0);

        // A request goes with its listener, and the old channel is of no use any more.
        let listener = listens(channel, port_space::TCP);
        let actives = create_event_channel();
        let active = routed(actives, port_space::TCP);
        queue_pair(active);
        let mut param = param(b"hello");
        assert_eq!(connect(active, &raw mut param), 0);
        while is_quiet(channel) {}
        let other = create_event_channel();
        assert_eq!(migrate_id(listener, other), 0);
        destroy_event_channel(channel);
        let passive = requested(other);
        assert_eq!((*passive).channel, other);
        queue_pair(passive);
        assert_eq!(accept(passive, &raw mut param), 0);
        takes(actives, event::ESTABLISHED);
        takes(other, event::ESTABLISHED);

        // A migration waits until what was taken is acknowledged.
        assert_eq!(disconnect(active), 0);
        let event = next(other, event::DISCONNECTED);
        let has_come = AtomicBool::new(false);
        let (id, to) = (passive.expose_provenance(), actives.expose_provenance());
        thread::scope(|scope| {
            scope.spawn(|| {
                let (id, to) = (
                    ptr::with_exposed_provenance_mut(id),
                    ptr::with_exposed_provenance_mut(to),
                );
                assert_eq!(migrate_id(id, to), 0);
                has_come.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(100));
            assert!(!has_come.load(Ordering::SeqCst), "an event is out");
            assert_eq!(ack_cm_event(event), 0);
        });
        assert_eq!((*passive).channel, actives);
        for end in [active, passive] {
            destroy_qp(end);
            assert_eq!(destroy_id(end), 0);
        }
        assert_eq!(destroy_id(listener), 0);
        destroy_event_channel(other);
        destroy_event_channel(actives);
    }
}

/// Whoever asks a listener at its end is refused, and does not wait.
#[test]
fn a_listener_that_ends_answers_all() {
    const PART: &str = "as_linux::a_listener_that_ends_answers_all";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    for round in 0..200_u32 {
        let listener = listens(passives, port_space::TCP).expose_provenance();
        let active = routed(actives, port_space::TCP);
        let mut asks = param(b"hello");
        asks.qp_num = 0x80_0000 + round;
        // SAFETY: as above.
        unsafe {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let listener = ptr::with_exposed_provenance_mut(listener);
                    assert_eq!(destroy_id(listener), 0);
                });
                assert_eq!(connect(active, &raw mut asks), 0);
            });
            takes(actives, event::REJECTED);
            assert_eq!(destroy_id(active), 0);
        }
    }
    // SAFETY: as above.
    unsafe {
        destroy_event_channel(passives);
        destroy_event_channel(actives);
    }
}

#[test]
fn addresses() {
    const PART: &str = "as_linux::addresses";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    // SAFETY: as above.
    unsafe {
        let active = id(channel);
        let mut to = address(PORT);
        let mut strange = address(PORT);
        strange.sin_family = 99;
        let from = (&raw mut strange).cast();
        let place = (&raw mut to).cast();
        is_refused(resolve_addr(active, from, place, 1), libc::EINVAL);
        // Bound to another family.
        let mut any = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as u16,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        };
        let other = id(channel);
        assert_eq!(bind_addr(other, (&raw mut any).cast()), 0);
        is_refused(resolve_addr(other, ptr::null_mut(), place, 1), libc::EINVAL);
        assert_eq!(destroy_id(other), 0);
        // No address is the machine itself.
        let mut nowhere = of_bytes([0; 4], PORT);
        let nowhere = (&raw mut nowhere).cast();
        assert_eq!(resolve_addr(active, ptr::null_mut(), nowhere, 1), 0);
        takes(channel, event::ADDR_RESOLVED);
        let shown = (*active)
            .route
            .addr
            .dst
            .as_ptr()
            .cast::<libc::sockaddr_in>();
        assert_eq!((*shown).sin_addr.s_addr, to.sin_addr.s_addr);
        assert_eq!(destroy_id(active), 0);
        // Whom nobody answers has a port, and can listen at it.
        let lost = id(channel);
        let mut nobody = of_bytes([10, 8, 1, 77], PORT);
        let nobody = (&raw mut nobody).cast();
        assert_eq!(resolve_addr(lost, ptr::null_mut(), nobody, 1), 0);
        takes(channel, event::ADDR_ERROR);
        assert_ne!(get_src_port(lost), 0);
        assert_eq!(listen(lost, 1), 0);
        assert_eq!(destroy_id(lost), 0);
        // The machine itself has the ports of its address.
        let listener = listens(channel, port_space::TCP);
        let second = id(channel);
        let mut itself = of_bytes([127, 0, 0, 1], PORT);
        let bound = bind_addr(second, (&raw mut itself).cast());
        is_refused(bound, libc::EADDRINUSE);
        for id in [second, listener] {
            assert_eq!(destroy_id(id), 0);
        }
        destroy_event_channel(channel);
    }
}

#[test]
fn who_listens_on_one_function_only_does_not_listen() {
    const PART: &str = "as_linux::who_listens_on_one_function_only_does_not_listen";
    if !is_program(PART) {
        return as_a_program_on(PART, TWO);
    }
    let channel = create_event_channel();
    // SAFETY: as above.
    unsafe {
        let (here, everywhere) = (id(channel), id(channel));
        let (mut second, mut any) = (of_bytes([10, 8, 1, 2], 0), of_bytes([0; 4], PORT));
        assert_eq!(bind_addr(here, (&raw mut second).cast()), 0);
        let other = another_listens(here, [10, 8, 1, 2], PORT);
        assert_eq!(bind_addr(everywhere, (&raw mut any).cast()), 0);
        is_refused(listen(everywhere, 1), libc::EADDRINUSE);
        // Nobody does on the first one.
        let active = routed(channel, port_space::TCP);
        queue_pair(active);
        let mut param = param(b"");
        assert_eq!(connect(active, &raw mut param), 0);
        let refused = next(channel, event::REJECTED);
        assert_eq!(((*refused).id, (*refused).status), (active, 8));
        assert_eq!(ack_cm_event(refused), 0);
        // Later it does, on both.
        ends(here, other);
        assert_eq!(destroy_id(here), 0);
        assert_eq!(listen(everywhere, 1), 0);
        destroy_qp(active);
        for id in [active, everywhere] {
            assert_eq!(destroy_id(id), 0);
        }
        destroy_event_channel(channel);
    }
}

#[test]
fn what_is_said() {
    const PART: &str = "as_linux::what_is_said";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    // SAFETY: as above.
    unsafe {
        let listener = listens(passives, port_space::TCP);
        // Neither a queue pair nor its number.
        let active = routed(actives, port_space::TCP);
        is_refused(connect(active, ptr::null_mut()), libc::EINVAL);
        let mut asks = param(b"hello");
        asks.qp_num = 0x80_0001;
        assert_eq!(connect(active, &raw mut asks), 0);
        let passive = requested(passives);
        is_refused(accept(passive, ptr::null_mut()), libc::EINVAL);
        is_refused(notify(passive, 4), libc::EINVAL);
        is_refused(notify(active, 4), libc::EINVAL);
        // As many READs as the device has are as many as the peer asks for.
        let mut grants = param(b"");
        (grants.responder_resources, grants.initiator_depth) = (MOST, MOST);
        grants.qp_num = 0x80_0002;
        assert_eq!(accept(passive, &raw mut grants), 0);
        let response = next(actives, event::CONNECT_RESPONSE);
        let conn = (*response).param.conn;
        assert_eq!((conn.responder_resources, conn.initiator_depth), (1, 1));
        assert_eq!(ack_cm_event(response), 0);
        // Its first message is there before it says that it is ready.
        assert_eq!(notify(passive, 4), 0);
        takes(passives, event::ESTABLISHED);
        is_refused(notify(passive, 4), libc::EISCONN);
        assert_eq!(establish(active), 0);
        for end in [active, passive] {
            assert_eq!(destroy_id(end), 0);
        }

        // A refusal because of a vendor's options says so.
        let active = routed(actives, port_space::TCP);
        queue_pair(active);
        assert_eq!(connect(active, &raw mut asks), 0);
        let passive = requested(passives);
        assert_eq!(reject_ece(passive, ptr::null(), 0), 0);
        let refused = next(actives, event::REJECTED);
        assert_eq!((*refused).status, 35);
        assert_eq!(ack_cm_event(refused), 0);
        // It is over, for who has refused, too.
        for end in [active, passive] {
            is_refused(notify(end, 4), libc::EINVAL);
        }
        destroy_qp(active);
        for end in [active, passive, listener] {
            assert_eq!(destroy_id(end), 0);
        }

        // Port space IB has more room, and no limits of the device are looked at.
        let listener = listens(passives, port_space::IB);
        let active = routed(actives, port_space::IB);
        let mut asks = param(&[7; 92]);
        (asks.qp_num, asks.responder_resources) = (0x80_0003, 254);
        assert_eq!(connect(active, &raw mut asks), 0);
        let request = next(passives, event::CONNECT_REQUEST);
        let (passive, conn) = ((*request).id, (*request).param.conn);
        assert_eq!(conn.private_data_len, 92);
        let data = std::slice::from_raw_parts(conn.private_data.cast::<u8>(), 92);
        assert_eq!(data, [7; 92]);
        assert_eq!(ack_cm_event(request), 0);
        for end in [active, passive, listener] {
            assert_eq!(destroy_id(end), 0);
        }
        destroy_event_channel(passives);
        destroy_event_channel(actives);
    }
}

#[test]
fn options_and_queue_pairs() {
    const PART: &str = "as_linux::options_and_queue_pairs";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    // SAFETY: as above.
    unsafe {
        // Datagrams wait for no acknowledgement; and any time can be asked for.
        let datagrams = id_of(channel, port_space::UDP);
        let mut code = 255_u8;
        let place = (&raw mut code).cast();
        is_refused(set_option(datagrams, 0, 3, place, 1), libc::EINVAL);
        let (passives, actives) = (create_event_channel(), create_event_channel());
        let listener = listens(passives, port_space::TCP);
        let active = routed(actives, port_space::TCP);
        assert_eq!(set_option(active, 0, 3, place, 1), 0);
        let mut attr = attributes(qp_type::RC);
        assert_eq!(create_qp(active, ptr::null_mut(), &raw mut attr), 0);
        // What was made for it is in the attributes.
        assert_eq!(
            [attr.send_cq, attr.recv_cq],
            [(*active).send_cq, (*active).recv_cq]
        );
        let mut param = param(b"");
        assert_eq!(connect(active, &raw mut param), 0);
        let passive = requested(passives);
        queue_pair(passive);
        assert_eq!(accept(passive, &raw mut param), 0);
        takes(actives, event::ESTABLISHED);
        for end in [active, passive] {
            destroy_qp(end);
            assert_eq!(destroy_id(end), 0);
        }
        assert_eq!(destroy_id(listener), 0);
        destroy_event_channel(passives);
        destroy_event_channel(actives);

        // A queue pair is in a group when its program has heard that the id is.
        let mut own = address(0);
        assert_eq!(bind_addr(datagrams, (&raw mut own).cast()), 0);
        let mut group = of_bytes([239, 1, 2, 3], 0);
        let group = (&raw mut group).cast();
        assert_eq!(join_multicast(datagrams, group, ptr::null_mut()), 0);
        let mut attr = attributes(qp_type::UD);
        assert_eq!(create_qp(datagrams, ptr::null_mut(), &raw mut attr), 0);
        takes(channel, event::MULTICAST_JOIN);
        let qp = (*datagrams).qp;
        assert_eq!(e810_verbs::qp::destroy_qp(qp), libc::EBUSY);
        assert_eq!(leave_multicast(datagrams, group), 0);
        // What was left is not told of.
        assert_eq!(join_multicast(datagrams, group, ptr::null_mut()), 0);
        assert_eq!(leave_multicast(datagrams, group), 0);
        assert!(is_quiet(channel), "an event of a group that was left");
        destroy_qp(datagrams);
        assert_eq!(destroy_id(datagrams), 0);
        destroy_event_channel(channel);
    }
}

/// The id of a request has the event, with what the peer has said; and its listener the protection
/// domain that it was made with.
#[test]
fn a_request_of_an_endpoint_has_its_event() {
    const PART: &str = "as_linux::a_request_of_an_endpoint_has_its_event";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let mut own = address(PORT);
    // SAFETY: numbers and null pointers.
    let mut info: AddrInfo = unsafe { std::mem::zeroed() };
    (info.flags, info.port_space, info.qp_type) = (1, port_space::TCP, qp_type::RC);
    (info.src_addr, info.src_len) = ((&raw mut own).cast(), 16);
    let (mut listener, mut made) = (ptr::null_mut(), ptr::null_mut());
    let mut attr = attributes(qp_type::RC);
    // SAFETY: as above.
    unsafe {
        let made_ep = create_ep(
            &raw mut listener,
            &raw mut info,
            ptr::null_mut(),
            &raw mut attr,
        );
        assert_eq!(made_ep, 0);
        assert_eq!(listen(listener, 1), 0);
        let asking = thread::spawn(|| {
            let active = routed_alone();
            let mut param = param(b"hello");
            assert_eq!(connect(active, &raw mut param), 0);
            destroy_ep(active);
        });
        assert_eq!(get_request(listener, &raw mut made), 0);
        assert!((*listener).event.is_null());
        let event = (*made).event;
        assert_eq!(((*event).id, (*event).listen_id), (made, listener));
        let data = (*event).param.conn.private_data.cast::<u8>();
        assert_eq!(std::slice::from_raw_parts(data, 5), b"hello");
        assert_eq!(accept(made, ptr::null_mut()), 0);
        destroy_ep(made);
        asking.join().unwrap();
        destroy_ep(listener);
    }
}

/// A synchronous id that may ask the listener.
fn routed_alone() -> *mut CmId {
    let active = id_of(ptr::null_mut(), port_space::TCP);
    let mut to = address(PORT);
    // SAFETY: the id and the address exist.
    unsafe {
        let to = (&raw mut to).cast();
        assert_eq!(resolve_addr(active, ptr::null_mut(), to, 1000), 0);
        assert_eq!(resolve_route(active, 1000), 0);
    }
    queue_pair(active);
    active
}
