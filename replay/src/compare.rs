//! What the simulated device answers, and what the recorded one did.

use std::mem::take;

use e810_hal::RegOffset;
use e810_hal::regs::{PF_FW_ARQH, PF_FW_ARQT, PF_FW_ATQH, PF_FW_ATQT, PFPE_CQPDB, PFPE_CQPTAIL};
use e810_trace::record::{Hex, WorkQueue};
use e810_trace::{Answer, Answers, Event};

use crate::left_out;
use crate::lines::Line;
use crate::replay::{Replay, register};

/// Reads of a position among which a later one is looked for.
const SOON: usize = 64;
/// Characters of an entry that are told.
const TOLD: usize = 400;

impl Replay<'_> {
    pub(crate) fn read(&mut self, index: usize, name: &str, offset: Hex, value: Hex) {
        let number = self.lines[index].function;
        let Some(offset) = register(offset) else {
            return;
        };
        let wanted = value.0 as u32;
        let name = match name {
            "" => format!("register {:#x}", offset.get()),
            name => name.to_owned(),
        };
        let left_out = match left_out::register(offset) {
            Some(counter) => Some((counter.to_owned(), left_out::FRAMES)),
            None => (self.volatile.has_register(offset)).then(|| (name.clone(), left_out::DIFFERS)),
        };
        if let Some((name, why)) = left_out {
            self.count_left_out(&name, why);
            let now = self.sim.now();
            self.functions[number].read(now, offset);
            return;
        }
        let mut found = 0;
        let is_same = self.until(|this| {
            let now = this.sim.now();
            found = this.functions[number].read(now, offset);
            found == wanted
        });
        let is_same = is_same || self.is_further(index, offset, (wanted, found));
        self.outcome.reads.add(is_same);
        if !is_same {
            self.differs(
                index,
                format!("{name} says {wanted:#010x}; the simulator says {found:#010x}"),
            );
        }
    }

    /// Whether the simulator is only further in a queue than the device was when its position was read at
    /// line `index`: not beyond what the driver has sent, or the recording finds it there soon.
    fn is_further(&self, index: usize, offset: RegOffset, (wanted, found): (u32, u32)) -> bool {
        let state = &self.states[self.lines[index].function];
        let sent_by = match offset {
            at if at == PF_FW_ATQH.off() => PF_FW_ATQT.off(),
            at if at == PFPE_CQPTAIL.off() => PFPE_CQPDB.off(),
            at if at == PF_FW_ARQH.off() => PF_FW_ARQT.off(),
            _ => return false,
        };
        let before = state.lines.get(..state.at).unwrap_or_default().iter().rev();
        let mut before = before.filter_map(|index| match self.lines[*index].event {
            Event::Write {
                offset: at, value, ..
            } if register(*at) == Some(sent_by) => Some(value.0 as u32),
            _ => None,
        });
        let sent = before.next();
        let is_sent = sent_by != PF_FW_ARQT.off()
            && sent.is_some_and(|sent| found == sent || wanted < found && found < sent);
        let behind = state.lines.get(state.at..).unwrap_or_default().iter();
        let later = behind.filter_map(|index| match self.lines[*index].event {
            Event::Read {
                offset: at, value, ..
            } if register(*at) == Some(offset) => Some(value.0 as u32),
            _ => None,
        });
        is_sent || later.take(SOON).any(|value| value == found)
    }

    pub(crate) fn interrupt(&mut self, index: usize, vector: u16) {
        let number = self.lines[index].function;
        let mut is_there = self.functions[number].interrupt(vector);
        if !is_there {
            self.settle();
            let state = &mut self.states[number];
            is_there = self.functions[number].interrupt(vector)
                // Lost here, because the event came before the driver cleared what waited.
                || state.cleared.insert(vector, false) == Some(true);
            if !is_there && state.vectors.values().any(|of_frames| *of_frames == vector) {
                // A frame may have come, also one that nobody saw.
                self.outcome.given_interrupts += 1;
                return;
            }
            is_there = is_there || self.until(|this| this.functions[number].interrupt(vector));
        }
        self.outcome.interrupts.add(is_there);
        if !is_there {
            self.differs(
                index,
                format!("a message of vector {vector}; the simulator sends none"),
            );
        }
    }

    pub(crate) fn answer(&mut self, index: usize, place: Answer) {
        let Line {
            function: number,
            event,
            ..
        } = self.lines[index];
        if let Answer::Lan(WorkQueue::Receive, _) = place {
            // What arrives depends on what frames contain.
            self.outcome.given += 1;
            return;
        }
        if let Answer::QpShadow(_) = place {
            // How often the device writes its positions is chance: the last ones are compared.
            self.states[number].shadows.insert(place, index);
            return;
        }
        let is_there = self.until(|this| {
            let now = this.sim.now();
            let function = &mut this.functions[number];
            if function.has_answer(place) {
                return true;
            }
            function.look(now);
            function.has_answer(place)
        });
        let mut found = self.functions[number].answer(place);
        if let (Some((name, why)), Some(_)) = (left_out::answer(place), &found) {
            self.count_left_out(name, why);
            return;
        }
        if let Some(found) = &found
            && !found.is_same_answer(event)
            && self.volatile.explains(found, event)
        {
            self.count_left_out(kind(place), left_out::DIFFERS);
            return;
        }
        let is_same = loop {
            match &found {
                Some(found) if found.is_same_answer(event) => break true,
                Some(_) if self.states[number].was_lost(place) => {}
                _ => break false,
            }
            found = self.functions[number].answer(place);
        };
        let compared = self.outcome.written.entry(kind(place)).or_default();
        compared.add(is_same);
        if !is_there {
            self.differs(
                index,
                format!("{place}: {}; the simulator writes nothing", told(event)),
            );
        } else if let Some(found) = found.filter(|_| !is_same) {
            self.differs(
                index,
                format!(
                    "{place}: {}; the simulator writes {}",
                    told(event),
                    told(&found)
                ),
            );
        }
    }

    fn count_left_out(&mut self, what: &str, why: &'static str) {
        let left_out = &mut self.outcome.left_out;
        left_out.entry(what.to_owned()).or_insert((0, why)).0 += 1;
    }

    /// What the simulator did and the recording does not have.
    pub(crate) fn left_over(&mut self, number: usize, index: usize) {
        self.states[number].places = Answers::default();
        self.states[number].forget_posted();
        let now = self.sim.now();
        self.functions[number].look(now);
        let mut left = self.functions[number].left();
        for (place, index) in take(&mut self.states[number].shadows) {
            let expected = self.lines[index].event;
            let found = left.remove(&place).and_then(|mut all| all.pop_back());
            let is_same = found.as_ref() == Some(expected);
            self.outcome
                .written
                .entry(kind(place))
                .or_default()
                .add(is_same);
            if !is_same {
                let found = found.as_ref().map_or_else(|| "nothing".to_owned(), told);
                self.differs(
                    index,
                    format!("{place}: {}; the simulator writes {found}", told(expected)),
                );
            }
        }
        for (place, left) in left {
            let is_given = matches!(
                place,
                Answer::Lan(WorkQueue::Receive, _) | Answer::QpShadow(_)
            );
            let state = &mut self.states[number];
            let left: Vec<Event> = left
                .into_iter()
                .filter(|_| !state.was_lost(place))
                .collect();
            if let (Some(first), false) = (left.first(), is_given) {
                let (first, count) = (told(first), left.len());
                self.differs(
                    index,
                    format!("{place}: the simulator has written {count} more; the first: {first}"),
                );
            }
        }
        for (vector, count) in self.functions[number].left_interrupts() {
            self.differs(
                index,
                format!("the simulator has sent {count} more messages of vector {vector}"),
            );
        }
    }
}

/// The kind of a place, to count by.
const fn kind(place: Answer) -> &'static str {
    match place {
        Answer::AdminqReply => "AdminQ replies",
        Answer::AdminqEvent => "AdminQ events",
        Answer::CqpReply(_) => "CQP replies",
        Answer::Cqe(..) => "completions",
        Answer::Ceqe(..) => "CEQ events",
        Answer::Aeqe => "asynchronous events",
        Answer::Lan(..) => "LAN descriptors",
        Answer::QpShadow(_) => "shadow areas",
    }
}

/// An event in a line.
fn told(event: &Event) -> String {
    let mut text = serde_json::to_string(event).unwrap_or_default();
    if let Some((at, _)) = text.char_indices().nth(TOLD) {
        text.truncate(at);
        text.push('…');
    }
    text
}
