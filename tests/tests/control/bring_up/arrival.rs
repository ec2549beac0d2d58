//! However few vectors there are, events arrive.

use e810::{Error, Event, Object, bring_up};
use e810_hal::Ns;
use e810_sim::{Sim, SimPlatform};
use e810_tests::scenario::arrival::{Party, arrival_event};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;

use crate::bring_up::world::{assert_as_found, builder, config};

fn party(sim: &Sim, pf: u8, vector: u16) -> Party<SimPlatform> {
    let platform = sim.function(pf);
    let up = bring_up(platform.clone(), &config(&platform), &mut |_| {}).unwrap();
    let (mut control, events) = up.split();
    let payload = Payload::pages(1);
    let mut objects = Objects::default();
    objects.make(&mut control, payload.bytes(), vector).unwrap();
    Party {
        platform,
        control,
        events,
        objects,
        payload,
    }
}

fn close(mut party: Party<SimPlatform>) {
    party.objects.give_back(&mut party.control).unwrap();
    party.control.shutdown(party.events).unwrap();
}

/// Vectors of the function, CEQs made, and consumers of events; CEQ 0 is on vector 0 when it
/// shares.
const GRANTED: [(u16, u16, usize); 6] = [
    (1, 1, 1),
    (2, 2, 2),
    (3, 3, 3),
    (4, 4, 4),
    (5, 4, 5),
    (9, 4, 5),
];

#[test]
fn an_event_arrives_on_every_completion_vector() {
    for (vectors, ceqs, consumers) in GRANTED {
        let shared = vectors <= 4;
        for completion_vector in 0..ceqs {
            let sim = builder().functions(2).vectors(vectors).build();
            let mut from = party(&sim, 0, 0);
            let mut to = party(&sim, 1, completion_vector);
            assert_eq!(to.control.completion_vectors(), ceqs);
            assert_eq!(to.events.len(), consumers);
            let place = usize::from(completion_vector) + usize::from(!shared);
            let vector = to.events[place].vector();
            // What the bring-up itself caused is past.
            for part in &mut to.events {
                part.on_vector(&mut |_| {});
            }
            let before = to.platform.interrupt_count(vector);
            let arrival = arrival_event(&mut from, &mut to).unwrap();
            assert_eq!(arrival.vector, vector);
            sim.run(Ns::from_ms(1));
            assert_eq!(
                to.platform.interrupt_count(vector),
                before + 1,
                "{vectors} vectors"
            );
            close(from);
            close(to);
            assert_as_found(&sim);
        }
    }
}

#[test]
fn a_completion_vector_that_is_not_there_is_refused() {
    let sim = builder().functions(1).vectors(3).build();
    let mut party = party(&sim, 0, 0);
    assert_eq!(party.control.completion_vectors(), 3);
    for number in [3, 64, 1023, u16::MAX] {
        let (commands, object) = (party.control.commands(), Object::CompletionVector);
        let id = number.into();
        let refused = party.control.create_cq(16, number).err();
        assert_eq!(refused, Some(Error::NoSuch { object, id }));
        assert_eq!(
            party.control.commands(),
            commands,
            "the device was not asked"
        );
    }
    close(party);
    assert_as_found(&sim);
}

/// The control queue completes by CEQ 0, whatever vector that is on. It is asked
/// for an event once, at bring-up; after that control polls.
#[test]
fn a_finished_command_is_an_event_of_the_first_completion_vector() {
    for (vectors, _, _) in GRANTED {
        let sim = builder().functions(1).vectors(vectors).build();
        let mut party = party(&sim, 0, 0);
        let first = party.events[usize::from(vectors > 4)].vector();
        for expected in [&[(first, Event::CqpCompletion)][..], &[]] {
            let mut reported = Vec::new();
            for part in &mut party.events {
                let vector = part.vector();
                part.on_vector(&mut |event| reported.push((vector, event)));
            }
            assert_eq!(reported, expected, "{vectors} vectors");
            assert_eq!(party.platform.interrupt_count(first), 1);
            let cq = party.control.create_cq(16, 0).unwrap();
            party.control.destroy_cq(cq).unwrap();
            sim.run(Ns::from_ms(1));
        }
        close(party);
        assert_as_found(&sim);
    }
}
