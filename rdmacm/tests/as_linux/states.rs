//! Calls that come early, or late.

use super::*;

/// rdma_join_multicast: only a bound id, or one with a resolved address.
#[test]
fn groups_are_joined_early_only() {
    const PART: &str = "as_linux::states::groups_are_joined_early_only";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    let mut group = of_bytes([239, 1, 2, 3], 0);
    let group = (&raw mut group).cast();
    let listener = listens(channel, port_space::UDP);
    let routed = routed(channel, port_space::UDP);
    // SAFETY: as above.
    unsafe {
        let joined =
            [listener, routed].map(|id| answer(join_multicast(id, group, ptr::null_mut())));
        assert_eq!(joined, [libc::EINVAL; 2], "of a listener, with a route");
    }
}

/// rdma_accept: what cannot be accepted is refused, datagrams too.
#[test]
fn a_question_that_cannot_be_answered_is_refused() {
    const PART: &str = "as_linux::states::a_question_that_cannot_be_answered_is_refused";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    let _listener = listens(passives, port_space::UDP);
    let active = routed(actives, port_space::UDP);
    // SAFETY: as above.
    unsafe {
        let mut asks = param(b"hello");
        assert_eq!(connect(active, &raw mut asks), 0);
        let passive = requested(passives);
        let mut attr = attributes(qp_type::UD);
        assert_eq!(create_qp(passive, ptr::null_mut(), &raw mut attr), 0);
        let mut answers = param(&[0; 137]);
        assert_eq!(answer(accept(passive, &raw mut answers)), libc::EINVAL);
        let heard = happens_within(actives, 3000);
        assert_eq!(heard.map(|heard| heard.0), Some(event::UNREACHABLE));
    }
}

/// rdma_disconnect: 0 for any id that has a connection, in whatever state.
#[test]
fn a_connection_that_is_not_there_yet_can_be_disconnected() {
    const PART: &str = "as_linux::states::a_connection_that_is_not_there_yet_can_be_disconnected";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    let _listener = listens(passives, port_space::TCP);
    let active = routed(actives, port_space::TCP);
    queue_pair(active);
    // SAFETY: as above.
    unsafe {
        let mut asks = param(b"hello");
        assert_eq!(connect(active, &raw mut asks), 0);
        let passive = requested(passives);
        assert_eq!(
            [active, passive].map(|id| answer(disconnect(id))),
            [0; 2],
            "who has asked; who is asked"
        );
    }
}

/// cm_send_rej_locked: who has asked, or accepted, can still refuse.
#[test]
fn who_has_asked_or_accepted_can_refuse() {
    const PART: &str = "as_linux::states::who_has_asked_or_accepted_can_refuse";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    let _listener = listens(passives, port_space::TCP);
    // SAFETY: as above.
    unsafe {
        let ask = |number| {
            let active = routed(actives, port_space::TCP);
            let mut asks = param(b"hello");
            asks.qp_num = number;
            assert_eq!(connect(active, &raw mut asks), 0);
            (active, requested(passives))
        };
        let (active, _) = ask(0x80_0001);
        let first = answer(reject(active, ptr::null(), 0));
        let (_, passive) = ask(0x80_0002);
        let mut grants = param(b"");
        grants.qp_num = 0x80_0003;
        assert_eq!(accept(passive, &raw mut grants), 0);
        let second = answer(reject(passive, ptr::null(), 0));
        assert_eq!([first, second], [0; 2], "who has asked; who has accepted");
    }
}
