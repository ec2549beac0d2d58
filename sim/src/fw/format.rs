//! Formats of AdminQ commands: what a descriptor, its parameters and its buffer may have set
//! (control-path 9.1, 9.4 to 9.10; lan-path 3, 7.4, 8, 9, 18).
//!
//! Bits that no row names must be zero. A command without a row is checked against the descriptor's
//! rules only.

use super::descriptor::{Command, Descriptor, LARGE, flag};
use super::layout::{part, put, u8_at, u16_at};

/// Use of a command's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Buffer {
    None,
    /// For the reply: BUF without RD.
    Reply,
    /// The command brings data: BUF and RD.
    Data,
    /// The command may bring data.
    DataOrNone,
}

/// A command's row: its opcode, its buffer, and the bits of its parameters. Of a command with a
/// buffer only the first eight bytes are parameters.
struct Format(u16, Buffer, [u64; 2]);

/// A VSI's number and its valid bit.
const VSI: u64 = 0x83ff;

#[rustfmt::skip]
const FORMATS: [Format; 48] = [
    Format(0x0001, Buffer::None, [0, 0]),
    Format(0x0002, Buffer::Data, [0xffff_ffff, 0]),
    Format(0x0003, Buffer::None, [1, 0]),
    Format(0x0008, Buffer::None, [u64::MAX, 0xffff_ffff_ffff]),
    Format(0x0009, Buffer::None, [0xffff, 0xffff_ffff]),
    Format(0x000a, Buffer::Reply, [0xffff_ffff_0000_0000, 0]),
    Format(0x000b, Buffer::Reply, [0xffff_ffff_0000_0000, 0]),
    Format(0x0107, Buffer::Reply, [0xffff, 0]),
    Format(0x0108, Buffer::None, [0xffff_ffff_ffff_ff00, 0]),
    Format(0x0110, Buffer::None, [0xff, 0]),
    Format(0x0200, Buffer::Reply, [0xffff_ffff_ffff, 0]),
    Format(0x0203, Buffer::None, [0xff_ffff_ffff_ffff, 0]),
    Format(0x0208, Buffer::Data, [0xffff, 0]),
    Format(0x0209, Buffer::Data, [0xffff, 0]),
    Format(0x020a, Buffer::Reply, [0xffff_ffff, 0]),
    Format(0x020b, Buffer::Data, [0xffff, 0]),
    Format(0x020c, Buffer::Data, [0, 0]),
    Format(0x020d, Buffer::Reply, [0, 0]),
    Format(0x0210, Buffer::Data, [3 << 48 | 0xff << 32 | 1 << 16 | VSI, 0]),
    Format(0x0211, Buffer::Data, [3 << 48 | 0xff << 32 | 1 << 16 | VSI, 0]),
    Format(0x0213, Buffer::None, [3 << 48 | 0xff << 32 | 1 << 16 | VSI, 0]),
    Format(0x02a0, Buffer::Data, [0xffff, 0]),
    Format(0x02a1, Buffer::Data, [0xffff, 0]),
    Format(0x02a2, Buffer::Data, [0xffff, 0]),
    Format(0x02a4, Buffer::None, [0, 0]),
    Format(0x0400, Buffer::Reply, [0xff, 0]),
    Format(0x0401, Buffer::Data, [0xffff, 0]),
    Format(0x0404, Buffer::Data, [0xffff, 0]),
    Format(0x0409, Buffer::Data, [0xffff, 0]),
    Format(0x040a, Buffer::Data, [0xffff, 0]),
    Format(0x040f, Buffer::Data, [0xffff, 0]),
    Format(0x0412, Buffer::Reply, [0, 0]),
    Format(0x0600, Buffer::Reply, [0x000f_00ff, 0]),
    Format(0x0601, Buffer::Data, [0xff, 0]),
    Format(0x0603, Buffer::None, [u64::MAX, 0xff]),
    Format(0x0605, Buffer::None, [6 << 16 | 0xff, 0]),
    Format(0x0607, Buffer::Reply, [3 << 16 | 0xff, 0]),
    Format(0x0613, Buffer::None, [0xff, 0xffff]),
    Format(0x0620, Buffer::None, [1, 0]),
    Format(0x0b02, Buffer::Data, [VSI, 0]),
    Format(0x0b03, Buffer::Data, [0xff << 16 | VSI, 0]),
    Format(0x0b04, Buffer::Reply, [VSI, 0]),
    Format(0x0b05, Buffer::Reply, [0xff << 16 | VSI, 0]),
    Format(0x0c30, Buffer::Data, [0xff, 0]),
    Format(0x0c31, Buffer::DataOrNone, [0xffff_ffff_ffff_ff0f, 0]),
    Format(0x0c33, Buffer::Data, [0xff, 0]),
    Format(0x0c40, Buffer::Data, [1, 0]),
    Format(0x0c43, Buffer::Reply, [0, 0]),
];

/// Flags that a command's descriptor may have: LB, RD, BUF, SI, EI and FE. The other flags are the
/// firmware's.
const COMMAND_FLAGS: u16 = flag::LB | flag::RD | flag::BUF | 1 << 13 | 1 << 14 | 1 << 15;

/// Bits of the properties of a VSI, by first byte (control-path 9.6, lan-path 7.1).
const PROPERTIES: [(usize, &[u8]); 12] = [
    (0, &[0xff, 0x19]),
    // Switch: id, flags, flags2, VEB statistics; security.
    (2, &[0xff, 0xe0, 0x1f, 0xff, 0xf5]),
    // VLAN: id, flags; tables of priorities; outer VLAN.
    (8, &[0xff, 0xff, 0, 0, 0x1f]),
    (16, &[0xff, 0xff, 0xff, 0]),
    (20, &[0xff, 0xff, 0xff, 0]),
    (24, &[0xff, 0xff, 0xff]),
    // Queues: mapping mode, queues; options.
    (28, &[0x01]),
    (30, &[0xff; 32]),
    (78, &[0xff, 0x9f, 0x01]),
    (84, &[0xff, 0xff, 0xff]),
    // Flow director, PASID.
    (90, &[0xff; 10]),
    (100, &[0xff, 0xff, 0x0f, 0x80]),
];
/// Bytes of the properties, and offset of the traffic class map.
const PROPERTIES_LEN: usize = 128;
const CLASSES: std::ops::Range<usize> = 62..78;

/// Data of a node that the scheduler keeps: type, valid sections, generic section, flags, CIR, EIR
/// and shared limit.
const NODE: [u8; 16] = [
    0xff, 0x0f, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
];
/// TEID of the node in an element, in front of the data that is kept.
const TEID: [u8; 4] = [0xff; 4];

/// The bits of the properties of a VSI.
fn properties() -> Vec<u8> {
    let mut mask = vec![0; PROPERTIES_LEN];
    for (at, bits) in PROPERTIES {
        put(&mut mask, at, bits);
    }
    for at in CLASSES.step_by(2) {
        put(&mut mask, at, &[0xff, 0x7f]);
    }
    mask
}

/// Groups of a parent, their entry counts in `width` bytes, and the entries.
fn groups(data: &[u8], count: u16, width: usize, entry: &[u8]) -> Vec<u8> {
    let mut mask = Vec::new();
    for _ in 0..count {
        let number = part(data, mask.len() + 4, width);
        let entries = u16_at(&[number, &[0]].concat(), 0);
        let mut header = [0xff; 8];
        put(&mut header, 4 + width, &[0; 4]);
        mask.extend(header);
        mask.extend(entry.repeat(entries.into()));
        if mask.len() >= data.len() {
            break;
        }
    }
    mask
}

/// The bits that a command's buffer may have, from its first byte on. Bytes behind these are not
/// checked.
fn buffer_bits(command: &Command) -> Vec<u8> {
    let data = &command.data;
    match command.opcode {
        // Tagging, packet flags of RDMA, protocol of the management.
        0x020c => {
            let mut mask = vec![0; 100];
            for at in [1, 66, 69] {
                put(&mut mask, at, &[0xff]);
            }
            mask
        }
        0x0210 | 0x0211 => properties(),
        0x0401 => {
            let element = [&TEID, &TEID, &NODE[..]].concat();
            groups(data, command.param16(0), 2, &element)
        }
        // A query that selects elements.
        0x0404 => {
            let element = [&[0; 4], &TEID, &[0; 16][..]].concat();
            element.repeat(command.param16(0).into())
        }
        0x040f => groups(data, command.param16(0), 2, &TEID),
        0x0c30 => {
            // The context has 171 bits.
            let mut context = [0xff; 24];
            put(&mut context, 21, &[0x07, 0, 0]);
            // The TEID is the reply's, but Linux' ice sends one buffer for all queues of a VSI, with the
            // TEID of the previous one in it.
            let queue = [&[0xff, 0xff, 0, 0], &TEID, &context[..], &NODE].concat();
            groups(data, command.param8(0).into(), 1, &queue)
        }
        0x0c31 => {
            let mut mask = Vec::new();
            for _ in 0..command.param8(1) {
                let queues = u8_at(data, mask.len() + 4);
                mask.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0]);
                mask.extend([0xff; 2].repeat(queues.into()));
                mask.resize(mask.len().next_multiple_of(4), 0);
                if mask.len() >= data.len() {
                    break;
                }
            }
            mask
        }
        0x0c33 => {
            let set = [&[0xff, 0xff, 0, 0, 0, 0, 0, 0], &NODE[..]].concat();
            groups(data, command.param8(0).into(), 2, &set)
        }
        _ => Vec::new(),
    }
}

/// The parts of a command that differ from its format.
pub(super) fn oddities(descriptor: &Descriptor, command: &Command) -> Vec<String> {
    let mut all = Vec::new();
    let (flags, len) = (descriptor.flags(), descriptor.datalen());
    let has = |bits: u16| flags & bits != 0;
    if flags & !COMMAND_FLAGS != 0 || descriptor.retval() != 0 {
        all.push(format!(
            "flags {flags:#06x} and return value {:#x} of a command",
            descriptor.retval()
        ));
    }
    // A large buffer without LB is accepted: iPXE sends such (field-evidence 8).
    if has(flag::BUF) != (len > 0)
        || !has(flag::BUF) && has(flag::RD)
        || has(flag::LB) && len <= LARGE
    {
        all.push(format!("flags {flags:#06x} with a buffer of {len} bytes"));
    }
    let Some(Format(_, buffer, bits)) = FORMATS
        .iter()
        .find(|Format(opcode, ..)| *opcode == command.opcode)
    else {
        return all;
    };
    let is_right = match buffer {
        Buffer::None => !has(flag::BUF),
        Buffer::Reply => has(flag::BUF) && !has(flag::RD),
        Buffer::Data => has(flag::BUF) && has(flag::RD),
        Buffer::DataOrNone => has(flag::BUF) == has(flag::RD),
    };
    if !is_right {
        all.push(format!("flags {flags:#06x}, its buffer: {buffer:?}"));
    }
    let mut params = command.params;
    if has(flag::BUF) {
        put(&mut params, 8, &[0; 8]);
    }
    let allowed = bits.map(u64::to_le_bytes);
    all.extend(outside("parameters", &params, allowed.as_flattened()));
    all.extend(outside("buffer", &command.data, &buffer_bits(command)));
    all
}

/// The first byte with bits outside its mask.
fn outside(what: &str, bytes: &[u8], mask: &[u8]) -> Option<String> {
    let mut bytes = bytes.iter().zip(mask).enumerate();
    let (at, (byte, _)) = bytes.find(|(_, (byte, mask))| *byte & !*mask != 0)?;
    Some(format!("{byte:#04x} at byte {at} of its {what}"))
}
