//! Cards on which there is no RDMA, or not yet: each said in one line.

use e810::{
    ColdStart, LinkPolicy, Loaded, LoadedBy, Package, PackageSource, Stage, StageError,
    bring_up_cold,
};
use e810_hal::{Bus, Ns, RegOffset};
use e810_sim::middleware::{Layer, Layered};
use e810_sim::{AqCode, FirmwareConfig, PackageStart, PortLink, SimPlatform, test_package};

use crate::cold::world::{assert_as_found, builder, card, config, up};

/// The bring-up ends at `stage`, with a line that says `text`.
fn ends(configure: impl Fn(&mut FirmwareConfig) + 'static, stage: Stage, text: &str) {
    let (sim, nic) = card(configure);
    let error = up(nic, &mut |_| {}).unwrap_err();
    judge(&error, stage, text);
    assert_as_found(&sim);
}

fn judge(error: &StageError, stage: Stage, text: &str) {
    let line = error.to_string();
    assert_eq!(error.stage, stage, "{line}");
    assert!(line.contains(text) && !line.contains('\n'), "{line}");
    assert_eq!(error.undo, None, "{line}");
}

#[test]
fn no_rdma() {
    let text = "offers no RDMA on this function";
    ends(|config| config.rdma = false, Stage::Identity, text);
    ends(|config| config.functions = 8, Stage::Identity, text);
}

#[test]
fn a_firmware_that_cannot_be_spoken_to() {
    ends(
        |config| config.recovery = true,
        Stage::Reset,
        "recovery mode",
    );
    ends(
        |config| config.api = (2, 0, 0),
        Stage::Adminq,
        "interface is 2.0",
    );
}

#[test]
fn a_firmware_that_is_still_loading_is_waited_for() {
    let (sim, nic) = card(|config| config.loading_ms = 2_000);
    up(nic, &mut |_| {}).unwrap().shutdown().unwrap();
    assert_as_found(&sim);
}

#[test]
fn no_link() {
    ends(
        |config| config.link = PortLink::NoMedia,
        Stage::Link,
        "no module or cable",
    );
    ends(
        |config| config.link = PortLink::Down,
        Stage::Link,
        "the port has no link",
    );
    let (sim, nic) = card(|config| config.link = PortLink::UpAfterMs(3_000));
    up(nic, &mut |_| {}).unwrap().shutdown().unwrap();
    assert_as_found(&sim);
}

#[test]
fn a_port_without_a_link_is_no_obstacle_to_who_does_not_wait() {
    let (sim, nic) = card(|config| config.link = PortLink::NoMedia);
    let file = test_package();
    let start = ColdStart {
        package: PackageSource::File(Package::parse(&file).unwrap()),
        link: LinkPolicy::GoOn,
    };
    let device = bring_up_cold(nic, &config(), &start, &mut |_| {}).unwrap();
    device.shutdown().unwrap();
    assert_as_found(&sim);
}

fn without_a_file(nic: SimPlatform) -> Result<Loaded, StageError> {
    let start = ColdStart {
        package: PackageSource::AnotherFunction,
        link: LinkPolicy::GoOn,
    };
    let device = bring_up_cold(nic, &config(), &start, &mut |_| {})?;
    let (control, events) = device.split();
    let loaded = control.lan_side().unwrap().package();
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
    Ok(loaded)
}

#[test]
fn packages_there_and_not_there() {
    let (sim, nic) = card(|_| {});
    let error = without_a_file(nic.clone()).unwrap_err();
    judge(&error, Stage::Package, "safe mode");
    // Once loaded it stays, no matter which driver comes then.
    up(nic.clone(), &mut |_| {}).unwrap().shutdown().unwrap();
    assert_eq!(without_a_file(nic).unwrap().by, LoadedBy::AnotherFunction);
    assert_as_found(&sim);

    let (sim, nic) = card(|config| config.package = PackageStart::Active([1, 3, 41, 0]));
    assert_eq!(without_a_file(nic).unwrap().version.update, 41);
    assert_as_found(&sim);

    let (sim, nic) = card(|config| config.package = PackageStart::Active([1, 2, 0, 0]));
    let error = without_a_file(nic).unwrap_err();
    judge(&error, Stage::Package, "runs DDP package 1.2.0.0");
    assert_as_found(&sim);

    let refused = |config: &mut FirmwareConfig| {
        config.package = PackageStart::Refused(AqCode::EBADSIG);
    };
    ends(refused, Stage::Package, "refused at buffer 0");
}

#[test]
fn the_second_function_finds_the_package_of_the_first() {
    let sim = builder(2).build();
    let (first, second) = (sim.function(0), sim.function(1));
    let first = up(first, &mut |_| {}).unwrap();
    assert_eq!(
        without_a_file(second).unwrap().by,
        LoadedBy::AnotherFunction
    );
    first.shutdown().unwrap();
    assert_as_found(&sim);
}

/// A function that left the bus, from the n-th register access on.
#[derive(Clone)]
struct Gone(std::sync::Arc<std::sync::atomic::AtomicI64>);

impl Layer for Gone {
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        if self.left() {
            below.read32(off)
        } else {
            u32::MAX
        }
    }
    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        if self.left() {
            below.write32(off, value);
        }
    }
}

impl Gone {
    fn left(&self) -> bool {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0
    }
}

#[test]
fn a_device_that_goes_at_any_access() {
    for n in (0..400).chain((400..3_000).step_by(37)) {
        let (sim, nic) = card(|_| {});
        let start = sim.now();
        let gone = Gone(std::sync::Arc::new(n.into()));
        let platform = Layered::new(nic.clone(), gone.clone());
        let Err(error) = up(platform, &mut |_| {}) else {
            break;
        };
        let text = error.to_string();
        assert!(
            text.contains("gone") || text.contains("reset the function"),
            "{n}: {text}"
        );
        assert!(sim.now() - start < Ns::from_ms(12_000), "{n}: {text}");
        let held = sim.memory(0);
        assert_eq!((held.host_blocks, held.mappings), (0, 0), "{n}");
    }
}

/// The way out when the device has stopped answering and was reset from outside.
#[test]
fn memory_comes_back_after_a_reset_from_outside() {
    let (sim, nic) = card(|_| {});
    let (control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
    nic.function_level_reset();
    control.release_after_reset(events);
    assert_as_found(&sim);
    up(nic, &mut |_| {}).unwrap().shutdown().unwrap();
    assert_as_found(&sim);
}
