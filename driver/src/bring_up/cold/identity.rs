//! Identity of the function (control-path 9.3, steps 11, 12, 17).

use e810_adminq::op::{GetSwitchConfig, ListCaps, Owner, ReadMac, SwitchPort};
use e810_adminq::{AdminQ, Error as AdminqError};
use e810_hal::Platform;
use e810_hal::bus::PfId;

use super::AdminqUp;
use crate::bring_up::{Device, Failed};
use crate::error::{Error, Result};
use crate::lan::{Identity, check_mtu, end_adminq, max_mtu};

/// The function is known, and may do RDMA.
#[derive(Debug)]
pub struct Identified<P: Platform> {
    pub(super) pf: PfId,
    pub(super) adminq: AdminQ<P>,
    pub(super) identity: Identity,
}

/// Greatest number of pages of the switch's configuration that are asked for; each holds more
/// elements than a card has ports and functions.
const MOST_PAGES: u32 = 16;

impl<P: Platform> Device<P, AdminqUp<P>> {
    /// Asks for capabilities, port and MAC address (control-path 9.3, steps 11, 12, 17).
    ///
    /// Capability 0x51 says whether this function may use the engine at all. The port's number
    /// names the scheduler's tree and the link, its switch is where the VSI goes, and the MAC
    /// address is the source of every RoCE frame.
    ///
    /// # Errors
    /// [`AdminqError::NoRdma`]; an MTU beyond the function's; refused commands.
    #[inline(never)]
    pub fn identify(mut self) -> Result<Device<P, Identified<P>>, Failed<P, AdminqUp<P>>> {
        let mtu = self.config.lan.mtu;
        match identify(&mut self.stage.adminq, mtu) {
            Ok(identity) => Ok(self.map(|AdminqUp { pf, adminq }| Identified {
                pf,
                adminq,
                identity,
            })),
            Err(error) => Err((self, error)),
        }
    }
}

fn identify<P: Platform>(queue: &mut AdminQ<P>, mtu: u16) -> Result<Identity> {
    let device = queue.execute(&ListCaps(Owner::Device))?;
    let function = queue.execute(&ListCaps(Owner::Function))?;
    if !function.rdma || device.too_many_functions() {
        return Err(AdminqError::NoRdma.into());
    }
    check_mtu("interface MTU", mtu, max_mtu(&function))?;
    Ok(Identity {
        device,
        function,
        port: port(queue)?,
        mac: queue.execute(&ReadMac)?,
    })
}

/// The physical port among the switch's elements.
fn port<P: Platform>(queue: &mut AdminQ<P>) -> Result<SwitchPort> {
    let mut first = 0;
    let mut port = None;
    for _ in 0..MOST_PAGES {
        let page = queue.execute(&GetSwitchConfig { first })?;
        // The last one counts, as for existing drivers.
        port = page.port.or(port);
        match page.next {
            Some(next) => first = next,
            None => break,
        }
    }
    port.ok_or(Error::Invalid {
        what: "the firmware's switch has no physical port for this function: check the card's NVM settings",
    })
}

impl<P: Platform> Device<P, Identified<P>> {
    /// What the firmware says about the function.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.stage.identity
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        end_adminq(self.stage.adminq, &self.platform)
    }
}
