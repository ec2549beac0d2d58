//! The Ethernet link between the simulated functions: addressing, latency, faults.
//!
//! A frame goes to the function that owns its destination MAC address; to the sender if that is the
//! owner and its switch loops the frame back; to all other functions if the address is a group
//! address; and to those that want frames for other addresses. Frames with an unknown destination,
//! and frames to a group, also go to the [`Uplink`] if there is one. Frames between two functions
//! keep their order unless a fault reorders them.

mod counts;
mod hooks;
mod mac;
mod port;
mod quality;
mod units;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::fmt;
use std::slice;
use std::sync::Arc;

use e810_hal::Ns;

pub use counts::LinkCounts;
pub use hooks::{Capture, Frame, LinkHook, Uplink, Verdict};
pub use mac::{ParseMacError, mac_option, parse_mac};
pub use quality::Quality;
pub use units::{NoRate, NoTime, Rate, parse_time, time_option};

use crate::rng::Rng;
use port::Ports;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Additional latency of a frame that others are to overtake.
const OVERTAKEN: Ns = Ns(20_000);

/// Number of frames in flight above which frames from outside are dropped: their sender has no flow
/// control.
const MOST_IN_FLIGHT: usize = 4096;

/// Destination of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum To {
    Function(usize),
    /// Back to the function that sent it: its MAC is in loopback.
    Back(usize),
    Uplink,
}

/// Sender of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) from: u8,
    /// A frame to the sender's own address is delivered to the sender, and goes nowhere else.
    pub(crate) loops: bool,
    /// An engine made the frame, not software, and the frame is unmodified.
    pub(crate) genuine: bool,
}

impl From<u8> for Sender {
    /// The engine of a function whose frames to its own address come back.
    fn from(from: u8) -> Self {
        Self {
            from,
            loops: true,
            genuine: true,
        }
    }
}

impl Sender {
    fn keeps_from(self, to: usize) -> bool {
        !self.loops && to == usize::from(self.from)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    due: u64,
    /// Breaks ties: first sent, first delivered.
    order: u64,
    to: To,
    /// The engine of a function here sent the frame, and it is unmodified.
    sent_here: bool,
    bytes: Vec<u8>,
}

/// Unicast addresses besides its own whose frames a function wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) addresses: BTreeSet<Mac>,
    /// Frames to any address.
    pub(crate) all: bool,
}

impl Wanted {
    fn has(&self, frame: &[u8]) -> bool {
        let address = frame.first_chunk();
        address.is_some_and(|address| self.addresses.contains(address))
    }

    fn is_nothing(&self) -> bool {
        self.addresses.is_empty() && !self.all
    }
}

/// The link between the functions.
pub(crate) struct Link {
    macs: Vec<Mac>,
    /// Frames that each function wants besides those to its own address.
    wanted: Vec<Wanted>,
    ports: Ports,
    quality: Quality,
    /// In arrival order. Most frames are here: each arrives after all those sent before it.
    in_order: VecDeque<InFlight>,
    /// Frames that arrive out of order.
    overtaken: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    /// An engine here sent the frame that arrived last.
    sent_here: bool,
    rng: Rng,
    counts: LinkCounts,
    hook: Option<LinkHook>,
    capture: Option<Capture>,
    uplink: Option<Arc<dyn Uplink>>,
}

impl Link {
    pub(crate) fn new(macs: Vec<Mac>, quality: Quality, rng: Rng) -> Self {
        Self {
            ports: Ports::new(macs.len()),
            wanted: vec![Wanted::default(); macs.len()],
            macs,
            quality,
            in_order: VecDeque::new(),
            overtaken: BinaryHeap::new(),
            order: 0,
            sent_here: false,
            rng,
            counts: LinkCounts::default(),
            hook: None,
            capture: None,
            uplink: None,
        }
    }

    pub(crate) fn set_quality(&mut self, quality: Quality) {
        self.quality = quality;
    }

    pub(crate) fn set_hook(&mut self, hook: Option<LinkHook>) {
        self.hook = hook;
    }

    pub(crate) fn set_capture(&mut self, capture: Option<Capture>) {
        self.capture = capture;
    }

    pub(crate) fn set_uplink(&mut self, uplink: Option<Arc<dyn Uplink>>) {
        self.uplink = uplink;
    }

    pub(crate) fn uplink(&self) -> Option<&Arc<dyn Uplink>> {
        self.uplink.as_ref()
    }

    pub(crate) fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// Counts frames that were delivered without the link.
    pub(crate) fn absorb_counts(&mut self, direct: &mut LinkCounts) {
        self.counts.absorb(direct);
    }

    /// Whether a frame from one function to another, or to and from the uplink, may bypass the link:
    /// it would arrive at once and unchanged, and no hook or capture wants to see it.
    pub(crate) fn is_transparent(&self) -> bool {
        self.quality.is_faultless()
            && self.quality.latency == Ns(0)
            && self.quality.rate.is_none()
            && self.hook.is_none()
            && self.capture.is_none()
            && self.in_flight() == 0
            && self.wanted.iter().all(Wanted::is_nothing)
    }

    /// Function `index` now wants other frames, as if its end of the wire were on a network that
    /// knows this.
    pub(crate) fn set_wanted(&mut self, index: usize, wanted: Wanted) {
        if let Some(place) = self.wanted.get_mut(index) {
            *place = wanted;
        }
    }

    /// Addresses of the functions.
    pub(crate) fn macs(&self) -> &[Mac] {
        &self.macs
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, now: u64, from: impl Into<Sender>, bytes: Vec<u8>) {
        let from = from.into();
        self.counts.sent += 1;
        let frame = Frame {
            time: Ns(now),
            from: Some(from.from),
            bytes: &bytes,
        };
        if let Some(capture) = &mut self.capture {
            capture(frame);
        }
        let verdict = self.hook.as_mut().map_or(Verdict::Pass, |hook| hook(frame));
        let due = self.leave_port(now, from, &bytes) + self.quality.latency.0;
        match verdict {
            Verdict::Pass => self.pass(due, from, bytes),
            Verdict::Drop => self.counts.lost += 1,
            Verdict::Duplicate => {
                self.counts.duplicated += 1;
                self.deliver(due, from, bytes.clone());
                self.deliver(due, from, bytes);
            }
            Verdict::Delay(more) => {
                self.counts.reordered += 1;
                self.deliver(due + more.0, from, bytes);
            }
            Verdict::Replace(other) => {
                let from = Sender {
                    genuine: false,
                    ..from
                };
                self.deliver(due, from, other);
            }
        }
    }

    /// Delivers a frame that the sender's MAC loops back.
    pub(crate) fn send_back(&mut self, now: u64, from: Sender, bytes: Vec<u8>) {
        self.counts.sent += 1;
        let to = To::Back(usize::from(from.from));
        self.launch(now, to, from.genuine, bytes);
    }

    /// Time at which the last bit of a frame leaves the sender's port. A looped-back frame does not
    /// use the port.
    fn leave_port(&mut self, now: u64, sender: Sender, bytes: &[u8]) -> u64 {
        let own = self.macs.get(usize::from(sender.from));
        if sender.loops && bytes.first_chunk::<6>() == own {
            return now;
        }
        let rate = self.quality.rate;
        self.ports.send(now, sender.from, bytes.len(), rate)
    }

    /// Time at which the engine of function `from` may continue, given what its port has queued.
    pub(crate) fn port_ready_at(&self, from: usize) -> u64 {
        self.ports.ready_at(from, self.quality.rate)
    }

    /// Sends a frame over a wire of this quality.
    fn pass(&mut self, due: u64, from: Sender, bytes: Vec<u8>) {
        let quality = self.quality;
        if quality.is_faultless() {
            self.deliver(due, from, bytes);
            return;
        }
        if self.rng.chance(quality.loss) {
            self.counts.lost += 1;
            return;
        }
        if self.rng.chance(quality.duplicate) {
            self.counts.duplicated += 1;
            self.pass_copy(due, from, bytes.clone());
        }
        self.pass_copy(due, from, bytes);
    }

    /// Sends one copy of a frame that is not lost.
    fn pass_copy(&mut self, mut due: u64, from: Sender, mut bytes: Vec<u8>) {
        due += self.rng.below(self.quality.jitter.0);
        if self.rng.chance(self.quality.reorder) {
            self.counts.reordered += 1;
            due += self.rng.below(OVERTAKEN.0);
        }
        if self.rng.chance(self.quality.corrupt) {
            self.flip_a_bit(&mut bytes);
        }
        self.deliver(due, from, bytes);
    }

    /// Queues a frame for its destination, if there is one.
    fn deliver(&mut self, due: u64, from: Sender, bytes: Vec<u8>) {
        let found = self.enqueue(due, Some(from), bytes);
        self.counts.unroutable += u64::from(!found);
    }

    /// Queues a frame from outside; false when no function here gets it, or it is dropped.
    pub(crate) fn inject_frame(&mut self, now: u64, bytes: &[u8]) -> bool {
        if self.in_flight() >= MOST_IN_FLIGHT {
            self.counts.overrun += 1;
            return false;
        }
        let found = self.enqueue(now, None, bytes.to_vec());
        if let Some(capture) = self.capture.as_mut().filter(|_| found) {
            capture(Frame {
                time: Ns(now),
                from: None,
                bytes,
            });
        }
        self.counts.from_outside += u64::from(found);
        found
    }

    fn flip_a_bit(&mut self, bytes: &mut [u8]) {
        /// Both addresses and the EtherType: damage there does not concern the receiver's engine.
        const ETHERNET: usize = 14;
        let body = bytes.get_mut(ETHERNET..).unwrap_or_default();
        let bit = self.rng.below(body.len() as u64 * 8);
        if let Some(byte) = body.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
            self.counts.corrupted += 1;
        }
    }

    /// Queues a frame of function `from`, or from outside, for its destination; false when there is
    /// none.
    fn enqueue(&mut self, due: u64, from: Option<Sender>, bytes: Vec<u8>) -> bool {
        let Some(to) = bytes.first_chunk::<6>() else {
            return false;
        };
        let is_group = to[0] & 1 != 0;
        let genuine = from.is_some_and(|sender| sender.genuine);
        let kept = |to: usize| from.is_some_and(|sender| sender.keeps_from(to));
        let owner = self.macs.iter().position(|mac| mac == to);
        let owner = owner.filter(|to| !is_group && !kept(*to));
        let mut found = !is_group && self.launch_to_wanting(due, from, owner, &bytes);
        if let Some(to) = owner {
            self.launch(due, To::Function(to), genuine, bytes);
            return true;
        }
        if is_group {
            for to in 0..self.macs.len() {
                if from.is_none_or(|sender| to != usize::from(sender.from)) {
                    found = true;
                    self.launch(due, To::Function(to), genuine, bytes.clone());
                }
            }
        }
        // Frames from outside do not go back there.
        if from.is_some() && self.uplink.is_some() {
            found = true;
            self.launch(due, To::Uplink, genuine, bytes);
        }
        found
    }

    /// Queues a unicast frame for functions that want it although it is not to their own address;
    /// false when there is none.
    fn launch_to_wanting(
        &mut self,
        due: u64,
        from: Option<Sender>,
        owner: Option<usize>,
        bytes: &[u8],
    ) -> bool {
        let mut found = false;
        for to in 0..self.wanted.len() {
            let wants = self
                .wanted
                .get(to)
                .is_some_and(|wanted| wanted.all || !wanted.is_nothing() && wanted.has(bytes));
            let is_sender = from.is_some_and(|sender| usize::from(sender.from) == to);
            if wants && !is_sender && owner != Some(to) {
                let genuine = from.is_some_and(|sender| sender.genuine);
                self.launch(due, To::Function(to), genuine, bytes.to_vec());
                found = true;
            }
        }
        found
    }

    fn launch(&mut self, due: u64, to: To, sent_here: bool, bytes: Vec<u8>) {
        self.order += 1;
        let frame = InFlight {
            due,
            order: self.order,
            to,
            sent_here,
            bytes,
        };
        if self.in_order.back().is_none_or(|last| last.due <= due) {
            self.in_order.push_back(frame);
        } else {
            self.overtaken.push(Reverse(frame));
        }
    }

    /// Frames in flight.
    fn in_flight(&self) -> usize {
        self.in_order.len() + self.overtaken.len()
    }

    /// Time at which the next frame arrives, and whether it is one that arrives out of order.
    fn next(&self) -> Option<(u64, bool)> {
        let first = self.in_order.front();
        let other = self.overtaken.peek().map(|Reverse(frame)| frame);
        let by_time = |frame: &InFlight| (frame.due, frame.order);
        match (first, other) {
            (Some(first), Some(other)) if by_time(first) < by_time(other) => {
                Some((first.due, false))
            }
            (_, Some(other)) => Some((other.due, true)),
            (Some(first), None) => Some((first.due, false)),
            (None, None) => None,
        }
    }

    /// Time at which the next frame arrives.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.next().map(|(due, _)| due)
    }

    /// The frame that has arrived by `now`, and its destination.
    pub(crate) fn arrive(&mut self, now: u64) -> Option<(To, Vec<u8>)> {
        let (_, overtaken) = self.next().filter(|(due, _)| *due <= now)?;
        let frame = if overtaken {
            self.overtaken.pop().map(|Reverse(frame)| frame)
        } else {
            self.in_order.pop_front()
        }?;
        self.counts.delivered += u64::from(frame.to != To::Uplink);
        self.sent_here = frame.sent_here;
        Some((frame.to, frame.bytes))
    }

    /// Whether the engine of a function here sent the frame that arrived last, and no hook replaced
    /// it.
    pub(crate) fn was_sent_here(&self) -> bool {
        self.sent_here
    }

    /// Passes a frame that has arrived at the uplink to the current uplink.
    pub(crate) fn deliver_to_uplink(&mut self, frame: &Vec<u8>) {
        match &self.uplink {
            Some(uplink) => {
                uplink.send(slice::from_ref(frame));
                self.counts.uplinked += 1;
            }
            None => self.counts.unroutable += 1,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("quality", &self.quality)
            .field("in_flight", &self.in_flight())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
