//! Counters of queue pairs, beside those of the function.

use e810::{Counter, Error, QpInit};
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};

use crate::verbs::sim;

/// Each queue pair with counters counts its own packets, and the function the
/// rest: together they are what crossed the wire.
#[test]
fn a_queue_pair_counts_what_it_sends_and_receives() {
    let sim = sim(60);
    let setup = Setup {
        queue_pairs: 2,
        counters: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    // The second queue pair of the second side counts with its function.
    let plain = End { side: 1, qp: 1 };
    let counted = End { side: 0, qp: 1 };
    let side = &mut pair.sides[1];
    let caps = side.qps[1].caps();
    let old = side.qps.remove(1);
    side.control
        .destroy_qp(old)
        .map_err(|(_, error)| error)
        .unwrap();
    let init = QpInit::rc(&side.cqs[0], &side.cqs[0], caps);
    let new = side.control.create_qp(&side.pd, &init).unwrap();
    side.qps.push(new);
    pair.renew(counted);
    pair.connect(counted);
    pair.connect(plain);
    let before = sim.link().sent;
    for round in 0..5 {
        for kind in [Kind::Send, Kind::Write, Kind::Read] {
            pair.transfer(End { side: 0, qp: 0 }, &Transfer::new(kind, 3000 + round));
            pair.transfer(counted, &Transfer::new(kind, 500));
        }
        pair.transfer(counted, &Transfer::new(Kind::Send, 1));
    }
    let frames = sim.link().sent - before;
    let mut packets = 0;
    for (side, qp, sends, reads) in [(0, 0, 5, 5), (0, 1, 10, 5), (1, 0, 0, 0)] {
        let side = &mut pair.sides[side];
        let counters = side.control.gather_qp_stats(&side.qps[qp]).unwrap();
        assert_eq!(counters.get(Counter::RdmaTxSends), sends, "{qp}");
        assert_eq!(counters.get(Counter::RdmaTxReads), reads, "{qp}");
        packets += counters.get(Counter::UdpTxPackets);
    }
    let side = &mut pair.sides[1];
    let none = side.control.gather_qp_stats(&side.qps[1]);
    assert!(matches!(none, Err(Error::Invalid { .. })));
    for (side, rx_sends) in [(0, 0), (1, 10)] {
        let of_function = pair.sides[side].control.gather_stats().unwrap();
        assert_eq!(of_function.get(Counter::RdmaRxSends), rx_sends);
        packets += of_function.get(Counter::UdpTxPackets);
    }
    assert_eq!(packets, frames);
    pair.finish(&sim);
}

/// There are 128 sets, and a set that was given back begins at 0.
#[test]
fn sets_of_counters_end_and_come_again() {
    let sim = sim(61);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let caps = side.qps[0].caps();
    for _ in 0..130 {
        let init = QpInit {
            counters: true,
            ..QpInit::rc(&side.cqs[0], &side.cqs[0], caps)
        };
        let qp = side.control.create_qp(&side.pd, &init).unwrap();
        let counters = side.control.gather_qp_stats(&qp).unwrap();
        assert!(counters.iter().all(|(_, count)| count == 0));
        side.control
            .destroy_qp(qp)
            .map_err(|(_, error)| error)
            .unwrap();
        // Its number is free when the completion queue was polled.
        side.cqs[0].poll(&mut [e810::Wc::default()]);
    }
    pair.finish(&sim);
}
