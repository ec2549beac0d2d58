//! Many queue pairs that fail at once, and a device that does nothing about it.

use e810::hmc::Capacity;
use e810::{Config, MacAddr, QpCaps, VsiId};
use e810_hal::Ns;
use e810_hal::regs::PFPE_CQPTAIL;
use e810_sim::middleware::{Inject, Layered, Rule};
use e810_sim::pe::{Breakage, Subject};
use e810_sim::{DmaSegmentation, Profile, Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Side};

use crate::failures::requests::FLUSH;

/// Too many retries, of a send queue.
fn fail_all<P: e810::Platform>(sim: &Sim, side: &Side<P>, which: std::ops::Range<usize>) {
    for qp in &side.qps[which] {
        let event = Breakage::Event {
            code: 0x050A,
            source: 0x5,
            subject: Subject::Qp(qp.number().get()),
            wqe_index: 0,
        };
        sim.break_down(0, event);
    }
}

fn small() -> QpCaps {
    QpCaps {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    }
}

/// A receive each.
fn receives<P: e810::Platform>(side: &mut Side<P>) {
    let sge = side.sge(0, 64);
    for qp in 0..side.qps.len() {
        side.post_recv(qp, qp as u64, &[sge]).unwrap();
    }
}

/// Each is stopped and flushed at once, and has its time of grace to itself.
#[test]
fn a_thousand_are_flushed_in_the_time_of_one() {
    const COUNT: usize = 1000;
    let sim = Sim::builder()
        .functions(2)
        .seed(9)
        .profile(Profile::card())
        .segmentation(DmaSegmentation::Contiguous)
        .build();
    let setup = Setup {
        caps: small(),
        queue_pairs: COUNT,
        cqe: 4096,
        capacity: Some(Capacity {
            qps: COUNT as u32 + 3,
            ..Capacity::DEFAULT
        }),
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    receives(&mut pair.sides[0]);
    fail_all(&sim, &pair.sides[0], 0..COUNT);
    let start = pair.now();
    pair.until("all", |pair| pair.sides[0].done.len() >= COUNT);
    let took = pair.now() - start;
    assert!(took < Ns::from_ms(25), "{took}");
    let done = pair.sides[0].take();
    assert!(done.iter().all(|wc| wc.status == FLUSH));
    assert_eq!(pair.sides[0].reported.len(), COUNT);
    // What is posted after the flush is completed after the time of grace, and
    // there is one for all of them.
    receives(&mut pair.sides[0]);
    let start = pair.now();
    pair.until("all again", |pair| pair.sides[0].done.len() >= COUNT);
    let took = pair.now() - start;
    assert!(took < Ns::from_ms(25), "{took}");
    pair.during(Ns::from_ms(25));
    let side = &mut pair.sides[0];
    assert_eq!(side.control.progress().unwrap().unfinished, 0);
    side.take();
    side.reported.clear();
    pair.finish(&sim);
}

/// Two devices, of which the first is behind `inject`.
fn behind(sim: &Sim, inject: &Inject, setup: Setup) -> Pair<Layered<SimPlatform, Inject>> {
    let side = |function, inject| {
        let platform = sim.function(function);
        let lan = e810::Lan {
            vsi: VsiId::new(platform.vsi()).unwrap(),
            mac: MacAddr(platform.mac()),
            ..Config::cold(9000).lan
        };
        Side::new(Layered::new(platform, inject), lan, &setup)
    };
    let sides = vec![side(0, inject.clone()), side(1, Inject::default())];
    Pair::connected(sides, setup)
}

/// The engine takes commands and ends none: nothing says that it has stopped anything, so nothing
/// completes.
#[test]
fn an_engine_that_ends_no_command_is_reported() {
    const COUNT: usize = 40;
    let sim = Sim::builder().functions(2).seed(10).build();
    let setup = Setup {
        caps: small(),
        queue_pairs: COUNT,
        ..Setup::default()
    };
    let mut pair = behind(&sim, &Inject::default(), setup);
    receives(&mut pair.sides[0]);
    sim.configure_engine(0, |config| config.cqp_silent = true);
    fail_all(&sim, &pair.sides[0], 0..30);
    pair.during(Ns::from_ms(1));
    sim.run(Ns::from_ms(4_900));
    pair.during(Ns::from_ms(1));
    assert_eq!(pair.sides[0].done, [], "there is time yet");
    assert_eq!(pair.sides[0].failed, []);
    sim.run(Ns::from_ms(100));
    pair.during(Ns::from_ms(25));
    assert_eq!(pair.sides[0].done, []);
    let failed = std::mem::take(&mut pair.sides[0].failed);
    let last = failed.last().unwrap();
    assert!(last.needs_reset(), "{last}");
    assert!(last.to_string().contains("failed queue pair"), "{last}");
    let commands = pair.sides[0].control.commands();
    fail_all(&sim, &pair.sides[0], 30..COUNT);
    pair.during(Ns::from_ms(1));
    assert_eq!(pair.sides[0].done, []);
    assert_eq!(pair.sides[0].control.commands(), commands);
    assert!(pair.sides[0].failed.iter().all(e810::Error::needs_reset));
    let progress = pair.sides[0].control.progress();
    assert_eq!(progress.unwrap().unstopped as usize, COUNT);
    assert_eq!(sim.findings(), []);
}

/// A device that left the bus: nothing is read but one register now and then, and nothing
/// completes, because a link that reads nothing may still carry what the device writes.
#[test]
fn a_device_that_left_the_bus_is_reported() {
    let sim = Sim::builder().functions(2).seed(11).build();
    let setup = Setup {
        caps: small(),
        queue_pairs: 20,
        ..Setup::default()
    };
    let inject = Inject::default();
    let mut pair = behind(&sim, &inject, setup);
    receives(&mut pair.sides[0]);
    fail_all(&sim, &pair.sides[0], 0..20);
    // Its last events are in memory.
    sim.run(Ns::from_ms(1));
    inject.add(Rule::Gone { nth: 1 });
    assert_eq!(PFPE_CQPTAIL.get(&pair.sides[0].platform), u32::MAX);
    pair.during(Ns::from_ms(40));
    assert_eq!(pair.sides[0].done, []);
    let progress = pair.sides[0].control.progress();
    assert_eq!(progress.unwrap().unstopped, 20);
    let failed = std::mem::take(&mut pair.sides[0].failed);
    assert!(!failed.is_empty());
    assert!(failed.iter().all(e810::Error::needs_reset), "{failed:?}");
}
