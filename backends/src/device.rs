//! An open device, however it is reached.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use e810::Lan;
use e810_hal::{DmaError, Iova, Mapping, RegOffset, SharedBytes};

use crate::function::lock;
use crate::interrupts::HostPlatform;
use crate::transport::{Admitted, KeptFiles};
use crate::{BackendError, Function, Identity, Notice, Properties, Transport};

/// A device that [`open`](crate::open) returned: a platform for the driver that also reports
/// failures of its transport.
///
/// Clones are handles on the same device.
pub trait HostDevice: HostPlatform + TransportInfo + 'static {}

impl<T: HostPlatform + TransportInfo + 'static> HostDevice for T {}

/// A function that reaches memory of other processes, on their behalf.
pub trait Lends {
    /// Makes `memory`, which both processes have, visible to the device in one piece.
    ///
    /// # Errors
    /// It cannot be mapped.
    fn lend(&self, memory: SharedBytes) -> Result<(Mapping, Iova), DmaError>;

    /// From now on memory of another process can be registered by the number that this returns, as
    /// far as that process lends it.
    fn attach_program(&self) -> u64;

    /// It lends all of its memory: `memory` is a descriptor of its `/proc/self/mem`.
    fn lend_process(&self, program: u64, memory: File);

    /// It lends memory that it has at `address`, and this process at `memory`, which stays valid
    /// until it is taken back or the other process is gone.
    fn lend_at(&self, program: u64, address: u64, memory: SharedBytes);

    /// The memory at that address is lent no more.
    fn take_back_at(&self, program: u64, address: u64);

    /// That process is gone.
    fn detach_program(&self, program: u64);

    /// Rings a doorbell; the thread [attends](Self::attend) to the device next.
    fn ring(&self, register: RegOffset, value: u32);

    /// Does work of the device on this thread. While it returns true, there may be more, and the
    /// thread calls it again soon.
    fn attend(&self) -> bool;
}

/// A function that other processes reach themselves: they ring its doorbells, and map their memory
/// at addresses of their own.
pub trait Shares {
    /// Gives another process the function's files, and addresses that nobody else has.
    ///
    /// # Errors
    /// The kernel cannot share it; no descriptors or addresses are left.
    fn admit(&self) -> Result<Admitted, BackendError>;

    /// Takes all memory that the program has mapped away from the device. Its addresses can then be
    /// another program's. A number that is not admitted is ignored.
    ///
    /// # Errors
    /// The device may still reach the memory; nobody else gets its addresses.
    fn dismiss(&self, program: u64) -> Result<(), BackendError>;

    /// The files with which the next owner takes the function over; `None` if there are none.
    ///
    /// # Errors
    /// No descriptors are left.
    fn keep(&self) -> Result<Option<KeptFiles>, BackendError>;
}

/// Properties of a device and of its transport.
pub trait TransportInfo {
    /// The function's identity; `None` for a simulated function of this process.
    fn identity(&self) -> Option<Identity>;

    /// The device's name and the kernel's notice for the owner of the function, as
    /// [`Function::notice`].
    fn notice(&self) -> Option<(String, Notice)>;

    /// Why registers read as all-ones, if the transport failed and not the device.
    fn failure(&self) -> Option<&BackendError>;

    /// Calls `report` with that failure, once, before a register reads as all-ones. Only the first
    /// `report` counts.
    fn on_failure(&self, report: fn(&BackendError));

    /// Checks that the device still answers, as [`Function::probe`].
    ///
    /// # Errors
    /// Why it does not.
    fn probe(&self) -> Result<(), BackendError>;

    /// The properties of its transport; `None` for a simulated function of this process.
    fn properties(&self) -> Option<&Properties>;

    /// Configuration space, 4096 bytes or as much as the function has; `None` for a simulated
    /// function of this process.
    ///
    /// # Errors
    /// It cannot be read.
    fn config_space(&self) -> Option<Result<Vec<u8>, BackendError>>;

    /// How programs in other processes share the function; `None` if they cannot.
    fn lends(&self) -> Option<&dyn Lends> {
        None
    }

    /// How programs in other processes reach the function themselves; `None` if they cannot.
    fn shares(&self) -> Option<&dyn Shares> {
        None
    }

    /// The LAN side of a function whose LAN side is ready, as [`lan`](crate::lan).
    ///
    /// # Errors
    /// Values that cannot be read from the function and have to be configured.
    fn lan(&self, mac: Option<[u8; 6]>, vsi: Option<u16>, mtu: u16) -> Result<Lan>;
}

impl<T: Transport> TransportInfo for Function<T> {
    fn identity(&self) -> Option<Identity> {
        Some(self.identity())
    }

    fn notice(&self) -> Option<(String, Notice)> {
        let notice = self.notice()?;
        Some((self.transport().name().to_owned(), notice))
    }

    fn failure(&self) -> Option<&BackendError> {
        self.failure()
    }

    fn on_failure(&self, report: fn(&BackendError)) {
        self.transport().on_failure(report);
    }

    fn probe(&self) -> Result<(), BackendError> {
        self.probe()
    }

    fn properties(&self) -> Option<&Properties> {
        Some(self.transport().properties())
    }

    fn config_space(&self) -> Option<Result<Vec<u8>, BackendError>> {
        let read = |bytes: usize| {
            let mut space = vec![0; bytes];
            self.transport().config_read(0, &mut space)?;
            Ok(space)
        };
        // A function behind a bus without the extended part has 256 bytes.
        Some(read(4096).or_else(|_: BackendError| read(256)))
    }

    fn shares(&self) -> Option<&dyn Shares> {
        self.transport().can_be_shared().then_some(self)
    }

    fn lan(&self, mac: Option<[u8; 6]>, vsi: Option<u16>, mtu: u16) -> Result<Lan> {
        crate::lan(self, mac, vsi, mtu)
    }
}

impl<T: Transport> Shares for Function<T> {
    fn admit(&self) -> Result<Admitted, BackendError> {
        let domain = &self.inner.domain;
        let files = domain.transport.files()?;
        let addresses = domain.take_range()?;
        // No number is given twice.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let program = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&self.inner.programs).insert(program, addresses);
        Ok(Admitted {
            name: domain.transport.name().to_owned(),
            program,
            files,
            addresses,
            page: domain.transport.properties().page,
        })
    }

    fn dismiss(&self, program: u64) -> Result<(), BackendError> {
        // Nothing of it can be registered from here on.
        let Some((first, last)) = lock(&self.inner.programs).remove(&program) else {
            return Ok(());
        };
        let domain = &self.inner.domain;
        domain.transport.unmap_all(first, last)?;
        domain.give_range(first);
        Ok(())
    }

    fn keep(&self) -> Result<Option<KeptFiles>, BackendError> {
        self.inner.domain.transport.keep()
    }
}
