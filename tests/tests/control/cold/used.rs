//! A card that somebody has used: an earlier driver, an earlier run, another
//! function.

use e810::{
    ColdStart, LinkPolicy, LoadedBy, PackageSource, Stage, StageError, bring_up_cold, reset_card,
};
use e810_adminq::AdminQ;
use e810_adminq::op::{ReleaseResource, RequestResource, Resource};
use e810_hal::Ns;
use e810_sim::variation::{PxeClearedAgain, SwitchInput};
use e810_sim::{AqCode, AqFault, FirmwareConfig, PackageStart, Sim, SimPlatform, Variation};
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};

use crate::cold::faults::with_fault;
use crate::cold::world::{assert_as_found, builder, card, config, up};

/// How often the firmware has refused `opcode` with `code` on function `pf`.
fn refusals(sim: &Sim, pf: u8, opcode: u16, code: AqCode) -> u64 {
    let all = sim.refused_commands(pf);
    let these = all.iter().filter(|row| (row.0, row.1) == (opcode, code));
    these.map(|row| row.2).sum()
}

fn up_and_down(nic: SimPlatform) {
    up(nic, &mut |_| {}).unwrap().shutdown().unwrap();
}

/// Neither a reset of the function nor one by the bus brings PXE mode back.
#[test]
fn every_start_after_the_first_finds_pxe_mode_left() {
    let sim = builder(2).build();
    let (first, second) = (sim.function(0), sim.function(1));
    up_and_down(first.clone());
    assert_eq!(sim.refused_commands(0), []);
    up_and_down(first.clone());
    first.function_level_reset();
    up_and_down(first);
    up_and_down(second);
    assert_eq!(refusals(&sim, 0, 0x0110, AqCode::EEXIST), 2);
    assert_eq!(refusals(&sim, 1, 0x0110, AqCode::EEXIST), 1);
    assert_as_found(&sim);
}

#[test]
fn a_card_may_take_the_command_again() {
    let variation = Variation {
        pxe_cleared_again: PxeClearedAgain::Done,
        ..Variation::default()
    };
    let sim = builder(1).variation(variation).build();
    up_and_down(sim.function(0));
    up_and_down(sim.function(0));
    assert_eq!(sim.refused_commands(0), []);
}

/// As existing drivers, which do not look at the answer.
#[test]
fn no_answer_to_clear_pxe_mode_ends_the_start() {
    for code in [AqCode::EEXIST, AqCode::EPERM, AqCode::EINVAL, AqCode::ESRCH] {
        let outcome = with_fault(0x0110, 1, AqFault::Error(code)).unwrap();
        assert_eq!(outcome.error, None, "{code:?}");
        assert_as_found(&outcome.sim);
    }
}

/// No matter which driver loaded the package, the switch's input is opened by every start:
/// without it no frame reaches the engine.
#[test]
fn messages_pass_after_a_package_of_another_driver() {
    for switch_input in [SwitchInput::Closed, SwitchInput::Open] {
        for start in [
            PackageStart::Active([1, 3, 41, 0]),
            PackageStart::InNvm([1, 3, 0, 0]),
        ] {
            let variation = Variation {
                switch_input,
                ..Variation::default()
            };
            let sim = builder(2)
                .variation(variation)
                .firmware(move |_, config| config.package = start.clone())
                .build();
            let mut pair = Pair::cold(&sim, Setup::default());
            for side in [0, 1] {
                pair.transfer(End { side, qp: 0 }, &Transfer::new(Kind::Send, 5_000));
            }
            pair.finish(&sim);
        }
    }
}

/// A card that refuses the package until `mend` changes it.
fn refusing(functions: u8) -> Sim {
    let refuse = |_, config: &mut FirmwareConfig| {
        config.package = PackageStart::Refused(AqCode::EBADSIG);
    };
    builder(functions).firmware(refuse).build()
}

fn mend(sim: &Sim, functions: u8) {
    for function in 0..functions {
        sim.configure_firmware(function, |config| config.package = PackageStart::None);
    }
}

/// What a start ends with, which names the only way out.
fn ends_until_a_core_reset(nic: SimPlatform) -> String {
    let error = up(nic, &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert_eq!((error.stage, error.undo), (Stage::Package, None), "{text}");
    assert!(text.contains("core reset"), "{text}");
    text
}

#[test]
fn after_a_refused_package_only_a_core_reset_helps() {
    let sim = refusing(2);
    let (first, second) = (sim.function(0), sim.function(1));
    let text = ends_until_a_core_reset(first.clone());
    assert!(text.contains("refused at buffer 0"), "{text}");
    // The firmware takes packages from now on, but the lock was used up.
    mend(&sim, 2);
    for nic in [&first, &second, &first] {
        let text = ends_until_a_core_reset(nic.clone());
        assert!(text.contains("safe mode"), "{text}");
    }
    assert_eq!(sim.reset_counts(0).corer, 0, "never by itself");
    assert_as_found(&sim);
    reset_card(&first).unwrap();
    up_and_down(second);
    assert_eq!(without_file(first).unwrap(), LoadedBy::AnotherFunction);
    assert_eq!(sim.reset_counts(0).corer, 1);
    assert_as_found(&sim);
}

fn without_file(nic: SimPlatform) -> Result<LoadedBy, StageError> {
    let start = ColdStart {
        package: PackageSource::AnotherFunction,
        link: LinkPolicy::GoOn,
    };
    let device = bring_up_cold(nic, &config(), &start, &mut |_| {})?;
    let (control, events) = device.split();
    let by = control.lan_side().unwrap().package().by;
    let end = control.shutdown(events);
    end.map_err(|failed| failed.error).unwrap();
    Ok(by)
}

/// As a driver does that finds no package file: the lock, given back at once.
#[test]
fn a_lock_given_back_without_a_package_is_named() {
    let (sim, nic) = card(|_| {});
    let mut queue = AdminQ::start(nic.clone()).unwrap();
    let lock = Resource::GLOBAL_CONFIG;
    queue.execute(&RequestResource::write(lock, 3_000)).unwrap();
    queue.execute(&ReleaseResource { resource: lock }).unwrap();
    queue.shutdown().unwrap();
    let text = ends_until_a_core_reset(nic.clone());
    assert!(text.contains("safe mode"), "{text}");
    reset_card(&nic).unwrap();
    up_and_down(nic);
    assert_as_found(&sim);
}

/// All waits of it end.
#[test]
fn a_reset_of_the_card_is_bounded() {
    let (sim, nic) = card(|config| config.loading_ms = 60_000);
    let start = sim.now();
    let error = reset_card(&nic).unwrap_err();
    assert!(error.to_string().contains("firmware load"), "{error}");
    assert!(sim.now() - start < Ns::from_ms(40_000), "{error}");
}
