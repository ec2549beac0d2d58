//! Traces for others: without what names a machine or a network.
//!
//! Ethernet and IP addresses get others in their place, the same ones everywhere, so that the trace still
//! says which are equal. Serial numbers, vital product data, contents of flash and of modules, neighbours'
//! announcements (LLDP), and what stood in buffers by chance become zeros. Times begin at a second. Sizes,
//! flags, opcodes, and addresses of memory stay.

use std::collections::BTreeMap;

use e810_card::config_space::ConfigSpace;
use e810_card::record::{from_hex, hex, words_from_hex, words_to_hex};
use e810_cqp::Opcode;

use crate::record::{Attached, Descriptor, Event, Record, Trace};

/// Bytes of configuration space.
const CONFIG: usize = 4096;
/// Ids of capabilities that say which card this is: of the extended part or not, id, bytes.
const IDENTITIES: [(bool, u16, u16); 2] = [(true, 0x03, 12), (false, 0x03, 8)];
/// The time of the first line.
const START: u64 = 1_000_000_000;

type Mac = [u8; 6];

/// What stands for what.
#[derive(Debug, Default)]
struct Others {
    /// Addresses, and those in their place.
    macs: BTreeMap<Mac, Mac>,
    /// IP addresses as two words, the first with the last four bytes.
    ips: BTreeMap<[u64; 2], [u64; 2]>,
    /// Parts of configuration space that become zeros: first byte, and the one behind.
    config: Vec<(usize, usize)>,
}

/// A copy of `trace` that can be shown to others.
#[must_use]
pub fn anonymised(trace: &Trace) -> Vec<Record> {
    let mut others = Others::default();
    others.learn_config(trace);
    for record in &trace.records {
        others.learn(&record.event);
    }
    let times = trace.records.iter().map(|record| record.ns);
    let first = times.filter(|ns| *ns > 0).min().unwrap_or(0);
    let mut is_after_command = false;
    let copy = |record: &Record| {
        let mut event = record.event.clone();
        // What stood in the buffer for an answer.
        if let (Event::Memory { bytes, .. }, true) = (&mut event, is_after_command) {
            *bytes = "0".repeat(bytes.len());
        }
        is_after_command = matches!(event, Event::AdminqCommand(_));
        others.replace(&mut event, record.device);
        Record {
            ns: match record.ns {
                0 => 0,
                ns => ns - first + START,
            },
            device: record.device,
            event,
        }
    };
    trace.records.iter().map(copy).collect()
}

/// Opcode and return value of a descriptor.
fn opcode(found: &Descriptor) -> Option<(u16, u16)> {
    let words = words_from_hex(&found.descriptor)?;
    let first = *words.first()?;
    Some(((first >> 16) as u16, (first >> 48) as u16))
}

/// Whether buffers of a firmware's command have contents of flash or of a module, or what neighbours say
/// of themselves; opcodes of Linux' `ice_adminq_cmd.h`.
const fn is_foreign(opcode: u16) -> bool {
    matches!(opcode, 0x06EC | 0x06EE | 0x0700..=0x07FF | 0x0A00..=0x0A09)
}

/// An Ethernet address in the low 48 bits of a word.
fn mac_of(word: u64) -> Mac {
    let [_, _, mac @ ..] = word.to_be_bytes();
    mac
}

/// Words of a command that are an IP address: pairs of the word with the last four bytes and the other.
const fn ip_words(opcode: Opcode) -> &'static [(usize, usize)] {
    match opcode {
        // Control-path 4.14, 4.11.
        Opcode::CreateAddrHandle
        | Opcode::ModifyAddrHandle
        | Opcode::DestroyAddrHandle
        | Opcode::ManageQuadHash => &[(4, 5), (6, 7)],
        _ => &[],
    }
}

/// The same of the context of a queue pair (control-path 5.2).
const CONTEXT_IPS: [(usize, usize); 2] = [(4, 5), (23, 24)];

/// Opcode of a command of the Control QP, by its header.
const fn opcode_in(header: u64) -> Opcode {
    Opcode::from_code((header >> 32 & 0x3F) as u8)
}

fn cqp_opcode(words: &[u64]) -> Opcode {
    opcode_in(words.get(3).copied().unwrap_or(0))
}

/// Whether memory of a command is the context of a queue pair.
const fn has_context(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::CreateQp | Opcode::ModifyQp | Opcode::UploadContext
    )
}

impl Others {
    /// Which parts of configuration space say which card this is, by what was read of it.
    fn learn_config(&mut self, trace: &Trace) {
        let mut image = vec![0; CONFIG];
        for record in &trace.records {
            let Event::ConfigRead { offset, bytes } = &record.event else {
                continue;
            };
            let offset = usize::try_from(offset.0).unwrap_or(CONFIG);
            let there = image.get_mut(offset..).unwrap_or_default();
            for (to, from) in there.iter_mut().zip(from_hex(bytes).unwrap_or_default()) {
                *to = from;
            }
        }
        let space = ConfigSpace(image);
        for (is_extended, id, bytes) in IDENTITIES {
            if let Some(found) = space.find(id, is_extended) {
                let (first, end) = (found.at.saturating_add(4), found.at.saturating_add(bytes));
                self.config.push((first.into(), end.into()));
            }
        }
    }

    fn mac(&mut self, mac: Mac) {
        // Groups have no owner. The address of a group of IPv6 has three bytes of its members'.
        let is_one = mac.first().is_some_and(|first| first & 1 == 0) && mac != [0; 6];
        let [.., high, low] = (self.macs.len() as u64 + 1).to_be_bytes();
        if is_one {
            self.macs.entry(mac).or_insert([0x02, 0, 0, 0, high, low]);
        }
    }

    fn ip(&mut self, words: [u64; 2]) {
        let number = self.ips.len() as u64 + 1;
        let other = match words {
            [0, 0] => return,
            // 10.0.0.0/8, fd00::/8.
            [low, 0] if low >> 32 == 0 => [10 << 24 | number, 0],
            _ => [number, 0xFD00 << 48],
        };
        self.ips.entry(words).or_insert(other);
    }

    fn learn(&mut self, event: &Event) {
        match event {
            // Manage MAC Address Read: entries of a port, a kind and an address (control-path 9.4).
            Event::AdminqReply(found) if opcode(found).is_some_and(|(code, _)| code == 0x0107) => {
                let buffer = from_hex(&found.buffer).unwrap_or_default();
                for [_, _, mac @ ..] in buffer.as_chunks::<8>().0 {
                    self.mac(*mac);
                }
            }
            // Manage MAC Address Write: the address is at byte 2 of its parameters.
            Event::AdminqCommand(found)
                if opcode(found).is_some_and(|(code, _)| code == 0x0108) =>
            {
                let descriptor = from_hex(&found.descriptor).unwrap_or_default();
                if let Some(mac) = descriptor.get(18..).and_then(<[u8]>::first_chunk) {
                    self.mac(*mac);
                }
            }
            Event::CqpCommand { bytes, memory, .. } => {
                let words = words_from_hex(bytes).unwrap_or_default();
                let word = |at: usize| words.get(at).copied().unwrap_or(0);
                let opcode = cqp_opcode(&words);
                match opcode {
                    Opcode::ManageArp => self.mac(mac_of(word(2))),
                    Opcode::CreateAddrHandle
                    | Opcode::ModifyAddrHandle
                    | Opcode::DestroyAddrHandle => self.mac(mac_of(word(0) >> 16)),
                    Opcode::ManageQuadHash => self.mac(mac_of(word(0))),
                    _ => {}
                }
                for (low, high) in ip_words(opcode) {
                    self.ip([word(*low), word(*high)]);
                }
                self.learn_contexts(opcode, memory);
            }
            Event::CqpReply { header, memory, .. } => {
                self.learn_contexts(opcode_in(header.0), memory);
            }
            _ => {}
        }
    }

    fn learn_contexts(&mut self, opcode: Opcode, memory: &[Attached]) {
        for attached in memory.iter().filter(|_| has_context(opcode)) {
            let words = words_from_hex(&attached.bytes).unwrap_or_default();
            let word = |at: usize| words.get(at).copied().unwrap_or(0);
            for (low, high) in CONTEXT_IPS {
                self.ip([word(low), word(high)]);
            }
        }
    }

    fn replace(&self, event: &mut Event, device: u8) {
        match event {
            Event::Device { name } => *name = format!("device {device}"),
            Event::AdminqCommand(found) | Event::AdminqReply(found) | Event::AdminqEvent(found) => {
                let (code, error) = opcode(found).unwrap_or_default();
                // With an error the firmware has left the buffer as it was.
                if is_foreign(code) || error != 0 {
                    found.buffer = "0".repeat(found.buffer.len());
                }
                self.replace_macs(&mut found.descriptor);
                self.replace_macs(&mut found.buffer);
            }
            Event::CqpCommand { bytes, memory, .. } => {
                let opcode = cqp_opcode(&words_from_hex(bytes).unwrap_or_default());
                self.replace_ips(bytes, ip_words(opcode));
                self.replace_macs(bytes);
                self.replace_memory(opcode, memory);
            }
            Event::CqpReply { header, memory, .. } => {
                self.replace_memory(opcode_in(header.0), memory);
            }
            Event::Wqe { bytes, .. }
            | Event::Cqe { bytes, .. }
            | Event::Memory { bytes, .. }
            | Event::LanPosted { bytes, .. }
            | Event::LanWritten { bytes, .. } => self.replace_macs(bytes),
            Event::ConfigRead { offset, bytes } | Event::ConfigWrite { offset, bytes } => {
                let mut found = from_hex(bytes).unwrap_or_default();
                let first = usize::try_from(offset.0).unwrap_or(CONFIG);
                for (byte, at) in found.iter_mut().zip(first..) {
                    if self
                        .config
                        .iter()
                        .any(|(from, to)| (*from..*to).contains(&at))
                    {
                        *byte = 0;
                    }
                }
                *bytes = hex(&found);
            }
            _ => {}
        }
    }

    fn replace_memory(&self, opcode: Opcode, memory: &mut [Attached]) {
        for attached in memory {
            if has_context(opcode) {
                self.replace_ips(&mut attached.bytes, &CONTEXT_IPS);
            }
            self.replace_macs(&mut attached.bytes);
        }
    }

    fn replace_ips(&self, bytes: &mut String, places: &[(usize, usize)]) {
        let Some(mut words) = words_from_hex(bytes).filter(|_| !places.is_empty()) else {
            return;
        };
        for (low, high) in places {
            let at = |place: usize| words.get(place).copied().unwrap_or(0);
            let Some(other) = self.ips.get(&[at(*low), at(*high)]) else {
                continue;
            };
            for (place, word) in [low, high].into_iter().zip(other) {
                if let Some(to) = words.get_mut(*place) {
                    *to = *word;
                }
            }
        }
        *bytes = words_to_hex(&words);
    }

    /// Replaces addresses wherever they stand, in the order of the wire and in that of a number; and the
    /// last three bytes of one in that of a group of IPv6.
    fn replace_macs(&self, text: &mut String) {
        const GROUP: [u8; 3] = [0x33, 0x33, 0xFF];
        let Some(mut bytes) = from_hex(text) else {
            return;
        };
        for (mac, other) in &self.macs {
            let (mut backwards, mut other_backwards) = (*mac, *other);
            backwards.reverse();
            other_backwards.reverse();
            let ([_, _, _, a, b, c], [_, _, _, x, y, z]) = (*mac, *other);
            let [g, h, i] = GROUP;
            for (one, other) in [
                (*mac, *other),
                (backwards, other_backwards),
                ([g, h, i, a, b, c], [g, h, i, x, y, z]),
            ] {
                let mut at = 0;
                while let Some(rest) = bytes.get_mut(at..) {
                    let Some(found) = rest.windows(6).position(|six| six == one) else {
                        break;
                    };
                    if let Some(six) = rest.get_mut(found..found + 6) {
                        six.copy_from_slice(&other);
                    }
                    at += found + 6;
                }
            }
        }
        *text = hex(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Hex;

    fn descriptor(opcode: u16, error: u16, buffer: &str) -> Descriptor {
        let words = [
            u64::from(error) << 48 | u64::from(opcode) << 16 | 0x3000,
            0,
            0,
            0,
        ];
        Descriptor {
            index: 0,
            descriptor: words_to_hex(&words),
            buffer: buffer.to_owned(),
        }
    }

    /// The events of a trace of these, when it can be shown.
    fn shown(events: Vec<Event>) -> Vec<Event> {
        let record = |(ns, event)| Record {
            ns,
            device: 0,
            event,
        };
        let records = (77..).zip(events).map(record).collect();
        let trace = Trace {
            records,
            unknown: 0,
            is_cut: false,
        };
        let copy = anonymised(&trace);
        assert_eq!(copy.first().unwrap().ns, START);
        copy.into_iter().map(|record| record.event).collect()
    }

    #[test]
    fn ethernet_addresses_are_replaced_everywhere_alike() {
        let own = "3cfdfe010203";
        let read = Event::AdminqReply(descriptor(0x0107, 0, &format!("0000{own}")));
        let rules = |text: &str| Event::AdminqCommand(descriptor(0x02A0, 0, text));
        let wqe = |text: &str| Event::Cqe {
            cq: 3,
            index: 0,
            bytes: text.to_owned(),
        };
        let found = shown(vec![
            read,
            rules("aa3cfdfe010203bb3333ff010203ffffffffffff"),
            wqe("0000030201fefd3c0000"),
        ]);
        assert_eq!(found[1], rules("aa020000000001bb3333ff000001ffffffffffff"));
        assert_eq!(found[2], wqe("00000100000000020000"));
    }

    #[test]
    fn ip_addresses_of_queue_pairs_and_handles_are_replaced_alike() {
        let context = |local: [u64; 2], remote: [u64; 2]| {
            let mut words = [0; 32];
            (words[4], words[5]) = (remote[0], remote[1]);
            (words[23], words[24]) = (local[0], local[1]);
            words_to_hex(&words)
        };
        let (local, remote) = ([0xC0A8_0001, 0], [0x1234, 0x2001_0DB8 << 32]);
        let create = |context: String| Event::CqpCommand {
            index: 0,
            bytes: words_to_hex(&[0, 0, 0x1000, 0, 0, 0, 0, 0]),
            memory: vec![Attached {
                word: 2,
                bytes: context,
            }],
        };
        let handle = |to: [u64; 2], from: [u64; 2]| Event::CqpCommand {
            index: 1,
            bytes: words_to_hex(&[0, 0, 0, 0x1C << 32, to[0], to[1], from[0], from[1]]),
            memory: Vec::new(),
        };
        // What the engine has, as UPLOAD_CONTEXT tells.
        let upload = |context: String| Event::CqpReply {
            index: 2,
            header: Hex(0x13 << 32),
            memory: vec![Attached {
                word: 2,
                bytes: context,
            }],
        };
        let found = shown(vec![
            create(context(local, remote)),
            handle(local, [0, 0]),
            upload(context(local, remote)),
        ]);
        let (first, second) = ([1, 0xFD00 << 48], [0x0A00_0002, 0]);
        assert_eq!(found[0], create(context(second, first)));
        assert_eq!(found[1], handle(second, [0, 0]));
        assert_eq!(found[2], upload(context(second, first)));
    }

    #[test]
    fn serial_numbers_flash_and_chance_become_zeros() {
        // An extended capability with the serial number, and one behind it.
        let config = |bytes: &str| Event::ConfigRead {
            offset: Hex(0x100),
            bytes: bytes.to_owned(),
        };
        let stale = |bytes: &str| Event::Memory {
            at: Hex(0x1000),
            bytes: bytes.to_owned(),
        };
        let found = shown(vec![
            config("030001001122334455667788"),
            Event::AdminqCommand(descriptor(0x0701, 0, "")),
            stale("6b6579"),
            Event::AdminqReply(descriptor(0x0701, 0, "a1b2c3")),
            Event::AdminqReply(descriptor(0x000A, 14, "a1b2c3")),
            Event::AdminqReply(descriptor(0x000A, 0, "a1b2c3")),
            stale("a1b2c3"),
        ]);
        assert_eq!(found[0], config("030001000000000000000000"));
        assert_eq!(found[2], stale("000000"));
        for (at, buffer) in [(3, "000000"), (4, "000000"), (5, "a1b2c3")] {
            assert!(
                matches!(&found[at], Event::AdminqReply(found) if found.buffer == buffer),
                "{at}"
            );
        }
        assert_eq!(found[6], stale("a1b2c3"));
    }
}
