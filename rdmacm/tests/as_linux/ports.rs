//! Ports, and who may have them.

use super::*;

/// cma_bind_listen: who has REUSEADDR is checked once more, without it.
#[test]
fn listen_checks_the_port_of_who_reuses_it() {
    const PART: &str = "as_linux::ports::listen_checks_the_port_of_who_reuses_it";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    let (one, other) = (id(channel), id(channel));
    let mut own = address(PORT);
    // SAFETY: ids, channels and events are used while they exist.
    unsafe {
        for id in [one, other] {
            assert_eq!(reuses(id, 1), 0);
            assert_eq!(bind_addr(id, (&raw mut own).cast()), 0);
        }
        assert_eq!(
            answer(listen(one, 1)),
            libc::EADDRINUSE,
            "another id has the port"
        );
    }
}

/// rdma_set_reuseaddr: off only while idle, and never while it listens.
#[test]
fn reuseaddr_is_refused_in_some_states() {
    const PART: &str = "as_linux::ports::reuseaddr_is_refused_in_some_states";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    let listener = listens(channel, port_space::TCP);
    let bound = id(channel);
    let mut own = address(PORT + 1);
    // SAFETY: as above.
    unsafe { assert_eq!(bind_addr(bound, (&raw mut own).cast()), 0) };
    assert_eq!(
        [reuses(listener, 1), reuses(bound, 0)],
        [libc::EINVAL; 2],
        "of one that listens; off for one that is bound"
    );
}

/// rdma_bind_addr_dst: AFONLY that was set to 0 stays 0 with IPv4.
#[test]
fn afonly_of_ipv4_can_be_off() {
    const PART: &str = "as_linux::ports::afonly_of_ipv4_can_be_off";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    let (four, six) = (id(channel), id(channel));
    let (mut off, mut on): (c_int, c_int) = (0, 1);
    let mut any4 = of_bytes([0; 4], PORT);
    let mut any6 = libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as u16,
        sin6_port: PORT.to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
        sin6_scope_id: 0,
    };
    // SAFETY: as above.
    unsafe {
        assert_eq!(set_option(four, 0, 2, (&raw mut off).cast(), 4), 0);
        assert_eq!(set_option(six, 0, 2, (&raw mut on).cast(), 4), 0);
        assert_eq!(bind_addr(six, (&raw mut any6).cast()), 0);
        let bound = answer(bind_addr(four, (&raw mut any4).cast()));
        assert_eq!(bound, libc::EADDRNOTAVAIL);
    }
}

/// What the kernel's port space is for: who is bound to port 0 has a port that nobody else has.
#[test]
fn a_port_that_the_library_chooses_is_free() {
    const PART: &str = "as_linux::ports::a_port_that_the_library_chooses_is_free";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    let first = id(channel);
    let mut own = address(0);
    let mut failed = Vec::new();
    // SAFETY: as above.
    unsafe {
        assert_eq!(bind_addr(first, (&raw mut own).cast()), 0);
        for n in 0..120 {
            another_listens(first, [10, 8, 1, 1], 33_000 + 250 * n);
        }
        for _ in 0..3000 {
            let id = id(channel);
            let mut own = address(0);
            assert_eq!(bind_addr(id, (&raw mut own).cast()), 0);
            let listened = answer(listen(id, 1));
            if listened != 0 {
                failed.push(listened);
            }
            assert_eq!(destroy_id(id), 0);
        }
    }
    assert_eq!(failed, Vec::<c_int>::new(), "of listeners at port 0");
}

/// cma_acquire_dev_by_src_ip: port space IPOIB has ports of its own, and no device but InfiniBand's.
#[test]
fn ipoib_is_another_port_space() {
    const PART: &str = "as_linux::ports::ipoib_is_another_port_space";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    let _listener = listens(channel, port_space::UDP);
    let (ours, everywhere) = (
        id_of(channel, port_space::IPOIB),
        id_of(channel, port_space::IPOIB),
    );
    let (mut own, mut any) = (address(PORT), of_bytes([0; 4], PORT));
    // SAFETY: as above.
    unsafe {
        is_refused(bind_addr(ours, (&raw mut own).cast()), libc::EINVAL);
        assert_eq!(bind_addr(everywhere, (&raw mut any).cast()), 0);
        let to = (&raw mut own).cast();
        assert_eq!(resolve_addr(everywhere, ptr::null_mut(), to, 1000), 0);
        let happened = happens_within(channel, 5000);
        assert_eq!(happened, Some((event::ADDR_ERROR, -libc::EINVAL)));
    }
}
