//! The event queue against a scripted firmware.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics fails, as it should"
)]

mod fake;

use e810_adminq::op::{ClearPxe, LinkInfo};
use e810_adminq::{AdminQ, Error, Event, EventKind, Opcode};
use fake::{Fake, Fault, FirmwareFake};

fn started(fake: &Fake) -> AdminQ<Fake> {
    AdminQ::start(fake.clone()).unwrap()
}

fn link(up: bool) -> Vec<u8> {
    let mut data = vec![0; 56];
    data[2] = 0x40 | u8::from(up);
    data
}

fn all(queue: &mut AdminQ<Fake>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = queue.poll_event().unwrap() {
        events.push(event);
    }
    events
}

#[test]
fn events_come_in_order_through_several_laps() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let mut expected = 0u8;
    for round in 0..20 {
        for n in 0..=(round % 15) {
            assert!(fake.event(0x4000 + u16::from(n), 0, 1, &[expected.wrapping_add(n)]));
        }
        for event in all(&mut queue) {
            assert_eq!(event.raw.bytes[..2], [expected, 0]);
            expected = expected.wrapping_add(1);
        }
    }
    assert!(queue.counters().events > 100);
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn a_full_queue_holds_fifteen_and_says_that_it_overflowed() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let taken = (0..20).filter(|n| fake.event(0x4000, 0, 1, &[*n])).count();
    assert_eq!(taken, 15);
    assert_eq!(all(&mut queue).len(), 15);
    let faults = queue.take_faults().unwrap();
    assert_eq!(faults, e810_adminq::event::Faults::OVERFLOW);
    assert!(fake.event(0x4000, 0, 1, &[1]), "there is room again");
    assert_eq!(all(&mut queue).len(), 1);
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn an_event_in_the_middle_of_a_command_waits() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.event(0x0607, 0, 56, &link(true));
    queue.execute(&ClearPxe).unwrap();
    fake.device_mut().fault(0x0110, Fault::Silent);
    queue.execute(&ClearPxe).unwrap_err();
    fake.event(0x0A01, 0, 4, &[1; 4]);
    // The command queue is stuck; events still come.
    let kinds: Vec<_> = all(&mut queue).iter().map(|event| event.kind).collect();
    let [EventKind::Link(status), EventKind::LldpMib] = kinds[..] else {
        panic!("{kinds:?}");
    };
    assert!(status.is_up() && status.info.contains(LinkInfo::MEDIA));
    drop(queue);
}

#[test]
fn damaged_events_are_reported_and_the_queue_goes_on() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    // Too short, failed, longer than any buffer, unknown.
    fake.event(0x0607, 0, 31, &link(true));
    fake.event(0x0607, 4, 56, &link(true));
    fake.event(0x0607, 0, u16::MAX, &link(false));
    fake.event(0x7777, 0, 0, &[]);
    fake.event(0x0003, 0, 0, &[]);
    let kinds: Vec<_> = all(&mut queue).iter().map(|event| event.kind).collect();
    let [
        EventKind::Damaged,
        EventKind::Damaged,
        EventKind::Link(status),
        EventKind::Unknown(Opcode(0x7777)),
        EventKind::Shutdown,
    ] = kinds[..]
    else {
        panic!("{kinds:?}");
    };
    assert!(!status.is_up());
    queue.shutdown().unwrap();
    fake.assert_clean();
}

#[test]
fn a_wild_head_is_refused() {
    for head in [16, 1023, 0x1_0000] {
        let fake = Fake::default();
        let mut queue = started(&fake);
        fake.device_mut().set(0x8_0380, head);
        assert!(matches!(
            queue.poll_event(),
            Err(Error::BadHead { head: got, entries: 16, .. }) if got == head
        ));
        queue.shutdown().unwrap();
        fake.assert_clean();
    }
}
