//! The LAN side of a function that another driver has set up.

use anyhow::{Context, Error, Result, bail, ensure};
use e810::{Lan, MacAddr, VsiId};
use e810_hal::bus::RegIndex;
use e810_hal::clock::live;
use e810_hal::regs::{PF_FUNC_RID, VSIQF_PE_CTL1};

use super::{Function, Transport};

/// The LAN side as given, or as far as the function itself tells: for function 0 of a card the
/// Ethernet address from which the serial number was made, and the only VSI that lets packets into
/// the RDMA engine. `mtu` is in bytes, without the Ethernet header.
///
/// # Errors
/// Values that the function does not tell and that have to be given.
pub fn lan<T: Transport>(
    function: &Function<T>,
    mac: Option<[u8; 6]>,
    asked_vsi: Option<u16>,
    mtu: u16,
) -> Result<Lan> {
    let mac = mac.map_or_else(|| serial_mac(function), Ok)?;
    let vsi = match asked_vsi {
        Some(vsi) => VsiId::new(vsi).with_context(|| format!("{vsi} is not a VSI number"))?,
        None => vsi(function)?,
    };
    Ok(Lan {
        vsi,
        mac: MacAddr(mac),
        mtu,
    })
}

/// The Ethernet address of function 0, from the serial number. The number of the function comes
/// from the register, because in a virtual machine the bus may show another.
fn serial_mac<T: Transport>(function: &Function<T>) -> Result<[u8; 6]> {
    let name = function.transport().name();
    let rid = PF_FUNC_RID.get(function);
    if let Some(failure) = function.failure() {
        return Err(Error::new(failure.clone()));
    }
    let rid = live("PF_FUNC_RID", rid).with_context(|| name.to_owned())?;
    let number = PF_FUNC_RID::FUNCTION_NUMBER.read(rid);
    ensure!(
        number == 0,
        "{name}: it is function {number} of its card, and the serial number, which all functions share, \
         is made of function 0's Ethernet address: give its own with --mac"
    );
    function.identity().mac().with_context(|| {
        format!(
            "{name}: its serial number is not derived from an Ethernet address; give one with --mac"
        )
    })
}

/// The only VSI whose packets may reach the RDMA engine.
fn vsi<T: Transport>(function: &Function<T>) -> Result<VsiId> {
    let name = function.transport().name();
    let mut open = Vec::new();
    for vsi in (0..=VsiId::MAX).filter_map(VsiId::from_u32) {
        let filter = VSIQF_PE_CTL1.at(vsi).get(function);
        if let Some(failure) = function.failure() {
            return Err(Error::new(failure.clone()));
        }
        // For a function that is gone, every VSI would read as open.
        let filter = live("VSIQF_PE_CTL1", filter).with_context(|| name.to_owned())?;
        open.extend((filter & 1 != 0).then_some(vsi));
    }
    match *open {
        [vsi] => Ok(vsi),
        [] => bail!(
            "{name}: no VSI lets packets into the RDMA engine: the function's LAN side is not ready"
        ),
        [..] => bail!(
            "{name}: {} VSIs let packets into the RDMA engine: choose one with --vsi",
            open.len()
        ),
    }
}
