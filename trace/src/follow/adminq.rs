//! The firmware's queues: commands and answers (ATQ), events (ARQ); control-path 9.1.

use e810_backends::observed::DeviceMemory;
use e810_card::record::hex;
use e810_hal::RegOffset;
use e810_hal::regs::{
    PF_FW_ARQBAH, PF_FW_ARQBAL, PF_FW_ARQH, PF_FW_ARQLEN, PF_FW_ATQBAH, PF_FW_ATQBAL, PF_FW_ATQH,
    PF_FW_ATQLEN, PF_FW_ATQT,
};

use super::words;
use crate::record::{Descriptor, Event};

/// 64-bit words of a descriptor.
const WORDS: usize = 4;
/// Entries of a queue, from its length register.
const LENGTH: u32 = 0x3FF;
/// The queue is on, in the same register.
const ENABLE: u32 = 1 << 31;
/// The descriptor has a buffer (flags of control-path 9.2).
const BUF: u16 = 1 << 12;
/// The firmware reads the buffer.
const RD: u16 = 1 << 10;
/// Most bytes of a buffer.
const MOST_BUFFER: usize = 4096;

/// One of the two queues.
#[derive(Debug, Default)]
struct Queue {
    base: u64,
    entries: u32,
    /// The next entry that the driver has to send, or that an event will be in.
    next: u32,
    /// The next entry that the firmware has to answer.
    answered: u32,
}

impl Queue {
    fn set_base_low(&mut self, value: u32) {
        self.base = self.base & !0xFFFF_FFFF | u64::from(value);
    }

    fn set_base_high(&mut self, value: u32) {
        self.base = self.base & 0xFFFF_FFFF | u64::from(value) << 32;
    }

    fn set_length(&mut self, value: u32) {
        let entries = if value & ENABLE == 0 {
            0
        } else {
            value & LENGTH
        };
        *self = Self {
            base: self.base,
            entries,
            ..Self::default()
        };
    }

    /// The descriptor at `index`; `when` says by its flags whether its buffer means something.
    fn descriptor(
        &self,
        memory: &DeviceMemory,
        index: u32,
        when: impl Fn(u16) -> bool,
    ) -> Option<Descriptor> {
        let at = self.base.checked_add(u64::from(index) * 32)?;
        let found = words(memory, at, WORDS);
        let [first, _, _, last] = *found.as_slice() else {
            return None;
        };
        let flags = first as u16;
        let length = usize::from((first >> 32) as u16).min(MOST_BUFFER);
        let mut buffer = Vec::new();
        if flags & BUF != 0 && when(flags) {
            // The high half comes first.
            let address = last.rotate_left(32);
            let found = words(memory, address, length.div_ceil(8));
            buffer.extend(found.iter().flat_map(|word| word.to_le_bytes()));
            buffer.truncate(length);
        }
        let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
        Some(Descriptor {
            index,
            descriptor: hex(&bytes),
            buffer: hex(&buffer),
        })
    }
}

/// The indexes from `from` to before `to`, which is then `from`. An index that no entry has, as
/// that of a device that is gone, means the first.
fn between(from: &mut u32, to: u32, entries: u32) -> impl Iterator<Item = u32> + use<> {
    let (mut index, to) = if to < entries && *from < entries {
        (*from, to)
    } else {
        (0, 0)
    };
    *from = to;
    std::iter::from_fn(move || {
        let this = index;
        if this == to {
            return None;
        }
        index = (index + 1) % entries;
        Some(this)
    })
}

/// What passes between driver and firmware.
#[derive(Debug, Default)]
pub(crate) struct AdminqFollower {
    commands: Queue,
    events: Queue,
}

impl AdminqFollower {
    /// The driver is about to write a register.
    pub(crate) fn write(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> Vec<Event> {
        let Self { commands, events } = self;
        match offset {
            at if at == PF_FW_ATQBAL.off() => commands.set_base_low(value),
            at if at == PF_FW_ATQBAH.off() => commands.set_base_high(value),
            at if at == PF_FW_ATQLEN.off() => commands.set_length(value),
            at if at == PF_FW_ARQBAL.off() => events.set_base_low(value),
            at if at == PF_FW_ARQBAH.off() => events.set_base_high(value),
            at if at == PF_FW_ARQLEN.off() => events.set_length(value),
            // A driver that takes the queue down sets head and tail to 0 while it is on.
            at if at == PF_FW_ATQH.off() => {
                commands.next = value;
                commands.answered = value;
            }
            at if at == PF_FW_ARQH.off() => events.next = value,
            at if at == PF_FW_ATQT.off() => {
                let sent = between(&mut commands.next, value, commands.entries);
                // Without RD the buffer is for the answer.
                let is_read = |flags| flags & RD != 0;
                let sent = sent.filter_map(|at| commands.descriptor(memory, at, is_read));
                return sent.map(Event::AdminqCommand).collect();
            }
            _ => {}
        }
        Vec::new()
    }

    /// The driver has read a register.
    pub(crate) fn read(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> Vec<Event> {
        let Self { commands, events } = self;
        let always = |_| true;
        if offset == PF_FW_ATQH.off() {
            let answered = between(&mut commands.answered, value, commands.entries);
            let answered = answered.filter_map(|at| commands.descriptor(memory, at, always));
            answered.map(Event::AdminqReply).collect()
        } else if offset == PF_FW_ARQH.off() {
            let found = between(&mut events.next, value, events.entries);
            let found = found.filter_map(|at| events.descriptor(memory, at, always));
            found.map(Event::AdminqEvent).collect()
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_wrap_and_nonsense_is_passed_over() {
        let mut from = 6;
        assert_eq!(between(&mut from, 1, 8).collect::<Vec<_>>(), [6, 7, 0]);
        assert_eq!(from, 1);
        assert_eq!(between(&mut from, 1, 8).count(), 0);
        // All-ones of a device that is gone, and a queue that is off.
        assert_eq!(between(&mut from, u32::MAX, 8).count(), 0);
        assert_eq!(from, 0);
        assert_eq!(between(&mut from, 1, 0).count(), 0);
    }
}
