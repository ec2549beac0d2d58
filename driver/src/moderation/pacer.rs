//! Moderation on the polling side, which knows how many completions came.

use core::fmt;

use e810_ceq::dim::{Counted, EVENTS, LoadDim, RdmaDim, RdmaSample};
use e810_ceq::{Itr, Result};
use e810_hal::{CeqId, Platform};

use super::{CqModeration, Moderated, Shared};

/// What follows the rate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    /// Nothing follows the rate.
    Still,
    Counted(Counted),
    Load(LoadDim<'static>),
    Dim(RdmaDim<'static>),
}

impl Machine {
    /// Takes a sample; returns the wait if it is to change.
    fn sample(&mut self, sample: RdmaSample) -> Option<Itr> {
        let us = match self {
            Self::Still => return None,
            Self::Counted(counted) => counted.sample(sample)?,
            Self::Load(load) => {
                load.sample(sample)?;
                load.us()
            }
            Self::Dim(dim) => {
                dim.sample(sample)?;
                dim.profile().us
            }
        };
        Some(Itr::at_most(us))
    }

    /// Index of the profile in force, and how many there are: a handful.
    fn profile(&self) -> Option<(u8, u8)> {
        match self {
            Self::Still | Self::Counted(_) => None,
            Self::Load(load) => Some((load.index() as u8, load.waits().len() as u8)),
            Self::Dim(dim) => Some((dim.index() as u8, dim.profiles().len() as u8)),
        }
    }

    /// The wait is in force. The sample that asked for it also begins the next
    /// measurement.
    fn applied(&mut self, sample: RdmaSample) {
        match self {
            Self::Still | Self::Counted(_) => {}
            Self::Load(load) => {
                load.applied();
                let _ = load.sample(sample);
            }
            Self::Dim(dim) => {
                dim.applied();
                let _ = dim.sample(sample);
            }
        }
    }
}

/// The moderation of one completion queue, where it is polled.
pub(crate) struct Pacer<P: Platform> {
    /// Whose clock it goes by.
    platform: P,
    shared: Shared<P>,
    cq: u32,
    ceq: CeqId,
    setting: CqModeration,
    machine: Machine,
    /// Completions polled so far; wraps.
    polled: u32,
    /// Requests for an event that were sampled; wraps.
    requests: u32,
    /// Requests until the next sample; 0: no sample is to come.
    left: u32,
}

/// Without the platform, which every queue of a device has.
impl<P: Platform> fmt::Debug for Pacer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer")
            .field("setting", &self.setting)
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

impl<P: Platform> Pacer<P> {
    /// For a queue that has [joined](Shared::join).
    pub(crate) const fn new(platform: P, shared: Shared<P>, cq: u32, ceq: CeqId) -> Self {
        Self {
            platform,
            shared,
            cq,
            ceq,
            setting: CqModeration::Off,
            machine: Machine::Still,
            polled: 0,
            requests: 0,
            left: 0,
        }
    }

    /// So many completions were polled.
    #[inline(always)]
    pub(crate) const fn platform(&self) -> &P {
        &self.platform
    }

    pub(crate) const fn polled(&mut self, completions: u32) {
        self.polled = self.polled.wrapping_add(completions);
    }

    /// An event was asked for, or could have been. Every 64th time this reads the clock, if the
    /// queue `lives`: otherwise its number may belong to another queue.
    #[inline(always)]
    pub(crate) fn requested(&mut self, lives: impl Fn() -> bool) {
        if self.left == 0 {
            return;
        }
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 && lives() {
            self.measure();
        }
    }

    #[cold]
    fn measure(&mut self) {
        self.left = EVENTS;
        self.requests = self.requests.wrapping_add(EVENTS);
        let sample = RdmaSample {
            time: self.platform.now(),
            events: self.requests,
            completions: self.polled,
        };
        if let Some(itr) = self.machine.sample(sample) {
            self.shared.allow(self.cq, self.ceq, itr);
            self.machine.applied(sample);
        }
    }

    /// Another setting.
    pub(crate) fn set(&mut self, moderation: CqModeration) -> Result<()> {
        let (machine, itr) = moderation.machine()?;
        self.setting = moderation;
        self.machine = machine;
        self.left = match self.machine {
            Machine::Still => 0,
            // The first request begins a measurement.
            _ => 1,
        };
        self.shared.allow(self.cq, self.ceq, itr);
        Ok(())
    }

    /// For monitoring.
    pub(crate) fn moderated(&self) -> Moderated {
        Moderated {
            setting: self.setting,
            wait_us: self.allowed().us(),
            profile: self.machine.profile(),
        }
    }

    /// The event queue of its vector.
    pub(crate) const fn ceq(&self) -> CeqId {
        self.ceq
    }

    /// What the queue allows now.
    pub(crate) fn allowed(&self) -> Itr {
        self.shared.allowed(self.cq)
    }
}
