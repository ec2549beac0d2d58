//! Functions of a simulator in this process.

use e810::Quirks;
use e810_backends::spec::SimSpec;
use e810_sim::{Builder, Mode, Profile, SimPlatform};

use crate::start::{Source, Start, usual_ceqs};

/// Completion vectors of a function in virtual time.
const VIRTUAL_CEQS: u16 = 4;

/// Interface MTU of a simulated function: jumbo frames, so that every path MTU
/// of RoCEv2 fits.
pub const SIM_MTU: u16 = 9000;

/// A simulator of this name with `functions` functions, as after power-up or, if `warm`,
/// with their LAN side ready.
#[must_use]
pub fn simulator(spec: &SimSpec, functions: u8, mode: Mode, seed: u64, warm: bool) -> Builder {
    let mut builder = spec.builder(mode);
    if !warm {
        builder = builder.cold();
    }
    builder
        .functions(functions)
        .seed(seed)
        .profile(Profile::card())
}

/// Completion vectors of a function: in virtual time the same on every machine, like everything
/// there.
#[must_use]
pub fn ceqs(function: &SimPlatform) -> u16 {
    match function.mode() {
        Mode::Virtual => VIRTUAL_CEQS,
        Mode::Real => usual_ceqs(),
    }
}

/// The start of a function from its reset on, with the package of simulated firmware and this
/// interface MTU.
#[must_use]
pub fn start(function: &SimPlatform, mtu: u16) -> Start {
    Start::Cold {
        package: Source::simulated(),
        mtu,
        ceqs: ceqs(function),
        leave_link: false,
        quirks: Quirks::NONE,
    }
}
