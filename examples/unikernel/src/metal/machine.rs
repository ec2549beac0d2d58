//! The machine as a whole: what there is once.

use core::cell::Cell;
use core::hint::spin_loop;
use core::ptr::NonNull;

use e810_hal::{Bar0, MsixError, MsixTable, Ns, Vector};
use pci_types::PciAddress;

use crate::apic::LocalApic;
use crate::clock::Uptime;
use crate::interrupts::{LINES, Lines};
use crate::pci::{self, Endpoint, PciError, Ports, Window};
use crate::pool::Pool;
use crate::system::{boot, idt, sleep};

/// Functions that are driven.
pub const FUNCTIONS: usize = 2;
/// Interrupt lines of each.
pub const LINES_EACH: u8 = LINES / FUNCTIONS as u8;

/// What the machine does not have, or not as the program needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The loader's module cannot be used where it is.
    #[error(
        "the module of {bytes} bytes at {address:#x} lies over the program or outside of memory: give the machine more"
    )]
    Module {
        /// Its first byte.
        address: u64,
        /// Its length.
        bytes: u64,
    },
    /// Nothing to measure time against.
    #[error("the interval timer (PIT) does not count: no time without it")]
    NoPit,
    /// The local APIC is off, moved, or in x2APIC mode.
    #[error(
        "the local APIC is not on in xAPIC mode at 0xfee00000 (its base register is {base:#x})"
    )]
    Apic {
        /// IA32_APIC_BASE as read.
        base: u64,
    },
    /// The kernel has not started the local APIC as expected.
    #[cfg(target_os = "hermit")]
    #[error(
        "the local APIC is not in x2APIC mode, or its number is above 255 (its base register is {base:#x}): give the machine one that has that mode, and few processors"
    )]
    X2Apic {
        /// IA32_APIC_BASE as read.
        base: u64,
    },
    /// The kernel's table of handlers ends before the card's lines.
    #[cfg(target_os = "hermit")]
    #[error("the processor's table of handlers ends at byte {limit}: no interrupts without it")]
    Gates {
        /// Number of its last byte.
        limit: u16,
    },
    /// The device would not find the pool.
    #[cfg(target_os = "hermit")]
    #[error(
        "the pool's physical addresses are not its own, or not below 2 GiB: use a loader that puts the image there"
    )]
    PoolMapped,
    /// Fewer functions than the program needs.
    #[error("{found} E810 functions are on the PCI bus, {needed} are needed")]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many there have to be.
        needed: usize,
    },
    /// A function that cannot be driven.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// BAR0 is shorter than the driver's registers.
    #[error("{address}: BAR0 has {bytes} bytes, less than the registers take")]
    ShortBar {
        /// The function.
        address: PciAddress,
        /// Its length.
        bytes: u64,
    },
    /// An MSI-X table that does not fit its BAR.
    #[error(transparent)]
    Msix(#[from] MsixError),
    /// The pool is used up.
    #[error("no memory for {bytes} bytes: enlarge the pool (pool.rs)")]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
    },
}

/// A function that was found and enabled.
#[derive(Debug)]
pub struct Function {
    /// Where it is.
    pub address: PciAddress,
    pub(crate) registers: Bar0,
    pub(crate) msix: MsixTable,
    /// The interrupt line of its vector 0.
    pub(crate) first_line: u8,
    /// Its vectors that are in use, a bit each.
    pub(crate) vectors: Cell<u32>,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    pub(crate) clock: Uptime,
    pub(crate) pool: Pool,
    pub(crate) apic: LocalApic,
    ports: Ports,
    module: Option<&'static [u8]>,
    arguments: &'static str,
}

impl Machine {
    /// Starts time and interrupts.
    ///
    /// # Errors
    /// What is missing.
    ///
    /// # Safety
    /// Called once, by the only code on the machine, with interrupts off.
    pub unsafe fn start(
        module: Option<&'static [u8]>,
        arguments: &'static str,
    ) -> Result<Self, MachineError> {
        let clock = Uptime::start()?;
        // SAFETY: the caller's promise holds for each of these four.
        unsafe {
            idt::start()?;
            Ok(Self {
                clock,
                pool: Pool::new(),
                apic: LocalApic::start(&clock)?,
                ports: Ports::new(),
                module,
                arguments,
            })
        }
    }

    /// The file that the loader brought along, if any.
    #[must_use]
    pub const fn module(&self) -> Option<&'static [u8]> {
        self.module
    }

    /// Whether the loader's command line has that word.
    #[must_use]
    pub fn is_asked_for(&self, word: &str) -> bool {
        let mut words = self.arguments.split_ascii_whitespace();
        words.any(|given| given == word)
    }

    /// Time since the program's start.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.clock.now()
    }

    /// Bytes of the pool that are taken and will be given back.
    #[must_use]
    pub fn memory_held(&self) -> usize {
        self.pool.held()
    }

    /// The first functions on the bus, ready to be driven.
    ///
    /// # Errors
    /// Too few, or one that cannot be driven.
    pub fn functions(&self) -> Result<[Function; FUNCTIONS], MachineError> {
        match self.find() {
            ([Some(first), Some(second)], _) => {
                Ok([self.open(first, 0)?, self.open(second, LINES_EACH)?])
            }
            (_, found) => Err(MachineError::TooFew {
                found,
                needed: FUNCTIONS,
            }),
        }
    }

    /// The first function on the bus alone.
    ///
    /// # Errors
    /// As [`Machine::functions`].
    pub fn first_function(&self) -> Result<Function, MachineError> {
        match self.find() {
            ([Some(first), _], _) => self.open(first, 0),
            (_, found) => Err(MachineError::TooFew { found, needed: 1 }),
        }
    }

    /// Where the first functions are, and how many there are in all.
    fn find(&self) -> ([Option<PciAddress>; FUNCTIONS], usize) {
        let (mut addresses, mut found) = ([None; FUNCTIONS], 0);
        pci::find(&self.ports, 0, &mut |address| {
            if let Some(place) = addresses.get_mut(found) {
                *place = Some(address);
            }
            found += 1;
        });
        (addresses, found)
    }

    fn open(&self, address: PciAddress, first_line: u8) -> Result<Function, MachineError> {
        let mut endpoint = Endpoint::read(&self.ports, address)?;
        let (bar, bytes) = self.mapped(address, endpoint.registers)?;
        // SAFETY: the function's BAR0, mapped uncached for good. Without an IOMMU
        // it reaches all memory: this program, the only code on the machine, has
        // it in its hands.
        let registers = unsafe { Bar0::new(bar, bytes) }.ok_or(MachineError::ShortBar {
            address,
            bytes: endpoint.registers.bytes,
        })?;
        let (bar, bytes) = self.mapped(address, endpoint.msix)?;
        // SAFETY: the BAR that the capability names, mapped likewise; the table
        // is this program's alone.
        let msix = unsafe { MsixTable::new(bar, bytes, endpoint.layout) }?;
        // The program before may have left it at work, with messages to places
        // that are this program's now: it answers, all its entries are masked, it
        // is reset, and only then it reaches memory.
        let mask_all = || {
            let mut all = (0..msix.entries()).filter_map(Vector::new);
            all.try_for_each(|vector| msix.mask(vector))
        };
        endpoint.answer(&self.ports);
        mask_all()?;
        endpoint.reset(&self.ports, &mut |time| self.pause(time))?;
        mask_all()?;
        endpoint.enable(&self.ports);
        Ok(Function {
            address,
            registers,
            msix,
            first_line,
            vectors: Cell::new(0),
        })
    }

    fn pause(&self, time: Ns) {
        let end = self.now() + time;
        while self.now() < end {
            spin_loop();
        }
    }

    fn mapped(
        &self,
        address: PciAddress,
        window: Window,
    ) -> Result<(NonNull<u8>, usize), PciError> {
        let what = "its registers could not be mapped";
        let start = boot::map(&self.pool, window).ok_or(PciError { address, what })?;
        Ok((start, window.bytes as usize))
    }

    /// Keeps all functions from reaching memory and sending interrupts. However
    /// the program ended, what comes after it finds its memory left alone.
    pub fn silence(&self) {
        pci::find(&self.ports, 0, &mut |address| {
            pci::silence(&self.ports, address);
        });
    }

    /// Sleeps until one of `lines` fires, but not longer than `limit`; says
    /// which did.
    #[must_use]
    pub fn sleep(&self, lines: Lines, limit: Ns) -> Lines {
        sleep::sleep(&self.apic, lines, limit)
    }
}
