//! LAN queues beside the engine: opened and closed, refused, broken, and what is left.

use std::net::IpAddr;

use e810::{Control, Error, EventSet, LanInit, LanPort, MacAddr, Platform, Qp, QpInit};
use e810_sim::{AqCode, AqFault, ResetSource, Sim, SimPlatform};
use e810_tests::traffic::Pair;
use e810_tests::traffic::verbs::datagrams::setup;

use crate::cold::world::{assert_as_found, builder, card, up};

/// Disable Transmit Queues, LAN queues and queue sets.
const DISABLE_QUEUES: u16 = 0x0C31;

/// AdminQ commands so far.
fn sent<P: Platform>(control: &Control<P>) -> u64 {
    control.lan_side().unwrap().counters().commands
}

/// A function with these layers of its tree, up.
fn function(layers: u8) -> (Sim, Control<SimPlatform>, EventSet<SimPlatform>) {
    let (sim, nic) = card(move |config| config.layers = layers);
    let (control, events) = up(nic, &mut |_| {}).unwrap().split();
    (sim, control, events)
}

fn close(control: &mut Control<SimPlatform>, port: LanPort<SimPlatform>) {
    control.close_lan(port).map_err(|(_, error)| error).unwrap();
}

fn end(sim: &Sim, control: Control<SimPlatform>, events: EventSet<SimPlatform>) {
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
    assert_as_found(sim);
}

/// The device takes what is sent, and reports it; several times, in both kinds of tree.
#[test]
fn a_port_is_opened_and_closed() {
    for layers in [9, 5] {
        let (sim, mut control, events) = function(layers);
        for mtu in [1500, 9000] {
            let init = LanInit::new(mtu);
            let mut port = control.open_lan(&init).unwrap();
            assert_eq!(port.max_frame(), usize::from(mtu) + 22);
            let mut frame = vec![0xFF; port.max_frame()];
            for _ in 0..200 {
                port.transmit(&frame).unwrap();
            }
            assert_eq!((port.outstanding(), port.tx_counts().done), (0, 200));
            assert_eq!(port.receive(&mut frame), None);
            close(&mut control, port);
        }
        end(&sim, control, events);
    }
}

#[test]
fn there_is_one_port_and_it_is_closed_before_the_end() {
    let (sim, mut control, events) = function(9);
    let port = control.open_lan(&LanInit::default()).unwrap();
    let second = control.open_lan(&LanInit::default()).unwrap_err();
    assert!(matches!(second, Error::Exhausted { limit: 1, .. }));
    let refused = control.shutdown(events).unwrap_err();
    assert!(
        matches!(refused.error, Error::Alive { count: 1, .. }),
        "{refused}"
    );
    let (mut control, events) = refused.parts.unwrap();
    let (other_sim, mut other, other_events) = function(9);
    let (port, error) = other.close_lan(port).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }));
    close(&mut control, port.unwrap());
    end(&sim, control, events);
    end(&other_sim, other, other_events);
}

#[test]
fn settings_are_checked_before_anything_is_sent() {
    let (sim, mut control, events) = function(9);
    let commands = sent(&control);
    let few = LanInit {
        tx_entries: 32,
        ..LanInit::default()
    };
    for init in [LanInit::new(60), LanInit::new(9703), few] {
        assert!(control.open_lan(&init).is_err());
    }
    assert_eq!(sent(&control), commands);
    end(&sim, control, events);
}

/// A rule is one for a MAC address: of the port, and of a datagram group.
#[test]
fn groups_have_one_rule_each() {
    let (sim, mut control, events) = function(9);
    let port = control.open_lan(&LanInit::default()).unwrap();
    let solicited = MacAddr([0x33, 0x33, 0xFF, 1, 2, 3]);
    let before = sent(&control);
    for _ in 0..2 {
        control.join_lan_group(&port, solicited).unwrap();
    }
    assert_eq!(sent(&control), before + 1);
    let own = control.lan().mac;
    assert!(matches!(
        control.join_lan_group(&port, own),
        Err(Error::Invalid { .. })
    ));
    control.leave_lan_group(&port, solicited).unwrap();
    assert_eq!(sent(&control), before + 2);
    let again = control.leave_lan_group(&port, solicited);
    assert!(matches!(again, Err(Error::NoSuch { .. })));
    // The switch has a rule for broadcasts.
    control.join_lan_group(&port, MacAddr([0xFF; 6])).unwrap();
    // One of the sixteen is all nodes.
    for last in 0..14 {
        let group = MacAddr([1, 0, 0x5E, 0, 0, last]);
        control.join_lan_group(&port, group).unwrap();
    }
    let full = control.join_lan_group(&port, MacAddr([1, 0, 0x5E, 0, 0, 14]));
    assert!(matches!(full, Err(Error::Exhausted { limit: 16, .. })));
    close(&mut control, port);
    end(&sim, control, events);
}

/// The key of a port that is closed names neither none nor the next one.
#[test]
fn a_key_ends_with_its_port() {
    let (sim, mut control, events) = function(9);
    let group = MacAddr([0x33, 0x33, 0xFF, 1, 2, 3]);
    let former = control.open_lan(&LanInit::default()).unwrap();
    let key = former.key();
    close(&mut control, former);
    let refused = |control: &mut Control<SimPlatform>| {
        let before = sent(control);
        for result in [
            control.join_lan_group(key, group),
            control.leave_lan_group(key, group),
        ] {
            assert!(matches!(result, Err(Error::NoSuch { .. })), "{result:?}");
        }
        assert_eq!(sent(control), before);
    };
    refused(&mut control);
    let port = control.open_lan(&LanInit::default()).unwrap();
    control.join_lan_group(&port, group).unwrap();
    refused(&mut control);
    control.leave_lan_group(port.key(), group).unwrap();
    close(&mut control, port);
    end(&sim, control, events);
}

/// The group of all IPv6 nodes is the port's from the start; a datagram group of that
/// address has the same rule, whichever of them was first, and the last one ends it.
#[test]
fn a_datagram_group_and_the_port_share_a_rule() {
    let all_nodes: IpAddr = "ff02::1".parse().unwrap();
    for port_first in [true, false] {
        let sim = builder(2).build();
        let mut pair = Pair::cold(&sim, setup());
        let side = &mut pair.sides[1];
        let gid = side.gid;
        let mut port = None;
        let open = |control: &mut Control<_>| control.open_lan(&LanInit::default()).unwrap();
        if port_first {
            port = Some(open(&mut side.control));
        }
        let before = sent(&side.control);
        side.control
            .attach_mcast(&side.qps[0], gid, all_nodes)
            .unwrap();
        let added = sent(&side.control) - before;
        assert_eq!(added, u64::from(!port_first));
        let mut port = port.unwrap_or_else(|| open(&mut side.control));
        let rest = |control: &mut Control<_>, qps: &[Qp<_>], leave_group: bool| {
            let before = sent(control);
            if leave_group {
                control.detach_mcast(&qps[0], gid, all_nodes).unwrap();
            } else {
                control
                    .leave_lan_group(&port, MacAddr([0x33, 0x33, 0, 0, 0, 1]))
                    .unwrap();
            }
            sent(control) - before
        };
        let first = rest(&mut side.control, &side.qps, port_first);
        let second = rest(&mut side.control, &side.qps, !port_first);
        assert_eq!((first, second), (0, 1), "the last one ends it");
        assert_eq!(port.receive(&mut [0; 64]), None);
        side.control
            .close_lan(port)
            .map_err(|(_, error)| error)
            .unwrap();
        pair.finish(&sim);
    }
}

/// Each command of opening a port is refused once: nothing of it is left, and the next
/// try works.
#[test]
fn a_refusal_undoes_what_was_made() {
    for opcode in [0x0211, 0x0401, 0x0C30, 0x0404, 0x02A0] {
        for nth in 1..3 {
            let (sim, mut control, events) = function(9);
            sim.configure_firmware(0, |config| {
                config.fault(opcode, nth, AqFault::Error(AqCode::ENOSPC));
            });
            match control.open_lan(&LanInit::default()) {
                Ok(port) => close(&mut control, port),
                Err(error) => {
                    let refusal = match error {
                        Error::Adminq(error) => error.refusal(),
                        _ => None,
                    };
                    assert!(refusal.is_some(), "{opcode:#06x}: {error}");
                }
            }
            sim.configure_firmware(0, |config| config.no_faults());
            let port = control.open_lan(&LanInit::default()).unwrap();
            close(&mut control, port);
            end(&sim, control, events);
        }
    }
}

/// Replies that are cut, missing or come with a reset: an error, never a panic, and after
/// a reset of the function it comes up again.
#[test]
fn a_firmware_that_fails_while_a_port_is_opened_is_survived() {
    let faults = [
        AqFault::Silence,
        AqFault::CriticalError,
        AqFault::Truncated(3),
        AqFault::DataLen(u16::MAX),
        AqFault::Reset(ResetSource::Pfr),
        AqFault::EventBefore(0x0607),
    ];
    for opcode in [0x0211, 0x0401, 0x0C30, 0x0404, 0x02A0, 0x0C31, 0x02A2] {
        for fault in faults {
            let (sim, nic) = card(|_| {});
            let (mut control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
            sim.configure_firmware(0, |config| config.fault(opcode, 1, fault));
            if let Ok(port) = control.open_lan(&LanInit::default()) {
                let _ = control.close_lan(port);
            }
            sim.configure_firmware(0, |config| config.no_faults());
            let _ = control.shutdown(events);
            // What the firmware may still write to is leaked; the function is usable.
            let device = up(nic, &mut |_| {}).unwrap();
            device.shutdown().unwrap();
            let what = format!("{opcode:#06x} {fault:?}");
            match fault {
                // The engine's shutdown rings for a CQP that is gone.
                AqFault::Reset(_) => {}
                AqFault::Silence | AqFault::CriticalError => {
                    assert_eq!(sim.findings().first(), None, "{what}");
                }
                _ => {
                    assert!(sim.memory(0).nothing_held(), "{what}");
                    // A reply that makes no sense does not say that the queue is off: it is
                    // asked for again.
                    let is_asked = opcode == DISABLE_QUEUES && matches!(fault, AqFault::DataLen(_));
                    let found: Vec<_> = sim.findings().iter().map(|one| one.kind).collect();
                    let expected: &[_] = match is_asked {
                        true => &["adminq-unknown-object"],
                        false => &[],
                    };
                    assert_eq!(found, expected, "{what}");
                }
            }
        }
    }
}

/// Interrupt handlers, other threads: a port goes wherever its platform goes.
/// What the firmware does not disable at first is disabled by the next port, or at the end.
#[test]
fn a_queue_that_was_not_disabled_is_tried_again() {
    for opens_again in [true, false] {
        let (sim, mut control, events) = function(9);
        let port = control.open_lan(&LanInit::default()).unwrap();
        sim.configure_firmware(0, |config| {
            config.fault(DISABLE_QUEUES, 1, AqFault::Error(AqCode::EPERM));
        });
        let (port, error) = control.close_lan(port).unwrap_err();
        assert!(port.is_none());
        assert!(error.to_string().contains("EPERM"), "{error}");
        if opens_again {
            let port = control.open_lan(&LanInit::default()).unwrap();
            close(&mut control, port);
        }
        end(&sim, control, events);
    }
}

/// What it never disables is said, and free after the reset.
#[test]
fn a_queue_that_is_never_disabled_is_free_after_the_reset() {
    let (sim, mut control, events) = function(9);
    let port = control.open_lan(&LanInit::default()).unwrap();
    sim.configure_firmware(0, |config| {
        for use_of_it in 1..=20 {
            config.fault(DISABLE_QUEUES, use_of_it, AqFault::Error(AqCode::EPERM));
        }
    });
    assert!(control.close_lan(port).is_err());
    let failed = control.shutdown(events).unwrap_err();
    assert!(failed.parts.is_none());
    assert!(failed.to_string().contains("EPERM"), "{failed}");
    assert!(sim.memory(0).nothing_held(), "{:?}", sim.memory(0));
}

/// The same of the queue set of a traffic class, which the last queue pair gives back.
#[test]
fn a_queue_set_that_was_not_removed_is_tried_again() {
    let (sim, mut control, events) = function(9);
    let pd = control.alloc_pd().unwrap();
    let cq = control.create_cq(16, 0).unwrap();
    let caps = e810_tests::traffic::Setup::default().caps;
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps)).unwrap();
    sim.configure_firmware(0, |config| {
        config.fault(DISABLE_QUEUES, 1, AqFault::Error(AqCode::EPERM));
    });
    control.destroy_qp(qp).map_err(|(_, error)| error).unwrap();
    control.destroy_cq(cq).map_err(|(_, error)| error).unwrap();
    end(&sim, control, events);
}

#[test]
fn a_port_may_be_sent_to_another_thread() {
    const fn is_send<T: Send>() {}
    is_send::<LanPort<SimPlatform>>();
}

#[test]
fn a_function_of_another_driver_has_no_port() {
    use e810::{Config, Lan, VsiId, bring_up};
    let sim = Sim::builder().functions(1).build();
    let nic = sim.function(0);
    let lan = Lan {
        vsi: VsiId::new(1).unwrap(),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
    };
    let (mut control, events) = bring_up(nic, &Config::new(lan), &mut |_| {})
        .unwrap()
        .split();
    let refused = control.open_lan(&LanInit::default());
    assert!(matches!(refused, Err(Error::Invalid { .. })));
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
}
