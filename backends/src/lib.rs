//! Devices as platforms: what the driver runs on, besides the simulator in
//! this process.
//!
//! [`Function`] implements every trait of `e810-hal` once. How its registers
//! are reached, memory is mapped and interrupts arrive is a [`Transport`]:
//!
//! * [`vfio`]: a function bound to vfio-pci, through the kernel;
//! * [`vfio_user`]: a device that another process serves on a socket.

pub mod buffer;
pub mod channel;
pub mod counted;
mod device;
mod dma;
pub mod error;
mod function;
pub mod host;
pub mod interrupts;
pub mod iova;
mod lan;
pub mod memory;
mod open;
mod platform;
pub mod signals;
#[cfg(feature = "sim")]
mod simulated;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod transport;
mod vectors;
pub mod vfio;
pub mod vfio_user;

pub use device::HostDevice;
pub use error::BackendError;
pub use function::{Function, Identity, Options};
pub use lan::lan;
pub use open::{DeviceVisitor, open};
pub use transport::{DmaRegion, Notice, Properties, Transport};
