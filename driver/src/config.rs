//! Configuration of a bring-up.

use e810_ceq::irq::Doubled;
use e810_cqp::hmc::{Backing, Capacity};
use e810_cqp::limits::MAX_PD;
use e810_hal::bus::VsiId;

use crate::addr::MacAddr;
use crate::tuning::{Dcqcn, Tuning};

/// The LAN side of a function whose LAN side is ready.
///
/// If another driver (or firmware model) has set up the LAN side, the program gives these values:
/// they cannot be read back from the RDMA engine. A cold start finds VSI and MAC address itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lan {
    /// Hardware number of the main VSI (control-path 3.0, row "0.1": vport_id).
    pub vsi: VsiId,
    /// The port's MAC address.
    pub mac: MacAddr,
    /// Interface MTU in bytes, Ethernet header not counted.
    pub mtu: u16,
}

/// Parameters of a bring-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The LAN side.
    pub lan: Lan,
    /// How many objects of each kind.
    pub capacity: Capacity,
    /// Accept fewer objects if the device does not have as many.
    pub or_fewer: bool,
    /// When HMC memory is allocated.
    pub backing: Backing,
    /// Entries of the CQP's send queue: a power of two, 4 to 2048
    /// (control-path 4.1).
    pub cqp_entries: u32,
    /// Completion event queues wanted, usually one for each CPU; fewer are made if the device,
    /// its vectors or [`MAX_CEQS`] do not allow as many.
    pub ceqs: u16,
    /// Interrupt vectors taken at bring-up beyond those in use, for
    /// [`Control::add_completion_vector`](crate::Control::add_completion_vector) on a platform
    /// that cannot give more later; fewer if there are not as many. The device keeps them until
    /// its end.
    pub spare_vectors: u16,
    /// The CPU that the platform should use for each vector.
    pub cpu_hints: CpuHints,
    /// Number of protection domains; ids 0 to 2 are reserved. The device has 2^18, and does not
    /// know about unused ones. Each takes 12 bytes of host memory.
    pub pds: u32,
    /// 64-bit words of host memory for trackers, counted per queue pair of the
    /// capacity and shared by all: a queue pair takes three for each quantum of
    /// its rings.
    pub tracker_words_per_qp: u32,
    /// What is known of this card.
    pub quirks: Quirks,
    /// How queue pairs pace themselves if they set nothing else
    /// ([`QpInit::tuning`](crate::QpInit::tuning)).
    pub tuning: Tuning,
    /// Parameters of congestion control, for all queue pairs of the function; `None` leaves them
    /// to the card, as existing drivers do.
    pub congestion: Option<Dcqcn>,
}

/// What is known of a card beyond the sources; by default what existing drivers rely on.
/// `e810 selftest` finds out, and commands take its file with `--quirks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Quirks {
    /// There are memory windows, which existing drivers do not offer on this generation:
    /// [`Control::alloc_mw`](crate::Control::alloc_mw) and
    /// [`Op::BindMw`](crate::Op::BindMw) `[inf windows]`.
    pub memory_windows: bool,
    /// [`Op::ReadInv`](crate::Op::ReadInv) works, for which there is no evidence on this generation
    /// with RoCEv2 (data-path 1.7): READ, then invalidation of the local key
    /// `[inf read_invalidate]`.
    pub read_with_invalidate: bool,
    /// An event is lost if it comes while the write that enables its vector is on the way, so
    /// [`VectorEvents::on_vector`](crate::VectorEvents::on_vector) reads a register before it looks at
    /// the queues once more. A round trip for each interrupt.
    pub late_events_are_lost: bool,
    /// Units of moderation that are twice as long as existing drivers expect.
    pub doubled_units: Doubled,
}

impl Quirks {
    /// None.
    pub const NONE: Self = Self {
        memory_windows: false,
        read_with_invalidate: false,
        late_events_are_lost: false,
        doubled_units: Doubled {
            timers: false,
            rate: false,
        },
    };
}

/// Greatest number of completion event queues that this driver uses.
pub const MAX_CEQS: usize = 64;

/// Which CPU should consume the events of a completion vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CpuHints {
    /// No hints: the platform decides.
    None,
    /// Completion vector n on CPU `first` + n, starting again after `cpus` CPUs. A vector that
    /// only has the asynchronous events goes where completion vector 0 goes (control-path 8).
    Running {
        /// CPU of completion vector 0.
        first: u32,
        /// Number of CPUs; 0 gives no hints.
        cpus: u32,
    },
}

impl Default for CpuHints {
    /// CPU = number of the completion vector, as in existing drivers.
    fn default() -> Self {
        Self::RUNNING
    }
}

impl CpuHints {
    const RUNNING: Self = Self::Running {
        first: 0,
        cpus: u32::MAX,
    };

    /// The CPU for completion vector `number`.
    #[must_use]
    pub fn cpu(self, number: u16) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Running { first, cpus } => {
                first.checked_add(u32::from(number).checked_rem(cpus)?)
            }
        }
    }
}

impl Config {
    /// Protection domains, no more than the device has.
    pub(crate) const fn pds(&self) -> u32 {
        match self.pds {
            0..=MAX_PD => self.pds,
            _ => MAX_PD + 1,
        }
    }

    /// The default capacity for a cold start with interface MTU `mtu` in bytes. The firmware
    /// tells VSI and MAC address, so the program gives nothing else.
    #[must_use]
    pub const fn cold(mtu: u16) -> Self {
        Self::new(Lan {
            vsi: VsiId::ZERO,
            mac: MacAddr([0; 6]),
            mtu,
        })
    }

    /// The default capacity on a given LAN side.
    #[must_use]
    pub const fn new(lan: Lan) -> Self {
        Self {
            lan,
            capacity: Capacity::DEFAULT,
            or_fewer: false,
            backing: Backing::Full,
            cqp_entries: 64,
            ceqs: 4,
            spare_vectors: 0,
            cpu_hints: CpuHints::RUNNING,
            pds: 4096,
            // The smallest send ring (512 quanta) three times over.
            tracker_words_per_qp: 4608,
            quirks: Quirks::NONE,
            tuning: Tuning::LINUX,
            congestion: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_run_over_the_cpus_and_begin_again() {
        let cpus = |hints: CpuHints| [0, 1, 2, 3].map(|number| hints.cpu(number));
        let running = |first, cpus| CpuHints::Running { first, cpus };
        assert_eq!(cpus(CpuHints::None), [None; 4]);
        assert_eq!(cpus(CpuHints::default()), [0, 1, 2, 3].map(Some));
        assert_eq!(cpus(running(8, 3)), [8, 9, 10, 8].map(Some));
        assert_eq!(cpus(running(8, 0)), [None; 4]);
        assert_eq!(running(u32::MAX, 2).cpu(1), None, "there is no such CPU");
    }
}
