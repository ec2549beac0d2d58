//! The end: from every stage, too early, with another's parts, or not at all.

use e810::{Error, Object, Stage, bring_up};
use e810_hal::Ns;
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;
use e810_tests::scenario::stages::bring_up_to;

use crate::bring_up::world::{
    BACKINGS, assert_as_found, assert_vectors_back, builder, card, config, up_and_down,
};

fn stages() -> impl Iterator<Item = Option<Stage>> {
    std::iter::once(None).chain(Stage::WARM.map(Some))
}

#[test]
fn every_stage_can_be_left() {
    for backing in BACKINGS {
        for stage in stages() {
            let (sim, nic) = card();
            let mut config = config(&nic);
            config.backing = backing;
            let reached = bring_up_to(nic.clone(), config, stage).unwrap();
            let expects_memory = stage.is_some_and(|stage| stage != Stage::EngineReady);
            assert_eq!(!sim.memory(0).nothing_held(), expects_memory, "{stage:?}");
            reached.shutdown().unwrap();
            assert_as_found(&sim);
            up_and_down(nic, &config).expect("good again");
            assert_as_found(&sim);
        }
    }
}

#[test]
fn a_stage_that_is_dropped_leaks_and_the_device_finds_its_memory() {
    for stage in stages() {
        let (sim, nic) = card();
        let config = config(&nic);
        let reached = bring_up_to(nic, config, stage).unwrap();
        let held = sim.memory(0).dma_blocks;
        drop(reached);
        let left = sim.memory(0);
        assert_eq!(left.dma_blocks, held, "{stage:?}: the device has it");
        assert_eq!(left.host_blocks, 0, "{stage:?}: the device has not");
        sim.run(Ns::from_ms(10));
        assert_eq!(sim.findings(), [], "{stage:?}");
    }
}

#[test]
fn objects_that_are_alive_keep_a_device_up() {
    let (sim, nic) = card();
    let device = bring_up(nic.clone(), &config(&nic), &mut |_| {}).unwrap();
    let (mut control, mut events) = device.split();
    let payload = Payload::pages(4);
    let mut objects = Objects::default();
    objects.make(&mut control, payload.bytes(), 0).unwrap();
    // As each kind is given back, the next one is what is left.
    for expected in [Object::Qp, Object::Cq, Object::Mr] {
        let failed = control.shutdown(events).unwrap_err();
        let (object, count) = (expected, 1);
        assert_eq!(failed.error, Error::Alive { object, count });
        let text = failed.to_string();
        assert!(text.contains(&expected.to_string()), "{text}");
        assert!(text.contains("give them back"), "{text}");
        (control, events) = failed.parts.expect("nothing was undone");
        match expected {
            Object::Qp => drop(control.destroy_qp(objects.qp.take().unwrap()).unwrap()),
            Object::Cq => control.destroy_cq(objects.cq.take().unwrap()).unwrap(),
            _ => control.dereg_mr(objects.mr.take().unwrap()).unwrap(),
        }
    }
    objects.give_back(&mut control).unwrap();
    control.shutdown(events).unwrap();
    assert_as_found(&sim);
}

#[test]
fn the_events_of_another_device_are_not_taken() {
    let sim = builder().functions(2).build();
    let [first, second] = [0, 1].map(|pf| {
        let nic = sim.function(pf);
        let config = config(&nic);
        bring_up(nic, &config, &mut |_| {}).unwrap().split()
    });
    let ((control, events), (other_control, other_events)) = (first, second);
    let failed = control.shutdown(other_events).unwrap_err();
    assert!(matches!(failed.error, Error::Foreign { .. }), "{failed}");
    let (control, other_events) = failed.parts.expect("nothing was undone");

    let mut some = events;
    let last = some.pop().unwrap();
    let failed = control.shutdown(some).unwrap_err();
    assert!(matches!(failed.error, Error::Invalid { .. }));
    assert!(failed.to_string().contains("pass all parts"), "{failed}");
    let (control, mut all) = failed.parts.expect("nothing was undone");
    all.push(last).unwrap();
    control.shutdown(all).unwrap();
    assert_vectors_back(&sim.function(0));
    assert!(sim.memory(0).nothing_held());
    other_control.shutdown(other_events).unwrap();
    assert_as_found(&sim);
}
