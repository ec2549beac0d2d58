//! A simulated card as after power-up, and what must hold once a driver is done
//! with it.

pub(crate) use e810_tests::given_back::{assert_as_found, assert_vectors_back};

use e810::{
    ColdStart, Config, Device, LinkPolicy, Package, PackageSource, Platform, Reached, Ready,
    StageError, bring_up_cold,
};
use e810_hal::Ns;
use e810_sim::{Builder, FirmwareConfig, Profile, Sim, SimPlatform, test_package};

pub(crate) fn builder(functions: u8) -> Builder {
    Sim::builder()
        .seed(7)
        .functions(functions)
        .profile(Profile::small())
        .cold()
}

/// One function whose firmware has these choices.
pub(crate) fn card(configure: impl Fn(&mut FirmwareConfig) + 'static) -> (Sim, SimPlatform) {
    let sim = builder(1)
        .firmware(move |_, config| configure(config))
        .build();
    let nic = sim.function(0);
    (sim, nic)
}

pub(crate) fn config() -> Config {
    Config::cold(9000)
}

/// Brings up with the test package, waiting for the link.
pub(crate) fn up<P: Platform>(
    platform: P,
    observe: &mut dyn FnMut(Reached),
) -> Result<Device<P, Ready<P>>, StageError> {
    let file = test_package();
    let start = ColdStart {
        package: PackageSource::File(Package::parse(&file).unwrap()),
        link: LinkPolicy::Wait(Ns::from_ms(10_000)),
    };
    bring_up_cold(platform, &config(), &start, observe)
}
