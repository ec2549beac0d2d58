//! Each command of the cold start refused, not answered, cut short, or answered
//! with more than was asked for.
//!
//! Which commands there are is not written down here: faults are ordered for the
//! first, second, ... use of every opcode that AdminQ commands have, until one
//! does not strike.

use e810::{Error, LoadFailed, StageError, reset_card};
use e810_adminq::Error as AdminqError;
use e810_hal::WaitError;
use e810_sim::{AqCode, AqFault, Sim, SimPlatform};

use crate::cold::world::{assert_as_found, assert_vectors_back, card, up};

/// Commands that the cold start sends.
pub(crate) const OPCODES: [u16; 30] = [
    0x0001, 0x0003, 0x0008, 0x0009, 0x000A, 0x000B, 0x0107, 0x0110, 0x0200, 0x0203, 0x020C, 0x020D,
    0x0210, 0x0211, 0x0213, 0x02A0, 0x02A2, 0x02A4, 0x0400, 0x0401, 0x040E, 0x040F, 0x0412, 0x0600,
    0x0603, 0x0607, 0x0613, 0x0A01, 0x0C40, 0x0C43,
];

/// Uses of one opcode that are looked at: packages are long, and their buffers
/// all alike.
const USES: u32 = 8;

/// What came of a bring-up with one fault.
pub(crate) struct Outcome {
    pub(crate) sim: Sim,
    pub(crate) nic: SimPlatform,
    /// `None`: it came up, and was shut down again.
    pub(crate) error: Option<StageError>,
    /// What the shutdown failed with.
    pub(crate) end: Option<Error>,
}

/// A bring-up and shutdown where `fault` meets the `nth` use of `opcode`; `None`
/// when there was no such use.
pub(crate) fn with_fault(opcode: u16, nth: u32, fault: AqFault) -> Option<Outcome> {
    let (sim, nic) = card(|_| {});
    let struck = order(&sim, opcode, nth, fault);
    let result = up(nic.clone(), &mut |_| {});
    let (error, end) = match result {
        Ok(device) => (None, device.shutdown().err()),
        Err(error) => (Some(error), None),
    };
    struck(&sim).then_some(Outcome {
        sim,
        nic,
        error,
        end,
    })
}

/// Orders a fault; what is returned tells whether it struck.
fn order(sim: &Sim, opcode: u16, nth: u32, fault: AqFault) -> impl Fn(&Sim) -> bool + use<> {
    let mut clean = None;
    sim.configure_firmware(0, |config| {
        clean = Some(config.clone());
        config.fault(opcode, nth, fault);
    });
    move |sim| {
        let mut struck = false;
        sim.configure_firmware(0, |config| struck = Some(&*config) == clean.as_ref());
        struck
    }
}

/// Goes through the uses of every opcode with a fault; gives the number that
/// struck.
pub(crate) fn everywhere(fault: AqFault, mut judge: impl FnMut(u16, u32, Outcome)) -> usize {
    let mut struck = 0;
    for opcode in OPCODES {
        for nth in 1..=USES {
            let Some(outcome) = with_fault(opcode, nth, fault) else {
                assert!(nth > 1, "{opcode:#06x} is not used at all");
                break;
            };
            judge(opcode, nth, outcome);
            struck += 1;
        }
    }
    struck
}

/// Whether the bring-up left the card so that no function of it can load a
/// package.
pub(crate) fn needs_core_reset(error: Option<&StageError>) -> bool {
    error.is_some_and(|error| matches!(error.error, Error::HalfConfigured(_)))
}

/// The card is usable after all of it, if need be after the reset that the error
/// names.
pub(crate) fn assert_comes_up(outcome: &Outcome, what: &str) {
    let mut device = up(outcome.nic.clone(), &mut |_| {});
    // The firmware may have taken the whole package all the same.
    if let (Err(again), true) = (&device, needs_core_reset(outcome.error.as_ref())) {
        assert!(again.to_string().contains("core reset"), "{what}: {again}");
        reset_card(&outcome.nic).unwrap();
        device = up(outcome.nic.clone(), &mut |_| {});
    }
    let device = device.unwrap_or_else(|error| panic!("{what}: again: {error}"));
    device.shutdown().unwrap();
}

#[test]
fn every_command_refused() {
    for code in [AqCode::EPERM, AqCode::EINVAL, AqCode::ENOSPC] {
        let struck = everywhere(AqFault::Error(code), |opcode, nth, outcome| {
            let what = format!("{opcode:#06x} use {nth}");
            match outcome.error {
                // Named by the command that was refused.
                Some(StageError {
                    error: Error::Adminq(error) | Error::HalfConfigured(LoadFailed { error, .. }),
                    undo: None,
                    ..
                }) => {
                    let text = error.to_string();
                    let named = error.refusal().is_some_and(|got| got.0 == code.0);
                    assert!(named || opcode == 0x0008, "{what}: {text}");
                }
                Some(error) => panic!("{what}: {error:?}"),
                None => assert!(tolerated(opcode), "{what} does not matter"),
            }
            assert_as_found(&outcome.sim);
            assert_comes_up(&outcome, &what);
        });
        assert!(struck > 40, "only {struck} refusals");
    }
}

/// Refusals that do not end the bring-up: PXE mode, removing what the firmware
/// made, classes and LLDP events, the VLAN mode, the PHY, and everything at the end. Get Version is
/// asked again.
const fn tolerated(opcode: u16) -> bool {
    matches!(
        opcode,
        0x0001
            | 0x0003
            | 0x0110
            | 0x0203
            | 0x020C
            | 0x020D
            | 0x0211
            | 0x0213
            | 0x02A2
            | 0x040E
            | 0x040F
            | 0x0600
            | 0x0A01
    )
}

#[test]
fn every_command_not_answered() {
    for fault in [AqFault::Silence, AqFault::CriticalError] {
        everywhere(fault, |opcode, nth, outcome| {
            let what = format!("{opcode:#06x} use {nth}");
            let error = outcome.error.map(|error| error.error).or(outcome.end);
            let error = match error {
                Some(Error::HalfConfigured(failed)) => Some(Error::Adminq(failed.error)),
                other => other,
            };
            let reported = match error {
                Some(Error::Adminq(AdminqError::Wait(WaitError::Timeout { .. }))) => true,
                Some(Error::Adminq(AdminqError::CriticalFirmware { .. })) => {
                    fault == AqFault::CriticalError
                }
                // It was the first command of the end.
                Some(Error::Adminq(AdminqError::Unanswered { .. })) => outcome.error.is_none(),
                // The start is tried again, with other memory.
                None => opcode == 0x0001,
                _ => false,
            };
            assert!(reported, "{what}: {error:?}");
            // Only the queues' memory stays, because an answer may still come.
            let held = outcome.sim.memory(0);
            assert_eq!((held.host_blocks, held.mappings), (0, 0), "{what}");
            assert_eq!(held.dma_blocks, 1, "{what}");
            assert_vectors_back(&outcome.nic);
            assert_eq!(outcome.sim.findings(), [], "{what}");
            assert_comes_up(&outcome, &what);
            assert_eq!(outcome.sim.findings(), [], "{what}");
        });
    }
}

#[test]
fn every_reply_cut_short_or_too_long() {
    let faults = [
        AqFault::Truncated(0),
        AqFault::Truncated(1),
        AqFault::Truncated(7),
        AqFault::Truncated(31),
        AqFault::DataLen(0),
        AqFault::DataLen(u16::MAX),
    ];
    for fault in faults {
        let mut refused = 0;
        everywhere(fault, |opcode, nth, outcome| {
            let what = format!("{opcode:#06x} use {nth}: {fault:?}");
            if let Some(error) = outcome.error {
                refused += 1;
                let (Error::Adminq(reported)
                | Error::HalfConfigured(LoadFailed {
                    error: reported, ..
                })) = error.error
                else {
                    panic!("{what}: {error}");
                };
                let expected = matches!(
                    reported,
                    AdminqError::ShortReply { .. }
                        | AdminqError::LongReply { .. }
                        | AdminqError::BadReply { .. }
                );
                assert!(expected, "{what}: {error}");
            }
            assert_as_found(&outcome.sim);
            assert_comes_up(&outcome, &what);
        });
        assert!(refused > 5, "{fault:?}: only {refused} were noticed");
    }
}
