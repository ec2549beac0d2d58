//! The E810's functions on Linux, as platforms for the driver.
//!
//! [`open`] opens the function that a name ([`spec::DeviceSpec`]) stands for, and passes it to a
//! [`DeviceVisitor`] as a [`HostDevice`]: a platform with payload memory and interrupts. A program
//! that knows its kind of device can use [`Function::open`].
//!
#![cfg_attr(feature = "sim", doc = "```")]
#![cfg_attr(not(feature = "sim"), doc = "```no_run")]
//! use e810::{ColdStart, Config, LinkPolicy, MacAddr, Package, PackageSource, bring_up_cold};
//! use e810_backends::host::{Host, package};
//! use e810_backends::{DeviceVisitor, HostDevice, Options, open};
//!
//! /// Brings a function up and returns its Ethernet address.
//! struct Address;
//!
//! impl DeviceVisitor<1> for Address {
//!     type Outcome = MacAddr;
//!     type Error = anyhow::Error;
//!
//!     fn visit<D: HostDevice>(self, [device]: [D; 1]) -> anyhow::Result<MacAddr> {
//!         let file = match device.identity() {
//!             Some(identity) => package::find(&Host::default(), identity.serial)?.bytes,
//!             None => e810_sim::test_package(),
//!         };
//!         let start = ColdStart {
//!             package: PackageSource::File(Package::parse(&file)?),
//!             link: LinkPolicy::GoOn,
//!         };
//!         let up = bring_up_cold(device, &Config::cold(1500), &start, &mut |_| {})?;
//!         let (control, events) = up.split();
//!         let mac = control.lan().mac;
//!         control.shutdown(events).map_err(|failed| failed.error)?;
//!         Ok(mac)
//!     }
//! }
//!
//! # fn main() -> anyhow::Result<()> {
//! // On a machine with a card: "vfio:0000:3b:00.0".
//! let spec = "sim".parse().map_err(anyhow::Error::msg)?;
//! let mac = open([&spec], Options::default(), Address)?;
//! assert_eq!(mac.0[0] & 1, 0, "the address of one interface");
//! # Ok(())
//! # }
//! ```
//!
//! * [`vfio`] (a function bound to vfio-pci, through its IOMMU group or its
//!   device file) and [`vfio_user`] (a function that another process serves on a
//!   socket) are [`Transport`]s; [`Function`] implements every trait of `e810-hal` over them, once.
//! * [`host`]: probing functions, IOMMU groups, limits and packages of the machine; and binding
//!   functions to vfio-pci and back.
//! * [`buffer`], [`memory`]: payload that can be registered. [`interrupts`], [`channel`]: waiting
//!   for vectors, and for completions by a descriptor. [`signals`]: orderly shutdown.
//! * [`counted`]: counts the register accesses of any platform. [`observed`]: a device whose
//!   accesses, memory and interrupts are observed.
//!
//! With the feature `sim`, which is off by default, simulated functions of this process are devices
//! too.
#![warn(missing_docs)]

mod accept;
mod addressed_spec;
pub mod buffer;
pub mod channel;
pub mod counted;
mod descriptors;
mod device;
mod dma;
pub mod error;
mod function;
pub mod host;
pub mod host_memory;
pub mod interrupts;
pub mod iova;
mod lan;
pub mod observed;
mod open;
mod platform;
pub mod pool;
pub mod printable;
pub mod signals;
#[cfg(feature = "sim")]
mod sim_spec;
#[cfg(feature = "sim")]
mod simulated;
pub mod spec;
pub mod tap;
#[cfg(test)]
mod tests;
pub mod transport;
mod vectors;
pub mod vfio;
pub mod vfio_user;

pub use accept::Accept;
pub use device::{HostDevice, Lends, Shares, TransportInfo};
pub use e810_shared::memory;
pub use error::BackendError;
pub use function::{Function, Identity, Options, identify};
pub use lan::lan;
pub use open::{DeviceVisitor, open};
pub use transport::{DmaRegion, Notice, Properties, Transport};
