//! The LAN side of a function that somebody else has made ready.

use anyhow::{Context, Error, Result, bail};
use e810::{Lan, MacAddr, VsiId};
use e810_hal::bus::RegIndex;
use e810_hal::regs::VSIQF_PE_CTL1;

use super::{Function, Transport};

/// The LAN side as asked, or as far as the function itself tells: the Ethernet
/// address its serial number was made of, the only VSI that lets packets into
/// the RDMA engine. `mtu` is in bytes, Ethernet header not counted.
///
/// # Errors
/// What the function does not tell and has to be given.
pub fn lan<T: Transport>(
    function: &Function<T>,
    mac: Option<[u8; 6]>,
    asked_vsi: Option<u16>,
    mtu: u16,
) -> Result<Lan> {
    let name = function.transport().name();
    let mac = mac.or_else(|| function.identity().mac());
    let mac = mac.with_context(|| {
        format!("{name}: its serial number is not made of an Ethernet address; give one with --mac")
    })?;
    let vsi = match asked_vsi {
        Some(vsi) => VsiId::new(vsi).with_context(|| format!("{vsi} is no VSI"))?,
        None => vsi(function)?,
    };
    Ok(Lan {
        vsi,
        mac: MacAddr(mac),
        mtu,
    })
}

/// The only VSI whose packets may reach the RDMA engine.
fn vsi<T: Transport>(function: &Function<T>) -> Result<VsiId> {
    let name = function.transport().name();
    let all = (0..=VsiId::MAX).filter_map(VsiId::from_u32);
    let open: Vec<VsiId> = all
        .filter(|vsi| VSIQF_PE_CTL1.at(*vsi).get(function) & 1 != 0)
        .collect();
    if let Some(failure) = function.failure() {
        return Err(Error::new(failure.clone()));
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
