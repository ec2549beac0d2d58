//! A simulated card as after power-up, and what must hold once a driver is done
//! with it.

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
        .profile(Profile::Small)
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

/// Every vector can be had again.
pub(crate) fn assert_vectors_back(nic: &SimPlatform) {
    use e810_hal::Vectors;
    let mut taken = Vec::new();
    while let Some(vector) = nic.vector_alloc() {
        taken.push(vector);
    }
    let had = taken.len();
    for vector in taken {
        nic.vector_free(vector);
    }
    assert_eq!(had, usize::from(nic.vector_count()), "vectors were lost");
}

/// Not a byte is held, every vector is back, and the card has nothing to
/// complain of.
pub(crate) fn assert_as_found(sim: &Sim) {
    for function in 0..sim.functions() {
        let held = sim.memory(function);
        assert!(held.nothing_held(), "{held:?}");
        assert_vectors_back(&sim.function(function));
    }
    assert_eq!(sim.findings(), []);
}
