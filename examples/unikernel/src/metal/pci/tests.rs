//! Functions and their configuration spaces, played.

use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Configuration spaces by address, 0xff where there is none; and what was
/// written: offset, value.
#[derive(Default)]
struct Spaces(
    RefCell<BTreeMap<PciAddress, [u32; 64]>>,
    RefCell<Vec<(u16, u32)>>,
);

/// Bits of BARs 0 and 3 that stay 0: 32 MiB and 64 KiB.
const SIZES: [(u16, u32); 2] = [(0x10, 0xfe00_000c), (0x1c, 0xffff_000c)];

impl ConfigRegionAccess for Spaces {
    unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
        let spaces = self.0.borrow();
        let space = spaces.get(&address);
        space.map_or(u32::MAX, |space| space[usize::from(offset) / 4])
    }
    unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
        self.1.borrow_mut().push((offset, value));
        let size = SIZES.iter().find(|(bar, _)| *bar == offset);
        let value = size.map_or(value, |(_, mask)| value & mask | 0xc);
        if let Some(space) = self.0.borrow_mut().get_mut(&address) {
            space[usize::from(offset) / 4] = value;
            if offset == CONTROL && value & RESET != 0 {
                let new = e810();
                // What is read-only stays, the rest is as after power-up.
                (space[1], space[CONTROL as usize / 4]) = (0x0010_0000, 0x2810);
                space[0x70 / 4] = new[0x70 / 4];
                for bar in [4, 5, 7, 8] {
                    space[bar] = new[bar] & 0xf;
                }
            }
        }
    }
}

/// Device control in the space below.
const CONTROL: u16 = 0xa8;

fn e810() -> [u32; 64] {
    let mut space = [0; 64];
    space[0] = 0x1592_8086;
    // Capabilities List; memory and master on.
    space[1] = 0x0010_0006;
    (space[4], space[5]) = (0xc, 0xe0);
    (space[7], space[8]) = (0x0200_000c, 0xe0);
    space[0x34 / 4] = 0x40;
    // Power management, then MSI-X: 64 entries in BAR 3; then PCI Express.
    space[0x40 / 4] = 0x7001;
    space[0x70 / 4] = 0x003f_a011;
    (space[0x74 / 4], space[0x78 / 4]) = (3, 0x8003);
    space[0xa0 / 4] = 0x0002_0010;
    (space[0xa4 / 4], space[0xa8 / 4]) = (0x1000_8002, 0x2850);
    space
}

fn at(bus: u8, device: u8, function: u8) -> PciAddress {
    PciAddress::new(0, bus, device, function)
}

fn spaces(all: &[(PciAddress, [u32; 64])]) -> Spaces {
    Spaces(
        RefCell::new(all.iter().copied().collect()),
        RefCell::default(),
    )
}

#[test]
fn functions_are_found_behind_bridges() {
    let bridge = |secondary: u32| {
        let mut space = [0; 64];
        space[0] = 0x000c_1b36;
        space[3] = 0x0001_0000;
        space[6] = secondary << 8;
        space
    };
    let mut two = e810();
    two[3] = 0x0080_0000;
    let access = spaces(&[
        (at(0, 2, 0), bridge(1)),
        // Leads nowhere but to itself.
        (at(0, 3, 0), bridge(0)),
        (at(0, 4, 0), e810()),
        (at(1, 0, 0), two),
        (at(1, 0, 1), e810()),
        // Not looked at: function 0 is one of one.
        (at(0, 4, 1), e810()),
    ]);
    let mut found = Vec::new();
    find(&access, 0, &mut |address| found.push(address));
    assert_eq!(found, [at(1, 0, 0), at(1, 0, 1), at(0, 4, 0)]);
}

#[test]
fn an_endpoint_says_where_its_registers_are() {
    let access = spaces(&[(at(1, 0, 0), e810())]);
    let mut endpoint = Endpoint::read(&access, at(1, 0, 0)).unwrap();
    let window = |address, bytes| Window { address, bytes };
    assert_eq!(endpoint.registers, window(0xe0_0000_0000, 32 << 20));
    assert_eq!(endpoint.msix, window(0xe0_0200_0000, 64 << 10));
    let layout = MsixLayout {
        entries: 64,
        table: 0,
        pending: 0x8000,
    };
    assert_eq!(endpoint.layout, layout);
    let word = |index: usize| access.0.borrow()[&at(1, 0, 0)][index];
    assert_eq!(word(1) & 0xffff, 0, "nothing answers yet");
    assert_eq!((word(4), word(7)), (0xc, 0x0200_000c), "BARs are put back");
    endpoint.answer(&access);
    assert_eq!(word(1) & 0xffff, 0x402);
    endpoint.enable(&access);
    assert_eq!(word(1) & 0xffff, 0x406);
    assert_eq!(word(0x70 / 4) >> 30, 0b10);
    silence(&access, at(1, 0, 0));
    assert_eq!(word(1) & 0xffff, 0x402);
}

/// A function that was left at work says and does nothing until its user has
/// masked its messages and it was reset.
#[test]
fn a_function_is_reset_before_it_reaches_memory() {
    let mut left = e810();
    // Its messages are on.
    left[0x70 / 4] |= 1 << 31;
    let access = spaces(&[(at(1, 0, 0), left)]);
    let word = |offset: u16| access.0.borrow()[&at(1, 0, 0)][usize::from(offset) / 4];
    let mut endpoint = Endpoint::read(&access, at(1, 0, 0)).unwrap();
    endpoint.answer(&access);
    let quiet = || (word(0x70) >> 30 & 1, word(4) & 4);
    assert_eq!((quiet(), word(4) & 2), ((1, 0), 2), "answers, masked");
    let mut passed = Ns(0);
    access.1.borrow_mut().clear();
    endpoint
        .reset(&access, &mut |time| passed = passed + time)
        .unwrap();
    assert!(passed >= RESET_TIME);
    let wrote = access.1.borrow().clone();
    assert_eq!(
        wrote[0],
        (CONTROL, 0x2850 | RESET),
        "what firmware chose stays"
    );
    assert_eq!((word(0x10), word(0x14)), (0xc, 0xe0), "BARs are put back");
    assert_eq!((word(0x1c), word(0x20)), (0x0200_000c, 0xe0));
    assert_eq!((word(CONTROL), word(4) & 0xffff), (0x2850, 0x402));
    assert_eq!(quiet(), (1, 0), "still");
    endpoint.enable(&access);
    assert_eq!(quiet(), (0, 4));
    let wrote = access.1.borrow().clone();
    let master = wrote
        .iter()
        .position(|(at, value)| *at == 4 && value & 4 != 0);
    let reset = wrote
        .iter()
        .position(|write| *write == (CONTROL, 0x2850 | RESET));
    assert!(reset < master, "{wrote:x?}");
}

#[test]
fn a_function_that_does_not_come_back_is_given_up() {
    /// Gone with its reset.
    struct Gone(Spaces);
    impl ConfigRegionAccess for Gone {
        unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
            // SAFETY: the caller's promise; there is no device behind it.
            unsafe { self.0.read(address, offset) }
        }
        unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
            // SAFETY: as above.
            unsafe { self.0.write(address, offset, value) }
            if offset == CONTROL && value & RESET != 0 {
                self.0.0.borrow_mut().clear();
            }
        }
    }
    let access = Gone(spaces(&[(at(1, 0, 0), e810())]));
    let mut endpoint = Endpoint::read(&access, at(1, 0, 0)).unwrap();
    let mut turns = 0;
    let error = endpoint.reset(&access, &mut |_| turns += 1).unwrap_err();
    assert_eq!(error.what, "it did not answer after its reset");
    assert_eq!(turns, RESET_TURNS + 1);
}

#[test]
fn what_cannot_be_driven_is_named() {
    let what = |change: fn(&mut [u32; 64])| {
        let mut space = e810();
        change(&mut space);
        let access = spaces(&[(at(0, 0, 0), space)]);
        Endpoint::read(&access, at(0, 0, 0)).unwrap_err().what
    };
    assert_eq!(what(|space| space[0x34 / 4] = 0), "it has no MSI-X");
    // A list that goes round.
    assert_eq!(what(|space| space[0x40 / 4] = 0x4001), "it has no MSI-X");
    assert!(
        what(|space| space[4] = 0xe).contains("64-bit"),
        "a reserved kind"
    );
    assert!(what(|space| space[5] = 0).contains("2 TiB"), "not assigned");
    assert!(what(|space| space[8] = 0x200).contains("2 TiB"));
    assert!(what(|space| space[0x78 / 4] = 0x8000).contains("two BARs"));
    assert!(what(|space| space[0x74 / 4] = 7).contains("two BARs"));
    assert_eq!(what(|space| space[3] = 0x0001_0000), "it is no endpoint");
    let alone = "it cannot be reset alone";
    assert_eq!(what(|space| space[0xa4 / 4] = 0x8002), alone);
    let express = "it has no PCI Express capability";
    assert_eq!(what(|space| space[0x70 / 4] = 0x003f_0011), express);
}
