//! Commands that violate their formats.

use super::client::{Client, params};
use crate::findings::kind;
use crate::fw::descriptor::{Command, Descriptor, LEN};
use crate::fw::format::oddities;
use crate::fw::layout::{put, put_u16};

const RD: u16 = 1 << 10;
const BUF: u16 = 1 << 12;
const LB: u16 = 1 << 9;
const SI: u16 = 1 << 13;

/// The format errors of a command with these flags, parameters and buffer.
fn odd(flags: u16, opcode: u16, params: [u8; 16], data: &[u8]) -> Vec<String> {
    let mut bytes = [0; LEN];
    put_u16(&mut bytes, 0, flags);
    put_u16(&mut bytes, 2, opcode);
    put_u16(&mut bytes, 4, data.len() as u16);
    put(&mut bytes, 16, &params);
    let reads = flags & RD != 0;
    let command = Command {
        opcode,
        params,
        room: data.len(),
        data: if reads { data.to_vec() } else { Vec::new() },
        reads,
    };
    oddities(&Descriptor(bytes), &command)
}

#[test]
fn flags_fit_the_buffer() {
    // SI is allowed and not required.
    assert_eq!(odd(SI, 0x0001, [0; 16], &[]), [""; 0]);
    assert_eq!(odd(0, 0x0001, [0; 16], &[]), [""; 0]);
    for flag in [0, 1, 2, 3, 4, 5, 6, 7, 8, 11] {
        assert_eq!(odd(1 << flag, 0x7777, [0; 16], &[]).len(), 1, "{flag}");
    }
    assert_eq!(odd(BUF, 0x7777, [0; 16], &[]).len(), 1);
    assert_eq!(odd(RD, 0x7777, [0; 16], &[]).len(), 1);
    assert_eq!(odd(0, 0x7777, [0; 16], &[0; 4]).len(), 1);
    assert_eq!(odd(BUF | LB, 0x7777, [0; 16], &[0; 512]).len(), 1);
    assert_eq!(odd(BUF | LB, 0x7777, [0; 16], &[0; 513]), [""; 0]);
    assert_eq!(odd(BUF, 0x7777, [0; 16], &[0; 513]), [""; 0]);
}

#[test]
fn a_return_value_is_the_firmwares() {
    let command = Command {
        opcode: 0x0001,
        params: [0; 16],
        room: 0,
        data: Vec::new(),
        reads: false,
    };
    let mut bytes = [0; LEN];
    // Cookies belong to the driver: iPXE counts in them.
    bytes[8..16].fill(0xa5);
    assert_eq!(oddities(&Descriptor(bytes), &command), [""; 0]);
    bytes[6] = 1;
    assert_eq!(oddities(&Descriptor(bytes), &command).len(), 1);
}

#[test]
fn rd_is_set_when_the_buffer_brings_data() {
    // No buffer, one for the reply, one with data, one with optional data.
    for (opcode, right) in [
        (0x0001, &[0][..]),
        (0x000a, &[BUF]),
        (0x0409, &[BUF | RD]),
        (0x0c31, &[0, BUF | RD]),
    ] {
        for flags in [0, BUF, BUF | RD] {
            let data: &[u8] = if flags == 0 { &[] } else { &[0; 8] };
            let is_right = odd(flags, opcode, [0; 16], data).is_empty();
            assert_eq!(is_right, right.contains(&flags), "{opcode:#06x} {flags:#x}");
        }
    }
}

#[test]
fn parameters_that_nothing_names_are_zero() {
    let with = |at: usize, byte: u8| params(&[(at, &[byte])]);
    // Unloading, and a bit beside it; link enable, and a bit above it.
    assert_eq!(odd(0, 0x0003, with(0, 1), &[]), [""; 0]);
    assert_eq!(odd(0, 0x0003, with(0, 2), &[]).len(), 1);
    assert_eq!(odd(0, 0x0605, with(2, 6), &[]), [""; 0]);
    assert_eq!(odd(0, 0x0605, with(2, 8), &[]).len(), 1);
    assert_eq!(odd(0, 0x0603, with(8, 0xff), &[]), [""; 0]);
    assert_eq!(odd(0, 0x0603, with(9, 1), &[]).len(), 1);
    // The buffer's address is not a parameter, and no parameters follow it.
    assert_eq!(odd(BUF, 0x0412, with(12, 1), &[0; 8]), [""; 0]);
    assert_eq!(odd(BUF, 0x0412, with(7, 1), &[0; 8]).len(), 1);
}

#[test]
fn bytes_of_a_buffer_that_nothing_names_are_zero() {
    /// Opcode; offset and value of the number of groups or elements; bytes of the buffer; offset
    /// and value of the number of entries, or of another byte that is allowed; offsets of the bytes
    /// that nothing names.
    type Row = (u16, (usize, u8), usize, (usize, u8), Vec<usize>);
    let rows: [Row; 7] = [
        (0x0401, (0, 1), 32, (4, 1), vec![6, 7, 30, 31]),
        (0x040f, (0, 1), 12, (4, 1), vec![6, 7]),
        (0x0404, (0, 1), 24, (4, 9), (0..4).chain(8..24).collect()),
        (
            0x0c30,
            (0, 1),
            56,
            (4, 1),
            // Not the TEID at 12, although it is the reply's.
            vec![5, 6, 7, 10, 11, 38, 39, 54, 55],
        ),
        (0x0c31, (1, 1), 8, (4, 1), vec![5]),
        (
            0x0c33,
            (0, 1),
            32,
            (4, 1),
            vec![6, 7, 10, 11, 12, 13, 14, 15, 30, 31],
        ),
        (
            0x020c,
            (0, 0),
            100,
            (1, 2),
            (0..100).filter(|at| ![1, 66, 69].contains(at)).collect(),
        ),
    ];
    for (opcode, (param, groups), len, (at, number), zero) in rows {
        let command = params(&[(param, &[groups])]);
        for place in 0..len {
            let mut data = vec![0; len];
            data[at] = number;
            data[place] |= 1;
            let found = odd(BUF | RD, opcode, command, &data);
            let expected = usize::from(zero.contains(&place));
            assert_eq!(found.len(), expected, "{opcode:#06x}, byte {place}");
        }
    }
}

#[test]
fn a_second_group_and_a_second_queue_are_looked_at() {
    let mut data = [0; 24];
    // Two groups of two queues each, padded to multiples of four.
    (data[4], data[16]) = (2, 2);
    let command = params(&[(1, &[2])]);
    assert_eq!(odd(BUF | RD, 0x0c31, command, &data), [""; 0]);
    for place in [10, 11, 17, 22, 23] {
        let mut data = data;
        data[place] = 1;
        let found = odd(BUF | RD, 0x0c31, command, &data);
        assert_eq!(found.len(), 1, "byte {place}");
    }
    let mut rows = [0; 40];
    rows[4] = 8;
    rows[39] = 0xff;
    let one = params(&[(0, &[1])]);
    assert_eq!(odd(BUF | RD, 0x040f, one, &rows), [""; 0]);
}

#[test]
fn properties_of_a_vsi_have_their_bits() {
    let bytes = |at: usize, bits: u8| {
        let mut props = [0; 128];
        props[at] = bits;
        odd(BUF | RD, 0x0211, [0; 16], &props).len()
    };
    for reserved in [
        7, 10, 11, 13, 14, 15, 19, 23, 27, 29, 81, 82, 83, 87, 88, 89,
    ] {
        assert_eq!(bytes(reserved, 1), 1, "byte {reserved}");
    }
    for reserved in 104..128 {
        assert_eq!(bytes(reserved, 1), 1, "byte {reserved}");
    }
    for (at, bits) in [
        (0, 0xff),
        (1, 0x19),
        (2, 0xff),
        (3, 0xe0),
        (4, 0x1f),
        (6, 0xf5),
        (12, 0x1f),
        (18, 0xff),
        (26, 0xff),
        (28, 0x01),
        (61, 0xff),
        (63, 0x7f),
        (77, 0x7f),
        (79, 0x9f),
        (80, 0x01),
        (99, 0xff),
        (103, 0x80),
    ] {
        assert_eq!(bytes(at, bits), 0, "byte {at}");
        assert_eq!(bytes(at, !bits), usize::from(bits != 0xff), "byte {at}");
    }
}

/// What Linux' ice, DPDK's net_ice and iPXE wrote (`tests/vectors/lan_queues.json`).
#[test]
fn queues_of_other_drivers_are_as_the_format_says() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/vectors/lan_queues.json"
    );
    let file = std::fs::read_to_string(file).unwrap();
    let mut count = 0;
    for line in file.lines() {
        let Some((_, rest)) = line.split_once("\"group_hex\":\"") else {
            continue;
        };
        let hex = rest.split('"').next().unwrap();
        let data: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let one = params(&[(0, &[1])]);
        assert_eq!(odd(BUF | RD, 0x0c30, one, &data), [""; 0], "{line}");
        count += 1;
    }
    assert_eq!(count, 9);
}

#[test]
fn an_odd_command_is_a_finding_and_is_carried_out() {
    let mut client = Client::new();
    let rest = params(&[(4, &[1])]);
    client.ask(0x0412, rest, 320).ok();
    let found = client.sim.take_findings();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, kind::ADMINQ_BITS.name);
    assert_eq!(
        found[0].text,
        "command 0x0412: 0x01 at byte 4 of its parameters"
    );
}
