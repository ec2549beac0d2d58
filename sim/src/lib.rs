//! A register-level model of the Intel E810 RDMA engine and of its RoCEv2 wire.
//!
//! The crate models the *device*. It decodes what a driver writes and encodes what the card writes
//! with its own code, written from the hardware reference, so that a mistake in a driver's encoder
//! is not mirrored here. From `e810-hal` it takes only the platform traits and the offsets and
//! names of registers.
//!
//! Start with [`Sim`]: it creates the functions of a card, returns a [`SimPlatform`] for each, and
//! records the [`findings`]. The same driver code that runs on a card runs on a `SimPlatform`.
//!
//! * [`SimPlatform`], [`Mode`], [`link`]: the platform that a driver runs on, the time mode, and
//!   the link.
//! * [`findings`]: driver errors that a card would reject, or that a driver should not make.
//! * [`variation`]: unknown behaviour of the card, each a choice by name or seed.
//! * [`middleware`]: tracing and fault injection on the registers of any platform.
//! * [`pcap`]: captures of sent frames for network analysers.
//! * [`pe`]: the protocol engine: CQP, HMC, queues and events.
//! * [`wqe`]: the device's view of send and receive queue entries, and the completion entries it
//!   writes.
//! * [`wire`]: RoCEv2 packets as bytes.
//! * [`rc`]: the reliable-connection requester and responder.
//!
//! A function starts *warm*: its LAN side (AdminQ, switch, scheduler) is set up already, and its
//! AdminQ does not answer. With [`Builder::cold`] it starts as after power-up, and a model of the
//! card's firmware answers. PCI configuration space and the MSI-X table matter to a device server,
//! which exports a function to another process; it also uses [`SimPlatform::attach_memory`] and
//! [`SimPlatform::function_level_reset`].

mod accesses;
mod bar;
mod bring_up;
mod builder;
mod bus_master;
mod driver_memory;
pub mod findings;
mod function;
mod fw;
mod interrupt_lines;
mod iommu;
mod irq;
mod lan;
pub mod link;
mod machine;
pub mod middleware;
pub mod msix;
pub mod pcap;
pub mod pe;
mod platform;
mod program_memory;
pub mod rc;
mod recorded;
mod regs;
mod rng;
mod runtime;
mod sim;
mod stats;
pub mod variation;
pub mod wire;
pub mod wqe;

pub use accesses::Accesses;
pub use bring_up::BringUp;
pub use builder::{Builder, FIRST_MAC};
pub use driver_memory::{Allocation, DmaSegmentation, MemoryCounts};
pub use findings::Finding;
pub use fw::{AqCode, AqFault, FirmwareConfig, PackageStart, PhyStart, PortLink, test_package};
pub use interrupt_lines::InterruptHook;
pub use link::{Quality, Rate};
pub use pe::{FpmProfile as Profile, NoProfile};
pub use platform::SimPlatform;
pub use program_memory::can_check_access;
pub use recorded::{NoCard, RecordedCard};
pub use regs::ResetSource;
pub use rng::Rng;
pub use runtime::{FromUplink, Mode};
pub use sim::Sim;
pub use stats::{ResetCounts, Stats};
pub use variation::Variation;
