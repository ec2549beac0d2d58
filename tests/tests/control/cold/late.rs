//! AdminQ commands that are answered after the driver has given them up: a later try works, and
//! nothing is left at the end.

use e810::{Control, Error, EventSet, LanInit, MacAddr, QpInit};
use e810_hal::Ns;
use e810_hal::regs::PF_FW_ATQT;
use e810_sim::variation::QueueSetHandles;
use e810_sim::{Sim, SimPlatform, Variation};
use e810_tests::traffic::Watched;

use crate::cold::world::{assert_as_found, builder, up};

type Nic = Watched<SimPlatform>;

/// Longer than the driver waits, in µs.
const LATE: u32 = 6_000_000;

/// The `nth` command of the function from now on takes that long.
fn delay(sim: &Sim, nic: &Nic, nth: u32) {
    let (world, mut sent) = (sim.clone(), 0);
    nic.before(PF_FW_ATQT.off(), move || {
        sent += 1;
        if sent == nth {
            world.configure_firmware(0, |config| config.command_us = LATE);
        }
    });
}

/// The late command is carried out, and all are quick again; whether one was late.
fn catch_up(sim: &Sim, nic: &Nic) -> bool {
    nic.before_nothing();
    let mut was_late = false;
    sim.configure_firmware(0, |config| {
        was_late = config.command_us == LATE;
        config.command_us = 3;
    });
    sim.run(Ns::from_ms(7_000));
    was_late
}

fn function(queue_set_handles: QueueSetHandles) -> (Sim, Nic, Control<Nic>, EventSet<Nic>) {
    let variation = Variation {
        queue_set_handles,
        ..Variation::default()
    };
    let sim = builder(1).variation(variation).build();
    let nic = Watched::new(sim.function(0));
    let (control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
    (sim, nic, control, events)
}

type Use = fn(&mut Control<Nic>) -> Result<(), Error>;

/// A LAN port, in a group.
fn port(control: &mut Control<Nic>) -> Result<(), Error> {
    let solicited = MacAddr([0x33, 0x33, 0xFF, 1, 2, 3]);
    let port = control.open_lan(&LanInit::default())?;
    let joined = control.join_lan_group(&port, solicited);
    let left = joined.and_then(|()| control.leave_lan_group(&port, solicited));
    let closed = control.close_lan(port).map_err(|(_, error)| error);
    left.and(closed)
}

/// The first queue pair of its class, in a group.
fn queue_pair(control: &mut Control<Nic>) -> Result<(), Error> {
    let caps = e810_tests::traffic::Setup::default().caps;
    let pd = control.alloc_pd().unwrap();
    let cq = control.create_cq(16, 0).unwrap();
    let made = control.create_qp(&pd, &QpInit::ud(&cq, &cq, caps));
    let used = made.and_then(|qp| {
        let joined = control.attach_mcast(&qp, 0, "224.1.1.1".parse().unwrap());
        let destroyed = control.destroy_qp(qp).map_err(|(_, error)| error);
        joined.and(destroyed.map(drop))
    });
    control.destroy_cq(cq).map_err(|(_, error)| error).unwrap();
    control.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
    used
}

/// Queues, queue sets, elements and rules that the firmware has made although nobody waited for it
/// any more are found by the next try, and are gone at the end.
#[test]
fn what_the_firmware_did_late_is_found_by_the_next_try() {
    for (name, used) in [("port", port as Use), ("queue pair", queue_pair)] {
        for handles in [QueueSetHandles::Next, QueueSetHandles::Lowest] {
            let mut nth = 0;
            loop {
                nth += 1;
                let (sim, nic, mut control, events) = function(handles);
                delay(&sim, &nic, nth);
                let first = used(&mut control);
                // While it is open, too.
                let second = used(&mut control);
                let was_late = catch_up(&sim, &nic);
                let what = format!("{name}, {handles:?}, command {nth}: {first:?}, {second:?}");
                for _ in 0..2 {
                    used(&mut control).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                let ended = control.shutdown(events).map_err(|failed| failed.error);
                assert_eq!(ended, Ok(()), "{what}");
                // What may be there is removed, and perhaps is not.
                let found = sim.take_findings();
                let other = found.iter().find(|one| one.kind != "adminq-unknown-object");
                assert_eq!(other, None, "{what}");
                assert_as_found(&sim);
                if !was_late {
                    assert!(nth > 6, "{name}");
                    break;
                }
            }
        }
    }
}
