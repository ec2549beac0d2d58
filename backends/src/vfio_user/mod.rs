//! A device served by another process on a vfio-user socket.
//!
//! The client part of the protocol is our own: the `vfio_user` crate's client waits for ever on an
//! error reply or a silent server, and trusts sizes from the other side. Tests have the crate at
//! the other end of each, so that client and server of this project do not share a mistake.

mod connection;
mod protocol;
mod registers;
mod spin;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use e810_hal::bus::BAR0_LEN;
use e810_hal::{Access, DmaError};
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE,
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use zerocopy::{FromBytes, IntoBytes};

use super::error::BackendError;
use super::transport::{DmaRegion, Notice, Properties, Transport};
use connection::Connection;
use protocol::{
    Command, DMA_MAP_READ, DMA_MAP_WRITE, DeviceInfo, DmaMap, DmaUnmap, IrqInfo, RegionInfo,
    SetIrqs, Version, VersionData,
};
pub use registers::SocketRegisters;

/// How long each answer may take, and the connection itself. An answer in pieces may take up to
/// twice as long.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Where the device may be given memory: nothing at and near zero, without the MSI window, as with
/// an IOMMU, and no more than its page tables cover.
const IOVA_RANGES: [(u64, u64); 2] = [(1 << 20, 0xfedf_ffff), (0xfef0_0000, (1 << 47) - 1)];

/// A connection to a served function.
#[derive(Debug)]
pub struct VfioUser {
    connection: Arc<Connection>,
    properties: Properties,
    /// Event descriptors that the server accepts with one message.
    fds_of_a_message: usize,
}

impl VfioUser {
    /// Connects to the server at `path` and reads its device's properties.
    ///
    /// # Errors
    /// [`BackendError`], each within [`LIMIT`] of the step that failed.
    pub fn connect(path: &Path) -> Result<Self, BackendError> {
        Self::connect_within(path, LIMIT)
    }

    /// As [`VfioUser::connect`], with a different limit for each answer.
    ///
    /// # Errors
    /// As there.
    pub fn connect_within(path: &Path, limit: Duration) -> Result<Self, BackendError> {
        let device = format!("vfio-user:{}", path.display());
        let connection = Connection::new(device, path, limit)?;
        let fds_of_a_message = negotiate(&connection)?;
        let mut this = Self {
            connection: Arc::new(connection),
            properties: Properties {
                iova_ranges: IOVA_RANGES.to_vec(),
                page: 4096,
                maps_any_memory: false,
                vectors: 0,
                vectors_grow: true,
            },
            fds_of_a_message,
        };
        this.read_properties()?;
        Ok(this)
    }

    /// Reads the device's properties, and checks that they suffice.
    fn read_properties(&mut self) -> Result<(), BackendError> {
        let info: DeviceInfo =
            self.get(Command::DeviceGetInfo, |info: &mut DeviceInfo, size| {
                info.argsz = size;
            })?;
        if info.flags & VFIO_DEVICE_FLAGS_PCI == 0 {
            return Err(self.unfit("the server's device is not a PCI function".to_owned()));
        }
        if info.flags & VFIO_DEVICE_FLAGS_RESET == 0 {
            return Err(self.unfit(
                "the server cannot reset its device, which is needed before and after use"
                    .to_owned(),
            ));
        }
        self.region("BAR0", VFIO_PCI_BAR0_REGION_INDEX, u64::from(BAR0_LEN))?;
        // Up to the serial number.
        self.region("configuration space", VFIO_PCI_CONFIG_REGION_INDEX, 0x200)?;
        let msix = VFIO_PCI_MSIX_IRQ_INDEX;
        if info.num_irqs <= msix {
            return Err(self.unfit("the function has no MSI-X interrupts".to_owned()));
        }
        let irqs: IrqInfo = self.get(Command::GetIrqInfo, |irqs: &mut IrqInfo, size| {
            irqs.argsz = size;
            irqs.index = msix;
        })?;
        if irqs.index != msix || irqs.flags & VFIO_IRQ_INFO_EVENTFD == 0 {
            return Err(self.unfit("its MSI-X interrupts cannot be events".to_owned()));
        }
        self.properties.vectors = u16::try_from(irqs.count).unwrap_or(u16::MAX);
        self.properties.vectors_grow = irqs.flags & VFIO_IRQ_INFO_NORESIZE == 0;
        Ok(())
    }

    /// Checks that a region can be read and written and is `least` bytes long.
    fn region(&self, name: &str, index: u32, least: u64) -> Result<(), BackendError> {
        let region: RegionInfo = self.get(
            Command::DeviceGetRegionInfo,
            |region: &mut RegionInfo, size| {
                region.argsz = size;
                region.index = index;
            },
        )?;
        let both = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        if region.index != index || region.flags & both != both || region.size < least {
            return Err(self.unfit(format!(
                "{name} is {} bytes with access flags {:#x}; {least} bytes, readable and writable, are needed",
                region.size, region.flags
            )));
        }
        Ok(())
    }

    fn unfit(&self, what: String) -> BackendError {
        BackendError::Unfit {
            device: self.connection.device().to_owned(),
            what,
        }
    }

    /// A question whose body and answer have the same form.
    fn get<M: FromBytes + IntoBytes + zerocopy::Immutable>(
        &self,
        command: Command,
        fill: impl FnOnce(&mut M, u32),
    ) -> Result<M, BackendError> {
        let mut body = M::new_zeroed();
        fill(&mut body, size_of::<M>() as u32);
        let mut answer = M::new_zeroed();
        let length =
            self.connection
                .request(command, body.as_bytes(), &[], answer.as_mut_bytes())?;
        if length < size_of::<M>() {
            return Err(short(&self.connection, command, length));
        }
        Ok(answer)
    }

    /// A request whose answer only confirms it.
    fn order(
        &self,
        command: Command,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), BackendError> {
        self.connection
            .request(command, body, fds, &mut [])
            .map(|_| ())
    }

    fn set_irqs(
        &self,
        data: u32,
        start: u16,
        count: usize,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), BackendError> {
        let body = SetIrqs {
            argsz: size_of::<SetIrqs>() as u32,
            flags: data | VFIO_IRQ_SET_ACTION_TRIGGER,
            index: VFIO_PCI_MSIX_IRQ_INDEX,
            start: start.into(),
            count: count as u32,
        };
        self.order(Command::SetIrqs, body.as_bytes(), fds)
    }
}

/// The error for an answer that is too short: the other side speaks something else.
fn short(connection: &Connection, command: Command, length: usize) -> BackendError {
    connection.fail(BackendError::Protocol {
        device: connection.device().to_owned(),
        what: format!("{} was answered in {length} bytes", command.name()),
    })
}

/// Agrees on a version; returns the number of descriptors that the server accepts at once.
fn negotiate(connection: &Connection) -> Result<usize, BackendError> {
    /// Longest text that is parsed.
    const TEXT: usize = 4096;
    let nonsense = |what: String| {
        connection.fail(BackendError::Protocol {
            device: connection.device().to_owned(),
            what,
        })
    };
    let text = serde_json::to_string(&VersionData::default())
        .map_err(|error| nonsense(error.to_string()))?;
    let version = Version { major: 0, minor: 1 };
    let body = [version.as_bytes(), text.as_bytes(), &[0]].concat();
    let mut answer = [0; size_of::<Version>() + TEXT];
    let length = connection.request(Command::Version, &body, &[], &mut answer)?;
    let answer = answer.get(..length).unwrap_or(&answer);
    let Ok((theirs, text)) = Version::read_from_prefix(answer) else {
        return Err(short(connection, Command::Version, length));
    };
    if theirs.major != 0 {
        return Err(nonsense(format!(
            "version {}.{}, where 0.1 was asked for",
            theirs.major, theirs.minor
        )));
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok(1);
    }
    let data: VersionData = serde_json::from_slice(text)
        .map_err(|error| nonsense(format!("VERSION was answered with bad JSON: {error}")))?;
    /// The most that one message can carry.
    const MOST: usize = 253;
    Ok(data.capabilities.max_msg_fds.clamp(1, MOST))
}

// SAFETY: the server maps the file's range that a message names and nothing else; its answer to
// DMA_UNMAP says that it unmapped it. A server that lies can write to files that it was given for
// as long as it likes, and to no other memory of this process.
unsafe impl Transport for VfioUser {
    type Registers = SocketRegisters;

    fn name(&self) -> &str {
        self.connection.device()
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn registers(&self) -> SocketRegisters {
        SocketRegisters(Arc::clone(&self.connection))
    }

    fn failure(&self) -> Option<&BackendError> {
        self.connection.failure()
    }

    fn on_failure(&self, report: fn(&BackendError)) {
        self.connection.on_failure(report);
    }

    /// A server sends no notices, but it may be gone; [`Transport::failure`] shows that from then
    /// on.
    fn notice(&self) -> Option<Notice> {
        self.connection.probe_socket();
        None
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError> {
        let mut offset = u64::from(offset);
        for part in into.chunks_mut(4) {
            self.connection
                .access(VFIO_PCI_CONFIG_REGION_INDEX, offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), BackendError> {
        let mut offset = u64::from(offset);
        for part in from.chunks(4) {
            let (body, length) = Connection::write_body(VFIO_PCI_CONFIG_REGION_INDEX, offset, part);
            let body = body.get(..length).unwrap_or_default();
            self.order(Command::RegionWrite, body, &[])?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn reset(&self) -> Result<(), BackendError> {
        self.order(Command::DeviceReset, &[], &[])
    }

    unsafe fn map(&self, region: &DmaRegion<'_>) -> Result<(), BackendError> {
        let Some((file, offset)) = region.file else {
            // Another process can be given only files.
            let cause = DmaError::NoFile {
                address: region.address.addr().get() as u64,
                bytes: usize::try_from(region.bytes).unwrap_or(usize::MAX),
            };
            return Err(BackendError::NotMapped {
                device: self.name().to_owned(),
                cause,
            });
        };
        let write = match region.access {
            Access::Read => 0,
            Access::ReadWrite => DMA_MAP_WRITE,
        };
        let body = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: DMA_MAP_READ | write,
            offset,
            address: region.iova,
            size: region.bytes,
        };
        self.order(Command::DmaMap, body.as_bytes(), &[file])
    }

    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError> {
        let body = DmaUnmap {
            argsz: size_of::<DmaUnmap>() as u32,
            flags: 0,
            address: iova,
            size: bytes,
        };
        self.order(Command::DmaUnmap, body.as_bytes(), &[])
    }

    fn connect_vectors(
        &self,
        first: u16,
        events: &[Option<BorrowedFd<'_>>],
    ) -> Result<(), BackendError> {
        // A message names consecutive vectors that all have a descriptor, or one that is to have
        // none.
        let mut at = first;
        let mut rest = events;
        while let Some(event) = rest.first() {
            let fds: Vec<BorrowedFd<'_>> = match event {
                None => Vec::new(),
                Some(_) => {
                    let all = rest.iter().map_while(|event| *event);
                    all.take(self.fds_of_a_message).collect()
                }
            };
            let count = fds.len().max(1);
            self.set_irqs(VFIO_IRQ_SET_DATA_EVENTFD, at, count, &fds)?;
            at = at.saturating_add(count as u16);
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    fn disconnect_vectors(&self) -> Result<(), BackendError> {
        self.set_irqs(VFIO_IRQ_SET_DATA_NONE, 0, 0, &[])
    }
}
