//! The commands of an I/O queue: read, write and flush.

use e810_examples::nvme::bytes::{byte, double, quad, word};
use e810_examples::nvme::capsule::Refused;
use e810_examples::nvme::capsule::io::{FLUSH, READ, WRITE};

use crate::capsule::{Call, Outcome, Source};

/// The only namespace.
pub(crate) const NAMESPACE: u32 = 1;
/// All namespaces.
pub(crate) const ALL: u32 = u32::MAX;
/// log2 of a block's bytes.
pub(crate) const BLOCK: u8 = 9;
/// log2 of the pages of 4096 bytes that a command moves at most: 1 MiB.
pub(crate) const MDTS: u8 = 8;

/// Executes a command on a namespace of `bytes`.
pub(crate) fn execute<'a>(bytes: u64, call: &Call<'a>) -> Outcome<'a> {
    let (opcode, namespace) = (byte(call.command, 0), double(call.command, 4));
    match (opcode, namespace) {
        // A write is complete when its response leaves, so a flush finds nothing to do.
        (FLUSH, NAMESPACE | ALL) => return Ok(call.answer(Ok(0))),
        (READ | WRITE, NAMESPACE) => {}
        (FLUSH | READ | WRITE, _) => return Err(Refused::NAMESPACE),
        _ => return Err(Refused::OPCODE),
    }
    let (first, blocks) = (quad(call.command, 40), u32::from(word(call.command, 48)) + 1);
    let (at, length) = (first << BLOCK, blocks << BLOCK);
    if length > 1 << (12 + MDTS) {
        Err(Refused::FIELD)
    } else if first.checked_add(u64::from(blocks)).is_none_or(|end| end > bytes >> BLOCK) {
        Err(Refused::RANGE)
    } else if opcode == WRITE {
        call.take(at, length)
    } else {
        call.give(Source::Namespace(at), length)
    }
}
