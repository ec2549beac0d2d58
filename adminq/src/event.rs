//! Events of the firmware, copied out of the queue.

use bitflags::bitflags;

use crate::answer::Answer;
use crate::descriptor::Descriptor;
use crate::op::LinkStatus;
use crate::opcode::Opcode;

/// Bytes of an event's buffer that are kept. The longest event whose buffer is read is link
/// status; an LLDP MIB is requested by command, not read from its event.
pub const KEPT_BYTES: usize = 96;

/// An event that the firmware reports by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// As it came.
    pub raw: RawEvent,
}

/// Descriptor and beginning of the buffer of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawEvent {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The first bytes of the buffer, zero beyond the event's length.
    pub bytes: [u8; KEPT_BYTES],
}

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The link changed (0x0607).
    Link(LinkStatus),
    /// What the LLDP agent agreed on with the neighbour changed (0x0A01): the traffic classes may
    /// be different now.
    LldpMib,
    /// The firmware ends the queue (0x0003): bring the function up again.
    Shutdown,
    /// A health report (0xFF22); its codes are in the raw bytes.
    Health,
    /// A line of the firmware's log (0xFF33).
    FirmwareLog,
    /// The event says that it failed, or is shorter than what it should hold.
    Damaged,
    /// An opcode that this driver does not know.
    Unknown(Opcode),
}

impl Event {
    /// Decodes what the firmware put into an entry of the event queue.
    #[must_use]
    pub fn decode(answer: &Answer<'_>) -> Self {
        let descriptor = *answer.descriptor();
        let mut bytes = [0; KEPT_BYTES];
        answer.copy(0, &mut bytes);
        let kind = if descriptor.failed() {
            EventKind::Damaged
        } else {
            match descriptor.opcode {
                Opcode::LINK_STATUS => {
                    LinkStatus::decode(answer).map_or(EventKind::Damaged, EventKind::Link)
                }
                Opcode::LLDP_MIB_CHANGE => EventKind::LldpMib,
                Opcode::QUEUE_SHUTDOWN => EventKind::Shutdown,
                Opcode::HEALTH_STATUS => EventKind::Health,
                Opcode::FIRMWARE_LOG => EventKind::FirmwareLog,
                other => EventKind::Unknown(other),
            }
        };
        Self {
            kind,
            raw: RawEvent { descriptor, bytes },
        }
    }
}

bitflags! {
    /// Faults that the queues' length registers report.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Faults: u8 {
        /// VF error.
        const VF = 1 << 0;
        /// A queue overflowed: events are lost.
        const OVERFLOW = 1 << 1;
        /// Critical firmware error.
        const CRITICAL = 1 << 2;
    }
}

impl Faults {
    /// From bits \[30:28\] of a length register.
    pub(crate) const fn from_len(len: u32) -> Self {
        Self::from_bits_truncate((len >> 28) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Flags;
    use core::sync::atomic::AtomicU64;

    fn event(descriptor: Descriptor, words: &[u64], len: usize) -> Event {
        let cells: std::vec::Vec<AtomicU64> = words
            .iter()
            .map(|word| AtomicU64::new(word.to_le()))
            .collect();
        Event::decode(&Answer::new(descriptor, &cells, len))
    }

    #[test]
    fn known_events_have_names_and_others_keep_theirs() {
        let of = |op| event(Descriptor::command(op, [0; 16]), &[], 0).kind;
        assert_eq!(of(Opcode::LLDP_MIB_CHANGE), EventKind::LldpMib);
        assert_eq!(of(Opcode::QUEUE_SHUTDOWN), EventKind::Shutdown);
        assert_eq!(of(Opcode(0x1001)), EventKind::Unknown(Opcode(0x1001)));
        assert_eq!(of(Opcode::LINK_STATUS), EventKind::Damaged, "no data");
    }

    #[test]
    fn an_event_that_failed_is_damaged_and_kept() {
        let mut descriptor = Descriptor::command(Opcode::LLDP_MIB_CHANGE, [3; 16]);
        descriptor.flags |= Flags::ERR;
        let event = event(descriptor, &[0x0807_0605_0403_0201; 20], 9);
        assert_eq!(event.kind, EventKind::Damaged);
        assert_eq!(event.raw.descriptor, descriptor);
        assert_eq!(event.raw.bytes[..10], [1, 2, 3, 4, 5, 6, 7, 8, 1, 0]);
    }

    #[test]
    fn faults_are_bits_30_to_28() {
        assert_eq!(Faults::from_len(1 << 29), Faults::OVERFLOW);
        assert_eq!(Faults::from_len(0x9000_0010), Faults::VF);
        assert_eq!(Faults::from_len(7 << 28), Faults::all());
    }
}
