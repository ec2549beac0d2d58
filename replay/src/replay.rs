//! The replay: line by line.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use e810_card::record::from_hex;
use e810_hal::regs::{PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_WQEALLOC, find};
use e810_hal::{Ns, RegOffset};
use e810_sim::{Builder, Mode, Sim};
use e810_trace::record::{Hex, WorkQueue};
use e810_trace::{Answer, Answers, Event};

use crate::Recording;
use crate::function::Function;
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
/// Entries of a difference that are told.
const TOLD: usize = 400;

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
    /// Places of receive requests without a completion, by queue pair.
    posted: BTreeMap<u32, VecDeque<u32>>,
    /// The last shadow areas of queue pairs.
    shadows: BTreeMap<Answer, usize>,
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
            let posted = self.states[number].posted.entry(*qp).or_default();
            if posted.contains(place) || !self.functions[number].post(event) {
                break;
            }
            posted.push_back(*place);
            self.done[index] = true;
        }
    }

    /// Writes what drivers had written before their next access, and the proxy had not seen yet. An engine
    /// that is at work on a send queue takes such a request without a doorbell. Here it may have gone to
    /// rest before, so the doorbell comes early, too, if it is that access. Whether there was anything.
    fn post_ahead(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.functions.len() {
            for at in self.states[number].at.. {
                let Some(index) = self.states[number].lines.get(at).copied() else {
                    break;
                };
                let event = self.lines[index].event;
                let function = &mut self.functions[number];
                if is_posted(event) && !self.done[index] && function.post(event) {
                    self.done[index] = true;
                    any = true;
                }
                if is_access(event) {
                    if let Event::Write { offset, value, .. } = event
                        && register(*offset) == Some(PFPE_WQEALLOC.off())
                        && !self.done[index]
                    {
                        let now = self.sim.now();
                        function.write(now, PFPE_WQEALLOC.off(), value.0 as u32);
                        self.done[index] = true;
                        any = true;
                    }
                    break;
                }
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
            Event::NotSeen { entries, .. } => self.outcome.not_seen += entries,
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
            queue: WorkQueue::Receive,
            index: place,
            ..
        } = event
        {
            let posted = self.states[function].posted.entry(*qp).or_default();
            posted.retain(|other| other != place);
            posted.push_back(*place);
        }
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
        let mut found = 0;
        let is_same = self.until(|this| {
            let now = this.sim.now();
            found = this.functions[number].read(now, offset);
            found == wanted
        });
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
            && let Some(posted) = self.states[number].posted.get_mut(&qp)
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
        let found = self.functions[number].answer(place);
        let is_same = found
            .as_ref()
            .is_some_and(|found| found.is_same_answer(event));
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
            let is_given = matches!(place, Answer::Lan(WorkQueue::Receive, _));
            if let (Some(first), false) = (left.front(), is_given) {
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
