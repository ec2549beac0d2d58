//! The only generic parameter of everything above.

use crate::barrier::Barrier;
use crate::bus::Bus;
use crate::clock::Clock;
use crate::dma::DmaAlloc;
use crate::host::HostMem;
use crate::map::DmaMap;
use crate::vectors::InterruptVectors;

/// What the driver runs on: a cheap handle on one function of one device.
///
/// All methods take `&self`; there is no global state, so several devices, and
/// several tests, live in one process. Cloning gives another handle on the
/// same function.
pub trait Platform:
    Bus + DmaAlloc + DmaMap + HostMem + Clock + Barrier + InterruptVectors + Clone
{
}

impl<T: Bus + DmaAlloc + DmaMap + HostMem + Clock + Barrier + InterruptVectors + Clone> Platform
    for T
{
}
