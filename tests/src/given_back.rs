//! What must hold once a driver is done with simulated functions.

use e810::Platform;
use e810_sim::Sim;

/// Every vector can be had again.
///
/// # Panics
/// When one cannot.
pub fn assert_vectors_back(nic: &impl Platform) {
    let mut taken = Vec::new();
    while let Some(vector) = nic.vector_alloc() {
        taken.push(vector);
    }
    let had = taken.len();
    for vector in taken {
        nic.vector_free(vector);
    }
    assert_eq!(had, usize::from(nic.vector_count()), "vectors were lost");
}

/// Not a byte is held, every vector is back, and the card has nothing to
/// complain of.
///
/// # Panics
/// When that is not so.
pub fn assert_as_found(sim: &Sim) {
    for function in 0..sim.functions() {
        let held = sim.memory(function);
        assert!(held.nothing_held(), "{held:?}");
        assert_vectors_back(&sim.function(function));
    }
    assert_eq!(sim.findings(), []);
}
