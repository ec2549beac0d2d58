//! Completion vectors: as many as wanted, on which CPU, more and fewer at run time.

use e810::hmc::Capacity;
use e810::{Config, Control, CpuHints, Cq, Error, MAX_CEQS, Object, VectorEvents, bring_up};
use e810_hal::regs::{GLINT_CEQCTL, PFPE_CQPDB};
use e810_hal::{CeqId, InterruptVectors, Ns, Vector};
use e810_sim::middleware::{Inject, Rule};
use e810_sim::pe::CqpErrors;
use e810_sim::{Allocation, Profile, Sim, SimPlatform};
use e810_tests::scenario::arrival::{Party, arrival_event};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;

use crate::bring_up::world::{
    assert_as_found, assert_vectors_back, builder, config, layered, wait_of,
};

/// Opcodes (control-path 4.6).
pub(crate) const CREATE_CEQ: u8 = 0x16;
pub(crate) const DESTROY_CEQ: u8 = 0x18;

/// Longer than the driver waits.
const LATE: u64 = 6_000_000_000;

pub(crate) type Up = (Control<SimPlatform>, e810::EventSet<SimPlatform>);

pub(crate) fn up(nic: &SimPlatform, config: &Config) -> Up {
    bring_up(nic.clone(), config, &mut |_| {}).unwrap().split()
}

pub(crate) fn with_vectors(vectors: u16) -> (Sim, SimPlatform) {
    let sim = builder().vectors(vectors).build();
    let nic = sim.function(0);
    (sim, nic)
}

pub(crate) fn down((control, events): Up, sim: &Sim) {
    control.shutdown(events).map_err(|e| e.error).unwrap();
    assert_as_found(sim);
}

pub(crate) fn error_of<T>(result: Result<(), (T, Error)>) -> (T, Error) {
    match result {
        Ok(()) => panic!("it was done"),
        Err(failed) => failed,
    }
}

/// The CPUs of the vectors from the first on.
fn cpus(nic: &SimPlatform, count: u16) -> Vec<Option<u32>> {
    let vector = |index| Vector::new(index).unwrap();
    (0..count).map(|n| nic.vector_cpu(vector(n))).collect()
}

fn no_such(number: u16) -> Error {
    Error::NoSuch {
        object: Object::CompletionVector,
        id: number.into(),
    }
}

#[test]
fn as_many_as_wanted_as_far_as_device_vectors_and_driver_allow() {
    for (vectors, wanted, made) in [
        (2000, 48, 48),
        (49, 48, 48),
        (48, 48, 48),
        (40, 48, 40),
        (2000, 63, 63),
        (2000, u16::MAX, MAX_CEQS as u16),
        (1, 48, 1),
    ] {
        let (sim, nic) = with_vectors(vectors);
        let config = Config {
            ceqs: wanted,
            ..config(&nic)
        };
        let (mut control, mut events) = up(&nic, &config);
        let device = control.hmc().query.max_ceqs as u16;
        let made = made.min(device);
        assert_eq!(control.completion_vectors(), made, "{vectors} {wanted}");
        assert_eq!(control.query_device().completion_vectors, u32::from(made));
        assert_eq!(
            control.max_completion_vectors(),
            device.min(MAX_CEQS as u16)
        );
        let shared = vectors <= wanted.min(device).min(MAX_CEQS as u16);
        assert_eq!(events.len(), usize::from(made) + usize::from(!shared));
        let numbers: Vec<_> = events
            .iter()
            .filter_map(|part| part.completion_vector())
            .collect();
        assert_eq!(numbers, (0..made).collect::<Vec<_>>());
        // The last one works: its CQ's number is told where it should be.
        let cq = control.create_cq(16, made - 1).unwrap();
        assert_eq!(cq.completion_vector(), made - 1);
        assert_eq!(control.create_cq(16, made).err(), Some(no_such(made)));
        control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
        // The order in which a program keeps them is its own business.
        events.reverse();
        down((control, events), &sim);
    }
}

#[test]
fn a_device_with_few_has_no_more() {
    let sim = builder().profile(Profile::small()).vectors(200).build();
    let nic = sim.function(0);
    let config = Config {
        ceqs: 64,
        capacity: Capacity {
            qps: 8,
            cqs: 16,
            ..Capacity::default()
        },
        ..config(&nic)
    };
    let (mut control, events) = up(&nic, &config);
    assert_eq!(control.hmc().query.max_ceqs, 32);
    assert_eq!((control.completion_vectors(), events.len()), (32, 33));
    let error = control.add_completion_vector().unwrap_err();
    assert!(
        matches!(error, Error::Exhausted { limit: 32, .. }),
        "{error:?}"
    );
    down((control, events), &sim);
}

#[test]
fn each_vector_says_its_cpu() {
    let running = |first, cpus| CpuHints::Running { first, cpus };
    for (vectors, hints, reported) in [
        // Place 0 has the asynchronous events alone.
        (9, CpuHints::default(), [0, 0, 1, 2, 3].map(Some)),
        (9, running(6, 3), [6, 6, 7, 8, 6].map(Some)),
        (9, CpuHints::None, [None; 5]),
        // Place 0 is completion vector 0's too.
        (
            4,
            CpuHints::default(),
            [Some(0), Some(1), Some(2), Some(3), None],
        ),
    ] {
        let (sim, nic) = with_vectors(vectors);
        let config = Config {
            cpu_hints: hints,
            ..config(&nic)
        };
        let (control, events) = up(&nic, &config);
        assert_eq!(cpus(&nic, 5), reported);
        let vector = control.interrupt_vector(2).unwrap();
        control.hint_cpu(2, 77).unwrap();
        assert_eq!(nic.vector_cpu(vector), Some(77));
        assert_eq!(
            control.hint_cpu(4, 1),
            Err(Error::NoSuch {
                object: Object::CompletionVector,
                id: 4
            })
        );
        down((control, events), &sim);
    }
}

fn cause(nic: &SimPlatform, ceq: u16) -> u32 {
    GLINT_CEQCTL.at(CeqId::new(ceq).unwrap()).get(nic)
}

#[test]
fn a_vector_that_is_removed_is_switched_off_and_its_number_comes_again() {
    // Beside its own vector, and sharing one.
    for (vectors, ceqs, first) in [(9, 4, 5), (2, 1, 2), (9, 1, 2)] {
        let (sim, nic) = with_vectors(vectors.max(4));
        let config = Config {
            ceqs,
            ..config(&nic)
        };
        let (mut control, events) = up(&nic, &config);
        let added = control.add_completion_vector().unwrap();
        assert_eq!(added.completion_vector(), Some(ceqs));
        assert_eq!(added.vector(), Vector::new(first).unwrap());
        assert_eq!(control.completion_vectors(), ceqs + 1);
        assert_eq!(nic.vector_cpu(added.vector()), Some(ceqs.into()));
        let next = control.add_completion_vector().unwrap();
        assert_eq!(next.completion_vector(), Some(ceqs + 1));
        let vector = added.vector();
        assert_eq!(cause(&nic, ceqs), 0x4000_0000 | vector.get());
        control
            .remove_completion_vector(added)
            .map_err(|(_, e)| e)
            .unwrap();
        assert_eq!(cause(&nic, ceqs), vector.get());
        assert_eq!(nic.vector_cpu(vector), None);
        assert_eq!(control.interrupt_vector(ceqs), None);
        assert_eq!(
            control.completion_vectors(),
            ceqs + 2,
            "one above is still there"
        );
        let refused = control.create_cq(16, ceqs).err();
        assert_eq!(refused, Some(no_such(ceqs)), "as one that never was");
        let again = control.add_completion_vector().unwrap();
        assert_eq!(
            (again.completion_vector(), again.vector()),
            (Some(ceqs), vector)
        );
        let mut all = events;
        all.push(next).unwrap();
        all.push(again).unwrap();
        down((control, all), &sim);
    }
}

/// Those of the bring-up can be removed as well, but not the one that commands need.
#[test]
fn all_but_the_first_can_be_removed() {
    for (vectors, stay) in [(9, 2), (4, 1)] {
        let (sim, nic) = with_vectors(vectors);
        let (mut control, mut events) = up(&nic, &config(&nic));
        let taken = events.len() as u16;
        while events.len() > stay {
            let last = events.pop().unwrap();
            control
                .remove_completion_vector(last)
                .map_err(|(_, e)| e)
                .unwrap();
        }
        assert_eq!(control.completion_vectors(), 1);
        // They stay with the device.
        assert_vectors_free(&nic, vectors - taken);
        let mut kept = Vec::new();
        while let Some(part) = events.pop() {
            let (part, error) = error_of(control.remove_completion_vector(part));
            assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
            kept.push(part);
        }
        for part in kept {
            events.push(part).unwrap();
        }
        // What is left is enough for every command.
        let cq = control.create_cq(16, 0).unwrap();
        control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
        down((control, events), &sim);
    }
}

pub(crate) fn assert_vectors_free(nic: &SimPlatform, free: u16) {
    let taken: Vec<_> = std::iter::from_fn(|| nic.vector_alloc()).collect();
    for vector in &taken {
        nic.vector_free(*vector);
    }
    assert_eq!(taken.len(), usize::from(free));
}

#[test]
fn an_event_arrives_on_a_vector_that_was_added() {
    for vectors in [2, 9] {
        let sim = builder().functions(2).vectors(vectors).build();
        let party = |pf| {
            let platform = sim.function(pf);
            let config = Config {
                ceqs: 1,
                ..config(&platform)
            };
            let (control, events) = match vectors {
                // One vector at bring-up, which everything shares.
                2 => {
                    let other = platform.vector_alloc().unwrap();
                    let up = up(&platform, &config);
                    platform.vector_free(other);
                    assert_eq!(up.1.len(), 1);
                    up
                }
                _ => up(&platform, &config),
            };
            Party {
                platform,
                control,
                events,
                objects: Objects::default(),
                payload: Payload::pages(1),
            }
        };
        let (mut from, mut to) = (party(0), party(1));
        from.objects
            .make(&mut from.control, from.payload.bytes(), 0)
            .unwrap();
        let added = to.control.add_completion_vector().unwrap();
        let (number, vector) = (added.completion_vector().unwrap(), added.vector());
        to.events.push(added).unwrap();
        to.objects
            .make(&mut to.control, to.payload.bytes(), number)
            .unwrap();
        sim.run(Ns::from_ms(1));
        let before = to.platform.interrupt_count(vector);
        let arrival = arrival_event(&mut from, &mut to).unwrap();
        assert_eq!(arrival.vector, vector);
        sim.run(Ns::from_ms(1));
        assert_eq!(to.platform.interrupt_count(vector), before + 1);

        // In use, it stays; then it goes.
        let added = to.events.pop().unwrap();
        let (added, error) = error_of(to.control.remove_completion_vector(added));
        assert_eq!(
            error,
            Error::InUse {
                object: Object::CompletionVector,
                id: number.into(),
                users: 1
            }
        );
        let (added, error) = error_of(from.control.remove_completion_vector(added));
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        to.objects.give_back(&mut to.control).unwrap();
        to.control
            .remove_completion_vector(added)
            .map_err(|(_, e)| e)
            .unwrap();
        from.objects.give_back(&mut from.control).unwrap();
        for party in [from, to] {
            party
                .control
                .shutdown(party.events)
                .map_err(|e| e.error)
                .unwrap();
        }
        assert_as_found(&sim);
    }
}

#[test]
fn there_are_not_more_than_there_can_be() {
    let (sim, nic) = with_vectors(2000);
    let (mut control, mut events) = up(&nic, &config(&nic));
    let most = control.max_completion_vectors();
    while control.completion_vectors() < most {
        events
            .push(control.add_completion_vector().unwrap())
            .unwrap();
    }
    assert_eq!(
        control.add_completion_vector().unwrap_err(),
        Error::Exhausted {
            object: Object::CompletionVector,
            limit: most.into()
        }
    );
    down((control, events), &sim);
}

#[test]
fn what_fails_leaves_nothing_behind() {
    for spare_vectors in [0, 1] {
        let (sim, nic) = with_vectors(9);
        let config = Config {
            spare_vectors,
            ..config(&nic)
        };
        let (mut control, mut events) = up(&nic, &config);
        let held = || (sim.memory(0).dma_blocks, sim.memory(0).host_blocks);
        let before = held();
        let nothing_left = |control: &Control<SimPlatform>| {
            assert_eq!(held(), before);
            assert_eq!(control.completion_vectors(), 4);
            assert_vectors_free(&nic, 4 - spare_vectors);
        };
        sim.fail_allocation(0, Allocation::Dma, 1);
        let error = control.add_completion_vector().unwrap_err();
        assert!(matches!(error, Error::Dma(_)), "{error:?}");
        nothing_left(&control);
        refuse(&sim, CqpErrors::Opcode(CREATE_CEQ));
        let error = control.add_completion_vector().unwrap_err();
        assert!(
            matches!(error, Error::Cqp(e810_cqp::Error::Cqp { .. })),
            "{error:?}"
        );
        nothing_left(&control);
        refuse(&sim, CqpErrors::None);

        // A queue that the device keeps goes on.
        let added = control.add_completion_vector().unwrap();
        let vector = added.vector();
        refuse(&sim, CqpErrors::Opcode(DESTROY_CEQ));
        let (added, error) = error_of(control.remove_completion_vector(added));
        assert!(
            matches!(error, Error::Cqp(e810_cqp::Error::Cqp { .. })),
            "{error:?}"
        );
        refuse(&sim, CqpErrors::None);
        assert_eq!(cause(&nic, 4), 0x4000_0000 | vector.get());
        assert_eq!(control.completion_vectors(), 5);
        // Also at the end it is looked for.
        let failed = control.shutdown(events).unwrap_err();
        assert!(
            matches!(failed.error, Error::Invalid { .. }),
            "{:?}",
            failed.error
        );
        (control, events) = failed.parts.unwrap();
        events.push(added).unwrap();
        down((control, events), &sim);
    }
}

pub(crate) fn refuse(sim: &Sim, errors: CqpErrors) {
    sim.configure_engine(0, |config| config.cqp_errors = errors);
}

/// The device does not answer: the number is not used again, memory that it may still use is kept,
/// the vector is not.
#[test]
fn a_queue_that_may_be_there_is_left_alone() {
    let inject = Inject::new();
    let (sim, nic) = layered(&inject);
    let below = nic.platform().clone();
    let up = bring_up(nic, &config(&below), &mut |_| {}).unwrap();
    let (mut control, mut events) = up.split();
    let blocks = sim.memory(0).dma_blocks;
    inject.add(Rule::DropWrites {
        off: PFPE_CQPDB.off(),
        nth: 1,
    });
    let error = control.add_completion_vector().unwrap_err();
    assert!(wait_of(&error).is_some(), "{error:?}");
    assert_eq!(sim.memory(0).dma_blocks, blocks + 1);
    inject.clear();
    let added = control.add_completion_vector().unwrap();
    assert_eq!(added.completion_vector(), Some(5), "4 may be there");
    assert_eq!(added.vector(), Vector::new(5).unwrap());
    events.push(added).unwrap();
    control.shutdown(events).map_err(|e| e.error).unwrap();
    assert_vectors_back(&below);
}

#[test]
fn after_a_reset_all_vectors_are_back() {
    let (sim, nic) = with_vectors(12);
    let config = Config {
        spare_vectors: 2,
        ..config(&nic)
    };
    let (mut control, mut events) = up(&nic, &config);
    events
        .push(control.add_completion_vector().unwrap())
        .unwrap();
    nic.function_level_reset();
    control.release_after_reset(events);
    assert!(sim.memory(0).nothing_held());
    assert_vectors_back(&nic);
}

/// Events and queues may be on threads of their own.
#[test]
fn parts_can_be_sent() {
    fn is_send<T: Send>() {}
    is_send::<VectorEvents<SimPlatform>>();
    is_send::<Cq<SimPlatform>>();
}

/// One that the device has made late is found by the next that is added, or goes at the end: its
/// number is not lost, and the next life has it.
#[test]
fn one_that_is_made_late_is_found_again() {
    for adds_again in [true, false] {
        let (sim, nic) = with_vectors(8);
        let config = Config {
            ceqs: 2,
            ..config(&nic)
        };
        let (mut control, events) = up(&nic, &config);
        for _ in 0..3 {
            sim.configure_engine(0, |config| config.cqp_delay = (LATE, LATE));
            let late = control.add_completion_vector();
            assert!(late.is_err());
            sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
            sim.run(Ns::from_ms(3_000));
            if adds_again {
                let added = control.add_completion_vector().unwrap();
                assert_eq!(added.completion_vector(), Some(2));
                let cq = control.create_cq(16, 2).unwrap();
                control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
                control
                    .remove_completion_vector(added)
                    .map_err(|(_, e)| e)
                    .unwrap();
            }
        }
        control.shutdown(events).map_err(|e| e.error).unwrap();
        assert_as_found(&sim);
        // All of them are free for the next life.
        down(up(&nic, &Config { ceqs: 5, ..config }), &sim);
    }
}
