//! The replay: line by line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use e810_card::record::from_hex;
use e810_hal::regs::{
    DB_WQE_ALLOC, PF_FW_ARQH, PF_FW_ATQH, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CQPTAIL, PFPE_WQEALLOC,
    find,
};
use e810_hal::{Ns, RegOffset};
use e810_sim::{Builder, Mode, Sim};
use e810_trace::record::{Hex, WorkQueue};
use e810_trace::{Answer, Answers, Event};

use crate::Recording;
use crate::function::Function;
use crate::left_out;
use crate::lines::{Line, is_access, is_posted, merged, repeated};
use crate::outcome::{Difference, Outcome};

/// Simulated time within which an answer has to come.
const PATIENCE: Ns = Ns::from_ms(20_000);
/// The most events of the simulator in which it has to come.
const MOST_STEPS: u32 = 200_000;
/// When an answer takes so long, the device may wait for what the driver had written to memory and the
/// proxy had not seen yet.
const LATE: Ns = Ns::from_ms(1);
/// If nothing is recorded for so long, the device was idle but for its timers.
const IDLE: u64 = 5_000_000;
/// A proxy looks at least so often, so what came before is recorded before.
const SEEN: u64 = 2_000_000;
/// Registers that say how far a queue is.
const POSITIONS: [RegOffset; 3] = [PF_FW_ATQH.off(), PF_FW_ARQH.off(), PFPE_CQPTAIL.off()];
/// Doorbells of send queues, and their bits that say whose.
const DOORBELLS: [RegOffset; 2] = [PFPE_WQEALLOC.off(), DB_WQE_ALLOC.off()];
const QP: u32 = 0x3_FFFF;
/// Reads of a position among which a later one is looked for.
const SOON: usize = 64;
/// Characters of a difference that are told.
const TOLD: usize = 4000;

/// Why recordings cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum NotReplayed {
    /// A trace of a driver of this project has no memory of its payload.
    #[error("{0} is no recording of `e810 proxy`: it does not say what memory the device sees")]
    NoRecording(String),
    /// More functions than a simulated card has.
    #[error("{0} functions are recorded, and a card has at most 8")]
    Functions(usize),
    /// The system has no memory or descriptors.
    #[error("{during}")]
    System {
        /// What was being done.
        during: &'static str,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

fn system(during: &'static str) -> impl Fn(io::Error) -> NotReplayed {
    move |cause| NotReplayed::System { during, cause }
}

/// Replays `recordings` on functions of one card: function 0 is the first device of the first of them,
/// and so on.
///
/// # Errors
/// [`NotReplayed`]. What differs is no error.
pub fn check(recordings: &[Recording], card: Builder) -> Result<Outcome, NotReplayed> {
    for Recording { name, trace } in recordings {
        let is_user = |event: &Event| matches!(event, Event::User { .. });
        if !trace.records.iter().any(|record| is_user(&record.event)) {
            return Err(NotReplayed::NoRecording(name.clone()));
        }
    }
    let (lines, functions) = merged(recordings);
    if functions > 8 {
        return Err(NotReplayed::Functions(functions));
    }
    let sim = card.functions(functions as u8).mode(Mode::Virtual).build();
    let all: io::Result<Vec<Function>> = (0..functions as u8)
        .map(|number| Function::new(&sim, number))
        .collect();
    let mut of_function = vec![Vec::new(); functions];
    for (index, line) in lines.iter().enumerate() {
        of_function[line.function].push(index);
    }
    let mut replay = Replay {
        recordings,
        repeated: repeated(&lines, functions),
        done: vec![false; lines.len()],
        states: of_function.into_iter().map(State::new).collect(),
        lines: &lines,
        functions: all.map_err(system("simulated functions"))?,
        sim,
        outcome: Outcome::default(),
    };
    let mut last = 0;
    for index in 0..lines.len() {
        let ns = lines[index].ns;
        if last > 0 && ns - last > IDLE {
            replay.sim.run(Ns(ns - last - SEEN));
        }
        last = ns;
        if !replay.done[index] {
            replay.line(index)?;
        }
        let Line {
            function, event, ..
        } = lines[index];
        if is_access(event) || matches!(event, Event::Cqe { .. }) {
            replay.post_receives(function);
        }
    }
    let end = lines.len().saturating_sub(1);
    for function in 0..functions {
        replay.left_over(function, end);
    }
    let findings = replay.sim.findings();
    replay.outcome.findings = findings.iter().map(ToString::to_string).collect();
    Ok(replay.outcome)
}

/// What is known of a function beside the simulator.
#[derive(Debug)]
struct State {
    /// Its lines, and how many of them are done.
    lines: Vec<usize>,
    at: usize,
    /// The host context of the Control QP, and the upper half of its address.
    context: Option<String>,
    context_high: u32,
    /// The access before has reset the function.
    is_reset: bool,
    /// The vectors of LAN receive queues, and messages that came of frames.
    vectors: BTreeMap<u32, u16>,
    of_frames: BTreeMap<u16, u64>,
    places: Answers,
    /// Places of requests without a completion, by queue pair and queue. Those of a send queue are not
    /// told one by one.
    posted: BTreeMap<(u32, WorkQueue), VecDeque<u32>>,
    /// The last shadow areas of queue pairs.
    shadows: BTreeMap<Answer, usize>,
    /// Entries that the recording does not have.
    lost: BTreeMap<(String, u32), u64>,
    /// Queue pairs with requests whose doorbell has not come.
    not_rung: BTreeSet<u32>,
}

impl State {
    fn new(lines: Vec<usize>) -> Self {
        Self {
            lines,
            at: 0,
            context: None,
            context_high: 0,
            is_reset: false,
            vectors: BTreeMap::new(),
            of_frames: BTreeMap::new(),
            places: Answers::default(),
            posted: BTreeMap::new(),
            shadows: BTreeMap::new(),
            lost: BTreeMap::new(),
            not_rung: BTreeSet::new(),
        }
    }
}

impl State {
    /// Whether the recording may lack an entry there, which is then passed over.
    fn was_lost(&mut self, place: Answer) -> bool {
        let (what, number) = match place {
            Answer::AdminqReply => ("AdminQ replies".to_owned(), 0),
            Answer::AdminqEvent => ("AdminQ events".to_owned(), 0),
            Answer::CqpReply => ("CQP replies".to_owned(), 0),
            Answer::Cqe(cq, ..) => ("CQ".to_owned(), cq),
            Answer::Ceqe(ceq, _) => ("CEQ".to_owned(), ceq),
            Answer::Aeqe => ("AEQ".to_owned(), 0),
            Answer::Lan(WorkQueue::Send, number) => ("LAN SQ".to_owned(), number),
            Answer::Lan(WorkQueue::Receive, number) => ("LAN RQ".to_owned(), number),
            Answer::QpShadow(_) => return true,
        };
        match self.lost.get_mut(&(what, number)) {
            Some(count @ 1..) => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// The driver has posted this.
    fn sent(&mut self, event: &Event) {
        if let Event::Wqe {
            qp,
            queue: WorkQueue::Send,
            ..
        } = event
        {
            self.not_rung.insert(*qp);
        }
    }
}

#[derive(Debug)]
struct Replay<'a> {
    recordings: &'a [Recording],
    lines: &'a [Line<'a>],
    repeated: Vec<bool>,
    /// Lines whose memory was written before their turn.
    done: Vec<bool>,
    functions: Vec<Function>,
    states: Vec<State>,
    sim: Sim,
    outcome: Outcome,
}

impl Replay<'_> {
    fn differs(&mut self, index: usize, what: String) {
        let Line {
            recording,
            number,
            ns,
            ..
        } = self.lines[index];
        self.outcome.add(Difference {
            recording: self.recordings[recording].name.clone(),
            line: number,
            ns,
            what,
        });
    }

    /// Lets the simulator run until `ready` says so; false if it does not within [`PATIENCE`].
    fn until(&mut self, mut ready: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = self.sim.now();
        let mut is_late = false;
        for _ in 0..MOST_STEPS {
            if ready(self) {
                return true;
            }
            let now = self.sim.now();
            let next = self.sim.next_event();
            let next = next.filter(|next| next.0.saturating_sub(begun.0) <= PATIENCE.0);
            let waits = next.is_none_or(|next| next.0.saturating_sub(begun.0) > LATE.0);
            if waits && !is_late {
                is_late = true;
                if self.post_ahead() {
                    continue;
                }
            }
            let Some(next) = next else {
                return false;
            };
            self.sim.run(Ns(next.0.saturating_sub(now.0)));
        }
        false
    }

    /// Lets the simulator do what it can do without anybody.
    fn settle(&mut self) {
        let begun = self.sim.now();
        for _ in 0..MOST_STEPS {
            match self.sim.next_event() {
                Some(next) if next.0.saturating_sub(begun.0) <= LATE.0 => {
                    let now = self.sim.now();
                    self.sim.run(Ns(next.0.saturating_sub(now.0)));
                }
                _ => break,
            }
        }
    }

    /// Writes the receive requests that a driver had posted before its next access, as far as their places
    /// are free here, too. Nothing says when it posted them, and a datagram that finds none is lost.
    fn post_receives(&mut self, number: usize) {
        for at in self.states[number].at.. {
            let Some(index) = self.states[number].lines.get(at).copied() else {
                break;
            };
            let event = self.lines[index].event;
            if is_access(event) {
                break;
            }
            let Event::Wqe {
                qp,
                queue: WorkQueue::Receive,
                index: place,
                ..
            } = event
            else {
                continue;
            };
            if self.done[index] {
                continue;
            }
            let key = (*qp, WorkQueue::Receive);
            let posted = self.states[number].posted.entry(key).or_default();
            if posted.contains(place) || !self.functions[number].post(event) {
                break;
            }
            posted.push_back(*place);
            self.done[index] = true;
        }
    }

    /// Writes what drivers had written before their next access, and the proxy had not seen yet. An engine
    /// that is at work on a send queue takes such a request before its doorbell. Here it may have gone to
    /// rest, so it gets a doorbell now, which changes nothing else. Whether there was anything.
    fn post_ahead(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.functions.len() {
            for at in self.states[number].at.. {
                let Some(index) = self.states[number].lines.get(at).copied() else {
                    break;
                };
                let event = self.lines[index].event;
                if is_access(event) {
                    break;
                }
                if is_posted(event) && !self.done[index] && self.functions[number].post(event) {
                    self.done[index] = true;
                    self.states[number].sent(event);
                    any = true;
                }
            }
            for qp in std::mem::take(&mut self.states[number].not_rung) {
                self.functions[number].ring(qp);
                any = true;
            }
        }
        any
    }

    fn line(&mut self, index: usize) -> Result<(), NotReplayed> {
        let Line {
            function: number,
            event,
            ..
        } = self.lines[index];
        let state = &mut self.states[number];
        while state.lines.get(state.at).is_some_and(|at| *at <= index) {
            state.at += 1;
        }
        let is_reset = std::mem::take(&mut state.is_reset);
        let now = self.sim.now();
        let function = &mut self.functions[number];
        match event {
            Event::Read {
                register,
                offset,
                value,
            } => {
                if !self.repeated[index] {
                    self.read(index, register, *offset, *value);
                }
            }
            Event::Write { offset, value, .. } => {
                if let Some(offset) = register(*offset) {
                    self.write(index, offset, value.0 as u32);
                }
            }
            Event::ConfigRead { offset, bytes } => {
                let found = function.config_read(offset.0, bytes.len() / 2);
                self.outcome.config_reads.add(found == *bytes);
                if found != *bytes {
                    self.differs(
                        index,
                        format!(
                            "configuration {:#05x} says {bytes}; the simulator says {found}",
                            offset.0
                        ),
                    );
                }
            }
            Event::ConfigWrite { offset, bytes } => {
                if let Some(bytes) = from_hex(bytes) {
                    function.config_write(offset.0, &bytes);
                }
                state.is_reset = true;
            }
            Event::User { is_there } => {
                self.left_over(number, index);
                let user = self.functions[number].user(now, *is_there);
                user.map_err(system("descriptors for the function's vectors"))?;
            }
            Event::Mapped {
                at,
                bytes,
                is_writable,
            } => {
                let mapped = function.map(at.0, *bytes, *is_writable);
                mapped.map_err(system("memory for that of the driver"))?;
            }
            Event::Unmapped { at, bytes } => function.unmap(now, at.0, *bytes),
            Event::Reset => {
                function.reset(now, is_reset);
                self.left_over(number, index);
            }
            Event::CqpContext { bytes } => state.context = Some(bytes.clone()),
            Event::Interrupts { vectors } => {
                for vector in vectors {
                    self.interrupt(index, *vector);
                }
            }
            Event::NotSeen {
                what,
                number,
                entries,
            } => {
                self.outcome.not_seen += entries;
                *state.lost.entry((what.clone(), *number)).or_default() += entries;
            }
            Event::AdminqCommand(_) | Event::CqpCommand { .. } | Event::LanPosted { .. } => {
                self.post(index);
            }
            event if is_posted(event) => self.post(index),
            event => {
                if let Some(place) = state.places.place(event) {
                    self.answer(index, place);
                }
            }
        }
        Ok(())
    }

    fn post(&mut self, index: usize) {
        let Line {
            function, event, ..
        } = self.lines[index];
        if let Event::Wqe {
            qp,
            queue,
            index: place,
            ..
        } = event
        {
            let key = (*qp, *queue);
            let posted = self.states[function].posted.entry(key).or_default();
            if posted.contains(place) {
                // The device was done with what stood there.
                self.settle();
            }
            let posted = self.states[function].posted.entry(key).or_default();
            if let Some(at) = posted.iter().position(|other| other == place) {
                posted.drain(..=at);
            }
            posted.push_back(*place);
        }
        self.states[function].sent(event);
        if !self.functions[function].post(event) {
            self.differs(
                index,
                "the simulator does not know the queue that this was written to".to_owned(),
            );
        }
    }

    fn read(&mut self, index: usize, name: &str, offset: Hex, value: Hex) {
        let number = self.lines[index].function;
        let Some(offset) = register(offset) else {
            return;
        };
        let wanted = value.0 as u32;
        if let Some(name) = left_out::register(offset) {
            let (count, _) = self
                .outcome
                .left_out
                .entry(name)
                .or_insert((0, left_out::FRAMES));
            *count += 1;
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
        let is_same = is_same || self.is_further(index, offset, found);
        self.outcome.reads.add(is_same);
        if !is_same {
            let name = match name {
                "" => format!("register {:#x}", offset.get()),
                name => name.to_owned(),
            };
            self.differs(
                index,
                format!("{name} says {wanted:#010x}; the simulator says {found:#010x}"),
            );
        }
    }

    /// Whether the simulator is only further in a queue than the device was when its position was read at
    /// line `index`: the recording finds `found` there soon.
    fn is_further(&self, index: usize, offset: RegOffset, found: u32) -> bool {
        if !POSITIONS.iter().any(|position| *position == offset) {
            return false;
        }
        let state = &self.states[self.lines[index].function];
        let behind = state.lines.get(state.at..).unwrap_or_default().iter();
        let later = behind.filter_map(|index| match self.lines[*index].event {
            Event::Read {
                offset: at, value, ..
            } if register(*at) == Some(offset) => Some(value.0 as u32),
            _ => None,
        });
        later.take(SOON).any(|value| value == found)
    }

    fn write(&mut self, index: usize, offset: RegOffset, value: u32) {
        let number = self.lines[index].function;
        let state = &mut self.states[number];
        if offset == PFPE_CCQPHIGH.off() {
            state.context_high = value;
        } else if offset == PFPE_CCQPLOW.off()
            && let Some(context) = state.context.take()
        {
            let at = u64::from(state.context_high) << 32 | u64::from(value);
            if !self.functions[number].put_context(at, &context) {
                self.differs(index, format!("no memory at {at:#x}"));
            }
        }
        let state = &mut self.states[number];
        if let Some(element) = find(offset)
            && element.register.name == "QINT_RQCTL"
        {
            let [queue, _] = element.indexes;
            state.vectors.insert(queue, (value & 0x7FF) as u16);
        }
        if DOORBELLS.contains(&offset) {
            self.states[number].not_rung.remove(&(value & QP));
        }
        let now = self.sim.now();
        self.functions[number].write(now, offset, value);
    }

    fn interrupt(&mut self, index: usize, vector: u16) {
        let number = self.lines[index].function;
        let of_frames = self.states[number].of_frames.get_mut(&vector);
        let is_of_frames = of_frames.is_some_and(|count| {
            let had = *count > 0;
            *count = count.saturating_sub(1);
            had
        });
        let is_there = self.functions[number].interrupt(vector)
            || is_of_frames
            || self.until(|this| this.functions[number].interrupt(vector));
        self.outcome.interrupts.add(is_there);
        if !is_there {
            self.differs(
                index,
                format!("a message of vector {vector}; the simulator sends none"),
            );
        }
    }

    fn answer(&mut self, index: usize, place: Answer) {
        let Line {
            function: number,
            event,
            ..
        } = self.lines[index];
        if let Answer::Lan(WorkQueue::Receive, queue) = place {
            // What arrives depends on what frames contain.
            self.outcome.given += 1;
            let state = &mut self.states[number];
            if let Some(vector) = state.vectors.get(&queue) {
                *state.of_frames.entry(*vector).or_default() += 1;
            }
            return;
        }
        if let Answer::QpShadow(_) = place {
            // How often the device writes its positions is chance: the last ones are compared.
            self.states[number].shadows.insert(place, index);
            return;
        }
        if let Answer::Cqe(_, qp, false) = place
            && let Some(posted) = self.states[number]
                .posted
                .get_mut(&(qp, WorkQueue::Receive))
        {
            posted.pop_front();
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
        if let (Some((name, why)), Some(_)) = (left_out::answer(event), &found) {
            self.outcome.left_out.entry(name).or_insert((0, why)).0 += 1;
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

    /// What the simulator did and the recording does not have.
    fn left_over(&mut self, number: usize, index: usize) {
        self.states[number].places = Answers::default();
        self.states[number].posted.clear();
        self.states[number].not_rung.clear();
        let now = self.sim.now();
        self.functions[number].look(now);
        let mut left = self.functions[number].left();
        for (place, index) in std::mem::take(&mut self.states[number].shadows) {
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

/// The register of an offset; none has no such place.
fn register(offset: Hex) -> Option<RegOffset> {
    u32::try_from(offset.0).ok().and_then(RegOffset::try_new)
}

/// The kind of a place, to count by.
const fn kind(place: Answer) -> &'static str {
    match place {
        Answer::AdminqReply => "AdminQ replies",
        Answer::AdminqEvent => "AdminQ events",
        Answer::CqpReply => "CQP replies",
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
