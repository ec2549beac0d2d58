//! The stages of a bring-up, as names and as types.
//!
//! Only software moves a device from one stage to the next, so each stage is a
//! type: what a stage has made is in it, and nothing that needs it can be
//! called before. [`Device`](crate::Device) has the transitions.

/// A stage of the bring-up (control-path 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Stage {
    /// The engine's processors report ready; its doorbells are exposed.
    EngineReady,
    /// The control QP exists.
    Cqp,
    /// The host memory cache is planned, committed and backed.
    Hmc,
    /// The CQP's completion queue exists.
    Ccq,
    /// The completion event queues exist and are wired to vectors.
    Ceqs,
    /// The asynchronous event queue exists and is wired to its vector.
    Aeq,
    /// Tables of objects are allocated: ready for use.
    Ready,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 7] = [
        Self::EngineReady,
        Self::Cqp,
        Self::Hmc,
        Self::Ccq,
        Self::Ceqs,
        Self::Aeq,
        Self::Ready,
    ];

    /// Short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EngineReady => "engine",
            Self::Cqp => "cqp",
            Self::Hmc => "hmc",
            Self::Ccq => "ccq",
            Self::Ceqs => "ceqs",
            Self::Aeq => "aeq",
            Self::Ready => "ready",
        }
    }
}

impl core::fmt::Display for Stage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::EngineReady => "waiting for the RDMA engine",
            Self::Cqp => "creating the control QP",
            Self::Hmc => "setting up the host memory cache",
            Self::Ccq => "creating the CQP's completion queue",
            Self::Ceqs => "creating the completion event queues",
            Self::Aeq => "creating the asynchronous event queue",
            Self::Ready => "allocating the object tables",
        })
    }
}
