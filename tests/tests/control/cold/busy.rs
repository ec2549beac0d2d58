//! Another function has the global configuration lock: it is downloading a
//! package, or died while it did.

use std::thread;

use e810::{LoadedBy, Stage};
use e810_adminq::AdminQ;
use e810_adminq::op::{Grant, RequestResource, Resource};
use e810_hal::Ns;
use e810_sim::variation::{LockRunsOut, OthersInDownload, RefusedInDownload};
use e810_sim::{AqCode, Mode, Sim, SimPlatform, Variation};

use crate::cold::world::{assert_as_found, builder, up};

fn card(variation: Variation) -> Sim {
    builder(2).variation(variation).build()
}

/// Has the lock from now on, and does nothing any more.
fn dies_with_the_lock(nic: SimPlatform) {
    let mut queue = AdminQ::start(nic).unwrap();
    let request = RequestResource::write(Resource::GLOBAL_CONFIG, 3_000);
    let grant = queue.execute(&request).unwrap();
    assert_eq!(grant, Grant::Granted { ms: 3_000 });
    // Its queues stay as they are.
    std::mem::forget(queue);
}

/// Most of its commands are refused until the lock is free again.
#[test]
fn a_function_waits_while_another_has_the_lock() {
    for refused_in_download in [RefusedInDownload::Ebusy, RefusedInDownload::Eagain] {
        let sim = card(Variation {
            refused_in_download,
            lock_runs_out: LockRunsOut::Free,
            ..Variation::default()
        });
        dies_with_the_lock(sim.function(0));
        let began = sim.now();
        let device = up(sim.function(1), &mut |_| {}).unwrap();
        let took = sim.now() - began;
        assert!(
            took > Ns::from_ms(2_500) && took < Ns::from_ms(5_000),
            "{took:?}"
        );
        let (control, events) = device.split();
        assert_eq!(control.lan_side().unwrap().package().by, LoadedBy::Us);
        let with = match refused_in_download {
            RefusedInDownload::Ebusy => AqCode::EBUSY,
            RefusedInDownload::Eagain => AqCode::EAGAIN,
        };
        let refused = sim.refused_commands(1);
        let others: u64 = refused
            .iter()
            .filter(|(opcode, code, _)| *opcode != 0x0008 && *code == with)
            .map(|(.., times)| times)
            .sum();
        assert!(others > 100, "{refused:?}");
        control.shutdown(events).map_err(|f| f.error).unwrap();
    }
}

/// A card that serves other functions meanwhile has them wait for the lock alone.
#[test]
fn a_function_that_is_served_waits_for_the_lock() {
    let sim = card(Variation {
        others_in_download: OthersInDownload::Served,
        lock_runs_out: LockRunsOut::Free,
        ..Variation::default()
    });
    dies_with_the_lock(sim.function(0));
    up(sim.function(1), &mut |_| {})
        .unwrap()
        .shutdown()
        .unwrap();
    let refused = sim.refused_commands(1);
    assert!(refused.iter().all(|row| row.0 == 0x0008), "{refused:?}");
}

#[test]
fn a_lock_that_ran_out_is_used_up() {
    let sim = card(Variation::default());
    dies_with_the_lock(sim.function(0));
    let error = up(sim.function(1), &mut |_| {}).unwrap_err();
    assert_eq!(error.stage, Stage::Package);
    let text = error.to_string();
    assert!(text.contains("core reset"), "{text}");
}

/// At the same time, as two processes are started by one script.
#[test]
fn two_functions_come_up_together() {
    for others_in_download in [OthersInDownload::Refused, OthersInDownload::Served] {
        let variation = Variation {
            others_in_download,
            ..Variation::default()
        };
        let sim = builder(2).variation(variation).mode(Mode::Real).build();
        let loaded: Vec<LoadedBy> = thread::scope(|scope| {
            let start = |pf| {
                let nic = sim.function(pf);
                scope.spawn(move || {
                    let device = up(nic, &mut |_| {}).unwrap();
                    let (control, events) = device.split();
                    let by = control.lan_side().unwrap().package().by;
                    control.shutdown(events).map_err(|f| f.error).unwrap();
                    by
                })
            };
            let both = [start(0), start(1)];
            both.map(|thread| thread.join().unwrap()).into()
        });
        let by_us = loaded.iter().filter(|by| **by == LoadedBy::Us).count();
        assert_eq!(by_us, 1, "{loaded:?}");
        assert_as_found(&sim);
    }
}
