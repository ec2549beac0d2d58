use super::*;

fn place() -> Place {
    Place {
        card: [2, 0xe8, 0x10, 0, 0, 7],
        function: 0,
        functions: 2,
        vectors: 64,
    }
}

fn space() -> ConfigSpace {
    ConfigSpace::new(&place())
}

fn word(space: &ConfigSpace, at: u64) -> u32 {
    let mut bytes = [0; 4];
    space.read(at, &mut bytes);
    u32::from_le_bytes(bytes)
}

/// The offsets in the dumps (field-evidence 1).
#[test]
fn the_capabilities_are_where_they_are_on_a_card() {
    let space = space();
    assert_eq!(word(&space, 0), 0x1592_8086);
    assert_eq!(word(&space, 8), 0x0200_0002);
    let mut at = word(&space, 0x34) & 0xff;
    let mut found = Vec::new();
    while at != 0 {
        let head = word(&space, at.into());
        found.push((head & 0xff, at));
        at = head >> 8 & 0xff;
    }
    assert_eq!(
        found,
        [(1, 0x40), (5, 0x50), (0x11, 0x70), (0x10, 0xa0), (3, 0xe0)]
    );
    let mut at = 0x100;
    let mut extended = Vec::new();
    while at != 0 {
        let head = word(&space, at);
        extended.push((head & 0xffff, at));
        at = u64::from(head >> 20);
    }
    assert_eq!(
        extended,
        [
            (1, 0x100),
            (0xe, 0x148),
            (3, 0x150),
            (0x17, 0x1a0),
            (0xd, 0x1b0),
            (0x19, 0x1d0),
            (0x25, 0x200),
            (0x26, 0x210),
            (0x27, 0x250)
        ]
    );
    assert_eq!(word(&space, 0xffe) >> 16, 0xffff, "past the end");
}

#[test]
fn what_they_hold_is_what_cards_show() {
    let space = space();
    // MSI: one vector, 64-bit, maskable.
    assert_eq!(word(&space, 0x50) >> 16, 0x180);
    assert_eq!(word(&space, 0x70) >> 16, 63);
    assert_eq!((word(&space, 0x74), word(&space, 0x78)), (3, 0x8003));
    let device = word(&space, 0xa4);
    assert_eq!((device & 7, device >> 5 & 1, device >> 28 & 1), (2, 1, 1));
    let control = word(&space, 0xa8);
    assert_eq!(control & 1 << 11, 0, "no snoop is off");
    assert_eq!(word(&space, 0xac) & 0x3ff, 0x104, "16 GT/s, 16 lanes");
    assert_eq!(word(&space, 0xc4) & 0x1f, 0x13, "time-out ranges A and B");
    assert_eq!(word(&space, 0x3c) >> 8, 1, "interrupt pin A");
    assert_eq!(
        (word(&space, 0x158), word(&space, 0x154)),
        (0x02e8_10ff, 0xff00_0007)
    );
    assert_eq!(word(&space, 0x1b4), 0, "ACS can do nothing");
}

#[test]
fn functions_of_a_card_differ_in_the_next_one_only() {
    let next = |function, functions| {
        let space = ConfigSpace::new(&Place {
            function,
            functions,
            ..place()
        });
        let multifunction = word(&space, 0xc) >> 23 & 1;
        let serial = (word(&space, 0x154), word(&space, 0x158));
        assert_eq!(serial, (0xff00_0007, 0x02e8_10ff));
        (multifunction, word(&space, 0x14c) >> 8 & 0xff)
    };
    assert_eq!(next(0, 2), (1, 1));
    assert_eq!(next(1, 2), (1, 0));
    assert_eq!(next(0, 1), (0, 0));
}

#[test]
fn vectors_are_as_many_as_cards_have() {
    for vectors in [1, 512, 1024, 2048] {
        let space = ConfigSpace::new(&Place { vectors, ..place() });
        assert_eq!(word(&space, 0x70) >> 16, u32::from(vectors) - 1);
    }
}

#[test]
fn bars_are_sized_by_writing_ones() {
    let mut space = space();
    for (bar, low, high) in [
        (0x10, 0xfe00_000c_u32, u32::MAX),
        (0x18, 0, 0),
        (0x1c, 0xffff_000c, u32::MAX),
        (0x24, 0, 0),
    ] {
        space.write(bar, &[0xff; 4]);
        assert_eq!(word(&space, bar), low, "{bar:#x}");
        if low != 0 {
            space.write(bar + 4, &[0xff; 4]);
            assert_eq!(word(&space, bar + 4), high, "{bar:#x}");
        }
    }
    space.write(0x30, &(!0x7ff_u32).to_le_bytes());
    assert_eq!(word(&space, 0x30), 0xfff0_0000, "1 MiB of ROM");
    space.write(0x10, &0x8123_4567_u32.to_le_bytes());
    assert_eq!(word(&space, 0x10), 0x8000_000c);
}

#[test]
fn only_what_is_writable_changes() {
    let mut space = space();
    let before = space.bytes.clone();
    for at in (0..LEN as u64).filter(|at| *at != 0xa9) {
        assert_eq!(space.write(at, &[0xff]), Effect::None);
    }
    let changed = |at: usize| space.bytes[at] ^ before[at];
    assert_eq!((changed(4), changed(5)), (0x46, 0x05));
    for fixed in [
        0, 2, 6, 9, 0xe, 0x34, 0x3d, 0x50, 0x70, 0x74, 0x100, 0x150, 0x154, 0x800,
    ] {
        assert_eq!(changed(fixed), 0, "{fixed:#x}");
    }
    assert_eq!(changed(0x73), 0xc0);
    assert_eq!(changed(0x52), 1, "MSI enable");
    space.write(LEN as u64, &[1]);
    space.write(u64::MAX, &[1]);
    space.power_up();
    assert_eq!(space.bytes, before);
}

/// Sticky bits and those of the link survive a function-level reset (PCI Express 6.6.2); the rest
/// is as after power-up.
#[test]
fn a_function_level_reset_leaves_what_it_has_to() {
    let mut space = space();
    let before = space.bytes.clone();
    space.write(0x04, &[6, 4]);
    space.write(0x10, &[0, 0, 0, 0x80]);
    space.write(0x52, &[1]);
    space.write(0x72, &[0, 0xc0]);
    // Payload of 256 bytes and reads of 4096.
    space.write(0xa8, &0x5030_u16.to_le_bytes());
    space.write(0xb0, &[0x40]);
    space.write(0xc8, &[0x12]);
    space.write(0x108, &0x10_0000_u32.to_le_bytes());
    space.write(0x118, &0x140_u32.to_le_bytes());
    space.reset();
    assert_eq!(
        word(&space, 0xa8) & 0xffff,
        0x2030,
        "Max_Payload_Size stays"
    );
    assert_eq!(word(&space, 0xb0) & 0xffff, 0x40, "LnkCtl stays");
    assert_eq!(word(&space, 0x108), 0x10_0000, "AER masks stay");
    assert_eq!(word(&space, 0x118), 0x1e0, "ECRC stays on");
    for at in [0x04, 0x10, 0x50, 0x70, 0xc8] {
        let old = u32::from_le_bytes(before[at..at + 4].try_into().unwrap());
        assert_eq!(word(&space, at as u64), old, "{at:#x}");
    }
}

#[test]
fn the_reset_bit_acts_and_reads_as_zero() {
    let mut space = space();
    assert_eq!(space.write(0xa8, &[0x10, 0x28]), Effect::None);
    for (at, bytes) in [
        (0xa8, &[0x10, 0xa8][..]),
        (0xa9, &[0x80]),
        (0xa8, &[0, 0x80, 0, 0]),
    ] {
        assert_eq!(space.write(at, bytes), Effect::Reset);
        assert_eq!(word(&space, 0xa8) & 0x8000, 0);
    }
}

#[test]
fn product_data_is_read_four_bytes_at_a_time() {
    let mut space = space();
    let mut data = Vec::new();
    for address in (0_u16..24).step_by(4) {
        space.write(0xe2, &address.to_le_bytes());
        assert_eq!(word(&space, 0xe0) >> 16, u32::from(address) | 1 << 15);
        data.extend(word(&space, 0xe4).to_le_bytes());
    }
    assert_eq!(data[..3], [0x82, 16, 0]);
    assert_eq!(&data[3..19], b"simulated E810-C");
    assert_eq!(data[19], 0x78);
    // A write completes, and changes nothing.
    space.write(0xe4, &[0xff; 4]);
    space.write(0xe2, &0x8000_u16.to_le_bytes());
    assert_eq!(word(&space, 0xe0) >> 16, 0);
    space.write(0xe2, &[0, 0]);
    assert_eq!(word(&space, 0xe4) & 0xff, 0x82);
}
