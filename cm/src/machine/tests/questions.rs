//! Questions about UD queue pairs (cm-path 4.4).

use e810_types::Ns;

use super::super::*;
use super::bench::{Bench, SLOTS, question};
use super::rig::connect_to;
use crate::ip::PortSpace;
use crate::{Message, Reason, SidrRep, SidrReq};

fn ask() -> Connect<'static> {
    Connect {
        space: PortSpace::Udp,
        ..connect_to(0, 1, 0)
    }
}

#[test]
fn a_question_is_answered() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Udp);
    let mut asking = Bench::new(SLOTS);
    let id = asking.machine.connect(&ask()).unwrap();
    let Message::SidrReq(question) = asking.sent()[0] else {
        panic!();
    };
    bench.take(question);
    let (there, _) = bench.machine.unreached(0).unwrap();
    bench.take(question);
    bench.assert_quiet();
    let request = bench.machine.request(there).unwrap();
    assert!(request.private_data.starts_with(b"request"));
    assert_eq!(bench.told(), there);
    bench
        .machine
        .answer(there, Ok((99, 0x0123_4567)), b"yes")
        .unwrap();
    let Message::SidrRep(answer) = bench.sent()[0] else {
        panic!();
    };
    assert_eq!(
        (answer.status, answer.qpn, answer.q_key),
        (0, 99, 0x0123_4567)
    );
    bench.release(there);
    assert_eq!(bench.machine.free_slots(), SLOTS);
    asking.take(answer);
    assert_eq!(asking.events(), [Event::Accepted(id)]);
    let Some(Reply::Sidr(rep)) = asking.machine.reply(id) else {
        panic!();
    };
    assert!(rep.private_data.starts_with(b"yes"));
}

/// Nobody listens, or the program refuses by going.
#[test]
fn a_question_is_refused() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Udp);
    bench.take(SidrReq {
        service_id: 7,
        ..question(0)
    });
    assert!(matches!(
        bench.sent()[..],
        [Message::SidrRep(SidrRep { status: 1, .. })]
    ));
    bench.take(question(0));
    let (there, _) = bench.machine.unreached(0).unwrap();
    bench.release(there);
    assert!(matches!(
        bench.sent()[..],
        [Message::SidrRep(SidrRep { status: 2, .. })]
    ));
    assert_eq!(bench.machine.free_slots(), SLOTS);
    // As the one who asks sees it.
    let mut asking = Bench::new(SLOTS);
    let id = asking.machine.connect(&ask()).unwrap();
    asking.sent();
    asking.take(SidrRep {
        request_id: id.number(),
        status: 3,
        ..SidrRep::default()
    });
    let reason = Reason(3);
    assert_eq!(asking.events(), [Event::Rejected { id, reason }]);
    asking.release(id);
    assert_eq!(asking.pass(100_000), []);
    assert_eq!(asking.machine.free_slots(), SLOTS);
}

#[test]
fn a_question_is_repeated_and_given_up() {
    let mut asking = Bench::new(SLOTS);
    let id = asking.machine.connect(&ask()).unwrap();
    asking.sent();
    assert_eq!(asking.pass(100_000).len(), 15);
    assert_eq!(asking.events(), [Event::Unreachable(id)]);
}

/// A repeat is due, or the question itself: what has ended is not sent.
#[test]
fn a_question_that_has_ended_is_not_sent() {
    let mut asking = Bench::new(SLOTS);
    let id = asking.machine.connect(&ask()).unwrap();
    asking.release(id);
    asking.assert_quiet();
    let id = asking.machine.connect(&ask()).unwrap();
    asking.sent();
    asking.now = asking.now + Ns::from_ms(4096);
    while asking.machine.poll(asking.now) {}
    asking.take(SidrRep {
        request_id: id.number(),
        ..SidrRep::default()
    });
    assert_eq!(asking.events(), [Event::Accepted(id)]);
    asking.release(id);
    asking.assert_quiet();
    assert_eq!(asking.machine.free_slots(), SLOTS);
}

/// Questions have no queue pair; they are in many chains all the same.
#[test]
fn chains_are_short() {
    let (mut bench, _) = Bench::listening(2048, PortSpace::Udp);
    for n in 0..900 {
        bench.take(question(n));
        bench.told();
    }
    let longest = bench.longest_chains();
    assert!(longest.iter().all(|length| *length < 32), "{longest:?}");
}
