//! Running out of memory: a call that makes or enlarges something is refused with ENOMEM before
//! there is too little for what it needs beside its rings.
//!
//! Rings, whose sizes are the program's, are allocated so that they can fail. Tables of objects
//! that grow, and small parts of an object here and in the crates below, are not: there a process
//! that has no memory left ends. So there has to be more of it than all of those take in a call.

use crate::control::Refused;

/// More than tables that grow take at once: the largest is that of 16,384 regions.
const ROOM: usize = 4 << 20;

/// Whether there is room for a new object.
///
/// # Errors
/// There is not.
pub(crate) fn check() -> Result<(), Refused> {
    let mut room = Vec::<u8>::new();
    // It is not touched, so it is no more than a number to the kernel.
    let found = room.try_reserve_exact(ROOM);
    drop(room);
    found.map_err(|_| Refused::no_memory())
}
