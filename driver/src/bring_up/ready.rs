//! The tables of objects; the device in parts.

use e810_hal::Platform;

use super::{AeqUp, Device, Failed};
use crate::control::{Control, Tables};
use crate::error::Result;
use crate::events::EventSet;
use crate::lan::LanOwnership;

/// Ready for use.
#[derive(Debug)]
pub struct Ready<P: Platform> {
    pub(super) control: Control<P>,
    pub(super) events: EventSet<P>,
}

impl<P: Platform> Device<P, AeqUp<P>> {
    /// Allocates the tables of objects: the device is ready. On a LAN side that is ours, lets
    /// frames in first (control-path 9.9).
    ///
    /// # Errors
    /// No memory; a firmware that refuses the filter.
    #[inline(never)]
    pub fn allocate_tables(self) -> Result<Device<P, Ready<P>>, Failed<P, AeqUp<P>>> {
        let (AeqUp { engine }, mut rest) = self.take();
        // Frames may come as soon as the filter is on; the engine is up.
        if let Some(lan) = rest.lan_side.owned_mut()
            && let Err(error) = lan.admit_rdma()
        {
            return Err((rest.with(AeqUp { engine }), error));
        }
        let (platform, config) = (rest.platform.clone(), rest.config);
        let tables = match Tables::new(&platform, &config, &engine.hmc) {
            Ok(tables) => tables,
            Err(error) => {
                if let Some(lan) = rest.lan_side.owned_mut() {
                    lan.refuse_rdma();
                }
                return Err((rest.with(AeqUp { engine }), error));
            }
        };
        let lan_side = core::mem::replace(&mut rest.lan_side, LanOwnership::NotOwned);
        let (control, events) = Control::new(platform, &config, engine, lan_side, tables);
        Ok(rest.with(Ready { control, events }))
    }
}

impl<P: Platform> Device<P, Ready<P>> {
    /// The parts, each for the thread that needs it.
    pub fn split(self) -> (Control<P>, EventSet<P>) {
        (self.stage.control, self.stage.events)
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (control, events) = self.split();
        control.shutdown(events).map_err(|failed| failed.error)
    }
}
