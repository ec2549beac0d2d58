//! Frames from the uplink: those for a function here go to it past the link, if that is allowed.

use std::sync::atomic::Ordering;

use super::RealTime;
use crate::link::LinkCounts;
use crate::runtime::frames::Frames;
use crate::runtime::shared_function::SharedFunctions;
use crate::runtime::uplink::{FRAMES, FromUplink};

/// Frames on their way from the uplink to functions.
struct Intake<'a> {
    functions: &'a SharedFunctions,
    is_direct: bool,
    taken: Taken,
    group: Option<(usize, Frames)>,
    /// Frames that the link has to distribute.
    for_link: Vec<Vec<u8>>,
    counts: LinkCounts,
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    frames: usize,
    /// Functions that got some, as bits.
    destinations: u64,
}

impl Intake<'_> {
    /// Takes a frame; false if there is no room for it now.
    fn take(&mut self, frame: &[u8]) -> bool {
        let owner = self.functions.owner(frame).filter(|_| self.is_direct);
        match owner {
            Some(to) if !self.functions.has_room(to) => return false,
            Some(to) => {
                if let Some((to, frames)) = self.group.take_if(|(same, _)| *same != to) {
                    self.hand_in(to, frames);
                }
                let functions = self.functions;
                let (_, same) = self.group.get_or_insert_with(|| (to, functions.spare()));
                same.push(frame);
                self.counts.from_outside += 1;
            }
            None => self.for_link.push(frame.to_vec()),
        }
        self.taken.frames += 1;
        true
    }

    fn hand_in(&mut self, to: usize, frames: Frames) {
        self.taken.destinations |= 1 << to;
        let count = frames.count() as u64;
        if !self.functions.hand_in(to, frames) {
            self.counts.from_outside -= count;
            self.counts.overrun += count;
        }
    }
}

impl RealTime {
    /// The program of function `index` polls: takes frames that have come. The caller runs that
    /// function; others are run here, unless their own programs poll.
    pub(super) fn take_from_uplink(&self, index: usize) {
        if !self.uplink.poll() {
            return;
        }
        let taken = self.take_frames();
        let mut others = taken.destinations & !(1 << index);
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            match self.functions.get(other) {
                Some(shared) if shared.polled.load(Ordering::Relaxed) => self.leave(shared),
                _ => drop(self.run(other)),
            }
        }
    }

    /// A thread that belongs to no program takes frames, and runs the functions that get them.
    pub(in crate::runtime) fn take_from_uplink_without_program(&self) -> FromUplink {
        let polls = self.uplink.take_polls();
        let mut taken = self.take_frames();
        while taken.destinations != 0 {
            let index = taken.destinations.trailing_zeros() as usize;
            taken.destinations &= taken.destinations - 1;
            self.run(index);
        }
        let frames = taken.frames;
        FromUplink { frames, polls }
    }

    /// Takes frames, and hands them to functions; nothing if another thread does it.
    pub(super) fn take_frames(&self) -> Taken {
        let mut intake = Intake {
            functions: &self.functions,
            is_direct: self.uplink.is_direct(),
            taken: Taken::default(),
            group: None,
            for_link: Vec::new(),
            counts: LinkCounts::default(),
        };
        self.uplink.with(|uplink| {
            uplink.take(FRAMES, &mut |frame| intake.take(frame));
            if let Some((to, frames)) = intake.group.take() {
                intake.hand_in(to, frames);
            }
            if intake.taken.frames > 0 {
                self.uplink.count(&mut intake.counts);
            }
            if !intake.for_link.is_empty() {
                self.inject(intake.for_link.iter().map(Vec::as_slice));
            }
        });
        intake.taken
    }

    /// Puts frames from outside on the link; returns how many have a destination here.
    pub(in crate::runtime) fn inject<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        let found = self.with_machine(|machine| machine.inject_frames(frames));
        self.run_shared_events();
        found
    }
}
