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

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use e810::{ColdStart, Config, LinkPolicy, Package, PackageSource, bring_up_cold};

use e810_backends::host::Host;
use e810_backends::host::package;
use e810_backends::spec::Bdf;
use e810_backends::vfio::Vfio;
use e810_backends::vfio_user::VfioUser;
use e810_backends::{BackendError, DmaRegion, Function, Options, Properties, Transport};
use e810_hal::Ns;
use e810_sim::{Mode, Profile, Sim};
use e810_sim_server::{Server, VECTORS};
use e810_sim_wire::{Wire, WireName, WireSpec};
use e810_tests::traffic::scenarios::scenarios;
use e810_tests::traffic::{Pair, Room, Side};

/// MTU of the interfaces: fits the path MTU that scenarios use.
const MTU: u16 = 1500;

/// Each scenario on functions that are opened for it, started cold, and closed
/// after it.
fn every_scenario<P: Room>(open: impl FnMut() -> [P; 2], package: &[u8]) {
    these_scenarios(open, package, |_| true);
}

/// The same with those whose name is `wanted`.
fn these_scenarios<P: Room>(
    mut open: impl FnMut() -> [P; 2],
    package: &[u8],
    wanted: impl Fn(&str) -> bool,
) {
    let start = ColdStart {
        package: PackageSource::File(Package::parse(package).unwrap()),
        link: LinkPolicy::Wait(Ns::from_ms(10_000)),
    };
    for scenario in scenarios().into_iter().filter(|one| wanted(one.name)) {
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

/// Two simulated functions of a world, each behind a socket.
struct Served {
    server: Server,
    paths: [PathBuf; 2],
}

impl Served {
    fn start(name: &str) -> Self {
        let name = |n| format!("e810-backends-{name}-{}-{n}", std::process::id());
        let paths = [0, 1].map(|n| std::env::temp_dir().join(name(n)));
        let sim = Sim::builder()
            .functions(2)
            .vectors(VECTORS)
            .cold()
            .profile(Profile::small())
            .mode(Mode::Real)
            .build();
        let server = Server::start(sim, &paths).unwrap();
        Self { server, paths }
    }

    fn paths(&self) -> [&Path; 2] {
        self.paths.each_ref().map(PathBuf::as_path)
    }

    fn end(self) {
        let report = self.server.report();
        assert_eq!(report.findings_in_all, 0, "{report:?}");
    }
}

#[test]
fn on_functions_behind_sockets() {
    let served = Served::start("each");
    let open = || {
        served.paths().map(|path| {
            Function::open(VfioUser::connect(path).unwrap(), Options::default()).unwrap()
        })
    };
    every_scenario(open, &e810_sim::test_package());
    served.end();
}

/// Two simulators that have nothing in common but the name of a wire.
#[test]
fn on_functions_of_two_simulators_on_one_wire() {
    let name: WireName = format!("backends-{}", std::process::id()).parse().unwrap();
    let ends = [0xa, 0xb].map(|number| {
        let sim = Sim::builder()
            .vectors(VECTORS)
            .cold()
            .profile(Profile::small())
            .mode(Mode::Real)
            .first_mac([2, 0, 0, 0, number, 0])
            .build();
        let wire = Wire::join(&sim, &WireSpec::Segment(name.clone())).unwrap();
        (sim, wire)
    });
    let open = || ends.each_ref().map(|(sim, _)| sim.function(0));
    every_scenario(open, &e810_sim::test_package());
    for (sim, wire) in ends {
        assert_eq!(sim.findings(), []);
        let (link, report) = (sim.link(), wire.report());
        assert!(link.uplinked > 1000, "{link:?}");
        assert_eq!(report.sent, link.uplinked, "{report:?}");
        assert_eq!((report.strangers, report.own_addresses), (0, 0));
        // Frames to the other function, but for the first ones and those to groups.
        assert!(report.sent_to_all < report.sent / 2, "{report:?}");
        // Both ends are of one user.
        assert!(report.sent_by_ring > report.sent / 2, "{report:?}");
        assert!(report.received_by_ring > report.received / 2, "{report:?}");
    }
}

/// A transport whose set of vectors cannot be added to, as an older kernel's
/// (VFIO_IRQ_INFO_NORESIZE): it refuses what that would refuse.
#[derive(Debug)]
struct Fixed {
    inner: VfioUser,
    properties: Properties,
    /// Vectors of the set that is connected.
    size: AtomicUsize,
    /// Sets that were connected.
    sets: Arc<AtomicUsize>,
}

impl Fixed {
    fn new(inner: VfioUser, sets: &Arc<AtomicUsize>) -> Self {
        let properties = Properties {
            vectors_grow: false,
            ..inner.properties().clone()
        };
        Self {
            inner,
            properties,
            size: AtomicUsize::new(0),
            sets: Arc::clone(sets),
        }
    }
}

// SAFETY: everything that concerns memory is the inner transport's.
unsafe impl Transport for Fixed {
    type Registers = <VfioUser as Transport>::Registers;
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn registers(&self) -> Self::Registers {
        self.inner.registers()
    }
    fn failure(&self) -> Option<&BackendError> {
        self.inner.failure()
    }
    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError> {
        self.inner.config_read(offset, into)
    }
    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), BackendError> {
        self.inner.config_write(offset, from)
    }
    fn reset(&self) -> Result<(), BackendError> {
        self.inner.reset()
    }
    unsafe fn map(&self, region: &DmaRegion<'_>) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.map(region) }
    }
    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError> {
        self.inner.unmap(iova, bytes)
    }
    fn connect_vectors(
        &self,
        first: u16,
        events: &[Option<BorrowedFd<'_>>],
    ) -> Result<(), BackendError> {
        let end = usize::from(first) + events.len();
        let size = self.size.load(Ordering::Relaxed);
        assert!(size == 0 || end <= size, "{end} in a set of {size}");
        if size == 0 {
            self.size.store(end, Ordering::Relaxed);
            self.sets.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.connect_vectors(first, events)
    }
    fn disconnect_vectors(&self) -> Result<(), BackendError> {
        self.size.store(0, Ordering::Relaxed);
        self.inner.disconnect_vectors()
    }
}

/// A set is taken down and connected anew for each vector that it never had, and
/// no event is lost.
#[test]
fn on_functions_whose_vectors_are_a_fixed_set() {
    let served = Served::start("fixed");
    let sets = Arc::new(AtomicUsize::new(0));
    let mut scenarios = 0;
    let open = || {
        scenarios += 1;
        served.paths().map(|path| {
            let inner = VfioUser::connect(path).unwrap();
            Function::open(Fixed::new(inner, &sets), Options::default()).unwrap()
        })
    };
    let is_of_vectors = |name: &str| name == "completion vectors that come and go";
    these_scenarios(open, &e810_sim::test_package(), is_of_vectors);
    // Five vectors at bring-up on each side, and one more on one of them, which
    // comes three times and is new once.
    assert_eq!((scenarios, sets.load(Ordering::Relaxed)), (1, 2 * 5 + 1));
    served.end();
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
