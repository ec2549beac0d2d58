//! The messages of vfio-user that a client needs (specification 0.9.2).
//!
//! All numbers are in the CPU's byte order: both ends are on one machine.

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The command of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(super) enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    DeviceGetInfo = 4,
    DeviceGetRegionInfo = 5,
    GetIrqInfo = 7,
    SetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    DeviceReset = 13,
}

impl Command {
    /// The name in the specification.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Version => "VERSION",
            Self::DmaMap => "DMA_MAP",
            Self::DmaUnmap => "DMA_UNMAP",
            Self::DeviceGetInfo => "DEVICE_GET_INFO",
            Self::DeviceGetRegionInfo => "DEVICE_GET_REGION_INFO",
            Self::GetIrqInfo => "DEVICE_GET_IRQ_INFO",
            Self::SetIrqs => "DEVICE_SET_IRQS",
            Self::RegionRead => "REGION_READ",
            Self::RegionWrite => "REGION_WRITE",
            Self::DeviceReset => "DEVICE_RESET",
        }
    }
}

/// Header flags: the kind of message.
pub(super) const FLAGS_KIND: u32 = 0xf;
/// A command.
pub(super) const FLAGS_COMMAND: u32 = 0;
/// A reply.
pub(super) const FLAGS_REPLY: u32 = 1;
/// The sender wants no reply.
pub(super) const FLAGS_NO_REPLY: u32 = 1 << 4;
/// The reply is an error, and `error` an errno.
pub(super) const FLAGS_ERROR: u32 = 1 << 5;

/// The start of every message.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    pub(super) message_id: u16,
    pub(super) command: u16,
    /// Bytes of the message, this header included.
    pub(super) message_size: u32,
    pub(super) flags: u32,
    pub(super) error: u32,
}

/// Bytes of a header.
pub(super) const HEADER: usize = size_of::<Header>();
const _: () = assert!(HEADER == 16);

/// VERSION; a JSON text that ends with a zero follows.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Version {
    pub(super) major: u16,
    pub(super) minor: u16,
}

/// DMA_MAP; at most one descriptor goes with it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct DmaMap {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) size: u64,
}

pub(super) const DMA_MAP_READ: u32 = 1;
pub(super) const DMA_MAP_WRITE: u32 = 2;

/// DMA_UNMAP.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct DmaUnmap {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// DEVICE_GET_INFO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct DeviceInfo {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) num_regions: u32,
    pub(super) num_irqs: u32,
}

/// DEVICE_GET_REGION_INFO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RegionInfo {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) cap_offset: u32,
    pub(super) size: u64,
    pub(super) offset: u64,
}

/// DEVICE_GET_IRQ_INFO.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct IrqInfo {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) count: u32,
}

/// DEVICE_SET_IRQS; the event descriptors go with it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct SetIrqs {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) start: u32,
    pub(super) count: u32,
}

/// REGION_READ and REGION_WRITE; data follows a write and the reply to a read.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RegionAccess {
    pub(super) offset: u64,
    pub(super) region: u32,
    pub(super) count: u32,
}

/// The text of VERSION.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct VersionData {
    #[serde(default)]
    pub(super) capabilities: Capabilities,
}

/// What the sender can receive; the defaults are the specification's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Capabilities {
    #[serde(default = "one")]
    pub(super) max_msg_fds: usize,
}

const fn one() -> usize {
    1
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { max_msg_fds: one() }
    }
}
