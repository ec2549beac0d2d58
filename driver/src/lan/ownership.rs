//! Whether a device owns its function's LAN side.

use e810_hal::bus::VsiId;
use e810_hal::{HostBox, Platform};

use super::{LanHook, LanSide, NoLanHook};
use crate::error::Result;

/// Whether a device owns its function's LAN side. If so, the device undoes it at the end.
#[derive(Debug)]
pub(crate) enum LanOwnership<P: Platform> {
    /// Another driver has set the function up, or a cold start is not finished with it: then its
    /// stages hold what exists.
    NotOwned,
    /// A cold start made it ready.
    Owned(HostBox<P, LanSide<P>>),
}

impl<P: Platform> LanOwnership<P> {
    /// The LAN side, if the device owns one.
    pub(crate) fn owned(&self) -> Option<&LanSide<P>> {
        match self {
            Self::NotOwned => None,
            Self::Owned(lan) => Some(lan),
        }
    }

    /// The LAN side, if the device owns one.
    pub(crate) fn owned_mut(&mut self) -> Option<&mut LanSide<P>> {
        match self {
            Self::NotOwned => None,
            Self::Owned(lan) => Some(lan),
        }
    }

    /// Undoes a LAN side that the device owns.
    ///
    /// # Errors
    /// The first step that failed.
    pub(crate) fn undo(self, platform: &P) -> Result<()> {
        match self {
            Self::NotOwned => Ok(()),
            Self::Owned(lan) => lan.into_inner().undo(platform),
        }
    }

    /// Gives the memory back after a reset from outside.
    pub(crate) fn release_after_reset(self) {
        match self {
            Self::NotOwned => {}
            Self::Owned(lan) => lan.into_inner().release_after_reset(),
        }
    }
}

impl<P: Platform> LanHook for LanOwnership<P> {
    fn add_queue_set(&mut self, vsi: VsiId, traffic_class: u8, qs_handle: u16) -> Result<u32> {
        match self {
            Self::NotOwned => NoLanHook.add_queue_set(vsi, traffic_class, qs_handle),
            Self::Owned(lan) => lan.add_queue_set(vsi, traffic_class, qs_handle),
        }
    }

    fn remove_queue_set(&mut self, vsi: VsiId, qs_handle: u16, teid: u32) {
        match self {
            Self::NotOwned => NoLanHook.remove_queue_set(vsi, qs_handle, teid),
            Self::Owned(lan) => lan.remove_queue_set(vsi, qs_handle, teid),
        }
    }
}
