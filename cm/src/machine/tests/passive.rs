//! Who is asked for a connection, by the tables of cm-path 3.11 and 4.2.

use std::vec::Vec;

use super::super::*;
use super::bench::{Bench, GUID, Made, PASSIVE_QP, PEER_ID, SLOTS, TID, dreq, mra, req, rtu};
use super::rig::{PORT, accept_with};
use crate::ip::{self, PortSpace};
use crate::{Message, Mra, Reason, Rep, Req};

use core::net::IpAddr;

#[test]
fn a_request_again() {
    let (mut bench, id) = Bench::requested();
    bench.take(req(0));
    let sent = bench.sent();
    let [Message::Mra(mra)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((mra.message_mraed, mra.service_timeout), (0, 24));
    assert_eq!(
        (mra.local_comm_id, mra.remote_comm_id),
        (id.number(), PEER_ID)
    );
    bench.machine.accept(id, &accept_with(PASSIVE_QP)).unwrap();
    bench.sent();
    bench.take(req(0));
    bench.assert_quiet();
    // A second one of the same queue pair, whose sender answers at its address.
    let again = Req {
        local_comm_id: 3,
        ..req(0)
    };
    bench.take(again);
    assert_eq!(bench.sent(), []);
    let second = bench.reached();
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Rej(rej)] if rej.reason == 10 && rej.remote_comm_id == 3),
        "{sent:?}"
    );
    assert_eq!(bench.machine.state(second), None);
    // While it is connected, the older one ends.
    bench.take(rtu(id));
    bench.take(again);
    bench.reached();
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Rej(_), Message::Dreq(_)]),
        "{sent:?}"
    );
    assert_eq!(bench.machine.state(id), Some(State::DreqSent));
}

/// cm-path 4.2: while a connection is in TIMEWAIT, its REQ comes again, because the network has two
/// copies of it or because the peer does not know of the end. It is no new request.
#[test]
fn a_request_again_in_timewait() {
    let released: fn(&mut Bench, ConnectionId) = |bench, id| bench.release(id);
    let ended: fn(&mut Bench, ConnectionId) = |bench, id| {
        bench.take(dreq(id, PASSIVE_QP));
        bench.disconnect(id);
    };
    for (make, end) in [(Bench::rep_sent as Made, released), (Bench::passive, ended)] {
        let (mut bench, id) = make();
        end(&mut bench, id);
        bench.sent();
        assert_eq!(bench.machine.state(id), Some(State::TimeWait));
        bench.take(req(0));
        assert_eq!(bench.machine.unreached_len(), 0);
        let sent = bench.sent();
        assert!(
            matches!(sent[..], [Message::Rej(rej)] if rej.reason == 10 && rej.remote_comm_id == PEER_ID),
            "{sent:?}"
        );
        // Another one of the same queue pair is new.
        bench.take(Req {
            local_comm_id: PEER_ID + 1,
            ..req(0)
        });
        assert_ne!(bench.reached(), id);
        assert_eq!(bench.sent(), []);
        bench.pass(512);
        bench.take(req(0));
        assert_eq!(bench.machine.unreached_len(), 1, "forgotten");
    }
}

#[test]
fn a_rep_is_repeated_until_something_comes() {
    let (mut bench, id) = Bench::rep_sent();
    let sent = bench.pass(4096 * 2);
    assert_eq!(sent.len(), 2);
    // An MRA of a REP has both ids (`cm_acquire_mraed_id`).
    bench.take(Mra {
        local_comm_id: 0xBAD,
        ..mra(id, 1)
    });
    assert_eq!(bench.machine.state(id), Some(State::RepSent));
    bench.take(mra(id, 1));
    assert_eq!(bench.machine.state(id), Some(State::MraRepReceived));
    // It lengthens one wait.
    let sent = bench.pass(65_536 + 512 + 4096);
    let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [65_536 + 512, 65_536 + 512 + 4096]);
    bench.take(mra(id, 1));
    bench.machine.data_arrived(id);
    assert_eq!(bench.events(), [Event::Established(id)]);
    bench.machine.data_arrived(id);
    bench.take(rtu(id));
    assert_eq!(bench.events(), []);
    assert_eq!(bench.pass(600_000), []);

    let (mut bench, id) = Bench::rep_sent();
    bench.take(mra(id, 1));
    bench.take(rtu(id));
    assert_eq!(bench.events(), [Event::Established(id)]);

    let (mut bench, id) = Bench::rep_sent();
    assert_eq!(bench.pass(4096 * 17).len(), 15);
    assert_eq!(bench.events(), [Event::Unreachable(id)]);
}

/// cm-path 3.1: the REQ says how often the passive side repeats its messages, after which time, and
/// how long TIMEWAIT is.
#[test]
fn the_times_of_the_passive_side_are_the_peers() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    let id = bench.serve(Req {
        local_cm_response_timeout: 18,
        max_cm_retries: 3,
        primary_local_ack_timeout: 19,
        ..req(0)
    });
    bench.disconnect(id);
    bench.sent();
    let times: Vec<u64> = bench.pass(4096).iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [1024, 2048, 3072]);
    assert_eq!(bench.events(), [Event::Disconnected(id)]);
    bench.pass(2047);
    assert_eq!(bench.events(), []);
    bench.pass(1);
    assert_eq!(bench.events(), [Event::Over(id)]);
}

/// cm-path 3.4 and 5.1.
#[test]
fn a_rep_is_as_the_table_has_it() {
    let (mut bench, id) = Bench::requested();
    let accept = Accept {
        rnr_retry_count: 9,
        flow_control: true,
        srq: true,
        ..accept_with(PASSIVE_QP)
    };
    bench.machine.accept(id, &accept).unwrap();
    let mut mad = [0; 256];
    bench.machine.transmit(bench.now, &mut mad).unwrap();
    let (header, message) = Message::decode(&mad).unwrap();
    assert_eq!((header.tid, header.attr_mod), (TID, 0));
    let mut private_data = [0; 196];
    private_data[..5].copy_from_slice(b"reply");
    let expected = Rep {
        local_comm_id: id.number(),
        remote_comm_id: PEER_ID,
        local_qpn: PASSIVE_QP,
        starting_psn: bench.machine.local_psn(id).unwrap(),
        responder_resources: 3,
        initiator_depth: 4,
        end_to_end_flow_control: true,
        rnr_retry_count: 7,
        srq: true,
        local_ca_guid: GUID,
        private_data,
        ..Rep::default()
    };
    assert_eq!(message, Message::Rep(expected));
    assert_ne!(expected.starting_psn, 0);
}

/// Who is refused, and with which reason (cm-path 1.3 and 6.3).
#[test]
fn requests_that_nobody_takes() {
    let private = |change: fn(&mut [u8; 92])| {
        let mut data = req(0).private_data;
        change(&mut data);
        Req {
            private_data: data,
            ..req(0)
        }
    };
    let service = |service_id| Req {
        service_id,
        ..req(0)
    };
    let (tcp, udp) = (PortSpace::Tcp, PortSpace::Udp);
    let refused = [
        (tcp, service(5), 8),
        (tcp, service(tcp.service_id(9)), 8),
        (tcp, service(udp.service_id(PORT)), 8),
        // A REQ is for RC, and the listener of a UDP port for UD.
        (udp, service(udp.service_id(PORT)), 28),
        (
            tcp,
            Req {
                transport_service_type: 1,
                ..req(0)
            },
            28,
        ),
        (tcp, private(|data| data[0] = 1), 28),
        (tcp, private(|data| data[1] = 0x50), 28),
        (
            tcp,
            private(|data| data[16..20].copy_from_slice(&[127, 0, 0, 1])),
            28,
        ),
        // Linux' `ipv4_is_zeronet` is for all of 0.0.0.0/8.
        (
            tcp,
            private(|data| data[16..20].copy_from_slice(&[0, 1, 2, 3])),
            28,
        ),
        (
            tcp,
            private(|data| data[32..36].copy_from_slice(&[224, 0, 0, 1])),
            28,
        ),
        (tcp, private(|data| data[32..36].fill(0)), 28),
        // The only partition is 0xFFFF, and both GIDs are of one family.
        (
            tcp,
            Req {
                partition_key: 0x1234,
                ..req(0)
            },
            12,
        ),
        (
            tcp,
            Req {
                primary_local_port_gid: ip::gid("fd00::1".parse().unwrap()),
                ..req(0)
            },
            12,
        ),
    ];
    for (space, asked, reason) in refused {
        let (mut bench, _) = Bench::listening(SLOTS, space);
        bench.take(Req {
            vendor_id: 0x00AB_CDEF,
            ..asked
        });
        let sent = bench.sent();
        let [Message::Rej(rej)] = sent[..] else {
            panic!("{sent:?}");
        };
        assert_eq!((rej.reason, rej.message_rejected), (reason, 0));
        // Linux' id of a REJ without a connection.
        assert_eq!(
            (rej.local_comm_id, rej.remote_comm_id),
            (0x00AB_CDEF, PEER_ID)
        );
        assert_eq!(bench.machine.free_slots(), SLOTS);
        assert_eq!(bench.machine.counters().rejected[usize::from(reason)], 1);
    }
}

#[test]
fn a_program_that_refuses() {
    let (mut bench, id) = Bench::requested();
    let now = bench.now;
    bench
        .machine
        .reject(id, Reason::CONSUMER_DEFINED, b"no", now)
        .unwrap();
    let sent = bench.sent();
    let [Message::Rej(rej)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((rej.reason, rej.message_rejected), (28, 0));
    assert_eq!(
        (rej.local_comm_id, rej.remote_comm_id),
        (id.number(), PEER_ID)
    );
    assert!(rej.private_data.starts_with(b"no"));
    bench.release(id);
    assert_eq!(bench.machine.free_slots(), SLOTS);
    let too_long = [0; 149];
    let (mut bench, id) = Bench::rep_received();
    let wrong = Error::PrivateData {
        given: 149,
        most: 148,
    };
    assert_eq!(
        bench
            .machine
            .reject(id, Reason::NO_RESOURCES, &too_long, now),
        Err(wrong)
    );
    bench
        .machine
        .reject(id, Reason::NO_RESOURCES, &[], now)
        .unwrap();
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.message_rejected == 1));
}

/// "Those without a name count as 0".
#[test]
fn a_reason_without_a_name_counts_as_0() {
    let (mut bench, id) = Bench::requested();
    bench
        .machine
        .reject(id, Reason(34), &[], bench.now)
        .unwrap();
    assert_eq!(bench.machine.counters().rejected[0], 1);
}

/// cm-path 1.3: the REP, the DREQ and all later messages go to the REQ's PRIMARY_LOCAL_PORT_GID,
/// not to the packet's source, with the REQ's flow label and traffic class.
#[test]
fn the_messages_of_a_connection_take_the_path_of_the_req() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    let there = ip::gid(IpAddr::from([10, 0, 0, 77]));
    bench.take(Req {
        primary_local_port_gid: there,
        primary_flow_label: 0x1_2345,
        primary_traffic_class: 0x20,
        ..req(0)
    });
    let id = bench.told();
    bench.machine.accept(id, &accept_with(PASSIVE_QP)).unwrap();
    let mut mad = [0; 256];
    let to = bench.machine.transmit(bench.now, &mut mad).unwrap().origin;
    let found = (to.remote, to.flow_label, to.traffic_class);
    assert_eq!(found, (there, 0x1_2345, 0x20));
}
