//! The command queue against a scripted firmware: rings, faults, start, end.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics fails, as it should"
)]

mod fake;

use e810_adminq::op::{ClearPxe, Data, GetVersion, ListCaps, Owner, ReadMac};
use e810_adminq::{AdminQ, Error, Opcode};
use e810_hal::{Clock, Ns, WaitError};
use e810_types::MacAddr;
use fake::{Fake, Fault, FirmwareFake, Reply};

const VERSION: u16 = 0x0001;
const SHUTDOWN: u16 = 0x0003;
const CAPS: u16 = 0x000A;
const MAC: u16 = 0x0107;
const PXE: u16 = 0x0110;

fn started(fake: &Fake) -> AdminQ<Fake> {
    AdminQ::start(fake.clone()).unwrap()
}

fn timed_out(error: &Error) -> bool {
    matches!(error, Error::Wait(WaitError::Timeout { .. }))
}

#[test]
fn commands_go_round_the_ring_and_nothing_is_left() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    // Several laps of eight entries.
    for _ in 0..50 {
        queue.execute(&ClearPxe).unwrap();
    }
    assert_eq!(queue.counters().commands, 51);
    queue.check_alive().unwrap();
    queue.shutdown().unwrap();
    assert!(!fake.device_mut().queues_on());
    assert_eq!(fake.opcodes().last(), Some(&SHUTDOWN));
    fake.assert_clean();
}

#[test]
fn data_goes_both_ways_and_leaves_nothing_behind() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let sent: Vec<u8> = (0..1000).map(|n| n as u8 | 1).collect();
    queue
        .exchange(Opcode(0x1234), [0; 16], Data::Send(&sent))
        .unwrap();
    assert_eq!(fake.device_mut().taken[1].data, sent);
    // The fake complains if the next buffer shows any of it.
    let reply = [0, 0, 2, 1, 2, 3, 4, 5];
    let answer = Reply::params(0, &[0x10, 0, 0, 0, 1]).data(reply);
    fake.device_mut().fault(MAC, Fault::Answer(answer));
    assert_eq!(queue.execute(&ReadMac), Ok(MacAddr([2, 1, 2, 3, 4, 5])));
    let long = vec![0; 4097];
    assert!(matches!(
        queue.exchange(Opcode(0x1234), [0; 16], Data::Send(&long)),
        Err(Error::TooLong { len: 4097, .. })
    ));
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn a_refusal_is_typed_and_the_queue_goes_on() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    for code in [1, 9, 0x2C, 200, 0x3A0E] {
        fake.device_mut().fault(PXE, Fault::Code(code));
        let error = queue.execute(&ClearPxe).unwrap_err();
        let Error::Refused {
            op,
            code: got,
            internal,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (op, got.0, internal),
            (Opcode::CLEAR_PXE, code as u8, (code >> 8) as u8)
        );
        queue.execute(&ClearPxe).unwrap();
    }
    assert_eq!(queue.counters().refused, 5);
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn replies_that_are_too_long_or_too_short_are_refused() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(MAC, Fault::Length(17));
    assert!(matches!(
        queue.execute(&ReadMac),
        Err(Error::LongReply {
            len: 17,
            room: 16,
            ..
        })
    ));
    let truncated = Reply::params(0, &[0x10, 0, 0, 0, 1]).data([0; 7]);
    fake.device_mut().fault(MAC, Fault::Answer(truncated));
    assert!(matches!(
        queue.execute(&ReadMac),
        Err(Error::ShortReply { len: 7, .. })
    ));
    // The count of a list that did not fit.
    let mut many = Reply::params(4, &200u32.to_le_bytes());
    many.retval = 9;
    fake.device_mut().fault(CAPS, Fault::Answer(many));
    let error = queue.execute(&ListCaps(Owner::Function)).unwrap_err();
    assert_eq!(error.refusal().map(|code| code.0), Some(9));
    queue.execute(&ClearPxe).unwrap();
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn a_busy_firmware_is_asked_again_a_few_times_for_the_listed_commands() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    for (opcode, times) in [(0x06E0, 3), (0x0A0A, 3), (0x0C31, 1)] {
        for _ in 0..5 {
            fake.device_mut().fault(opcode, Fault::Code(12));
        }
        let before = fake.opcodes().len();
        let start = fake.now();
        let answer = queue.exchange(Opcode(opcode), [0; 16], Data::None).unwrap();
        assert_eq!(answer.descriptor().code().0, 12);
        assert_eq!(fake.opcodes().len() - before, times);
        assert!(fake.now() - start >= Ns::from_ms(10 * (times as u64 - 1)));
    }
    queue.shutdown().unwrap();
    fake.assert_clean();
}

/// While another function downloads a package, all others wait for it.
#[test]
fn a_busy_firmware_is_waited_for() {
    for code in [8, 12] {
        let fake = Fake::default();
        let mut queue = started(&fake);
        for _ in 0..5 {
            fake.device_mut().fault(PXE, Fault::Code(code));
        }
        let start = fake.now();
        queue.execute(&ClearPxe).unwrap();
        let took = fake.now() - start;
        assert!(
            took >= Ns::from_ms(50) && took < Ns::from_ms(60),
            "{took:?}"
        );
        queue.shutdown().unwrap();
        fake.assert_clean();
    }
}

/// One that refuses everything costs its time limit once, not for each command.
#[test]
fn a_firmware_that_stays_busy_is_waited_for_once() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    for _ in 0..2_000 {
        fake.device_mut().fault(PXE, Fault::Code(12));
        fake.device_mut().fault(MAC, Fault::Code(12));
    }
    let start = fake.now();
    for _ in 0..3 {
        let error = queue.execute(&ClearPxe).unwrap_err();
        assert_eq!(error.refusal().map(|code| code.0), Some(12));
        queue.execute(&ReadMac).unwrap_err();
    }
    let took = fake.now() - start;
    assert!(
        took >= Ns::from_ms(5_000) && took < Ns::from_ms(5_100),
        "{took:?}"
    );
    // Much later it is another time.
    fake.delay(Ns::from_ms(60_000));
    let start = fake.now();
    queue.execute(&ReadMac).unwrap_err();
    let took = fake.now() - start;
    assert!(
        took >= Ns::from_ms(5_000) && took < Ns::from_ms(5_100),
        "{took:?}"
    );
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn after_a_time_out_nothing_is_reused_until_the_reply_has_come() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(PXE, Fault::Silent);
    let start = fake.now();
    let error = queue.execute(&ClearPxe).unwrap_err();
    assert!(timed_out(&error) && error.leaves_command_open(), "{error}");
    assert!(fake.now() - start >= Ns::from_ms(1_000));
    for _ in 0..3 {
        assert_eq!(
            queue.execute(&GetVersion),
            Err(Error::Unanswered {
                op: Opcode::CLEAR_PXE
            })
        );
    }
    fake.device_mut().wake();
    fake.delay(Ns::from_ms(1));
    queue.execute(&GetVersion).unwrap();
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn memory_of_an_unanswered_command_is_leaked() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(PXE, Fault::Silent);
    queue.execute(&ClearPxe).unwrap_err();
    assert!(queue.shutdown().is_err());
    assert_eq!(fake.alive().0, 1);
    assert!(
        !fake.device_mut().queues_on(),
        "the queues are off all the same"
    );

    // After a reset that ended the command the memory is given back.
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(PXE, Fault::Silent);
    queue.execute(&ClearPxe).unwrap_err();
    queue.release_after_reset().unwrap();
    fake.assert_clean();
}

#[test]
fn a_late_reply_within_the_limit_counts() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(PXE, Fault::Late(990));
    queue.execute(&ClearPxe).unwrap();
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn a_critical_error_and_a_wild_head_are_named() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(PXE, Fault::Critical);
    assert_eq!(
        queue.execute(&ClearPxe),
        Err(Error::CriticalFirmware {
            op: Opcode::CLEAR_PXE
        })
    );
    assert!(
        queue
            .take_faults()
            .unwrap()
            .contains(e810_adminq::event::Faults::CRITICAL)
    );
    assert!(queue.take_faults().unwrap().is_empty(), "told once");
    drop(queue);

    for head in [8, 1023, 0x8000_0001] {
        let fake = Fake::default();
        let mut queue = started(&fake);
        fake.device_mut().fault(PXE, Fault::Head(head));
        assert!(matches!(
            queue.execute(&ClearPxe),
            Err(Error::BadHead { head: got, entries: 8, .. }) if got == head
        ));
        drop(queue);
    }
}

#[test]
fn a_device_that_is_gone_is_noticed_at_once() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().fault(PXE, Fault::Gone);
    let start = fake.now();
    let gone = |error: &Error| matches!(error, Error::Wait(WaitError::DeviceGone { .. }));
    assert!(gone(&queue.execute(&ClearPxe).unwrap_err()));
    assert!(fake.now() - start < Ns::from_ms(1));
    assert!(gone(&queue.execute(&ClearPxe).unwrap_err()));
    assert!(gone(&queue.check_alive().unwrap_err()));
    assert!(gone(&queue.poll_event().unwrap_err()));
    assert!(gone(&queue.shutdown().unwrap_err()));
    assert_eq!(
        fake.alive().0,
        1,
        "a device that is not there may come back"
    );
}

#[test]
fn a_reset_by_another_function_shows_in_the_length() {
    let fake = Fake::default();
    let queue = started(&fake);
    fake.device_mut().set(0x8_0280, 0);
    assert!(matches!(
        queue.check_alive(),
        Err(Error::QueueOff { len: 0, .. })
    ));
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn starting_is_tried_eleven_times() {
    let fake = Fake::default();
    for _ in 0..10 {
        fake.device_mut().fault(VERSION, Fault::Code(5));
    }
    let start = fake.now();
    let queue = started(&fake);
    assert!(
        fake.now() - start >= Ns::from_ms(1_000),
        "100 ms between attempts"
    );
    queue.shutdown().unwrap();
    fake.assert_clean();

    let fake = Fake::default();
    for _ in 0..11 {
        fake.device_mut().fault(VERSION, Fault::Code(5));
    }
    assert!(matches!(
        AdminQ::start(fake.clone()),
        Err(Error::Refused { .. })
    ));
    assert_eq!(fake.opcodes(), [VERSION; 11]);
    fake.assert_clean();
}

#[test]
fn a_silent_start_leaks_what_may_still_be_written() {
    let fake = Fake::default();
    fake.device_mut().fault(VERSION, Fault::Silent);
    let queue = started(&fake);
    assert_eq!(fake.alive().0, 2);
    queue.shutdown().unwrap();
    assert_eq!(fake.alive().0, 1);
}

#[test]
fn a_newer_interface_is_refused_without_another_try() {
    let fake = Fake::default();
    fake.device_mut().state.api = [2, 0];
    assert_eq!(
        AdminQ::start(fake.clone()).unwrap_err(),
        Error::ApiTooNew { major: 2, minor: 0 }
    );
    assert_eq!(fake.opcodes(), [VERSION]);
    fake.assert_clean();

    for api in [[1, 0], [1, 9], [0, 9]] {
        let fake = Fake::default();
        fake.device_mut().state.api = api;
        started(&fake).shutdown().unwrap();
        fake.assert_clean();
    }
}

#[test]
fn an_address_that_is_not_kept_is_seen() {
    let fake = Fake::default();
    fake.device_mut().deaf = 1;
    started(&fake).shutdown().unwrap();
    fake.assert_clean();
    let fake = Fake::default();
    fake.device_mut().deaf = 100;
    assert!(matches!(
        AdminQ::start(fake.clone()),
        Err(Error::NotProgrammed { .. })
    ));
    fake.assert_clean();
}

#[test]
fn without_memory_nothing_is_programmed() {
    let fake = Fake::default();
    fake.fail_allocation(0);
    assert!(matches!(AdminQ::start(fake.clone()), Err(Error::Dma(_))));
    assert!(fake.opcodes().is_empty() && !fake.device_mut().queues_on());
    fake.assert_clean();
}
