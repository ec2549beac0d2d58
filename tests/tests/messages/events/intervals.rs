//! The interval of a vector is that of the queues it has now.

use e810::{Config, CqModeration, Lan, MacAddr, bring_up};
use e810_hal::bus::VsiId;
use e810_sim::{Mode, Sim};

/// The longest there is.
const LONG: u16 = 8160;

/// A queue that allows [`LONG`] is made, and given back before another one is
/// made that allows no wait, or not; gives the interval then, and at the end.
fn intervals(also_gone: bool) -> (u32, u32) {
    let sim = Sim::builder()
        .functions(1)
        .mode(Mode::Virtual)
        .vectors(8)
        .build();
    let nic = sim.function(0);
    let lan = Lan {
        vsi: VsiId::new(nic.vsi()).unwrap(),
        mac: MacAddr(nic.mac()),
        mtu: 9000,
    };
    let device = bring_up(nic, &Config::new(lan), &mut |_| {}).unwrap();
    let (mut control, events) = device.split();
    let long = CqModeration::Fixed {
        count: 0,
        period_us: LONG,
    };
    let interval = |control: &e810::Control<_>| control.interrupt_timing(0).unwrap().interval_us;
    let mut patient = control.create_cq(64, 0).unwrap();
    control.modify_cq(&mut patient, long).unwrap();
    assert_eq!(interval(&control), u32::from(LONG));
    let mut left = Some(patient);
    if also_gone {
        let patient = left.take().unwrap();
        control.destroy_cq(patient).map_err(|(_, e)| e).unwrap();
    }
    let prompt = control.create_cq(64, 0).unwrap();
    let with_both = interval(&control);
    control.destroy_cq(prompt).map_err(|(_, e)| e).unwrap();
    let at_the_end = interval(&control);
    if let Some(patient) = left {
        control.destroy_cq(patient).map_err(|(_, e)| e).unwrap();
    }
    control.shutdown(events).unwrap();
    assert_eq!(sim.findings(), []);
    (with_both, at_the_end)
}

/// The most impatient queue decides as soon as it is there, and no longer than
/// it is.
#[test]
fn a_queue_that_joins_is_waited_for_as_long_as_it_allows() {
    assert_eq!(intervals(false), (0, u32::from(LONG)));
}

#[test]
fn a_queue_that_is_gone_delays_nobody() {
    assert_eq!(intervals(true), (0, 0));
}
