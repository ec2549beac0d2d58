//! Where the RDMA scheduler's leaves are registered with the LAN side
//! (AQ 0x0C33).

use e810_hal::bus::VsiId;

use crate::error::Result;

/// Registers RDMA queue sets with the LAN side's scheduler.
///
/// Needed on a function whose LAN side this process owns. If another driver has set up the
/// function, use [`NoLanHook`].
pub trait LanHook {
    /// Registers `qs_handle` for a traffic class; returns the node (TEID) that its removal names.
    ///
    /// # Errors
    /// Why the LAN side refused; [`Error::QueueSet`](crate::Error::QueueSet) fits if it gives no
    /// reason.
    fn add_queue_set(&mut self, vsi: VsiId, traffic_class: u8, qs_handle: u16) -> Result<u32>;

    /// Removes it again.
    fn remove_queue_set(&mut self, vsi: VsiId, qs_handle: u16, teid: u32);
}

/// Does nothing: the LAN side needs no registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoLanHook;

impl LanHook for NoLanHook {
    fn add_queue_set(&mut self, _: VsiId, _: u8, _: u16) -> Result<u32> {
        Ok(0)
    }
    fn remove_queue_set(&mut self, _: VsiId, _: u16, _: u32) {}
}
