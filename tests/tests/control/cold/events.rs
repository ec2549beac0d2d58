//! Events of the firmware at any time, and what the device tells of them.

use e810::{Causes, Event, LanEvent, QpCaps, QpInit, RequiredReset};
use e810_hal::regs::PFINT_OICR;
use e810_hal::{Clock, Ns};
use e810_sim::{AqFault, PortLink};

use crate::cold::faults::everywhere;
use crate::cold::world::{assert_as_found, card, up};

#[test]
fn events_between_commands_change_nothing() {
    for opcode in [0x0607, 0x0A01, 0x1001, 0x7777] {
        for fault in [AqFault::EventBefore(opcode), AqFault::EventAfter(opcode)] {
            everywhere(fault, |command, nth, outcome| {
                let what = format!("{fault:?} at {command:#06x} use {nth}");
                assert!(outcome.error.is_none(), "{what}: {:?}", outcome.error);
                assert_eq!(outcome.end, None, "{what}");
                assert_as_found(&outcome.sim);
            });
        }
    }
}

#[test]
fn link_events_reach_the_program() {
    let (sim, nic) = card(|_| {});
    let device = up(nic.clone(), &mut |_| {}).unwrap();
    let (mut control, events) = device.split();
    let vector = events[0].vector();
    let reported = |control: &mut e810::Control<_>| {
        nic.delay(Ns::from_ms(20));
        let served = control.progress().unwrap();
        let mut all = Vec::new();
        while let Some(event) = control.take_lan_event() {
            all.push(event);
        }
        assert_eq!(served.lan_events, all.len());
        all
    };
    // What the start itself caused.
    reported(&mut control);
    sim.configure_firmware(0, |config| config.link = PortLink::Down);
    let down = reported(&mut control);
    assert!(sim.take_interrupts(0).contains(&vector));
    assert!(
        down.iter()
            .any(|event| matches!(event, LanEvent::LinkDown(_))),
        "{down:?}"
    );
    sim.configure_firmware(0, |config| config.link = PortLink::Up);
    let up = reported(&mut control);
    let speed = up.iter().find_map(|event| match event {
        LanEvent::LinkUp(status) => Some(status.mbps),
        _ => None,
    });
    assert!(speed.is_some_and(|mbps| mbps > 0), "{up:?}");
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
    assert_as_found(&sim);
}

/// The firmware speaks of them only to who has asked for it.
#[test]
fn changes_of_the_priorities_reach_the_program() {
    let (sim, nic) = card(|_| {});
    let (mut control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
    let pd = control.alloc_pd().unwrap();
    let cq = control.create_cq(16, 0).unwrap();
    // With the next command, which is that of a queue pair.
    sim.configure_firmware(0, |config| {
        config.fault(0x0401, 1, AqFault::EventAfter(0x0A01));
    });
    let caps = QpCaps {
        max_send_wr: 4,
        max_recv_wr: 4,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    };
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps)).unwrap();
    nic.delay(Ns::from_ms(20));
    control.progress().unwrap();
    let mut reported = Vec::new();
    while let Some(event) = control.take_lan_event() {
        reported.push(event);
    }
    let classes = LanEvent::Priorities([0; 8]);
    assert!(reported.contains(&classes), "{reported:?}");
    control.destroy_qp(qp).map_err(|(_, error)| error).unwrap();
    control.destroy_cq(cq).map_err(|(_, error)| error).unwrap();
    control.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
    assert_as_found(&sim);
}

/// The vector of the asynchronous events has the card's errors too, also where
/// it is the only one.
#[test]
fn errors_of_the_card_come_with_the_asynchronous_events() {
    for vectors in [1, 2, 8] {
        let sim = crate::cold::world::builder(1).vectors(vectors).build();
        let nic = sim.function(0);
        let (control, mut events) = up(nic.clone(), &mut |_| {}).unwrap().split();
        let mut reported = Vec::new();
        for cause in [
            PFINT_OICR::MAL_DETECT,
            PFINT_OICR::HMC_ERR,
            PFINT_OICR::GRST,
        ] {
            PFINT_OICR.write(&nic, cause.val(1));
            nic.delay(Ns::from_ms(1));
            assert!(
                sim.take_interrupts(0).contains(&events[0].vector()),
                "{vectors}"
            );
            events[0].on_vector(&mut |event| reported.push(event));
        }
        // A single vector is the CQP's too.
        reported.retain(|event| *event != Event::CqpCompletion);
        assert_eq!(
            reported,
            [
                Event::OtherCause(Causes::MAL_DETECT, RequiredReset::None),
                Event::OtherCause(Causes::HMC_ERR, RequiredReset::ResetFunction),
                Event::OtherCause(Causes::GRST, RequiredReset::CardResets),
            ],
            "{vectors} vectors"
        );
        control
            .shutdown(events)
            .map_err(|failed| failed.error)
            .unwrap();
        assert_as_found(&sim);
    }
}
