//! The replay: line by line.

use std::io;
use std::mem::take;

use e810_card::record::from_hex;
use e810_hal::regs::{DB_WQE_ALLOC, PFGEN_CTRL, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_WQEALLOC, find};
use e810_hal::{Ns, RegOffset};
use e810_sim::{Builder, Mode, Sim};
use e810_trace::Event;
use e810_trace::record::{Hex, WorkQueue};

use crate::function::Function;
use crate::lines::{Line, is_access, is_posted, merged, repeated};
use crate::outcome::{Difference, Outcome};
use crate::state::{State, new_ring};
use crate::{Recording, Volatile};

/// Simulated time within which an answer has to come.
const PATIENCE: Ns = Ns::from_ms(20_000);
/// The most events of the simulator in which it has to come.
const MOST_STEPS: u32 = 200_000;
/// When an answer takes so long, the device may wait for what the driver had written to memory and the
/// proxy had not seen yet.
const LATE: Ns = Ns::from_ms(1);
/// So many differences end a replay: what comes behind them follows from them, and each one that is
/// waited for in vain takes long.
const MOST_DIFFERENCES: usize = 100;
/// CLEARPBA of GLINT_DYN_CTL: a message that waits is not sent.
const CLEAR_PENDING: u32 = 1 << 1;
/// CAUSE_ENA of QINT_RQCTL: the queue sends messages.
const CAUSE: u32 = 1 << 30;
/// PFSWR of PFGEN_CTRL: the function is reset, and has no queues.
const RESET: u32 = 1;
/// If nothing is recorded for so long, the device was idle but for its timers.
const IDLE: u64 = 5_000_000;
/// A proxy looks at least so often, so what came before is recorded before.
const SEEN: u64 = 2_000_000;
/// Doorbells of send queues, and their bits that say whose.
pub(crate) const DOORBELLS: [RegOffset; 2] = [PFPE_WQEALLOC.off(), DB_WQE_ALLOC.off()];
const QP: u32 = 0x3_FFFF;

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
/// and so on. What is `volatile` is not compared.
///
/// # Errors
/// [`NotReplayed`]. What differs is no error.
pub fn check(
    recordings: &[Recording],
    card: Builder,
    volatile: &Volatile,
) -> Result<Outcome, NotReplayed> {
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
        volatile,
        repeated: repeated(&lines, functions),
        done: vec![false; lines.len()],
        states: of_function.into_iter().map(State::new).collect(),
        lines: &lines,
        functions: all.map_err(system("simulated functions"))?,
        sim,
        outcome: Outcome::default(),
    };
    let mut last = 0;
    for (index, line) in lines.iter().enumerate() {
        if replay.outcome.differences.len() >= MOST_DIFFERENCES {
            replay.outcome.stopped_at = Some(line.number);
            break;
        }
        let ns = line.ns;
        if last > 0 && ns - last > IDLE {
            replay.sim.run(Ns((ns - last - SEEN).min(PATIENCE.0)));
        }
        last = ns;
        if !replay.done[index] {
            replay.line(index)?;
        }
        let Line {
            function, event, ..
        } = *line;
        if is_access(event) || matches!(event, Event::Cqe { .. }) {
            replay.post_in_time(function);
        }
    }
    if replay.outcome.stopped_at.is_none() {
        let end = lines.len().saturating_sub(1);
        for function in 0..functions {
            replay.left_over(function, end);
        }
    }
    let findings = replay.sim.findings();
    replay.outcome.findings = findings.iter().map(ToString::to_string).collect();
    Ok(replay.outcome)
}

#[derive(Debug)]
pub(crate) struct Replay<'a> {
    pub(crate) recordings: &'a [Recording],
    pub(crate) volatile: &'a Volatile,
    pub(crate) lines: &'a [Line<'a>],
    pub(crate) repeated: Vec<bool>,
    /// Lines whose memory was written before their turn.
    pub(crate) done: Vec<bool>,
    pub(crate) functions: Vec<Function>,
    pub(crate) states: Vec<State>,
    pub(crate) sim: Sim,
    pub(crate) outcome: Outcome,
}

impl Replay<'_> {
    pub(crate) fn differs(&mut self, index: usize, what: String) {
        let Line {
            recording,
            number,
            ns,
            ..
        } = self.lines[index];
        self.outcome.differences.push(Difference {
            recording: self.recordings[recording].name.clone(),
            line: number,
            ns,
            what,
        });
    }

    /// Lets the simulator run until `ready` says so; false if it does not within [`PATIENCE`].
    pub(crate) fn until(&mut self, mut ready: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = self.sim.now();
        for _ in 0..MOST_STEPS {
            if ready(self) {
                return true;
            }
            let now = self.sim.now();
            let next = self.sim.next_event();
            let next = next.filter(|next| next.0.saturating_sub(begun.0) <= PATIENCE.0);
            let waits = next.is_none_or(|next| next.0.saturating_sub(begun.0) > LATE.0);
            if waits && self.post_ahead() {
                continue;
            }
            let Some(next) = next else {
                return false;
            };
            self.sim.run(Ns(next.0.saturating_sub(now.0)));
        }
        false
    }

    /// Lets the simulator do what it can do without anybody.
    pub(crate) fn settle(&mut self) {
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
        let is_reset = take(&mut state.is_reset);
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
                let bytes = from_hex(bytes).unwrap_or_default();
                state.is_reset = function.config_write(offset.0, &bytes);
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
            if !self.is_free(function, key, *place) {
                // The device was done with what stood there.
                self.settle();
                let posted = self.states[function].posted.entry(key).or_default();
                if let Some(at) = posted.iter().position(|other| other == place) {
                    posted.drain(..=at);
                }
                posted.push_back(*place);
            }
            if *queue == WorkQueue::Send {
                self.make_room(function, *qp);
            }
        }
        self.take_entries(function, event);
        self.states[function].sent(event);
        if let Some(cq) = new_ring(event) {
            self.states[function].taken.remove(&cq);
            self.functions[function].new_ring(cq);
        }
        if !self.functions[function].post(event) {
            self.differs(
                index,
                "the simulator does not know the queue that this was written to".to_owned(),
            );
        }
    }

    fn write(&mut self, index: usize, offset: RegOffset, value: u32) {
        let number = self.lines[index].function;
        if offset == PFGEN_CTRL.off() && value & RESET != 0 {
            self.left_over(number, index);
        }
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
        if let Some(element) = find(offset) {
            let [number_of_register, _] = element.indexes;
            match element.register.name {
                "QINT_RQCTL" if value & CAUSE != 0 => {
                    let vector = (value & 0x7FF) as u16;
                    state.vectors.insert(number_of_register, vector);
                }
                "QINT_RQCTL" => {
                    state.vectors.remove(&number_of_register);
                }
                "GLINT_DYN_CTL" if value & CLEAR_PENDING != 0 => {
                    let now = self.sim.now();
                    self.functions[number].look(now);
                    let is_early = self.functions[number].has_event();
                    state.cleared.insert(number_of_register as u16, is_early);
                }
                _ => {}
            }
        }
        if DOORBELLS.contains(&offset) {
            self.states[number].not_rung.remove(&(value & QP));
        }
        let now = self.sim.now();
        self.functions[number].write(now, offset, value);
    }
}

/// The register of an offset; none has no such place.
pub(crate) fn register(offset: Hex) -> Option<RegOffset> {
    u32::try_from(offset.0).ok().and_then(RegOffset::try_new)
}
