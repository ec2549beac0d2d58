//! A program that sleeps until an interrupt, and interrupts that wait.

use e810::{Adaptive, Cq, CqModeration, Event, Notify, Platform, SendFlags, Wc, WcStatus};
use e810_hal::bus::ItrIndex;
use e810_hal::regs::GLINT_ITR;
use e810_hal::{Ns, Vector};

use super::super::{Pair, Room, Setup};

/// Far above the time of a message and of every period here.
const LIMIT: Ns = Ns::from_ms(20_000);
/// Messages that each wait for the one before to be taken.
const ONE_BY_ONE: usize = 20;
/// Messages that do not.
const STREAM: usize = 300;
/// Of those, at most so many are on their way.
const AHEAD: usize = 32;

const fn fixed(count: u16, period_us: u16) -> CqModeration {
    CqModeration::Fixed { count, period_us }
}

/// The receives of a side have a queue, and a completion vector, of their own.
#[must_use]
pub fn setup() -> Setup {
    Setup {
        separate_cqs: true,
        ..Setup::default()
    }
}

/// The program on the second side, and what it counted.
#[derive(Debug)]
struct Program {
    /// The vector that it sleeps for.
    vector: Vector,
    /// Requests for an event, interrupts, events that these told of.
    requests: usize,
    interrupts: usize,
    reported: usize,
}

impl Program {
    const fn new(vector: Vector) -> Self {
        Self {
            vector,
            requests: 0,
            interrupts: 0,
            reported: 0,
        }
    }

    fn cq<P: Platform>(pair: &mut Pair<P>) -> &mut Cq<P> {
        &mut pair.side(1).cqs[1]
    }

    /// Asks for an event; false when there is something to take.
    fn ask(&mut self, pair: &mut Pair<impl Platform>) -> bool {
        self.requests += 1;
        !Self::cq(pair).arm(Notify::Any)
    }

    /// Sleeps until its queue has an event.
    fn sleep<P: Room>(&mut self, pair: &mut Pair<P>) {
        let end = pair.now() + LIMIT;
        while !Self::cq(pair).take_event() {
            assert!(pair.now() < end, "it sleeps on, {self:?}");
            self.handle(pair, Ns::from_ms(100));
        }
    }

    /// The handler of the vectors that fire within `limit`. Nobody else looks at the
    /// event queues.
    fn handle<P: Room>(&mut self, pair: &mut Pair<P>, limit: Ns) {
        let number = Self::cq(pair).number();
        let side = pair.side(1);
        for vector in side.platform.fired(limit) {
            self.interrupts += usize::from(vector == self.vector);
            let parts = side.events.iter_mut();
            for part in parts.filter(|part| part.vector() == vector) {
                let reported = &mut self.reported;
                let _ = part.on_vector(&mut |event| {
                    *reported += usize::from(event == Event::Completion { cq: number });
                });
            }
        }
    }

    fn take(pair: &mut Pair<impl Platform>) -> usize {
        let mut wcs = [Wc::default(); 16];
        let taken = Self::cq(pair).poll(&mut wcs);
        for wc in wcs.iter().take(taken) {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, 1));
        }
        taken
    }
}

/// The sender's completions; how many.
fn settle(pair: &mut Pair<impl Platform>) -> usize {
    let mut wcs = [Wc::default(); 16];
    let sent = pair.side(0).cqs[0].poll(&mut wcs);
    for wc in wcs.iter().take(sent) {
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, 2));
    }
    sent
}

/// Waits for the sender's completions: `sent` of `posted` were taken.
fn settle_all(pair: &mut Pair<impl Platform>, mut sent: usize, posted: usize) {
    let end = pair.now() + LIMIT;
    while sent < posted {
        assert!(pair.now() < end, "{sent} of {posted} sends are complete");
        sent += settle(pair);
        pair.side(0).platform.relax();
    }
    assert_eq!(sent, posted);
}

/// Each message is an event, whatever its interrupt waits for.
fn one_by_one(pair: &mut Pair<impl Room>, program: &mut Program) {
    let before = program.reported;
    for _ in 0..ONE_BY_ONE {
        let mut sleeps = program.ask(pair);
        assert!(sleeps, "it is empty");
        pair.message(SendFlags::empty());
        loop {
            if sleeps {
                program.sleep(pair);
            }
            match Program::take(pair) {
                // The event was that of a message which was taken before it came.
                0 => sleeps = program.ask(pair),
                taken => break assert_eq!(taken, 1),
            }
        }
        settle_all(pair, 0, 1);
    }
    assert_eq!(Program::take(pair), 0);
    assert!(program.reported - before >= ONE_BY_ONE, "{program:?}");
}

/// Each message is taken, with an event or with an earlier one's.
fn stream(pair: &mut Pair<impl Room>, program: &mut Program) {
    let (mut posted, mut taken, mut sent) = (0, 0, 0);
    assert!(program.ask(pair), "it is empty");
    while taken < STREAM {
        while posted < STREAM && posted < taken.min(sent) + AHEAD {
            pair.message(SendFlags::empty());
            posted += 1;
        }
        program.sleep(pair);
        loop {
            match Program::take(pair) {
                0 if program.ask(pair) => break,
                now => taken += now,
            }
        }
        sent += settle(pair);
        if taken == posted {
            // No event comes before more is posted.
            settle_all(pair, sent, posted);
            sent = posted;
        }
    }
    assert_eq!((taken, Program::take(pair)), (STREAM, 0));
}

/// With each setting, every message arrives and the program is never left asleep;
/// there are no more interrupts than without moderation, where each message has one,
/// and no event that was not asked for.
pub fn settings(pair: &mut Pair<impl Room>) {
    let side = pair.side(1);
    side.polling = false;
    let number = side.cqs[1].completion_vector();
    let vector = side.control.interrupt_vector(number);
    let vector = vector.expect("a vector of its own");
    // What is left of the bring-up.
    Program::new(vector).handle(pair, Ns(0));
    let mut program = Program::new(vector);
    let mut messages = 0;
    for (moderation, us) in [
        (CqModeration::Off, Some(0)),
        (fixed(0, 50), Some(50)),
        (fixed(0, 2_000), Some(2_000)),
        (fixed(8, 300), None),
        (CqModeration::Adaptive(Adaptive::Load), None),
        (CqModeration::Adaptive(Adaptive::Dim), None),
        (CqModeration::Off, Some(0)),
    ] {
        let side = pair.side(1);
        let cq = &mut side.cqs[1];
        side.control.modify_cq(cq, moderation).expect("set");
        one_by_one(pair, &mut program);
        stream(pair, &mut program);
        messages += ONE_BY_ONE + STREAM;
        let most = program.requests.min(messages);
        assert!(program.reported <= most, "{moderation:?} {program:?}");
        assert!(program.interrupts <= most, "{moderation:?} {program:?}");
        // What the card was told stays in force from interrupt to interrupt.
        if let Some(us) = us {
            let side = pair.side(1);
            let timer = ItrIndex::new(0).expect("a timer");
            let register = GLINT_ITR.at(timer, vector).get(&side.platform);
            assert_eq!((2 * register, side.cqs[1].moderation().wait_us), (us, us));
        }
    }
}
