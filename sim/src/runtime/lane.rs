//! One function in real time: its engine, and the queues through which other threads reach it.

use crate::findings::Log;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use e810_hal::RegOffset;

use super::helper::Helper;
use super::turnstile::Turnstile;
use crate::bar::Effect;
use crate::function::{CardView, Function};
use crate::link::{LinkCounts, Mac};

/// Posted writes that are kept before the writer has to carry them out itself.
const POSTED: usize = 1024;
/// Groups of frames on their way to one function.
const GROUPS: usize = 256;
/// Frames that an engine takes in before it sends.
const FRAMES: usize = 64;
/// Steps of the engine in one turn.
const STEPS: u32 = 16;
/// No time at which something happens.
pub(super) const NEVER: u64 = u64::MAX;

/// Work was left to others, at a time that nobody has read from the clock.
const UNTIMED: u64 = u64::MAX;

/// Buffers for frames that a function keeps.
const SPARE: usize = 128;

/// Frames that one engine sends to one other, in order.
///
/// They are copied here, one behind the other, from the buffers they were made in: those stay in
/// the cache of the sending processor, which reads what it has just written for the ICRC, and only
/// this memory goes from one processor to the other.
#[derive(Debug)]
struct Frames {
    from: usize,
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Frames {
    fn new(from: usize) -> Self {
        Self {
            from,
            bytes: Vec::new(),
            ends: Vec::with_capacity(FRAMES),
        }
    }

    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .filter_map(|(start, end)| self.bytes.get(*start..*end))
    }

    /// Empty again, in the same memory.
    fn cleared(mut self) -> Self {
        self.bytes.clear();
        self.ends.clear();
        self
    }
}

/// What a turn led to.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Something was done.
    pub(super) did: bool,
    /// There is more to do now.
    pub(super) more: bool,
    /// Frames in the outbox are for the machine to send.
    pub(super) for_machine: bool,
    /// Functions that were sent frames, as bits.
    pub(super) destinations: u64,
    /// Vectors that fired.
    pub(super) fired: Vec<u16>,
}

/// What only the thread that runs the engine touches.
#[derive(Debug)]
pub(super) struct Seat {
    /// The function; the machine has it while a thread holds the seat for the machine.
    pub(super) function: Option<Box<Function>>,
    /// Findings that are not in the machine's log yet.
    pub(super) log: Log,
    /// Frames that took no way over the link and are not in its counts yet.
    pub(super) counts: LinkCounts,
    /// As it was when the machine last had the function.
    pub(super) card: CardView,
    /// Frames from function to function may be handed over directly.
    pub(super) direct: bool,
    /// Frames for functions whose queues were full.
    held: VecDeque<(usize, Frames)>,
}

/// One function, as all threads see it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) seat: Turnstile<Seat>,
    posted: ArrayQueue<(RegOffset, u32)>,
    inbox: ArrayQueue<Frames>,
    /// Memory of frames that this function sent, which their receivers give back.
    returned: ArrayQueue<Frames>,
    /// A program has polled since the helper last looked.
    pub(super) polled: AtomicBool,
    /// Polls in a row that found nothing to do.
    pub(super) idle: AtomicU32,
    /// When a timer of the function runs out.
    pub(super) due: AtomicU64,
    /// Since when it is known that work was left to others; 0 when there is none.
    left_since: AtomicU64,
}

impl Lane {
    pub(super) fn new() -> Self {
        let seat = Seat {
            function: None,
            log: Log::default(),
            counts: LinkCounts::default(),
            card: CardView::default(),
            direct: false,
            held: VecDeque::new(),
        };
        Self {
            seat: Turnstile::new(seat),
            posted: ArrayQueue::new(POSTED),
            inbox: ArrayQueue::new(GROUPS),
            returned: ArrayQueue::new(GROUPS),
            polled: AtomicBool::new(false),
            idle: AtomicU32::new(0),
            due: AtomicU64::new(NEVER),
            left_since: AtomicU64::new(0),
        }
    }

    /// Posts a write; false when too many wait.
    pub(super) fn post(&self, off: RegOffset, value: u32) -> bool {
        self.posted.push((off, value)).is_ok()
    }

    /// The oldest posted write that was not carried out.
    pub(super) fn next_posted(&self) -> Option<(RegOffset, u32)> {
        self.posted.pop()
    }

    /// Whether something is to be done at `now`.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.seat.has_work() || self.due.load(Ordering::Relaxed) <= now
    }

    /// Work is left to others. The clock is not read: that costs more than leaving the work, and
    /// who comes to see that it was left ([`Lane::was_due_before`]) has read it.
    pub(super) fn leave_work(&self) {
        if self.left_since.load(Ordering::Relaxed) == 0 {
            self.left_since.store(UNTIMED, Ordering::Relaxed);
        }
    }

    /// Whether work waits that was left to others.
    pub(super) fn has_left_work(&self) -> bool {
        self.left_since.load(Ordering::Relaxed) != 0
    }

    /// Whether something that is still to be done was to be done before `time`, which is before
    /// `now`.
    pub(super) fn was_due_before(&self, time: u64, now: u64) -> bool {
        let mut since = self.left_since.load(Ordering::Relaxed);
        if since == UNTIMED {
            // Unless it was done this very moment.
            let relaxed = Ordering::Relaxed;
            let _ = self
                .left_since
                .compare_exchange(UNTIMED, now.max(1), relaxed, relaxed);
            since = now;
        }
        (since != 0 && since < time) || self.due.load(Ordering::Relaxed) < time
    }

    /// Sets when a timer of `function`, which is this one, runs out.
    pub(super) fn set_due(&self, function: &Function, helper: &Helper) {
        let engine = function.engine_due();
        let interrupt = function.state.irq.next_due();
        let due = engine.into_iter().chain(interrupt).min().unwrap_or(NEVER);
        if due < self.due.swap(due, Ordering::SeqCst) {
            helper.notify_of(due);
        }
    }

    /// Carries out the posted writes. Only the thread that has the seat calls it.
    pub(super) fn drain(&self, function: &mut Function, log: &mut Log, now: u64) -> bool {
        let mut did = false;
        // Cheaper than `pop` where there is nothing, as most of the time.
        while !self.posted.is_empty()
            && let Some((off, value)) = self.posted.pop()
        {
            let effect = function.write32(off, value, log, now);
            debug_assert_eq!(effect, Effect::None, "such writes are not posted");
            did = true;
        }
        did
    }
}

/// The lanes of all functions, and their addresses.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) lanes: Vec<Lane>,
    macs: Vec<Mac>,
}

impl Lanes {
    pub(super) fn new(macs: Vec<Mac>) -> Self {
        Self {
            lanes: macs.iter().map(|_| Lane::new()).collect(),
            macs,
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&Lane> {
        self.lanes.get(index)
    }

    /// Function `index` does some of what it has to do.
    pub(super) fn turn(&self, index: usize, seat: &mut Seat, now: u64) -> Turn {
        let mut turn = Turn::default();
        let (Some(lane), Some(mut function)) = (self.get(index), seat.function.take()) else {
            return turn;
        };
        lane.left_since.store(0, Ordering::Relaxed);
        self.hand_over_held(seat, &mut turn);
        turn.did |= lane.drain(&mut function, &mut seat.log, now);
        turn.did |= self.take_in(lane, &mut function, seat, now);
        // What LAN queues have sent.
        self.send(index, &mut function, seat, now, &mut turn);
        for _ in 0..STEPS {
            let due = function.engine_due().is_some_and(|due| due <= now);
            // An engine whose frames are not taken does not make more of them.
            if !due || !seat.held.is_empty() {
                break;
            }
            function.step_engine(&mut seat.log, now);
            self.send(index, &mut function, seat, now, &mut turn);
            turn.did = true;
        }
        if function.state.irq.next_due().is_some_and(|due| due <= now) {
            function
                .engine_env(&mut seat.log, now)
                .pass_interrupt_time();
            turn.did = true;
        }
        turn.fired = function.take_fired();
        turn.more = function.engine_due().is_some_and(|due| due <= now)
            || !seat.held.is_empty()
            || !lane.inbox.is_empty();
        seat.function = Some(function);
        turn
    }

    /// Hands over what an engine has sent, as far as that needs no machine.
    fn send(
        &self,
        index: usize,
        function: &mut Function,
        seat: &mut Seat,
        now: u64,
        turn: &mut Turn,
    ) {
        if !function.state.lan_outbox.is_empty() {
            turn.for_machine = true;
        }
        if function.state.outbox.is_empty() {
            return;
        }
        if !seat.direct {
            turn.for_machine = true;
            return;
        }
        let has_link = function.has_link(seat.card.enabled_ports, now);
        let mut group: Option<(usize, Frames)> = None;
        let mut outbox = std::mem::take(&mut function.state.outbox);
        for frame in outbox.drain(..) {
            let address = frame.first_chunk();
            let owner = self.macs.iter().position(|mac| Some(mac) == address);
            let to = match owner {
                Some(_) if !function.sends(&frame) => {
                    function.count_sent(&frame, false);
                    continue;
                }
                Some(to) if to == index && function.loops_back(&frame) => to,
                Some(to) if to != index && has_link => to,
                Some(to) if to != index => continue,
                _ => {
                    function.state.outbox.push(frame);
                    continue;
                }
            };
            function.count_sent(&frame, has_link);
            seat.counts.sent += 1;
            if let Some((to, frames)) = group.take_if(|(same, _)| *same != to) {
                self.hand_over(to, frames, seat, turn);
            }
            let (_, same) = group.get_or_insert_with(|| {
                let returned = self.get(index).and_then(|lane| lane.returned.pop());
                (to, returned.unwrap_or_else(|| Frames::new(index)))
            });
            same.push(&frame);
            let spare = &mut function.state.spare_frames;
            if spare.len() < SPARE {
                spare.push(frame);
            }
        }
        if let Some((to, frames)) = group {
            self.hand_over(to, frames, seat, turn);
        }
        if function.state.outbox.is_empty() {
            // Its allocation is reused.
            function.state.outbox = outbox;
        } else {
            turn.for_machine = true;
        }
    }

    fn hand_over(&self, to: usize, frames: Frames, seat: &mut Seat, turn: &mut Turn) {
        // Frames to one function stay in order.
        if seat.held.is_empty() {
            if let Some(Err(frames)) = self.get(to).map(|lane| lane.inbox.push(frames)) {
                seat.held.push_back((to, frames));
            }
            turn.destinations |= 1 << to;
        } else {
            seat.held.push_back((to, frames));
        }
    }

    /// Tries again what found a full queue.
    fn hand_over_held(&self, seat: &mut Seat, turn: &mut Turn) {
        while let Some((to, frames)) = seat.held.pop_front() {
            turn.destinations |= 1 << to;
            if let Some(Err(frames)) = self.get(to).map(|lane| lane.inbox.push(frames)) {
                seat.held.push_front((to, frames));
                return;
            }
            turn.did = true;
        }
    }

    /// The engine gets frames that have arrived.
    fn take_in(&self, lane: &Lane, function: &mut Function, seat: &mut Seat, now: u64) -> bool {
        let mut taken = 0;
        while taken < FRAMES
            && !lane.inbox.is_empty()
            && let Some(frames) = lane.inbox.pop()
        {
            taken += frames.ends.len();
            for frame in frames.iter() {
                function.receive_frame(frame, true, &seat.card, &mut seat.log, now);
            }
            // Where it is not wanted any more it is freed.
            let sender = self.get(frames.from);
            let _ = sender.map(|sender| sender.returned.push(frames.cleared()));
        }
        seat.counts.delivered += taken as u64;
        taken > 0
    }
}
