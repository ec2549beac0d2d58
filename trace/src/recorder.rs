//! Recording what a driver and its device do.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use e810_backends::observed::{DeviceMemory, Observer};
use e810_card::record::from_hex;
use e810_hal::regs::{
    DB_CQ_ARM, DB_WQE_ALLOC, PFGEN_CTRL, PFPE_CCQPLOW, PFPE_CQARM, PFPE_WQEALLOC, find,
};
use e810_hal::{Iova, Ns, RegOffset, Vector};

use crate::file::TraceFile;
use crate::follow::{
    AdminqFollower, CqpFollower, EntryKind, EntryRings, LanFollower, Learned, Shadows, WorkQueues,
};
use crate::record::{Event, Hex, Record, ShadowOf};

/// Writes what happens at one device to a trace, which several can share.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    device: u8,
    file: Arc<Mutex<TraceFile<W>>>,
    state: Mutex<State>,
    /// The clock of a recorder of another process' driver.
    clock: Option<fn() -> Ns>,
}

/// PFSWR of PFGEN_CTRL (control-path 2.7).
const RESET: u32 = 1;

/// What was seen of a device.
#[derive(Debug, Default)]
struct State {
    adminq: AdminqFollower,
    cqp: CqpFollower,
    entries: EntryRings,
    work: WorkQueues,
    lan: LanFollower,
    shadows: Shadows,
    /// The last read, and how often it was repeated since its line.
    last_read: Option<(RegOffset, u32, u64)>,
}

impl State {
    /// LAN queues that commands of the firmware make and end.
    fn learn_of_firmware(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::AdminqCommand(found) => self.lan.firmware(found, false),
                Event::AdminqReply(found) => self.lan.firmware(found, true),
                _ => {}
            }
        }
    }

    /// Queues in this memory are followed no more.
    fn gone(&mut self, memory: &DeviceMemory, at: Iova) {
        self.entries.freed(memory, at);
        self.work.freed(memory, at);
        self.lan.freed(memory, at);
    }
}

impl<W: Write> Recorder<W> {
    /// A recorder of device number `device` of a trace.
    pub fn new(device: u8, file: Arc<Mutex<TraceFile<W>>>) -> Self {
        Self {
            device,
            file,
            state: Mutex::default(),
            clock: None,
        }
    }

    /// Records a driver in another process, which says nothing of its memory: queues are looked at before
    /// each access, too, and lines have the time of `clock`. What the driver does has the time before the
    /// device can see it, and what the device has written that when it was found. So lines of several
    /// functions by one clock are in an order in which they can have happened.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> Ns) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Before an access of the driver is put. Returns the time of its line.
    fn before_access(&self, state: &mut State, now: Ns, memory: &DeviceMemory) -> Ns {
        let Some(clock) = self.clock else {
            return now;
        };
        let now = clock();
        self.look_at(state, now, memory);
        now
    }

    fn file(&self) -> MutexGuard<'_, TraceFile<W>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, now: Ns, event: Event) {
        let now = match self.clock {
            Some(clock) if event.answer().is_some() => clock(),
            _ => now,
        };
        self.file().put(&Record {
            ns: now.0,
            device: self.device,
            event,
        });
    }

    fn put_all(&self, now: Ns, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.put(now, event);
        }
    }

    fn is_open(&self) -> bool {
        self.file().is_open()
    }

    /// Something else than a read: the line of its repetitions, if there were any.
    fn end_of_reads(&self, state: &mut State, now: Ns) {
        if let Some((_, _, times @ 1..)) = state.last_read.take() {
            self.put(now, Event::Again { times });
        }
    }

    fn learn(&self, state: &mut State, now: Ns, learned: Vec<Learned>) {
        for learned in learned {
            match learned {
                Learned::Ring(kind, number, place, entries) => {
                    state.entries.add(kind, number, place, entries);
                }
                Learned::RingGone(kind, number) => {
                    state.entries.remove(kind, number);
                    if kind == EntryKind::Cqe {
                        state.shadows.remove(ShadowOf::Cq, number);
                    }
                }
                Learned::Queues(qp, queues) => state.work.add(qp, queues),
                Learned::QueuesGone(qp) => {
                    state.work.remove(qp);
                    state.shadows.remove(ShadowOf::Qp, qp);
                }
                Learned::Shadow(of, number, at) => state.shadows.add(of, number, at),
                Learned::Hidden(what) => {
                    let text = format!("{what}: its entries are not in this trace");
                    self.put(now, Event::Note { text });
                }
            }
        }
    }

    /// Puts what stands in rings and was not seen before.
    fn scan(&self, state: &mut State, now: Ns, memory: &DeviceMemory) {
        let State {
            cqp,
            entries,
            work,
            lan,
            ..
        } = state;
        // Requests are read behind completions and told before them: each one is before its completion.
        let found = entries.scan(memory);
        let mut events = with_lists(cqp, memory, work.scan(memory));
        events.extend(lan.scan(memory));
        for (event, command) in found {
            events.push(event);
            events.extend(command.and_then(|index| cqp.completed(memory, index)));
        }
        self.put_others(state, now, events);
    }

    /// Puts events that are no reads. The caller holds the state until then: what two threads find is in
    /// the order in which it was found.
    fn put_others(&self, state: &mut State, now: Ns, events: Vec<Event>) {
        if !events.is_empty() {
            self.end_of_reads(state, now);
            self.put_all(now, events);
        }
    }

    fn put_event(&self, state: &mut State, now: Ns, event: Event) {
        self.put_others(state, now, vec![event]);
    }

    fn look_at(&self, state: &mut State, now: Ns, memory: &DeviceMemory) {
        let events = state.adminq.look(memory);
        state.learn_of_firmware(&events);
        // Read before the entries and told behind them: a driver moves on in a queue behind an entry.
        let shadows = state.shadows.look(memory);
        self.put_others(state, now, events);
        self.scan(state, now, memory);
        self.put_others(state, now, shadows);
    }
}

/// What is recorded of a driver in another process, whose accesses pass through this one.
impl<W: Write> Recorder<W> {
    /// Puts `event`, which is no access to a register.
    pub fn event(&self, now: Ns, event: Event) {
        if self.is_open() {
            self.put_event(&mut self.state(), now, event);
        }
    }

    /// Puts what device and driver have written to their queues since the last look. The driver
    /// does not say when it has read an entry: call this often.
    pub fn look(&self, now: Ns, memory: &DeviceMemory) {
        if self.is_open() {
            self.look_at(&mut self.state(), now, memory);
        }
    }

    /// The memory that begins at `at` is about to be taken from the device.
    pub fn unmapped(&self, now: Ns, memory: &DeviceMemory, at: Iova, bytes: u64) {
        if self.is_open() {
            let mut state = self.state();
            self.look_at(&mut state, now, memory);
            state.gone(memory, at);
            let at = Hex(at.0);
            self.put_event(&mut state, now, Event::Unmapped { at, bytes });
        }
    }

    /// The function is reset, or its driver is gone: it has no queues any more.
    pub fn reset(&self, now: Ns, memory: &DeviceMemory, event: Event) {
        let mut state = self.state();
        if self.is_open() {
            self.look_at(&mut state, now, memory);
            self.put_event(&mut state, now, event);
        }
        *state = State::default();
    }
}

/// Work requests, each behind the PBLEs on which it relies.
fn with_lists(cqp: &CqpFollower, memory: &DeviceMemory, requests: Vec<Event>) -> Vec<Event> {
    let mut events = Vec::with_capacity(requests.len());
    for request in requests {
        events.extend(cqp.lists_of_request(memory, &request));
        events.push(request);
    }
    events
}

/// What a replay needs: the reverse of following.
impl<W: Write> Recorder<W> {
    /// Where the driver had put what a line of its says, in the order in which it may be put there:
    /// addresses, as the device sees them, and bytes. `None` if no queue of that name is followed, or the
    /// line is no such line. A host context of the Control QP says its address only in the register
    /// write behind it.
    #[must_use]
    pub fn parts(&self, event: &Event) -> Option<Vec<(u64, Vec<u8>)>> {
        let state = self.state();
        match event {
            Event::Memory { at, bytes } => Some(vec![(at.0, from_hex(bytes)?)]),
            Event::AdminqCommand(found) => state.adminq.parts(found),
            Event::CqpCommand {
                index,
                bytes,
                memory,
            } => state.cqp.parts(*index, bytes, memory),
            Event::Wqe {
                qp,
                queue,
                index,
                bytes,
            } => state.work.parts(*qp, *queue, *index, bytes),
            Event::LanPosted {
                queue,
                number,
                index,
                bytes,
            } => state.lan.parts(*queue, *number, *index, bytes),
            Event::Shadow {
                of: ShadowOf::Cq,
                number,
                bytes,
            } => state.shadows.parts(ShadowOf::Cq, *number, bytes),
            _ => None,
        }
    }

    /// How many entries a completion queue has that is followed.
    #[must_use]
    pub fn entries_of(&self, cq: u32) -> Option<u32> {
        self.state().entries.entries_of(EntryKind::Cqe, cq)
    }

    /// The memory that the device gets by a command to write there, when the command and what it names
    /// are in `memory`: addresses and zeros. What else stands there is in lines behind that of the command.
    #[must_use]
    pub fn given(&self, memory: &DeviceMemory, event: &Event) -> Vec<(u64, Vec<u8>)> {
        match event {
            Event::CqpCommand { bytes, .. } => self.state().cqp.given_by(memory, bytes),
            Event::AdminqCommand(found) => AdminqFollower::given_by(found),
            _ => Vec::new(),
        }
    }
}

/// The name of a register; empty if it has none.
fn name(offset: RegOffset) -> String {
    find(offset).map_or_else(String::new, |element| element.to_string())
}

impl<W: Write + Send + std::fmt::Debug> Observer for Recorder<W> {
    fn read(&self, now: Ns, memory: &DeviceMemory, offset: RegOffset, value: u32) {
        if !self.is_open() {
            return;
        }
        let mut state = self.state();
        let now = self.before_access(&mut state, now, memory);
        let is_again = match &mut state.last_read {
            Some((last, said, times)) if *last == offset && *said == value => {
                *times += 1;
                true
            }
            _ => false,
        };
        let mut events = state.adminq.read(memory, offset, value);
        state.learn_of_firmware(&events);
        events.extend(state.cqp.read(memory, offset, value));
        if !is_again {
            let line = Event::Read {
                register: name(offset),
                offset: Hex(offset.get().into()),
                value: Hex(value.into()),
            };
            self.put_event(&mut state, now, line);
            state.last_read = Some((offset, value, 0));
        }
        self.put_others(&mut state, now, events);
    }

    fn write(&self, now: Ns, memory: &DeviceMemory, offset: RegOffset, value: u32) {
        if !self.is_open() {
            return;
        }
        let mut guard = self.state();
        let state = &mut *guard;
        let now = self.before_access(state, now, memory);
        self.end_of_reads(state, now);
        let is_reset = offset == PFGEN_CTRL.off() && value & RESET != 0;
        if is_reset || offset == PFPE_CCQPLOW.off() && value != 0 {
            // The engine has no queues after a reset, nor with a new Control QP.
            self.scan(state, now, memory);
            (state.entries, state.work, state.shadows) = Default::default();
            if is_reset {
                state.lan.reset();
            }
        }
        let mut events = state.adminq.write(memory, offset, value);
        state.learn_of_firmware(&events);
        events.extend(state.lan.write(memory, offset, value));
        let (commands, learned) = state.cqp.write(memory, offset, value);
        events.extend(commands);
        if [PFPE_WQEALLOC.off(), DB_WQE_ALLOC.off()].contains(&offset) {
            let requests = state.work.scan_one(memory, value & 0xFF_FFFF);
            events.extend(with_lists(&state.cqp, memory, requests));
        }
        if [PFPE_CQARM.off(), DB_CQ_ARM.off()].contains(&offset) {
            events.extend(state.shadows.armed(memory, value & 0x7_FFFF));
        }
        self.put_all(now, events);
        self.learn(state, now, learned);
        let line = Event::Write {
            register: name(offset),
            offset: Hex(offset.get().into()),
            value: Hex(value.into()),
        };
        self.put(now, line);
    }

    fn allocated(&self, now: Ns, at: Iova, bytes: usize) {
        let (at, bytes) = (Hex(at.0), bytes as u64);
        self.event(now, Event::Allocated { at, bytes });
    }

    fn freed(&self, now: Ns, memory: &DeviceMemory, at: Iova) {
        if self.is_open() {
            let mut state = self.state();
            self.scan(&mut state, now, memory);
            state.gone(memory, at);
            self.put_event(&mut state, now, Event::Freed { at: Hex(at.0) });
        }
    }

    fn entries(&self, now: Ns, memory: &DeviceMemory) {
        if self.is_open() {
            self.scan(&mut self.state(), now, memory);
        }
    }

    fn interrupts(&self, now: Ns, vectors: &[Vector]) {
        let vectors = vectors.iter().map(|vector| vector.get() as u16).collect();
        self.event(now, Event::Interrupts { vectors });
    }
}
