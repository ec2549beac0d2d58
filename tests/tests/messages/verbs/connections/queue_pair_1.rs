//! Queue pair 1 and its address handles.

use super::*;

/// Asks for a datagram queue pair where nobody listens, by a way of its own.
fn ask_by<P: Platform>(world: &mut World<P>, traffic_class: u8, flow_label: u32) {
    let mut ask = Connect {
        space: PortSpace::Udp,
        ..Connect::new(world.pair.sides[0].ip(), world.there())
    };
    ask.path.traffic_class = traffic_class;
    ask.path.flow_label = flow_label;
    let asked = world.local(0).call(&Call::Connect(ask));
    assert!(matches!(asked, Ok(Answer::Connection(_))));
}

fn refused_there<P: Platform>(world: &mut World<P>) {
    let Told { id, news, .. } = world.told(0);
    assert!(matches!(news, News::Rejected { .. }), "{news:?}");
    let released = world.local(0).call(&Call::Release(id));
    assert_eq!(released, Ok(Answer::Done));
}

/// A program of the function has all address handles but two, and each of eight questions goes
/// another way: nothing is lost for it, and nothing is repeated. A flow label makes no other way.
#[test]
fn few_address_handles_do() {
    let sim = sim(51);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    let there = world.there();
    let side = world.pair.side(0);
    let path = Path::new(side.gid, there.ip(), side.control.lan().mac);
    let mut ahs = Vec::new();
    while let Ok(ah) = side.control.create_ah(&side.pd, &path) {
        ahs.push(ah);
    }
    for _ in 0..2 {
        let destroyed = side.control.destroy_ah(ahs.pop().unwrap());
        destroyed.map_err(|(_, error)| error).unwrap();
    }
    for class in 1..=8 {
        ask_by(&mut world, class << 2, 1);
    }
    (0..8).for_each(|_| refused_there(&mut world));
    ask_by(&mut world, 0, 1);
    refused_there(&mut world);
    let commands = world.pair.side(0).control.commands();
    for flow_label in 2..=8 {
        ask_by(&mut world, 0, flow_label);
        refused_there(&mut world);
    }
    assert_eq!(world.pair.side(0).control.commands(), commands);
    assert_eq!(world.managers[0].machine().counters().repeated, 0);
    assert_eq!(world.managers[0].not_sent(), 0);
    for ah in ahs {
        let destroyed = world.pair.side(0).control.destroy_ah(ah);
        destroyed.map_err(|(_, error)| error).unwrap();
    }
    world.end(&sim);
}

/// Queue pair 1 keeps an address of the function in use only for a while after its last datagram.
#[test]
fn an_address_can_go_a_while_after_its_last_datagram() {
    let sim = sim(53);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    let own = IpAddr::from([10, 99, 0, 1]);
    let entry = GidEntry::untagged(own);
    let gid = world.pair.side(0).control.add_gid(entry).unwrap();
    let ask = Connect {
        space: PortSpace::Udp,
        ..Connect::new(own, world.there())
    };
    let asked = world.local(0).call(&Call::Connect(ask));
    assert!(matches!(asked, Ok(Answer::Connection(_))));
    refused_there(&mut world);
    let begin = world.now();
    assert!(world.managers[0].deadline().is_some_and(|at| at > begin));
    while let Err(error) = world.pair.side(0).control.remove_gid(gid) {
        assert!(matches!(error, e810::Error::InUse { .. }), "{error}");
        assert!(world.now() - begin < Ns::from_secs(10), "it stays");
        world.turn();
    }
    assert_eq!(world.managers[0].deadline(), None);
    world.end(&sim);
}

/// Who waits for datagrams hears that none comes any more.
#[test]
fn a_queue_pair_1_that_fails_is_no_silence() {
    let sim = sim(52);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    // Of the receive queue: a responder's fatal error (control-path 7.5).
    sim.break_down(
        1,
        Breakage::Event {
            code: 0x0705,
            source: 0x3,
            subject: Subject::Qp(1),
            wqe_index: 0,
        },
    );
    let begin = world.now();
    let failed = loop {
        assert!(
            world.now() - begin < Ns::from_secs(10),
            "nobody hears of it"
        );
        world.pair.pump();
        let local = world.local(1);
        if let Err(error) = local
            .manager
            .progress(local.control, local.neighbours, local.now)
        {
            break error;
        }
    };
    assert_eq!(failed, GsiError::Failed);
    world.end(&sim);
}
