//! The scenarios of [`e810_tests::traffic::scenarios`] on backends of the host.
//!
//! On functions bound to vfio-pci, two of one link, named by `E810_BDF`:
//!
//! ```text
//! E810_BDF=0000:3b:00.0,0000:3b:00.1 cargo test -p e810-tests --test backends -- --ignored
//! ```
//!
//! `tests/guest/run` does that in a guest with a real kernel. It has not been
//! done on a card. The card's package is looked for where the kernel looks;
//! `E810_DDP=FILE` names another.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, helpers included"
)]

use std::path::{Path, PathBuf};

use e810::{ColdStart, Config, LinkPolicy, Package, PackageSource, bring_up_cold};

use e810_hal::Ns;
use e810_host::backend::vfio::Vfio;
use e810_host::backend::vfio_user::VfioUser;
use e810_host::backend::{Function, Options, Transport};
use e810_host::host::Host;
use e810_host::host::package;
use e810_host::server::{Server, VECTORS};
use e810_host::spec::Bdf;
use e810_sim::{Mode, Profile, Sim};
use e810_tests::traffic::scenarios::scenarios;
use e810_tests::traffic::{Pair, Side};

/// MTU of the interfaces: fits the path MTU that scenarios use.
const MTU: u16 = 1500;

/// Each scenario on functions that are opened for it, started cold, and closed
/// after it.
fn every_scenario<T: Transport>(open: impl Fn() -> [Function<T>; 2], package: &[u8]) {
    let start = ColdStart {
        package: PackageSource::File(Package::parse(package).unwrap()),
        link: LinkPolicy::Wait(Ns::from_ms(10_000)),
    };
    for scenario in scenarios() {
        println!("{}", scenario.name);
        let functions = open();
        let sides = functions.into_iter().map(|function| {
            let config = scenario.setup.config(Config::cold(MTU).lan);
            let device = bring_up_cold(function.clone(), &config, &start, &mut |_| {});
            Side::on(device.unwrap(), function, &scenario.setup)
        });
        let mut pair = Pair::connected(sides.collect(), scenario.setup);
        (scenario.run)(&mut pair);
        pair.close();
    }
}

#[test]
fn on_functions_behind_sockets() {
    let name = |n| format!("e810-backends-{}-{n}", std::process::id());
    let paths: Vec<PathBuf> = (0..2).map(|n| std::env::temp_dir().join(name(n))).collect();
    let sim = Sim::builder()
        .functions(2)
        .vectors(VECTORS)
        .cold()
        .profile(Profile::Small)
        .mode(Mode::Real)
        .build();
    let server = Server::start(sim, &paths).unwrap();
    let open = || {
        [0, 1].map(|n: usize| {
            let path = paths.get(n).expect("two sockets");
            Function::open(VfioUser::connect(path).unwrap(), Options::default()).unwrap()
        })
    };
    every_scenario(open, &e810_sim::test_package());
    let report = server.report();
    assert_eq!(report.findings_in_all, 0, "{report:?}");
}

/// The two values of a variable, separated by a comma.
fn two<V: std::str::FromStr>(text: &str) -> [V; 2] {
    let values: Vec<V> = text.split(',').filter_map(|one| one.parse().ok()).collect();
    let values: Option<[V; 2]> = values.try_into().ok();
    values.expect("two values, separated by a comma")
}

#[test]
#[ignore = "needs two functions bound to vfio-pci: E810_BDF=BDF,BDF"]
fn on_functions_bound_to_vfio_pci() {
    let bdfs = std::env::var("E810_BDF").expect("E810_BDF=BDF,BDF");
    let bdfs: [Bdf; 2] = two(&bdfs);
    let file = match std::env::var_os("E810_DDP") {
        Some(path) => package::read(Path::new(&path)),
        None => package::find(&Host::default(), [0; 8]),
    };
    let open =
        || bdfs.map(|bdf| Function::open(Vfio::open(bdf).unwrap(), Options::default()).unwrap());
    every_scenario(open, &file.unwrap().bytes);
}
