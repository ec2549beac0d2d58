//! Registers, memory, time and interrupts of a function in both modes.

use super::*;
use crate::findings::kind;

use e810_hal::regs::{DYN_CTL_ENABLE, GLINT_DYN_CTL, GLPE_CPUSTATUS0, PFINT_OICR_ENA};
use e810_hal::{DmaBuf, HostBuf, InterruptVectors};

use crate::{Allocation, Sim};

const SWINT_TRIG: u32 = 1 << 2;

#[test]
fn vectors_are_handed_out_and_taken_back() {
    let sim = Sim::builder().vectors(3).build();
    let nic = sim.function(0);
    let all: Vec<u32> = std::iter::from_fn(|| nic.vector_alloc())
        .map(Vector::get)
        .collect();
    assert_eq!(all, [0, 1, 2]);
    let vector = Vector::new(1).unwrap();
    nic.vector_free(vector);
    assert_eq!(nic.vector_alloc(), Some(vector));
    assert_eq!(nic.vector_alloc(), None);
    assert_eq!(sim.findings(), []);
    nic.vector_free(vector);
    nic.vector_free(vector);
    nic.vector_free(Vector::new(99).unwrap());
    assert_eq!(sim.finding_counts(), [(0, kind::VECTOR_FREE.name, 2)]);
}

#[test]
fn a_vector_that_was_given_back_is_masked_until_it_is_taken_again() {
    let sim = Sim::builder().vectors(3).build();
    let nic = sim.function(0);
    let vector = nic.vector_alloc().unwrap();
    let fire = || {
        GLINT_DYN_CTL
            .at(vector)
            .set(&nic, DYN_CTL_ENABLE | SWINT_TRIG);
    };
    let masked = || {
        let mut word = [0; 4];
        nic.bar3_read(12, &mut word);
        u32::from_le_bytes(word) & 1 == 1
    };
    fire();
    assert!(!masked());
    nic.vector_free(vector);
    assert!(masked());
    assert_eq!(sim.findings(), [], "it fired before");
    assert_eq!(nic.vector_alloc(), Some(vector));
    assert!(!masked());
    assert_eq!(
        nic.take_interrupts(),
        [],
        "that message was its last owner's"
    );
    fire();
    assert_eq!(nic.take_interrupts(), [vector]);
    // Freed with a cause still routed to it.
    nic.vector_free(vector);
    fire();
    assert_eq!(sim.finding_counts(), [(0, kind::VECTOR_FREED.name, 1)]);
    assert_eq!(nic.take_interrupts(), [], "masked");
    assert_eq!(nic.vector_alloc(), Some(vector));
    assert_eq!(nic.take_interrupts(), [vector], "it waited in the table");
    // A vector that was never allocated is unmasked and causes no finding.
    let other = Vector::new(2).unwrap();
    GLINT_DYN_CTL
        .at(other)
        .set(&nic, DYN_CTL_ENABLE | SWINT_TRIG);
    assert_eq!(nic.take_interrupts(), [other]);
    assert_eq!(sim.finding_counts(), [(0, kind::VECTOR_FREED.name, 1)]);
}

#[test]
fn the_cpu_of_a_vector_is_kept_as_long_as_it_is_taken() {
    let sim = Sim::builder().vectors(2).build();
    let nic = sim.function(0);
    let vector = nic.vector_alloc().unwrap();
    assert_eq!(nic.vector_cpu(vector), None);
    nic.vector_affinity(vector, 5);
    nic.vector_affinity(Vector::new(1).unwrap(), 6);
    nic.vector_affinity(Vector::new(9).unwrap(), 7);
    let cpus = || [0, 1, 9].map(|index| nic.vector_cpu(Vector::new(index).unwrap()));
    assert_eq!(cpus(), [Some(5), None, None]);
    nic.vector_free(vector);
    assert_eq!(nic.vector_alloc(), Some(vector));
    assert_eq!(cpus(), [None; 3]);
}

#[test]
fn memory_is_counted_and_can_be_made_to_fail() {
    let sim = Sim::builder().functions(2).build();
    let nic = sim.function(1);
    let memory = DmaBuf::new(nic.clone(), DmaLayout::new(4096, 4096)).unwrap();
    let table = HostBuf::new(nic.clone(), 9).unwrap();
    sim.fail_allocation(1, Allocation::Dma, 1);
    assert!(DmaBuf::new(nic.clone(), DmaLayout::new(8, 8)).is_err());
    sim.fail_allocation(1, Allocation::Host, 1);
    assert!(HostBuf::new(nic, 1).is_err());
    let counts = sim.memory(1);
    assert_eq!((counts.dma_blocks, counts.dma_bytes), (1, 4096));
    assert_eq!((counts.host_blocks, counts.host_bytes), (1, 80));
    assert!(sim.memory(0).nothing_held());
    memory.release();
    drop(table);
    assert!(sim.memory(1).nothing_held());
}

#[test]
fn memory_that_is_not_ours_is_a_finding() {
    let sim = Sim::builder().functions(2).build();
    let (nic, other) = (sim.function(0), sim.function(1));
    let raw = nic.dma_alloc(DmaLayout::new(8, 8)).unwrap();
    // SAFETY: not the platform it came from, which is what is tested: the simulator refuses.
    unsafe { other.dma_free(raw) };
    assert_eq!(sim.finding_counts(), [(1, kind::BAD_FREE.name, 1)]);
    // SAFETY: allocated above, not freed, no reference left.
    unsafe { nic.dma_free(raw) };
    assert!(sim.memory(0).nothing_held());
}

#[test]
fn virtual_time_passes_by_what_is_done() {
    let nic = Sim::builder().build().function(0);
    let start = nic.now();
    assert_eq!(nic.now(), start);
    GLPE_CPUSTATUS0.get(&nic);
    let after_read = nic.now();
    assert!(after_read > start);
    nic.delay(Ns::from_ms(5));
    assert_eq!(nic.now(), after_read + Ns::from_ms(5));
    nic.relax();
    assert!(nic.now() > after_read + Ns::from_ms(5));
}

/// Waiting for an interrupt that never comes ends near its limit, and takes few turns even when the
/// limit is long.
#[test]
fn waiting_in_virtual_time_ends() {
    let nic = Sim::builder().build().function(0);
    let vector = Vector::new(0).unwrap();
    let limits = [Ns::from_us(10), Ns::from_ms(1), Ns::from_ms(1_000)];
    for limit in limits.into_iter().take(if cfg!(miri) { 2 } else { 3 }) {
        let start = nic.now();
        assert!(!nic.wait_interrupt(vector, limit));
        let waited = nic.now() - start;
        assert!(
            waited >= limit && waited < limit + Ns::from_us(200),
            "{waited} for {limit}"
        );
    }
}

#[test]
fn an_interrupt_wakes_the_waiting_thread() {
    for mode in [Mode::Virtual, Mode::Real] {
        let sim = Sim::builder().mode(mode).build();
        let nic = sim.function(0);
        let vector = nic.vector_alloc().unwrap();
        GLINT_DYN_CTL
            .at(vector)
            .set(&nic, DYN_CTL_ENABLE | SWINT_TRIG);
        assert!(nic.wait_interrupt(vector, Ns::from_ms(60_000)));
        assert!(!nic.wait_interrupt(vector, Ns(0)));
        assert_eq!(nic.interrupt_count(vector), 1);
        assert_eq!(sim.stats(0).interrupts, 1);
        assert_eq!(sim.findings(), []);
    }
}

/// Posted writes are done before a read that follows them, and in order.
#[test]
fn real_time_reads_push_writes() {
    let sim = Sim::builder().mode(Mode::Real).build();
    let rounds = if cfg!(miri) { 5 } else { 500 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let nic = sim.function(0);
            scope.spawn(move || {
                for _ in 0..rounds {
                    GLPE_CPUSTATUS0.get(&nic);
                }
            });
        }
        let nic = sim.function(0);
        for value in 1..=rounds {
            PFINT_OICR_ENA.set(&nic, 0);
            PFINT_OICR_ENA.set(&nic, value << 1);
            assert_eq!(PFINT_OICR_ENA.get(&nic), value << 1);
        }
    });
    assert_eq!(sim.stats(0).register_writes, 2 * u64::from(rounds));
    assert_eq!(sim.findings(), []);
}

/// A thread that sleeps is woken by a write, without a read.
#[test]
fn real_time_wakes_for_a_write() {
    let sim = Sim::builder().mode(Mode::Real).build();
    let nic = sim.function(0);
    let vector = nic.vector_alloc().unwrap();
    for round in 1..=3 {
        nic.delay(Ns::from_ms(2));
        GLINT_DYN_CTL
            .at(vector)
            .set(&nic, DYN_CTL_ENABLE | SWINT_TRIG);
        assert!(nic.wait_interrupt(vector, Ns::from_ms(60_000)));
        assert_eq!(nic.interrupt_count(vector), round);
    }
}

#[test]
fn the_thread_ends_with_the_last_handle() {
    for _ in 0..3 {
        let sim = Sim::builder().mode(Mode::Real).build();
        let nic = sim.function(0);
        let runtime = Arc::downgrade(&nic.owner.runtime);
        drop(sim);
        GLPE_CPUSTATUS0.get(&nic);
        assert!(runtime.upgrade().is_some());
        drop(nic);
        // The thread held the other reference, and was joined.
        assert!(runtime.upgrade().is_none());
    }
}

#[test]
fn a_hook_may_hold_the_last_handle() {
    let sim = Sim::builder().mode(Mode::Real).build();
    let nic = sim.function(0);
    let (send, receive) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(Some(nic.clone()));
    sim.set_interrupt_hook(
        0,
        Some(Box::new(move |vector| {
            // Dropping the handle here, on the device's thread, must not wait for that thread.
            drop(held.lock().unwrap().take());
            let _ = send.send(vector);
        })),
    );
    let vector = Vector::new(0).unwrap();
    GLINT_DYN_CTL
        .at(vector)
        .set(&nic, DYN_CTL_ENABLE | SWINT_TRIG);
    drop(nic);
    drop(sim);
    assert_eq!(receive.recv(), Ok(vector));
}
