//! Functions of the E810 on the PCI bus: found, and made ready to be driven.
//!
//! Bridges and BARs are as the firmware has set them up.

use core::marker::PhantomData;

use e810_hal::{MsixLayout, Ns, pci_ids};
use pci_types::capability::{MsixCapability, PciCapability};
use pci_types::{
    Bar, CommandRegister, ConfigRegionAccess, EndpointHeader, HeaderType, PciAddress, PciHeader,
    PciPciBridgeHeader,
};

use crate::boot::{MAPPED_END, MEMORY_END};
use crate::ports;

/// Capabilities looked at: more do not fit configuration space.
const MOST_CAPABILITIES: usize = 48;

/// Offsets in the PCI Express capability: device capabilities, device control and
/// status.
const DEVICE_CAPABILITIES: u16 = 0x04;
const DEVICE_CONTROL: u16 = 0x08;
/// The function can be reset alone; it begins when the other bit is written.
const CAN_RESET: u32 = 1 << 28;
const RESET: u32 = 1 << 15;
/// Status bits of the upper half, which a 1 clears, and the one that says that
/// requests of the function are not answered yet.
const STATUS: u32 = 0xffff << 16;
const PENDING: u32 = 1 << 21;
/// From the reset on configuration space is left alone so long (PCI Express: 100
/// ms), and then asked for at most so long.
const RESET_TIME: Ns = Ns(100_000_000);
const RESET_TURNS: u32 = 10;
/// What is waited for requests that are under way, before the reset.
const PENDING_TIME: Ns = Ns(10_000_000);
const PENDING_TURNS: u32 = 10;
/// Header words that a reset clears and the firmware had set: cache line size,
/// BARs, ROM, interrupt line.
const HEADER: [u16; 9] = [0x0c, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x30, 0x3c];

/// Why a function cannot be driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{address}: {what}")]
pub struct PciError {
    /// The function.
    pub address: PciAddress,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Configuration space through ports 0xcf8 and 0xcfc. Of one thread: it cannot be
/// copied, nor shared with another.
#[derive(Debug)]
pub struct Ports(PhantomData<*const ()>);

impl Ports {
    /// Takes charge of the two ports.
    ///
    /// # Safety
    /// Called once: an access takes two steps, between which no other may come.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(PhantomData)
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
    /// Of the PCI Express capability.
    express: u16,
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
    /// No endpoint, no MSI-X, no reset of the function alone, or BARs that are not
    /// where the program has registers mapped.
    pub fn read(access: &impl ConfigRegionAccess, address: PciAddress) -> Result<Self, PciError> {
        let wrong = |what| PciError { address, what };
        let mut endpoint = EndpointHeader::from_header(PciHeader::new(address), access)
            .ok_or(wrong("it is no endpoint"))?;
        endpoint.update_command(access, |command| {
            command - (CommandRegister::MEMORY_ENABLE | CommandRegister::BUS_MASTER_ENABLE)
        });
        let (mut msix, mut express) = (None, None);
        for capability in endpoint.capabilities(access).take(MOST_CAPABILITIES) {
            match capability {
                PciCapability::MsiX(found) => msix = msix.or(Some(found)),
                PciCapability::PciExpress(found) => express = express.or(Some(found.offset)),
                _ => {}
            }
        }
        let capability = msix.ok_or(wrong("it has no MSI-X"))?;
        let express = express.ok_or(wrong("it has no PCI Express capability"))?;
        // SAFETY: reading configuration space is harmless.
        let offered = unsafe { access.read(address, express + DEVICE_CAPABILITIES) };
        if offered & CAN_RESET == 0 {
            return Err(wrong("it cannot be reset alone"));
        }
        if capability.pba_bar() != capability.table_bar() {
            return Err(wrong("MSI-X table and pending bits are in two BARs"));
        }
        Ok(Self {
            address,
            capability,
            express,
            registers: window(access, &endpoint, 0)?,
            msix: window(access, &endpoint, capability.table_bar())?,
            layout: MsixLayout {
                entries: capability.table_size(),
                table: capability.table_offset(),
                pending: capability.pba_offset(),
            },
        })
    }

    /// Lets the function answer, and nothing else: all its messages are masked, it
    /// reaches no memory, legacy interrupts are off. For what is to be done to its
    /// registers before [`Endpoint::enable`].
    pub fn answer(&mut self, access: &impl ConfigRegionAccess) {
        self.capability.set_function_mask(true, access);
        PciHeader::new(self.address).update_command(access, |command| {
            (command | CommandRegister::MEMORY_ENABLE | CommandRegister::INTERRUPT_DISABLE)
                - CommandRegister::BUS_MASTER_ENABLE
        });
    }

    /// Resets the function: what its last user left running stops, before any
    /// memory of this one is in its reach. It then answers as after
    /// [`Endpoint::answer`]; `pause` lets time pass.
    ///
    /// # Errors
    /// It did not come back.
    pub fn reset(
        &mut self,
        access: &impl ConfigRegionAccess,
        pause: &mut dyn FnMut(Ns),
    ) -> Result<(), PciError> {
        let (address, control_at) = (self.address, self.express + DEVICE_CONTROL);
        // SAFETY: reading configuration space is harmless.
        let read = |offset| unsafe { access.read(address, offset) };
        // SAFETY: words of the header as the firmware had set them, and the reset
        // of a function that reaches no memory and sends nothing.
        let write = |offset, value| unsafe { access.write(address, offset, value) };
        for _ in 0..PENDING_TURNS {
            if read(control_at) & PENDING == 0 {
                break;
            }
            pause(PENDING_TIME);
        }
        let saved = HEADER.map(read);
        let control = read(control_at) & !(STATUS | RESET);
        write(control_at, control | RESET);
        pause(RESET_TIME);
        // Until it is ready it answers with an error, which reads as ones.
        let mut turns = 0;
        while read(0) == u32::MAX {
            if turns == RESET_TURNS {
                let what = "it did not answer after its reset";
                return Err(PciError { address, what });
            }
            turns += 1;
            pause(RESET_TIME);
        }
        for (offset, value) in HEADER.into_iter().zip(saved) {
            write(offset, value);
        }
        write(control_at, control);
        self.answer(access);
        Ok(())
    }

    /// Lets the function reach memory and send messages. Entries of its MSI-X table
    /// that are not masked count from now on.
    pub fn enable(&mut self, access: &impl ConfigRegionAccess) {
        self.capability.set_enabled(true, access);
        PciHeader::new(self.address).update_command(access, |command| {
            command | CommandRegister::BUS_MASTER_ENABLE
        });
        self.capability.set_function_mask(false, access);
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
mod tests;
