//! The messages of vfio-user (specification 0.9.2) as a server sees them.
//!
//! The client of `e810-backends` has its own description of them, written separately, so that a
//! mistake in one is not mirrored in the other. Numbers are in the CPU's byte order: both ends are
//! on one machine.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// VERSION: the first message of a user.
pub const VERSION: u16 = 1;
pub const DMA_MAP: u16 = 2;
pub const DMA_UNMAP: u16 = 3;
pub const DEVICE_GET_INFO: u16 = 4;
pub const DEVICE_GET_REGION_INFO: u16 = 5;
pub const DEVICE_GET_IRQ_INFO: u16 = 7;
pub const DEVICE_SET_IRQS: u16 = 8;
pub const REGION_READ: u16 = 9;
pub const REGION_WRITE: u16 = 10;
pub const DEVICE_RESET: u16 = 13;

/// Header flags: bits that give the kind of message; 0 is a command.
pub const KIND: u32 = 0xf;
/// The message is a reply.
pub const REPLY: u32 = 1;
/// The sender of a command wants no reply.
pub const NO_REPLY: u32 = 1 << 4;
/// The reply is an error, and [`Header::error`] an errno.
pub const ERROR: u32 = 1 << 5;

/// The most bytes of data in one REGION_READ or REGION_WRITE; the answer to VERSION announces it.
pub const MOST_DATA: u32 = 1 << 20;
/// The most file descriptors with one message.
pub const MOST_FDS: usize = 16;

/// The start of every message.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Header {
    /// Identifies the reply.
    pub id: u16,
    /// The command.
    pub command: u16,
    /// Bytes of the message, this header included.
    pub size: u32,
    /// [`KIND`], [`NO_REPLY`], [`ERROR`].
    pub flags: u32,
    /// An errno, in an error reply.
    pub error: u32,
}

/// Bytes of a header.
pub const HEADER: usize = size_of::<Header>();

/// VERSION, followed by a JSON text that ends with a zero.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

/// DMA_MAP; at most one descriptor goes with it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DmaMap {
    /// Bytes of this structure.
    pub argsz: u32,
    /// [`MAP_READ`], [`MAP_WRITE`].
    pub flags: u32,
    /// Where in the file the memory begins.
    pub offset: u64,
    /// I/O address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// DMA_MAP: the device may read the memory.
pub const MAP_READ: u32 = 1;
/// DMA_MAP: the device may write the memory.
pub const MAP_WRITE: u32 = 1 << 1;

/// DMA_UNMAP, and the reply to it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DmaUnmap {
    /// Bytes of this structure.
    pub argsz: u32,
    /// [`UNMAP_ALL`].
    pub flags: u32,
    /// I/O address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// DMA_UNMAP: everything, whatever address and size are. Either bit means this: the first is that
/// of the kernel's header, which QEMU sends, the second that of rust-vmm's client.
pub const UNMAP_ALL: u32 = 1 << 1 | 1 << 2;

/// DEVICE_GET_INFO, and the reply to it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceInfo {
    /// Bytes of this structure.
    pub argsz: u32,
    /// As in VFIO.
    pub flags: u32,
    pub regions: u32,
    /// Kinds of interrupts.
    pub irqs: u32,
}

/// DEVICE_GET_REGION_INFO, and the reply to it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegionInfo {
    /// Bytes of this structure.
    pub argsz: u32,
    /// As in VFIO.
    pub flags: u32,
    pub index: u32,
    /// Where capabilities begin; 0 for none.
    pub cap_offset: u32,
    /// Bytes of the region.
    pub size: u64,
    /// Its offset in a file that could be mapped.
    pub offset: u64,
}

/// DEVICE_GET_IRQ_INFO, and the reply to it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IrqInfo {
    /// Bytes of this structure.
    pub argsz: u32,
    /// As in VFIO.
    pub flags: u32,
    /// The kind of interrupt.
    pub index: u32,
    /// Interrupts of the kind.
    pub count: u32,
}

/// DEVICE_SET_IRQS; event descriptors go with it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SetIrqs {
    /// Bytes of this structure.
    pub argsz: u32,
    /// Data and action, as in VFIO.
    pub flags: u32,
    /// The kind of interrupt.
    pub index: u32,
    /// The first one.
    pub start: u32,
    /// How many.
    pub count: u32,
}

/// REGION_READ, REGION_WRITE and the replies; data follows a write and the reply to
/// a read.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegionAccess {
    /// Where in the region.
    pub offset: u64,
    pub region: u32,
    /// Bytes.
    pub count: u32,
}

const _: () = assert!(HEADER == 16 && size_of::<RegionAccess>() == 16);
