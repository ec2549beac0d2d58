//! A vfio-user function that passes everything on to another function, and records it.
//!
//! The function behind it is a card through VFIO, or one that another process serves; the driver is
//! whatever uses the socket: Linux, DPDK or iPXE in a virtual machine, or this project's own. Each
//! access to configuration space and to registers passes through [`Passing`], and the memory that
//! the driver gives the device is mapped in this process, too. So what the driver makes visible is
//! read from that memory at each access, and so is what the device has written there: nobody looks
//! inside the device.
//!
//! * [`Proxy`]: one driver after the other on a socket.
//! * [`Passing`]: what a driver's messages do.
//! * `memory`: what the driver lets the device see.
//! * `vectors`: interrupts on their way to the driver.
//! * [`guard`]: commands that would write to the card's flash or to a module.

pub mod guard;
mod memory;
mod passing;
mod proxy;
mod shared;
mod vectors;

pub use passing::Passing;
pub use proxy::{Ending, Proxy, ProxyError};
