//! Explores every interleaving of a program that polls, arms, polls again and waits, an event
//! handler, and the device: no completion is slept over, and no event comes that was not asked
//! for.
//!
//! The policy and the arm word are the crate's own. What the device does is written here a second
//! time from its description: an event at once when it finds entries that were not polled; for a
//! solicited request when a solicited one came since the last event; no event for a sequence
//! number that it knows.

use std::collections::HashSet;
use std::vec::Vec;

use super::{ArmPolicy, ArmWord, Notify, Pending};

/// A device, and a program.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// The device looks at the head when it takes a request.
    at_once: bool,
    /// The program looks once more after it has armed.
    polls_again: bool,
    /// Which requests the program makes, whichever it likes each time.
    requests: &'static [Notify],
    /// The program asks the device anew for each request, as user-space drivers do.
    anew: bool,
    /// Completions that come.
    entries: u8,
    /// Bit n: completion n is solicited.
    solicited: u8,
}

/// The card and the driver as they are.
const CARD: Rules = Rules {
    at_once: true,
    polls_again: true,
    requests: ANY,
    anew: false,
    entries: 4,
    solicited: 0,
};

/// A write that is on its way to the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Posted {
    Arm,
    Acknowledge,
}

/// Where the program is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Poll,
    /// An entry was taken, its head is not yet published.
    Head,
    /// Asks for an event.
    Request,
    /// The same request again, because an event came in between.
    Again(Notify),
    /// Wants to be told by what is out.
    Want(Notify, Pending),
    /// Notes in the slot that it asks.
    Slot(Notify),
    Word(Notify),
    Doorbell,
    PollAgain,
    Wait,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    // Memory that both see.
    written: u8,
    head: u8,
    word: ArmWord,
    posted: Vec<Posted>,
    ceqes: u8,
    // The device.
    request: Option<Notify>,
    known: u64,
    unsaid_solicited: bool,
    due: bool,
    unacknowledged: u8,
    // The slot, the event handler, and events of software still to come.
    pending: Pending,
    by_software: u8,
    events: u8,
    handling: bool,
    // The program.
    at: At,
    consumed: u8,
    taken: u8,
    policy: ArmPolicy,
    /// It has asked, and was not told since.
    asked: bool,
    /// It has asked for any completion, and taken no event since.
    wants_any: bool,
}

/// What must never be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// It sleeps, and there is something that it wants.
    Asleep,
    /// An event that nothing asked for.
    Unasked,
}

const fn sequence(word: ArmWord) -> u64 {
    word.bits() >> 16 & 3
}

impl State {
    fn start(rules: Rules) -> Self {
        Self {
            written: 0,
            head: 0,
            word: ArmWord::default(),
            posted: Vec::new(),
            ceqes: 0,
            request: None,
            known: 0,
            unsaid_solicited: false,
            due: false,
            unacknowledged: 0,
            pending: Pending::NONE,
            // A program that does not look again can sleep over a solicited
            // completion whose event came while it was told by software.
            by_software: rules.polls_again.into(),
            events: 0,
            handling: false,
            at: At::Poll,
            consumed: 0,
            taken: 0,
            policy: ArmPolicy::default(),
            asked: false,
            wants_any: false,
        }
    }

    /// The device owes an event.
    fn owe(&mut self) {
        self.request = None;
        self.unsaid_solicited = false;
        self.due = true;
        self.fire();
    }

    /// One entry of the event queue at a time (ENCEQEMASK).
    fn fire(&mut self) {
        if self.due && self.unacknowledged == 0 {
            self.due = false;
            self.ceqes += 1;
            self.unacknowledged += 1;
        }
    }

    /// The device writes the next completion.
    fn complete(&mut self, rules: Rules) {
        let solicited = rules.solicited >> self.written & 1 != 0;
        self.written += 1;
        self.unsaid_solicited |= solicited;
        match self.request {
            Some(Notify::Any) => self.owe(),
            Some(Notify::Solicited) if solicited => self.owe(),
            _ => {}
        }
    }

    /// The oldest write arrives at the device.
    fn arrive(&mut self, rules: Rules) {
        match self.posted.remove(0) {
            Posted::Acknowledge => {
                self.unacknowledged -= 1;
                self.fire();
            }
            Posted::Arm if sequence(self.word) == self.known => {}
            Posted::Arm => {
                self.known = sequence(self.word);
                let any = self.word.bits() >> 14 & 1 != 0;
                self.request = Some(if any { Notify::Any } else { Notify::Solicited });
                let unread = self.head < self.written;
                if rules.at_once && unread && (any || self.unsaid_solicited) {
                    self.owe();
                }
            }
        }
    }

    /// The event handler takes an entry and tells the slot, then acknowledges.
    fn handle(&mut self) -> Result<(), Wrong> {
        if self.handling {
            self.handling = false;
            self.posted.push(Posted::Acknowledge);
            return Ok(());
        }
        self.ceqes -= 1;
        self.handling = true;
        let before = core::mem::take(&mut self.pending);
        self.tell(before)
    }

    /// Software tells that there is something to complete.
    fn signal_by_software(&mut self) -> Result<(), Wrong> {
        self.by_software -= 1;
        let before = self.pending;
        self.pending = before.notified();
        self.tell(before)
    }

    fn tell(&mut self, before: Pending) -> Result<(), Wrong> {
        if before.is_wanted() {
            self.events += 1;
            if !core::mem::take(&mut self.asked) {
                return Err(Wrong::Unasked);
            }
        }
        Ok(())
    }

    /// One step of the program; `None` when it sleeps.
    fn step(&mut self, rules: Rules, wish: Notify) -> Option<()> {
        self.at = match self.at {
            At::Poll if self.consumed < self.written => {
                self.consumed += 1;
                At::Head
            }
            At::Poll => At::Request,
            At::Head => {
                self.head = self.consumed;
                At::Poll
            }
            At::Request | At::Again(_) => {
                self.asked = true;
                self.wants_any |= wish == Notify::Any;
                match self.policy.request(wish, self.pending) {
                    _ if rules.anew => At::Slot(wish),
                    Some(notify) => At::Slot(notify),
                    None => At::Want(wish, self.pending),
                }
            }
            At::Want(_, pending) if pending.is_wanted() => At::PollAgain,
            At::Want(_, pending) if pending == self.pending => {
                self.pending = pending.wanted();
                At::PollAgain
            }
            At::Want(wish, _) => At::Again(wish),
            At::Slot(notify) => {
                self.pending = Pending::ASKED;
                // Told meanwhile or not: this request is one of its own.
                self.asked = true;
                At::Word(notify)
            }
            At::Word(notify) => {
                self.word = self.word.request(notify);
                At::Doorbell
            }
            At::Doorbell => {
                self.posted.push(Posted::Arm);
                At::PollAgain
            }
            At::PollAgain if rules.polls_again && self.consumed < self.written => At::Poll,
            At::PollAgain => At::Wait,
            At::Wait if self.events != self.taken => {
                self.taken = self.events;
                self.wants_any = false;
                At::Poll
            }
            At::Wait => return None,
        };
        Some(())
    }

    /// Whether something is there that the program asked an event for.
    fn is_wanted(&self, rules: Rules) -> bool {
        (self.consumed..self.written).any(|n| self.wants_any || rules.solicited >> n & 1 != 0)
    }

    /// All states that one step of anybody leads to.
    fn next(&self, rules: Rules) -> Result<Vec<Self>, Wrong> {
        let mut all = Vec::new();
        let mut with = |act: &mut dyn FnMut(&mut Self) -> Result<(), Wrong>| {
            let mut state = self.clone();
            act(&mut state).map(|()| all.push(state))
        };
        if self.written < rules.entries {
            with(&mut |state| {
                state.complete(rules);
                Ok(())
            })?;
        }
        if !self.posted.is_empty() {
            with(&mut |state| {
                state.arrive(rules);
                Ok(())
            })?;
        }
        if self.handling || self.ceqes > 0 {
            with(&mut Self::handle)?;
        }
        if self.by_software > 0 {
            with(&mut Self::signal_by_software)?;
        }
        let wishes = match &self.at {
            At::Request => rules.requests,
            At::Again(wish) => core::slice::from_ref(wish),
            _ => ANY,
        };
        for wish in wishes {
            let mut state = self.clone();
            if state.step(rules, *wish).is_some() {
                all.push(state);
            }
        }
        if all.is_empty() && self.is_wanted(rules) {
            return Err(Wrong::Asleep);
        }
        Ok(all)
    }
}

/// Goes through every state that can be reached; how many there were.
fn explore(rules: Rules) -> Result<usize, Wrong> {
    let mut seen = HashSet::new();
    let mut open = std::vec![State::start(rules)];
    while let Some(state) = open.pop() {
        for next in state.next(rules)? {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

const ANY: &[Notify] = &[Notify::Any];
const SOLICITED: &[Notify] = &[Notify::Solicited];
const BOTH: &[Notify] = &[Notify::Any, Notify::Solicited];

fn is_safe(rules: Rules) -> usize {
    match explore(rules) {
        Ok(states) => states,
        Err(wrong) => panic!("{wrong:?} with {rules:?}"),
    }
}

/// With the card's rule nothing is slept over, even by a program that does not
/// look again.
#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of states, and no unsafe code")]
fn no_interleaving_sleeps_over_a_completion() {
    let mut states = 0;
    for requests in [ANY, SOLICITED, BOTH] {
        for polls_again in [true, false] {
            // Each of three completions plain or solicited.
            for solicited in 0..8 {
                states += is_safe(Rules {
                    polls_again,
                    requests,
                    entries: 3,
                    solicited,
                    ..CARD
                });
            }
        }
    }
    assert!(states > 100_000, "{states}");
}

/// With more of them, so that a sequence number comes round while requests are on
/// their way.
#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of states, and no unsafe code")]
fn no_interleaving_has_four_requests_on_their_way() {
    for (requests, entries, solicited) in [
        (ANY, 7, 0),
        (SOLICITED, 6, 0b11_1111),
        (BOTH, 5, 0),
        (BOTH, 5, 0b1_0101),
    ] {
        let states = is_safe(Rules {
            requests,
            entries,
            solicited,
            ..CARD
        });
        assert!(states > 1_000, "{states}");
    }
}

/// Without the card's rule a completion that comes between the last look and the
/// arrival of the request is slept over: the search finds what it looks for, and
/// the rule is what the driver stands on.
#[test]
#[cfg_attr(miri, ignore = "many states, and no unsafe code")]
fn a_device_that_does_not_check_the_head_would_lose_wake_ups() {
    for polls_again in [true, false] {
        let rules = Rules {
            at_once: false,
            polls_again,
            ..CARD
        };
        assert_eq!(explore(rules), Err(Wrong::Asleep));
    }
}

/// A driver that asks anew each time has four requests on their way with five
/// completions: the device knows the number of the last, and ignores them all.
#[test]
#[cfg_attr(miri, ignore = "many states, and no unsafe code")]
fn asking_anew_each_time_would_lose_wake_ups() {
    let anew = |entries| Rules {
        anew: true,
        entries,
        ..CARD
    };
    assert!(explore(anew(2)).is_ok());
    assert_eq!(explore(anew(5)), Err(Wrong::Asleep));
}
