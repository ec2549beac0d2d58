//! Who asks for a connection, by the tables of cm-path 3.11 and 4.1.

use std::vec::Vec;

use e810_types::Ns;

use super::super::*;
use super::bench::{
    ACTIVE_QP, Bench, GUID, Made, PEER, PEER_ID, PEER_QP, SLOTS, dreq, mra, rej, rep,
};
use super::rig::{connect_to, own_address};
use crate::ip::{self, IpHeader};
use crate::{Lap, Message, Mra, Reason, Rep, Req};

#[test]
fn a_req_is_repeated_sixteen_times_and_given_up() {
    let (mut bench, id, req) = Bench::asked();
    let sent = bench.pass(100_000);
    let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
    let expected: Vec<u64> = (1..=15).map(|n| n * 4608).collect();
    assert_eq!(times, expected);
    assert!(
        sent.iter()
            .all(|(_, message)| *message == Message::Req(req))
    );
    assert_eq!(bench.events(), [Event::Unreachable(id)]);
    assert_eq!(bench.machine.state(id), Some(State::Idle));
    bench.release(id);
    assert_eq!(
        (bench.sent(), bench.machine.free_slots()),
        (Vec::new(), SLOTS)
    );
}

/// Each look for the way finds nothing yet, for ever.
#[test]
fn a_wait_for_the_way_has_an_end() {
    let mut bench = Bench::new(SLOTS);
    let id = bench.machine.connect(&connect_to(1, 0, ACTIVE_QP)).unwrap();
    let mut mad = [0; 256];
    let mut told = None;
    for tenth in 0..1000 {
        let now = Ns::from_ms(tenth * 100 + 1);
        bench.machine.poll(now);
        told = bench.machine.event();
        if told.is_some() {
            break;
        }
        let to = bench.machine.transmit(now, &mut mad).unwrap();
        bench.machine.again(&to);
    }
    assert_eq!(told, Some(Event::Unreachable(id)));
    // Should the way be found now, the peer hears nothing of it.
    assert_eq!(bench.sent(), Vec::new());
}

/// cm-path 3.1 and 6.2: what Linux would write.
#[test]
fn a_req_is_as_the_table_has_it() {
    let connect = Connect {
        vlan: Some(5),
        path: Path {
            mtu: 5,
            traffic_class: 0x68,
            hop_limit: 1,
            service_level: 3,
            flow_label: 0xA_BCDE,
        },
        retry_count: 9,
        rnr_retry_count: 5,
        flow_control: true,
        srq: true,
        ..connect_to(1, 0, ACTIVE_QP)
    };
    let mut bench = Bench::new(SLOTS);
    let id = bench.machine.connect(&connect).unwrap();
    let mut mad = [0; 256];
    let to = bench.machine.transmit(bench.now, &mut mad).unwrap();
    let (header, message) = Message::decode(&mad).unwrap();
    assert_eq!((header.tid, header.attr_mod), (id.number().into(), 0));
    let [own, remote] = [1, 0].map(|side| ip::gid(own_address(side)));
    assert_eq!((to.connection, to.via), (Some(id), remote));
    assert_eq!((to.origin.local, to.origin.remote), (own, remote));
    let path = (
        to.origin.flow_label,
        to.origin.traffic_class,
        to.origin.vlan,
    );
    assert_eq!(path, (0xA_BCDE, 0x68, Some(5)));
    let ip = IpHeader {
        port: 40_000,
        source: own_address(1),
        destination: own_address(0),
    };
    let mut private_data = [0; 92];
    private_data[..36].copy_from_slice(&ip.encode());
    private_data[36..43].copy_from_slice(b"request");
    let expected = Req {
        local_comm_id: id.number(),
        service_id: 0x0106_1C06,
        local_ca_guid: GUID,
        local_qpn: ACTIVE_QP,
        responder_resources: 4,
        initiator_depth: 3,
        remote_cm_response_timeout: 20,
        end_to_end_flow_control: true,
        starting_psn: bench.machine.local_psn(id).unwrap(),
        local_cm_response_timeout: 20,
        retry_count: 7,
        partition_key: 0xFFFF,
        path_packet_payload_mtu: 5,
        rnr_retry_count: 5,
        max_cm_retries: 15,
        srq: true,
        primary_local_port_gid: own,
        primary_remote_port_gid: remote,
        primary_flow_label: 0xA_BCDE,
        primary_traffic_class: 0x68,
        primary_hop_limit: 1,
        primary_sl: 3,
        primary_subnet_local: true,
        primary_local_ack_timeout: 17,
        private_data,
        ..Req::default()
    };
    assert_eq!(message, Message::Req(expected));
    assert_eq!(bench.machine.asked(id), Some(expected));
    assert_ne!(expected.starting_psn, 0);
    let (_, _, routed) = Bench::asked();
    let lids = (
        routed.primary_local_port_lid,
        routed.primary_remote_port_lid,
    );
    assert_eq!(
        (lids, routed.primary_subnet_local),
        ((0xFFFF, 0xFFFF), false)
    );
    assert_eq!(bench.machine.counters().sent[0], 1);
}

#[test]
fn a_queue_pair_number_has_24_bits() {
    let mut bench = Bench::new(SLOTS);
    let id = bench.connect(0x00FF_FFFF);
    assert_eq!(bench.machine.queue_pairs(id), Some([0x00FF_FFFF, 0]));
    let wrong = Error::QueuePair(0x0100_0000);
    let made = bench.machine.connect(&connect_to(1, 0, 0x0100_0000));
    assert_eq!(made, Err(wrong));
    assert_eq!(bench.machine.free_slots(), SLOTS - 1);
}

#[test]
fn an_mra_lengthens_one_wait() {
    let (mut bench, id) = Bench::req_sent();
    // The peer's id is not known yet, and an MRA of the REQ is found without it.
    for peers_id in [0, PEER_ID] {
        bench.take(Mra {
            local_comm_id: peers_id,
            ..mra(id, 1)
        });
        assert_eq!(bench.machine.state(id), Some(State::ReqSent), "of a REP");
    }
    bench.take(mra(id, 0));
    assert_eq!(bench.machine.state(id), Some(State::MraReqReceived));
    let sent = bench.pass(65_536 + 512 + 4608);
    let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [65_536 + 512, 65_536 + 512 + 4608]);
    bench.take(rep(id));
    assert_eq!(bench.events(), [Event::Accepted(id)]);
    assert_eq!(bench.pass(100_000), []);
    // A reply may come during the wait.
    let (mut bench, id) = Bench::req_sent();
    bench.take(mra(id, 0));
    bench.take(rep(id));
    assert_eq!(bench.events(), [Event::Accepted(id)]);
    let Some(Reply::Rep(reply)) = bench.machine.reply(id) else {
        panic!("no reply");
    };
    assert_eq!(reply, rep(id));
    assert_eq!(bench.machine.queue_pairs(id), Some([ACTIVE_QP, PEER_QP]));
    assert_eq!(bench.machine.ack_timeout(id), Some(17));
    assert_eq!(bench.pass(100_000), []);
}

/// A repeat is due, and before it is sent an MRA comes.
#[test]
fn an_mra_stops_a_repeat() {
    let all: [(Made, u8, u64); 2] = [(Bench::req_sent, 0, 4608), (Bench::rep_sent, 1, 4096)];
    for (make, about, interval) in all {
        let (mut bench, id) = make();
        bench.now = bench.now + Ns::from_ms(interval);
        while bench.machine.poll(bench.now) {}
        bench.take(mra(id, about));
        bench.assert_quiet();
        let times: Vec<u64> = bench.pass(70_000).iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [65_536 + 512]);
    }
}

/// Each MRA lengthens one wait and uses up one repeat. So a peer that sends nothing else keeps
/// neither a request nor a reply for ever.
#[test]
fn mras_keep_nothing_for_ever() {
    let all: [(Made, u8); 2] = [(Bench::req_sent, 0), (Bench::rep_sent, 1)];
    for (make, about) in all {
        let (mut bench, id) = make();
        for _ in 0..24 * 60 {
            bench.take(mra(id, about));
            bench.pass(60_000);
        }
        assert_eq!(bench.events(), [Event::Unreachable(id)], "after a day");
    }
}

#[test]
fn a_rep_again() {
    let (mut bench, id) = Bench::rep_received();
    bench.take(rep(id));
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Mra(mra)] if mra.message_mraed == 1),
        "{sent:?}"
    );
    bench.machine.ready(id).unwrap();
    bench.sent();
    bench.take(rep(id));
    let sent = bench.sent();
    assert!(matches!(sent[..], [Message::Rtu(_)]), "{sent:?}");
    // Of another peer.
    bench.take(Rep {
        local_comm_id: 1,
        ..rep(id)
    });
    bench.assert_quiet();
}

#[test]
fn a_rep_of_a_queue_pair_that_is_connected_is_stale() {
    let (mut bench, id) = Bench::active();
    let next = bench.connect(44);
    bench.sent();
    bench.take(Rep {
        local_comm_id: 2,
        ..rep(next)
    });
    let sent = bench.sent();
    let [Message::Rej(rej), Message::Dreq(dreq)] = sent[..] else {
        panic!("{sent:?}");
    };
    let found = (rej.local_comm_id, rej.remote_comm_id, rej.message_rejected);
    assert_eq!(found, (next.number(), 2, 1));
    assert_eq!(rej.reason, Reason::STALE_CONN.0);
    assert_eq!(dreq.local_comm_id, id.number());
    assert_eq!(bench.machine.state(next), Some(State::ReqSent));
}

/// Who gives up tells its GUID and id; who has a request of it finds it by these.
#[test]
fn a_peer_that_gives_up_is_found_by_its_guid() {
    let (mut bench, id) = Bench::req_sent();
    bench.release(id);
    let sent = bench.sent();
    let [Message::Rej(sent)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(sent.reason, Reason::TIMEOUT.0);
    assert_eq!((sent.rejected_info_length, sent.message_rejected), (8, 2));
    assert_eq!(sent.ari[..8], GUID.to_be_bytes());
    assert_eq!(sent.local_comm_id, id.number());
    assert_eq!(bench.machine.free_slots(), SLOTS);

    let (mut bench, id) = Bench::requested();
    let mut rej = rej(PEER_ID, 0, 2, Reason::TIMEOUT);
    rej.ari[..8].copy_from_slice(&GUID.to_be_bytes());
    bench.take(rej);
    assert_eq!(bench.events(), [], "of another node");
    rej.ari[..8].copy_from_slice(&PEER.to_be_bytes());
    bench.take(rej);
    let reason = Reason::TIMEOUT;
    assert_eq!(bench.events(), [Event::Rejected { id, reason }]);
}

/// cm-path 5.1: the RTU has the tid of the own REQ. A DREQ that comes before the RTU is sent leaves
/// its own.
#[test]
fn an_rtu_has_the_tid_of_its_req() {
    let (mut bench, id) = Bench::rep_received();
    bench.machine.ready(id).unwrap();
    bench.take(dreq(id, ACTIVE_QP));
    let (mut mad, mut found) = ([0; 256], 0);
    while bench.machine.transmit(bench.now, &mut mad).is_some() {
        let (header, message) = Message::decode(&mad).unwrap();
        if let Message::Rtu(_) = message {
            assert_eq!(header.tid, u64::from(id.number()));
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

#[test]
fn alternate_paths_are_not_answered() {
    let (mut bench, id) = Bench::active();
    bench.take(Lap {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        ..Lap::default()
    });
    bench.assert_quiet();
    assert_eq!(bench.machine.state(id), Some(State::Established));
}
