//! Running out of memory: a call that creates or enlarges something fails with ENOMEM before there
//! is too little memory for what it needs beside its rings.
//!
//! The program chooses the sizes of rings, so their allocation may fail. Tables of objects that
//! grow, and small parts of an object here and in the crates below, are allocated infallibly: a
//! process that has no memory left ends there. So more memory must be free than all of these take
//! in a call.

use crate::control::Refused;

/// More than growing tables take at once: the largest is the table of 16,384 regions.
const ROOM: usize = 4 << 20;

/// Whether there is room for a new object.
///
/// # Errors
/// There is not enough room.
pub(crate) fn check() -> Result<(), Refused> {
    let mut room = Vec::<u8>::new();
    // It is never touched, so to the kernel it is no more than a number.
    let found = room.try_reserve_exact(ROOM);
    drop(room);
    found.map_err(|_| Refused::no_memory())
}
