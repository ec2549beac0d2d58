//! Commands of a driver that must not reach the firmware: those that erase, write or activate flash,
//! or write to a module or a pin of the board.
//!
//! Such a command is overwritten in its ring, before the firmware is told of it, with an opcode that
//! no firmware knows. It answers with an error, and the driver's copy of the answer gets the opcode
//! back. This guards against drivers that do their work. A hostile driver can put the command into
//! the ring after it was looked at.

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;
use e810_hal::{Iova, RegOffset};
use e810_trace::adminq_rings::{AdminqRings, Written};

/// An opcode of no command.
const UNKNOWN: u16 = 0xFFFF;
/// The firmware is done with the descriptor (control-path 9.2).
const DONE: u64 = 1;

/// A command that was not passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Its opcode.
    pub opcode: u16,
    /// Where it is in its queue.
    pub index: u32,
}

/// Whether a command must not reach the firmware. `first` and `parameters` are the words of its
/// descriptor that have the opcode, and the first of its parameters. The opcodes are those of Linux'
/// `ice_adminq_cmd.h`.
const fn is_forbidden(first: u64, parameters: u64) -> bool {
    const SFF_WRITE: u64 = 1 << 31;
    const VERIFY: u64 = 1;
    match (first >> 16) as u16 {
        // I2C, GPIO of the board (two forms).
        0x06E3 | 0x06EC | 0x06EF => true,
        // Bytes of a module: reads pass.
        0x06EE => parameters & SFF_WRITE != 0,
        // Flash of devices beside the controller.
        0x06F2 => true,
        // Flash: reads, and checksums that are only verified.
        0x0701 | 0x0704 => false,
        0x0706 => parameters & 0xFF != VERIFY,
        0x0700..=0x07FF => true,
        _ => false,
    }
}

/// Follows the firmware's queue of one driver.
#[derive(Debug, Default)]
pub struct Guard {
    rings: AdminqRings,
    /// The first words of stopped commands, by address.
    stopped: BTreeMap<u64, u64>,
}

impl Guard {
    /// The driver is about to write a register. Returns the commands that it would send by that and
    /// that are stopped.
    pub fn write(&mut self, memory: &DeviceMemory, offset: RegOffset, value: u32) -> Vec<Stopped> {
        let Written::Sent { indexes, .. } = self.rings.write(offset, value) else {
            return Vec::new();
        };
        let stop = |index: &u32| {
            let at = self.rings.commands.at(*index)?;
            self.stopped.remove(&at);
            let mut words = [0; 3];
            let [first, _, parameters] = match memory.read(Iova(at), &mut words) {
                3 => words,
                _ => return None,
            };
            if !is_forbidden(first, parameters) {
                return None;
            }
            let replaced = first & !0xFFFF_0000 | u64::from(UNKNOWN) << 16;
            // Read only for the device, or changed at this moment: then the driver does no work of
            // its kind, and the firmware could not answer it either.
            memory.replace(Iova(at), first, replaced).then(|| {
                self.stopped.insert(at, first);
                Stopped {
                    opcode: (first >> 16) as u16,
                    index: *index,
                }
            })
        };
        indexes.iter().filter_map(stop).collect()
    }

    /// Gives stopped commands that were answered their opcode back.
    pub fn restore(&mut self, memory: &DeviceMemory) {
        self.stopped.retain(|at, command| {
            let mut now = [0];
            if memory.read(Iova(*at), &mut now) == 0 {
                return false;
            }
            let [now] = now;
            if now & DONE == 0 {
                return true;
            }
            let answered = now & !0xFFFF_0000 | *command & 0xFFFF_0000;
            memory.replace(Iova(*at), now, answered);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};

    use e810_hal::regs::{PF_FW_ATQBAL, PF_FW_ATQLEN, PF_FW_ATQT};

    use super::*;

    const RING: u32 = 0x10_0000;

    #[test]
    fn what_writes_is_stopped_and_what_reads_passes() {
        for (opcode, parameters, is_stopped) in [
            (0x0701, 0, false),
            (0x0702, 0, true),
            (0x0703, 0, true),
            (0x0706, 1, false),
            (0x0706, 2, true),
            (0x0706, 3, true),
            (0x0707, 0, true),
            (0x0709, 0, true),
            (0x070A, 0, true),
            (0x06E2, 0, false),
            (0x06E3, 0, true),
            (0x06EE, 0x0050_0100, false),
            (0x06EE, 0x8050_0100, true),
            // The lock of the flash, for reading and for writing, and the commands beside.
            (0x0008, 1, false),
            (0x0800, 0, false),
        ] {
            let first = u64::from(opcode as u16) << 16;
            assert_eq!(is_forbidden(first, parameters), is_stopped, "{opcode:#x}");
        }
    }

    #[test]
    fn a_stopped_command_is_unknown_to_the_firmware_and_not_to_the_driver() {
        let ring: [AtomicU64; 32] = std::array::from_fn(|_| AtomicU64::new(0));
        let memory = DeviceMemory::default();
        let start = NonNull::from(&ring).cast();
        // SAFETY: `ring` lives as long, and has only atomics.
        unsafe { memory.insert(Iova(RING.into()), start, ring.len(), true) };
        let load = |index: usize| ring[index * 4].load(Ordering::Relaxed);
        let mut guard = Guard::default();
        let mut write = |offset, value| guard.write(&memory, offset, value);
        write(PF_FW_ATQBAL.off(), RING);
        write(PF_FW_ATQLEN.off(), 1 << 31 | 8);
        for (index, opcode) in [(0, 0x0701), (1, 0x0703), (2, 0x0702)] {
            ring[index * 4].store(0xAB_0000_2000 | opcode << 16, Ordering::Relaxed);
        }
        let stopped = write(PF_FW_ATQT.off(), 3);
        let [one, other] =
            [(0x0703, 1), (0x0702, 2)].map(|(opcode, index)| Stopped { opcode, index });
        assert_eq!(stopped, [one, other]);
        let unknown = 0xAB_FFFF_2000;
        assert_eq!(
            [load(0), load(1), load(2)],
            [0xAB_0701_2000, unknown, unknown]
        );
        guard.restore(&memory);
        assert_eq!(load(1), unknown, "it is not answered");
        ring[4].store(unknown | 7, Ordering::Relaxed);
        guard.restore(&memory);
        assert_eq!([load(1), load(2)], [0xAB_0703_2007, unknown]);
        // The memory is gone, then the queue.
        memory.remove(Iova(RING.into()));
        guard.restore(&memory);
        assert!(guard.stopped.is_empty());
        assert_eq!(guard.write(&memory, PF_FW_ATQT.off(), 4), []);
    }
}
