//! The I/O queue: reading blocks, several commands at a time.

use super::{Link, Memory, Namespace, Queue, Wrong};
use crate::nvme::bytes::put;
use crate::nvme::capsule::{Command, Sgl, command, io};

/// Bytes that a command reads, if controller and memory have room for them.
const PIECE: usize = 128 << 10;
/// Bytes that are handed on at once.
const PART: usize = 1024;

/// Blocks to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    pub first: u64,
    pub count: u64,
}

/// Reads blocks of a namespace through a connected queue, and hands their bytes on in order. A
/// command reads no more than `most` bytes.
///
/// # Errors
/// Of the link, or [`Wrong`].
pub fn read<L: Link>(
    queue: &mut Queue,
    link: &mut L,
    namespace: &Namespace,
    Blocks { first, count }: Blocks,
    (memory, most): (&Memory, u32),
    take: &mut impl FnMut(&[u8]),
) -> Result<(), L::Error> {
    let end = first.checked_add(count).filter(|end| *end <= namespace.blocks);
    let end = end.ok_or(Wrong::Outside(namespace.blocks))?;
    let room = memory.bytes.len();
    let each = (room.min(PIECE).min(most as usize) >> namespace.shift) as u64;
    if each == 0 {
        return Err(Wrong::Small(room).into());
    }
    let piece = (each as usize) << namespace.shift;
    let window = (room / piece).min(usize::from(queue.window())) as u64;
    // The blocks of the command with this number, and where they go.
    let part = |number: u64| -> Result<_, Wrong> {
        let from = first + number * each;
        let bytes = (each.min(end - from) as usize) << namespace.shift;
        let id = (number % window) as u16;
        Ok((id, from, memory.part(usize::from(id) * piece, bytes)?))
    };
    let commands = count.div_ceil(each);
    for number in 0..commands.saturating_add(window) {
        // A command that was sent before has the same id and memory.
        if let Some(before) = number.checked_sub(window).filter(|before| *before < commands) {
            let (id, _, memory) = part(before)?;
            queue.wait(link, "Read", id)?;
            hand_on(&memory, take)?;
        }
        if number < commands {
            let (id, from, memory) = part(number)?;
            queue.submit(link, id, read_command(namespace, from, &memory))?;
        }
    }
    Ok(())
}

fn read_command(namespace: &Namespace, from: u64, memory: &Memory) -> Command {
    let bytes = memory.bytes.len() as u32;
    let mut command = command(io::READ);
    put(&mut command, 4, &namespace.number.to_le_bytes());
    let memory = memory.keyed(bytes);
    Sgl::Keyed { memory, invalidate: false }.put(&mut command);
    put(&mut command, 40, &from.to_le_bytes());
    // Blocks, less one.
    put(&mut command, 48, &((bytes >> namespace.shift) as u16).wrapping_sub(1).to_le_bytes());
    command
}

fn hand_on(memory: &Memory, take: &mut impl FnMut(&[u8])) -> Result<(), Wrong> {
    let mut part = [0; PART];
    for at in (0..memory.bytes.len()).step_by(PART) {
        let part = part.get_mut(..(memory.bytes.len() - at).min(PART)).unwrap_or_default();
        memory.bytes.read(at, part)?;
        take(part);
    }
    Ok(())
}
