//! Ports: what is changed of them, what is not, and boards that allow nothing.

use e810::{
    ColdStart, Error, LanEvent, LinkFec, LinkPolicy, Package, PackageSource, Stage, StageError,
    bring_up_cold,
};
use e810_adminq::Error as AdminqError;
use e810_hal::{Clock, Ns};
use e810_sim::{AqCode, AqFault, PhyStart, PortLink, Sim, SimPlatform, test_package};
use e810_tests::traffic::{End, Kind, Pair, Setup, Side, Transfer};

use crate::cold::world::{assert_as_found, builder, card, config, up};

/// Commands that change a port, and the one that asks what it can do.
const CHANGES: [u16; 2] = [0x0601, 0x0605];

fn start(nic: SimPlatform, link: LinkPolicy) -> Result<(), StageError> {
    let file = test_package();
    let start = ColdStart {
        package: PackageSource::File(Package::parse(&file).unwrap()),
        link,
    };
    let device = bring_up_cold(nic, &config(), &start, &mut |_| {})?;
    device.shutdown().unwrap();
    Ok(())
}

/// Whether the firmware was sent one of `opcodes` during `run`: faults that were
/// ordered for them are used up then.
fn were_sent(sim: &Sim, opcodes: &[u16], run: impl FnOnce()) -> bool {
    let mut before = None;
    sim.configure_firmware(0, |config| {
        for opcode in opcodes {
            config.fault(*opcode, 1, AqFault::EventAfter(0x7777));
        }
        before = Some(config.clone());
    });
    run();
    let mut sent = false;
    sim.configure_firmware(0, |config| sent = Some(&*config) != before.as_ref());
    sent
}

#[test]
fn a_managed_link_is_no_obstacle_to_who_does_not_wait() {
    for link in [PortLink::Up, PortLink::Down] {
        for phy in [PhyStart::Everything, PhyStart::Disabled] {
            let (sim, nic) = card(move |config| {
                (config.link, config.phy) = (link, phy);
                config.link_is_managed = true;
            });
            start(nic, LinkPolicy::GoOn).unwrap();
            assert_as_found(&sim);
        }
    }
}

#[test]
fn waiting_for_a_managed_link_says_why_there_is_none() {
    let (sim, nic) = card(|config| {
        config.phy = PhyStart::Disabled;
        config.link_is_managed = true;
    });
    let error = start(nic, LinkPolicy::Wait(Ns::from_ms(10_000))).unwrap_err();
    assert_eq!(error.stage, Stage::Link);
    let reported = matches!(error.error, Error::Adminq(AdminqError::NoLink { .. }));
    assert!(reported, "{error}");
    assert_as_found(&sim);
}

#[test]
fn refusals_of_the_phy_end_no_start() {
    for (opcode, phy) in [
        (0x0600, PhyStart::Everything),
        (0x0601, PhyStart::WithoutFec),
        (0x0605, PhyStart::SwitchedOff),
    ] {
        for code in [AqCode::EIO, AqCode::EMODE, AqCode::ESRCH] {
            let (sim, nic) = card(move |config| {
                config.phy = phy;
                config.fault(opcode, 1, AqFault::Error(code));
            });
            if phy == PhyStart::SwitchedOff {
                // Switched on again by the call that waits, and not here.
                let error = start(nic, LinkPolicy::Wait(Ns::from_ms(10_000))).unwrap_err();
                let reported = matches!(error.error, Error::Adminq(AdminqError::NoLink { .. }));
                assert!(reported, "{error}");
            } else {
                start(nic, LinkPolicy::GoOn).unwrap_or_else(|e| panic!("{opcode:#x}: {e}"));
            }
            assert!(sim.refused_commands(0).contains(&(opcode, code, 1)));
            assert_as_found(&sim);
        }
    }
}

/// A link without error correction is up, and nothing is received over it.
#[test]
fn an_up_link_gets_what_its_configuration_is_missing() {
    let sim = builder(2)
        .firmware(|_, config| config.phy = PhyStart::WithoutFec)
        .build();
    let mut pair = Pair::cold(&sim, Setup::default());
    for side in [0, 1] {
        pair.transfer(End { side, qp: 0 }, &Transfer::new(Kind::Send, 5_000));
    }
    pair.finish(&sim);
}

#[test]
fn a_port_that_has_everything_is_left_alone() {
    for link in [PortLink::Up, PortLink::UpAfterMs(3_000)] {
        let (sim, nic) = card(move |config| config.link = link);
        let changed = were_sent(&sim, &CHANGES, || {
            up(nic, &mut |_| {}).unwrap().shutdown().unwrap();
        });
        assert!(!changed, "{link:?}");
    }
}

#[test]
fn a_port_that_is_to_be_left_is_left() {
    for phy in [
        PhyStart::Everything,
        PhyStart::Disabled,
        PhyStart::WithoutFec,
    ] {
        let (sim, nic) = card(move |config| config.phy = phy);
        let asked = [0x0600, 0x0601, 0x0605];
        let touched = were_sent(&sim, &asked, || {
            start(nic, LinkPolicy::Leave).unwrap();
        });
        assert!(!touched, "{phy:?}");
    }
}

/// A program that does not wait gets an event, also where the start has set the port anew.
#[test]
fn a_link_that_comes_up_later_is_reported() {
    for phy in [PhyStart::Everything, PhyStart::WithoutFec] {
        let (sim, nic) = card(move |config| {
            config.link = PortLink::UpAfterMs(2_000);
            config.phy = phy;
        });
        let file = test_package();
        let cold = ColdStart {
            package: PackageSource::File(Package::parse(&file).unwrap()),
            link: LinkPolicy::GoOn,
        };
        let device = bring_up_cold(nic.clone(), &config(), &cold, &mut |_| {}).unwrap();
        let (mut control, events) = device.split();
        let reported = (0..400).find_map(|_| {
            nic.delay(Ns::from_ms(10));
            control.progress().unwrap();
            control.take_lan_event()
        });
        assert!(
            matches!(reported, Some(LanEvent::LinkUp(_))),
            "{reported:?}"
        );
        control.shutdown(events).map_err(|f| f.error).unwrap();
        assert_as_found(&sim);
    }
}

/// A port that nobody enables passes nothing, in either direction.
#[test]
fn no_frame_passes_a_port_without_a_link() {
    let sim = builder(2)
        .firmware(|_, config| config.phy = PhyStart::Disabled)
        .build();
    let file = test_package();
    let cold = ColdStart {
        package: PackageSource::File(Package::parse(&file).unwrap()),
        link: LinkPolicy::Leave,
    };
    let setup = Setup::default();
    let sides = [0, 1].map(|pf| {
        let nic = sim.function(pf);
        let device = bring_up_cold(nic.clone(), &config(), &cold, &mut |_| {}).unwrap();
        Side::on(device, nic, &setup)
    });
    let mut pair = Pair::connected(sides.into(), setup);
    let sge = pair.sides[0].sge(0, 64);
    let to = pair.remote(End { side: 0, qp: 0 }, 0);
    let op = e810::Op::Write {
        data: e810::Data::Sges(&[sge]),
        remote: to,
        imm: None,
    };
    let wr = e810::SendWr {
        wr_id: 1,
        op,
        flags: e810::SendFlags::SIGNALED,
    };
    pair.sides[0].post_send(0, &[wr]).unwrap();
    let done = pair.completions(0, 1);
    assert_eq!(done[0].status, e810::WcStatus::RetryExcErr);
}

/// Waiting restarts nothing either.
#[test]
fn a_link_of_another_driver_is_only_waited_for() {
    for (after, is_up) in [(8_000, true), (30_000, false)] {
        let (sim, nic) = card(move |config| config.link = PortLink::UpAfterMs(after));
        let file = test_package();
        let cold = ColdStart {
            package: PackageSource::File(Package::parse(&file).unwrap()),
            link: LinkPolicy::Leave,
        };
        let touched = were_sent(&sim, &[0x0600, 0x0601, 0x0605], || {
            let device = bring_up_cold(nic, &config(), &cold, &mut |_| {}).unwrap();
            let (mut control, events) = device.split();
            let waited = control.wait_link(Ns::from_ms(10_000));
            assert_eq!(waited.is_ok(), is_up, "{waited:?}");
            control.shutdown(events).map_err(|f| f.error).unwrap();
        });
        assert!(!touched, "{after} ms");
    }
}

/// Neither has a link before the other is enabled.
#[test]
fn two_ports_with_a_cable_between_them() {
    let sim = builder(2)
        .firmware(|pf, config| {
            config.phy = PhyStart::Disabled;
            config.link = PortLink::Cabled(1 - pf);
        })
        .build();
    let file = test_package();
    let start = ColdStart {
        package: PackageSource::File(Package::parse(&file).unwrap()),
        link: LinkPolicy::GoOn,
    };
    let began = sim.now();
    let ends = [0, 1].map(|pf| {
        let device = bring_up_cold(sim.function(pf), &config(), &start, &mut |_| {});
        device.unwrap().split()
    });
    for (mut control, events) in ends {
        let status = control.wait_link(Ns::from_ms(10_000)).unwrap().unwrap();
        assert_eq!(status.fec, LinkFec::RS_528);
        assert_eq!(control.query_port(1).unwrap().fec, Some(status.fec));
        let end = control.shutdown(events);
        end.map_err(|failed| failed.error).unwrap();
    }
    assert!(sim.now() - began < Ns::from_ms(1_000));
    assert_as_found(&sim);
}

#[test]
fn a_link_that_was_switched_off_is_switched_on() {
    for phy in [PhyStart::Disabled, PhyStart::SwitchedOff] {
        let (sim, nic) = card(move |config| config.phy = phy);
        up(nic, &mut |_| {}).unwrap().shutdown().unwrap();
        assert_as_found(&sim);
    }
}
