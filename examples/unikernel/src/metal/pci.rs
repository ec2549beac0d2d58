//! Functions of the E810 on the PCI bus: found, and made ready to be driven.
//!
//! Bridges and BARs are as the firmware has set them up.

use e810_hal::{MsixLayout, pci_ids};
use pci_types::capability::{MsixCapability, PciCapability};
use pci_types::{
    Bar, CommandRegister, ConfigRegionAccess, EndpointHeader, HeaderType, PciAddress, PciHeader,
    PciPciBridgeHeader,
};

use crate::boot::{MAPPED_END, MEMORY_END};
use crate::ports;

/// Capabilities looked at: more do not fit configuration space.
const MOST_CAPABILITIES: usize = 48;

/// Why a function cannot be driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{address}: {what}")]
pub struct PciError {
    /// The function.
    pub address: PciAddress,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Configuration space through ports 0xcf8 and 0xcfc.
#[derive(Clone, Copy, Debug)]
pub struct Ports(());

impl Ports {
    /// Takes charge of the two ports.
    ///
    /// # Safety
    /// Called once: an access takes two steps, between which no other may come.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }

    fn select(address: PciAddress, offset: u16) {
        let target = 1 << 31
            | u32::from(address.bus()) << 16
            | u32::from(address.device()) << 11
            | u32::from(address.function()) << 8
            | u32::from(offset & 0xfc);
        // SAFETY: these ports are ours (`new`); selecting changes nothing.
        unsafe { ports::write32(0xcf8, target) };
    }
}

impl ConfigRegionAccess for Ports {
    unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
        Self::select(address, offset);
        // SAFETY: as above; reading configuration space is harmless.
        unsafe { ports::read32(0xcfc) }
    }
    unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
        Self::select(address, offset);
        // SAFETY: as above; what the value does is the caller's promise.
        unsafe { ports::write32(0xcfc, value) };
    }
}

/// Calls `found` with each E810 on bus `bus` and behind its bridges.
pub fn find(access: &impl ConfigRegionAccess, bus: u8, found: &mut dyn FnMut(PciAddress)) {
    for device in 0..32 {
        for function in 0..8 {
            let address = PciAddress::new(0, bus, device, function);
            let header = PciHeader::new(address);
            let (vendor, id) = header.id(access);
            let there = vendor != 0xffff;
            if there && pci_ids::name(vendor, id).is_some() {
                found(address);
            }
            if there && header.header_type(access) == HeaderType::PciPciBridge {
                let bridge = PciPciBridgeHeader::from_header(PciHeader::new(address), access);
                let behind = bridge.map(|bridge| bridge.secondary_bus_number(access));
                // Numbers grow on the way down, so this ends.
                if let Some(behind) = behind.filter(|behind| *behind > bus) {
                    find(access, behind, found);
                }
            }
            if function == 0 && !(there && header.has_multiple_functions(access)) {
                break;
            }
        }
    }
}

/// Keeps a function from making requests of its own: neither DMA nor interrupts.
pub fn silence(access: &impl ConfigRegionAccess, address: PciAddress) {
    PciHeader::new(address).update_command(access, |command| {
        command - CommandRegister::BUS_MASTER_ENABLE
    });
}

/// Registers of a function: a physical address, which is also where they are
/// mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What the configuration space of a function says.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    address: PciAddress,
    capability: MsixCapability,
    /// BAR0.
    pub registers: Window,
    /// The BAR with the MSI-X table.
    pub msix: Window,
    /// Where the table is in it.
    pub layout: MsixLayout,
}

impl Endpoint {
    /// Reads what is needed to drive the function at `address`. Its BARs do not
    /// answer meanwhile, nor after it.
    ///
    /// # Errors
    /// No endpoint, no MSI-X, or BARs that are not where the program has
    /// registers mapped.
    pub fn read(access: &impl ConfigRegionAccess, address: PciAddress) -> Result<Self, PciError> {
        let wrong = |what| PciError { address, what };
        let mut endpoint = EndpointHeader::from_header(PciHeader::new(address), access)
            .ok_or(wrong("it is no endpoint"))?;
        endpoint.update_command(access, |command| {
            command - (CommandRegister::MEMORY_ENABLE | CommandRegister::BUS_MASTER_ENABLE)
        });
        let capability = endpoint
            .capabilities(access)
            .take(MOST_CAPABILITIES)
            .find_map(|capability| match capability {
                PciCapability::MsiX(msix) => Some(msix),
                _ => None,
            })
            .ok_or(wrong("it has no MSI-X"))?;
        if capability.pba_bar() != capability.table_bar() {
            return Err(wrong("MSI-X table and pending bits are in two BARs"));
        }
        Ok(Self {
            address,
            capability,
            registers: window(access, &endpoint, 0)?,
            msix: window(access, &endpoint, capability.table_bar())?,
            layout: MsixLayout {
                entries: capability.table_size(),
                table: capability.table_offset(),
                pending: capability.pba_offset(),
            },
        })
    }

    /// Lets the function answer, reach memory and send messages; legacy
    /// interrupts off. Entries of its MSI-X table that are not masked count from
    /// now on.
    pub fn enable(&mut self, access: &impl ConfigRegionAccess) {
        self.capability.set_function_mask(false, access);
        self.capability.set_enabled(true, access);
        PciHeader::new(self.address).update_command(access, |command| {
            command
                | CommandRegister::MEMORY_ENABLE
                | CommandRegister::BUS_MASTER_ENABLE
                | CommandRegister::INTERRUPT_DISABLE
        });
    }
}

/// A 64-bit memory BAR.
fn window(
    access: &impl ConfigRegionAccess,
    endpoint: &EndpointHeader,
    slot: u8,
) -> Result<Window, PciError> {
    let address = endpoint.header().address();
    let wrong = |what| Err(PciError { address, what });
    // SAFETY: a register of the header. Looked at first, because the crate
    // panics on a kind that is reserved.
    let kind = unsafe { access.read(address, 0x10 + u16::from(slot) * 4) } & 0b111;
    let bar = (slot < 6 && kind == 0b100).then(|| endpoint.bar(slot, access));
    match bar.flatten() {
        Some(Bar::Memory64 { address, size, .. }) => {
            let end = address.checked_add(size);
            match address >= MEMORY_END && end.is_some_and(|end| end <= MAPPED_END) {
                true => Ok(Window {
                    address,
                    bytes: size,
                }),
                false => wrong("a BAR is not between 2 GiB and 2 TiB: registers are mapped there"),
            }
        }
        _ => wrong("a BAR is not a 64-bit memory BAR"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// Configuration spaces by address; 0xff where there is none.
    #[derive(Default)]
    struct Spaces(RefCell<BTreeMap<PciAddress, [u32; 64]>>);

    /// Bits of BARs 0 and 3 that stay 0: 32 MiB and 64 KiB.
    const SIZES: [(u16, u32); 2] = [(0x10, 0xfe00_000c), (0x1c, 0xffff_000c)];

    impl ConfigRegionAccess for Spaces {
        unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
            let spaces = self.0.borrow();
            let space = spaces.get(&address);
            space.map_or(u32::MAX, |space| space[usize::from(offset) / 4])
        }
        unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
            let size = SIZES.iter().find(|(bar, _)| *bar == offset);
            let value = size.map_or(value, |(_, mask)| value & mask | 0xc);
            if let Some(space) = self.0.borrow_mut().get_mut(&address) {
                space[usize::from(offset) / 4] = value;
            }
        }
    }

    fn e810() -> [u32; 64] {
        let mut space = [0; 64];
        space[0] = 0x1592_8086;
        // Capabilities List; memory and master on.
        space[1] = 0x0010_0006;
        (space[4], space[5]) = (0xc, 0xe0);
        (space[7], space[8]) = (0x0200_000c, 0xe0);
        space[0x34 / 4] = 0x40;
        // Power management, then MSI-X: 64 entries in BAR 3.
        space[0x40 / 4] = 0x7001;
        space[0x70 / 4] = 0x003f_0011;
        (space[0x74 / 4], space[0x78 / 4]) = (3, 0x8003);
        space
    }

    fn at(bus: u8, device: u8, function: u8) -> PciAddress {
        PciAddress::new(0, bus, device, function)
    }

    fn spaces(all: &[(PciAddress, [u32; 64])]) -> Spaces {
        Spaces(RefCell::new(all.iter().copied().collect()))
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
        endpoint.enable(&access);
        assert_eq!(word(1) & 0xffff, 0x406);
        assert_eq!(word(0x70 / 4) >> 30, 0b10);
        silence(&access, at(1, 0, 0));
        assert_eq!(word(1) & 0xffff, 0x402);
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
    }
}
