//! Interrupt vectors: which ones exist, not how to wait on them.
//!
//! Waiting belongs to the host's threads or to a unikernel's handler; the core
//! only asks for vectors and programs which causes go to them.

use crate::bus::Vector;

/// Hands out MSI-X vectors of the function (PF-relative, control-path 1.3).
pub trait InterruptVectors {
    /// Upper limit of the vectors that can be taken.
    fn vector_count(&self) -> u16;

    /// Takes a free vector, growing the set if the platform can. `None` if there are no more.
    fn vector_alloc(&self) -> Option<Vector>;

    /// Gives a vector back. Its causes must be disabled by then.
    fn vector_free(&self, vector: Vector);

    /// Says which CPU will consume the vector's events; a hint.
    fn vector_affinity(&self, vector: Vector, cpu: u32) {
        let _ = (vector, cpu);
    }
}
