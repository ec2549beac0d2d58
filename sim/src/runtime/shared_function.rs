//! One function in real time: its engine, and the queues that other threads use to reach it.

use crate::findings::Log;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use e810_hal::RegOffset;

use super::combining_lock::CombiningLock;
use super::frames::Frames;
use super::helper::Helper;
use crate::bar::Effect;
use crate::function::{CardView, Function};
use crate::link::{LinkCounts, Mac, Uplink};

/// Maximum posted writes kept before the writer has to execute them itself.
const POSTED: usize = 1024;
/// Groups of frames in flight to one function.
const GROUPS: usize = 256;
/// Frames that an engine receives before it sends.
const FRAMES: usize = 64;
/// Steps of the engine in one turn.
const STEPS: u32 = 16;
/// The time of something that never happens.
pub(super) const NEVER: u64 = u64::MAX;

/// Work was left to others, at a time that no thread has read from the clock.
const UNTIMED: u64 = u64::MAX;

/// Frame buffers that a function keeps.
const SPARE: usize = 128;

/// Result of a turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Something was done.
    pub(super) did: bool,
    /// There is more to do now.
    pub(super) more: bool,
    /// The outbox has frames that the machine must send.
    pub(super) for_machine: bool,
    /// Functions that frames were sent to, as bits.
    pub(super) destinations: u64,
    /// Vectors that fired.
    pub(super) fired: Vec<u16>,
}

/// State that only the thread that runs the engine touches.
#[derive(Debug)]
pub(super) struct EngineState {
    /// The function. The machine has it while a thread holds the engine for the machine.
    pub(super) function: Option<Box<Function>>,
    /// Findings that are not in the machine's log yet.
    pub(super) log: Log,
    /// Frames delivered without the link that are not in its counts yet.
    pub(super) counts: LinkCounts,
    /// Its state when the machine last had the function.
    pub(super) card: CardView,
    /// Whether frames between functions may be handed over directly.
    pub(super) direct: bool,
    /// Frames for functions whose queues were full.
    held: VecDeque<(usize, Frames)>,
    /// Where frames go that are for no function here.
    pub(super) uplink: Option<Arc<dyn Uplink>>,
    /// Frames on their way there.
    leaving: Vec<Vec<u8>>,
}

/// One function, as all threads see it.
#[derive(Debug)]
pub(super) struct SharedFunction {
    pub(super) engine: CombiningLock<EngineState>,
    posted: ArrayQueue<(RegOffset, u32)>,
    inbox: ArrayQueue<Frames>,
    /// Memory of frames that this function sent, returned by their receivers.
    returned: ArrayQueue<Frames>,
    /// A program has polled since the helper last looked.
    pub(super) polled: AtomicBool,
    /// Polls in a row that found nothing to do.
    pub(super) idle: AtomicU32,
    /// Time at which a timer of the function expires.
    pub(super) due: AtomicU64,
    /// Since when work is known to be left to others; 0 when there is none.
    left_since: AtomicU64,
}

impl SharedFunction {
    pub(super) fn new() -> Self {
        let engine = EngineState {
            function: None,
            log: Log::default(),
            counts: LinkCounts::default(),
            card: CardView::default(),
            direct: false,
            held: VecDeque::new(),
            uplink: None,
            leaving: Vec::new(),
        };
        Self {
            engine: CombiningLock::new(engine),
            posted: ArrayQueue::new(POSTED),
            inbox: ArrayQueue::new(GROUPS),
            returned: ArrayQueue::new(GROUPS),
            polled: AtomicBool::new(false),
            idle: AtomicU32::new(0),
            due: AtomicU64::new(NEVER),
            left_since: AtomicU64::new(0),
        }
    }

    /// Posts a write; false when too many are waiting.
    pub(super) fn post(&self, off: RegOffset, value: u32) -> bool {
        self.posted.push((off, value)).is_ok()
    }

    /// The oldest posted write that was not executed.
    pub(super) fn next_posted(&self) -> Option<(RegOffset, u32)> {
        self.posted.pop()
    }

    /// Whether work is due at `now`.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.engine.has_work() || self.due.load(Ordering::Relaxed) <= now
    }

    /// Work is left to others. The clock is not read, because that costs more than leaving the
    /// work. The thread that notices it ([`SharedFunction::was_due_before`]) has read the clock.
    pub(super) fn leave_work(&self) {
        if self.left_since.load(Ordering::Relaxed) == 0 {
            self.left_since.store(UNTIMED, Ordering::Relaxed);
        }
    }

    /// Whether work that was left to others is waiting.
    pub(super) fn has_left_work(&self) -> bool {
        self.left_since.load(Ordering::Relaxed) != 0
    }

    /// Whether work that is still pending was due before `time`, which is before `now`.
    pub(super) fn was_due_before(&self, time: u64, now: u64) -> bool {
        let mut since = self.left_since.load(Ordering::Relaxed);
        if since == UNTIMED {
            // Unless it was done at this very moment.
            let relaxed = Ordering::Relaxed;
            let _ = self
                .left_since
                .compare_exchange(UNTIMED, now.max(1), relaxed, relaxed);
            since = now;
        }
        (since != 0 && since < time) || self.due.load(Ordering::Relaxed) < time
    }

    /// Sets the time at which a timer of `function`, which is this one, expires.
    pub(super) fn set_due(&self, function: &Function, helper: &Helper) {
        let engine = function.engine_due();
        let interrupt = function.state.irq.next_due();
        let due = engine.into_iter().chain(interrupt).min().unwrap_or(NEVER);
        if due < self.due.swap(due, Ordering::SeqCst) {
            helper.notify_of(due);
        }
    }

    /// Executes the posted writes. Only the thread that has the engine calls it.
    pub(super) fn drain(&self, function: &mut Function, log: &mut Log, now: u64) -> bool {
        let mut did = false;
        // Cheaper than `pop` when the queue is empty, which it is most of the time.
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

/// All functions, and their addresses.
#[derive(Debug)]
pub(super) struct SharedFunctions {
    pub(super) all: Vec<SharedFunction>,
    macs: Vec<Mac>,
    /// Memory of frames from the uplink, returned by their receivers.
    returned: ArrayQueue<Frames>,
}

impl SharedFunctions {
    pub(super) fn new(macs: Vec<Mac>) -> Self {
        Self {
            all: macs.iter().map(|_| SharedFunction::new()).collect(),
            macs,
            returned: ArrayQueue::new(GROUPS),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&SharedFunction> {
        self.all.get(index)
    }

    /// Function `index` does some of its pending work.
    pub(super) fn turn(&self, index: usize, engine: &mut EngineState, now: u64) -> Turn {
        let mut turn = Turn::default();
        let (Some(shared), Some(mut function)) = (self.get(index), engine.function.take()) else {
            return turn;
        };
        shared.left_since.store(0, Ordering::Relaxed);
        self.hand_over_held(engine, &mut turn);
        turn.did |= shared.drain(&mut function, &mut engine.log, now);
        turn.did |= self.take_in(shared, &mut function, engine, now);
        // Frames that LAN queues have sent.
        self.send(index, &mut function, engine, now, &mut turn);
        for _ in 0..STEPS {
            let due = function.engine_due().is_some_and(|due| due <= now);
            // An engine whose frames are not accepted does not make more of them.
            if !due || !engine.held.is_empty() {
                break;
            }
            function.step_engine(&mut engine.log, now);
            self.send(index, &mut function, engine, now, &mut turn);
            turn.did = true;
        }
        if function.state.irq.next_due().is_some_and(|due| due <= now) {
            function
                .engine_env(&mut engine.log, now)
                .pass_interrupt_time();
            turn.did = true;
        }
        turn.fired = function.take_fired();
        turn.more = function.engine_due().is_some_and(|due| due <= now)
            || !engine.held.is_empty()
            || !shared.inbox.is_empty();
        engine.function = Some(function);
        turn
    }

    /// Hands over what an engine has sent, as far as that does not need the machine.
    fn send(
        &self,
        index: usize,
        function: &mut Function,
        engine: &mut EngineState,
        now: u64,
        turn: &mut Turn,
    ) {
        if !function.state.lan_outbox.is_empty() {
            turn.for_machine = true;
        }
        if function.state.outbox.is_empty() {
            return;
        }
        if !engine.direct {
            turn.for_machine = true;
            return;
        }
        let has_link = function.has_link(engine.card.enabled_ports, now);
        let mut group: Option<(usize, Frames)> = None;
        let mut outbox = std::mem::take(&mut function.state.outbox);
        for frame in outbox.drain(..) {
            let to = match self.owner(&frame) {
                Some(_) if !function.sends(&frame) => {
                    function.count_sent(&frame, false);
                    continue;
                }
                Some(to) if to == index && function.loops_back(&frame) => to,
                Some(to) if to != index && has_link => to,
                Some(to) if to != index => continue,
                None if engine.uplink.is_some() && is_for_one(&frame) => {
                    if !function.sends(&frame) {
                        function.count_sent(&frame, false);
                    } else if has_link {
                        function.count_sent(&frame, true);
                        engine.leaving.push(frame);
                    }
                    continue;
                }
                _ => {
                    function.state.outbox.push(frame);
                    continue;
                }
            };
            function.count_sent(&frame, has_link);
            engine.counts.sent += 1;
            if let Some((to, frames)) = group.take_if(|(same, _)| *same != to) {
                self.hand_over(to, frames, engine, turn);
            }
            let (_, same) = group.get_or_insert_with(|| {
                let returned = self.get(index).and_then(|shared| shared.returned.pop());
                (to, returned.unwrap_or_else(|| Frames::new(Some(index))))
            });
            same.push(&frame);
            let spare = &mut function.state.spare_frames;
            if spare.len() < SPARE {
                spare.push(frame);
            }
        }
        if let Some((to, frames)) = group {
            self.hand_over(to, frames, engine, turn);
        }
        send_out(function, engine);
        if function.state.outbox.is_empty() {
            // Its allocation is reused.
            function.state.outbox = outbox;
        } else {
            turn.for_machine = true;
        }
    }

    /// Hands frames from the uplink to function `to`; false if they are lost, because its queue is
    /// full.
    pub(super) fn hand_in(&self, to: usize, frames: Frames) -> bool {
        let Some(shared) = self.get(to) else {
            return false;
        };
        let is_in = shared.inbox.push(frames).is_ok();
        shared.engine.announce();
        is_in
    }

    /// The function that has an address.
    pub(super) fn owner(&self, frame: &[u8]) -> Option<usize> {
        let address = frame.first_chunk();
        self.macs.iter().position(|mac| Some(mac) == address)
    }

    /// Whether function `to` has room for many more groups of frames.
    pub(super) fn has_room(&self, to: usize) -> bool {
        let shared = self.get(to);
        shared.is_some_and(|shared| shared.inbox.len() < GROUPS / 2)
    }

    /// Memory for frames from the uplink.
    pub(super) fn spare(&self) -> Frames {
        self.returned.pop().unwrap_or_else(|| Frames::new(None))
    }

    fn hand_over(&self, to: usize, frames: Frames, engine: &mut EngineState, turn: &mut Turn) {
        // Frames to one function stay in order.
        if engine.held.is_empty() {
            if let Some(Err(frames)) = self.get(to).map(|shared| shared.inbox.push(frames)) {
                engine.held.push_back((to, frames));
            }
            turn.destinations |= 1 << to;
        } else {
            engine.held.push_back((to, frames));
        }
    }

    /// Retries frames for queues that were full.
    fn hand_over_held(&self, engine: &mut EngineState, turn: &mut Turn) {
        while let Some((to, frames)) = engine.held.pop_front() {
            turn.destinations |= 1 << to;
            if let Some(Err(frames)) = self.get(to).map(|shared| shared.inbox.push(frames)) {
                engine.held.push_front((to, frames));
                return;
            }
            turn.did = true;
        }
    }

    /// Passes frames that have arrived to the engine.
    fn take_in(
        &self,
        shared: &SharedFunction,
        function: &mut Function,
        engine: &mut EngineState,
        now: u64,
    ) -> bool {
        let mut taken = 0;
        while taken < FRAMES
            && !shared.inbox.is_empty()
            && let Some(frames) = shared.inbox.pop()
        {
            taken += frames.count();
            for frame in frames.iter() {
                let sent_here = frames.from().is_some();
                function.receive_frame(frame, sent_here, &engine.card, &mut engine.log, now);
            }
            // Freed if it is no longer wanted there.
            let returned = match frames.from() {
                Some(from) => self.get(from).map(|sender| &sender.returned),
                None => Some(&self.returned),
            };
            let _ = returned.map(|returned| returned.push(frames.cleared()));
        }
        engine.counts.delivered += taken as u64;
        taken > 0
    }
}

/// Whether a frame is for one address, not a group.
fn is_for_one(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 == 0)
}

/// Sends what leaves the simulator.
fn send_out(function: &mut Function, engine: &mut EngineState) {
    let Some(uplink) = engine
        .uplink
        .as_ref()
        .filter(|_| !engine.leaving.is_empty())
    else {
        return;
    };
    uplink.send(&engine.leaving);
    let count = engine.leaving.len() as u64;
    engine.counts.sent += count;
    engine.counts.uplinked += count;
    let spare = &mut function.state.spare_frames;
    let room = SPARE.saturating_sub(spare.len());
    spare.extend(engine.leaving.drain(..).take(room));
}
