//! Where the interrupt vectors of completion vectors come from and go to: taken at
//! bring-up, or from the platform when they are wanted.

use e810::{Config, Control, Error, VectorEvents};
use e810_hal::{InterruptVectors, Vector};
use e810_sim::pe::CqpErrors;
use e810_sim::{Allocation, SimPlatform};

use crate::bring_up::vectors::{
    CREATE_CEQ, DESTROY_CEQ, assert_vectors_free, down, error_of, refuse, up, with_vectors,
};
use crate::bring_up::world::config;

const fn no_vector(held: u16, spare: u16, most: u16) -> Error {
    Error::NoVector { held, spare, most }
}

fn with_spare(nic: &SimPlatform, spare_vectors: u16) -> Config {
    Config {
        spare_vectors,
        ..config(nic)
    }
}

fn index(events: &VectorEvents<SimPlatform>) -> u32 {
    events.vector().get()
}

fn remove(control: &mut Control<SimPlatform>, events: VectorEvents<SimPlatform>) {
    let removed = control.remove_completion_vector(events);
    removed.map_err(|(_, e)| e).unwrap();
}

/// Everything that the platform still has.
fn take_rest(nic: &SimPlatform) -> Vec<Vector> {
    std::iter::from_fn(|| nic.vector_alloc()).collect()
}

#[test]
fn a_platform_without_more_says_what_to_do() {
    let (sim, nic) = with_vectors(5);
    let (mut control, events) = up(&nic, &config(&nic));
    let error = control.add_completion_vector().unwrap_err();
    assert_eq!(error, no_vector(5, 0, 5));
    assert!(error.to_string().contains("spare_vectors"), "{error}");
    down((control, events), &sim);

    // Taken at bring-up, they are there whatever the platform has left.
    let (sim, nic) = with_vectors(9);
    let (mut control, mut events) = up(&nic, &with_spare(&nic, 2));
    assert_eq!(events.len(), 5);
    let rest = take_rest(&nic);
    assert_eq!(rest.len(), 2);
    for place in [5, 6] {
        let added = control.add_completion_vector().unwrap();
        assert_eq!(index(&added), place, "lowest first");
        events.push(added).unwrap();
    }
    let error = control.add_completion_vector().unwrap_err();
    assert_eq!(error, no_vector(7, 0, 9));
    for vector in rest {
        nic.vector_free(vector);
    }
    down((control, events), &sim);
}

#[test]
fn spare_vectors_come_after_those_that_are_needed() {
    // As many spare ones as are left, and none in place of a completion vector.
    for (vectors, consumers) in [(1, 1), (4, 4), (5, 5), (6, 5), (200, 5)] {
        let (sim, nic) = with_vectors(vectors);
        let (control, events) = up(&nic, &with_spare(&nic, 3));
        assert_eq!(events.len(), consumers, "{vectors}");
        let held = vectors.min(consumers as u16 + 3);
        assert_vectors_free(&nic, vectors - held);
        down((control, events), &sim);
    }
}

/// How a vector was allocated decides where it goes when its queue is removed.
#[test]
fn a_vector_goes_back_to_where_it_came_from() {
    let (sim, nic) = with_vectors(9);
    let (mut control, mut events) = up(&nic, &with_spare(&nic, 2));
    let spare = [5, 6].map(|_| control.add_completion_vector().unwrap());
    assert_eq!(spare.each_ref().map(index), [5, 6]);
    // Those that were set aside come first: the platform still has all of its own.
    assert_vectors_free(&nic, 2);
    let [first, second] = [7, 8].map(|_| control.add_completion_vector().unwrap());
    assert_eq!([index(&first), index(&second)], [7, 8]);
    assert_vectors_free(&nic, 0);
    // From the platform, and its own again.
    remove(&mut control, second);
    assert_vectors_free(&nic, 1);
    remove(&mut control, first);
    assert_vectors_free(&nic, 2);

    // From here on the platform has nothing: what was taken at bring-up, for the
    // queues of then or as spare, comes and goes all the same.
    let rest = take_rest(&nic);
    let error = control.add_completion_vector().unwrap_err();
    assert_eq!(error, no_vector(7, 0, 9));
    let mut removed: Vec<_> = spare.into_iter().rev().collect();
    removed.push(events.pop().unwrap());
    for _ in 0..3 {
        for part in removed.drain(..) {
            remove(&mut control, part);
            assert_vectors_free(&nic, 0);
        }
        removed.extend((0..3).map(|_| control.add_completion_vector().unwrap()));
        let vectors: Vec<_> = removed.iter().map(index).collect();
        assert_eq!(vectors, [4, 5, 6], "lowest first");
        let error = control.add_completion_vector().unwrap_err();
        assert_eq!(error, no_vector(7, 0, 9));
        removed.rotate_left(1);
    }
    for part in removed {
        events.push(part).unwrap();
    }
    for vector in rest {
        nic.vector_free(vector);
    }
    down((control, events), &sim);
}

/// Who wants a dynamically allocated vector gets no other, and the spare ones stay.
#[test]
fn a_dynamic_vector_is_the_platforms() {
    let (sim, nic) = with_vectors(9);
    let (mut control, mut events) = up(&nic, &with_spare(&nic, 2));
    let dynamic = control.add_dynamic_completion_vector().unwrap();
    assert_eq!(index(&dynamic), 7, "5 and 6 are spare");
    assert_eq!(dynamic.completion_vector(), Some(4));
    assert_vectors_free(&nic, 1);
    let any = control.add_completion_vector().unwrap();
    assert_eq!(index(&any), 5);
    // The platform has no more: the spare one is no substitute, and stays.
    let last = control.add_dynamic_completion_vector().unwrap();
    assert_eq!(index(&last), 8);
    let error = control.add_dynamic_completion_vector().unwrap_err();
    assert_eq!(error, no_vector(9, 1, 9));
    assert!(
        error.to_string().contains("Control::add_completion_vector"),
        "{error}"
    );
    let other = control.add_completion_vector().unwrap();
    assert_eq!(index(&other), 6);
    // Each to its own.
    remove(&mut control, any);
    assert_vectors_free(&nic, 0);
    remove(&mut control, dynamic);
    assert_vectors_free(&nic, 1);
    let again = control.add_dynamic_completion_vector().unwrap();
    assert_eq!(index(&again), 7);
    for part in [again, last, other] {
        events.push(part).unwrap();
    }
    down((control, events), &sim);
}

/// What was taken for a queue that is not made goes back to where it came from too.
#[test]
fn a_vector_that_was_not_used_goes_back_as_well() {
    let (sim, nic) = with_vectors(9);
    let (mut control, events) = up(&nic, &with_spare(&nic, 1));
    let rest = take_rest(&nic);
    for _ in 0..3 {
        sim.fail_allocation(0, Allocation::Dma, 1);
        let error = control.add_completion_vector().unwrap_err();
        assert!(matches!(error, Error::Dma(_)), "{error:?}");
        assert_vectors_free(&nic, 0);
    }
    let spare = control.add_completion_vector().unwrap();
    assert_eq!(index(&spare), 5);
    for vector in rest {
        nic.vector_free(vector);
    }
    refuse(&sim, CqpErrors::Opcode(CREATE_CEQ));
    let error = control.add_dynamic_completion_vector().unwrap_err();
    assert!(matches!(error, Error::Cqp(_)), "{error:?}");
    refuse(&sim, CqpErrors::None);
    assert_vectors_free(&nic, 3);
    // A queue that the device keeps keeps its vector.
    refuse(&sim, CqpErrors::Opcode(DESTROY_CEQ));
    let (spare, _) = error_of(control.remove_completion_vector(spare));
    refuse(&sim, CqpErrors::None);
    let next = control.add_completion_vector().unwrap();
    assert_eq!(index(&next), 6, "not the one in use");
    let mut events = events;
    for part in [spare, next] {
        events.push(part).unwrap();
    }
    down((control, events), &sim);
}
