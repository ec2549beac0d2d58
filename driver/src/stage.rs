//! The stages of a bring-up, as names and as types.
//!
//! Only software moves a device from one stage to the next, so each stage is a type. The type
//! holds what the stage has made, and calls that need it cannot be made earlier.
//! [`Device`](crate::Device) has the transitions.

/// A stage of the bring-up: first the LAN side's (control-path 9.3), which only a cold start goes
/// through, then the engine's (control-path 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Stage {
    /// The function was reset.
    Reset,
    /// The firmware answers.
    Adminq,
    /// Capabilities, port and MAC address are known.
    Identity,
    /// The scheduler's tree is known.
    Tree,
    /// The card has its package.
    Package,
    /// The function has a VSI.
    Vsi,
    /// The link is enabled.
    Link,
    /// Frames to the function pass the switch: the LAN side is ready.
    Rules,
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
    /// The stages of a warm start in order: the engine's.
    pub const WARM: [Self; 7] = [
        Self::EngineReady,
        Self::Cqp,
        Self::Hmc,
        Self::Ccq,
        Self::Ceqs,
        Self::Aeq,
        Self::Ready,
    ];

    /// The stages of a cold start in order: the LAN side's, then the engine's.
    pub const COLD: [Self; 15] = [
        Self::Reset,
        Self::Adminq,
        Self::Identity,
        Self::Tree,
        Self::Package,
        Self::Vsi,
        Self::Link,
        Self::Rules,
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
            Self::Reset => "reset",
            Self::Adminq => "adminq",
            Self::Identity => "identity",
            Self::Tree => "tree",
            Self::Package => "package",
            Self::Vsi => "vsi",
            Self::Link => "link",
            Self::Rules => "rules",
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
            Self::Reset => "resetting the function",
            Self::Adminq => "starting the AdminQ",
            Self::Identity => "asking for capabilities, port and MAC address",
            Self::Tree => "finding the scheduler's tree",
            Self::Package => "loading the DDP package",
            Self::Vsi => "adding the VSI",
            Self::Link => "enabling the link",
            Self::Rules => "adding switch rules",
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
