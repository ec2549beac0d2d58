//! An open device, however it is reached.

use std::fs::File;

use anyhow::Result;
use e810::Lan;
use e810_hal::{DmaError, Iova, Mapping, RegOffset, SharedBytes};

use crate::interrupts::HostPlatform;
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

    /// From now on memory of another process can be registered by the number that this returns:
    /// `memory` is a descriptor of its `/proc/self/mem`.
    fn attach_program(&self, memory: File) -> u64;

    /// That process is gone.
    fn detach_program(&self, program: u64);

    /// Rings a doorbell, and has the device begin with the work.
    fn ring(&self, register: RegOffset, value: u32);
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

    fn lan(&self, mac: Option<[u8; 6]>, vsi: Option<u16>, mtu: u16) -> Result<Lan> {
        crate::lan(self, mac, vsi, mtu)
    }
}
