//! One module per command.

pub mod bind;
pub mod doctor;
pub mod list;
pub mod pingpong;
mod remote;
pub mod sim;
pub mod up;

use anyhow::{Context, Result};
use e810::{Lan, MacAddr, VsiId};
use e810_sim::{Mode, Profile, Sim, SimPlatform};

/// A simulator with `functions` functions whose LAN side is ready.
pub(crate) fn simulator(functions: u8, mode: Mode, seed: u64) -> Sim {
    Sim::builder()
        .functions(functions)
        .seed(seed)
        .profile(Profile::Card)
        .mode(mode)
        .build()
}

/// Interface MTU of a simulated function: jumbo frames, so that every path MTU
/// of RoCEv2 fits.
const SIM_MTU: u16 = 9000;

/// The LAN side of a simulated function.
pub(crate) fn sim_lan(function: &SimPlatform) -> Result<Lan> {
    let vsi = function.vsi();
    Ok(Lan {
        vsi: VsiId::new(vsi).with_context(|| format!("the simulator's VSI {vsi} is none"))?,
        mac: MacAddr(function.mac()),
        mtu: SIM_MTU,
    })
}
