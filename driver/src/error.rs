//! Errors: the cause, the object it concerns, and what to do.

use e810_adminq::package::LoadFailed;
use e810_hal::{DmaError, NoHostMemory, WaitError};

use crate::stage::Stage;
use crate::unsupported::Unsupported;

/// The kinds of object a program holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Object {
    /// Protection domain.
    Pd,
    /// Memory region.
    Mr,
    /// Completion queue.
    Cq,
    /// Queue pair.
    Qp,
    /// ARP entry.
    Arp,
    /// Entry of the GID table.
    Gid,
    /// Address handle.
    Ah,
    /// Memory window.
    Mw,
    /// Multicast group.
    McastGroup,
    /// Work-scheduler node.
    WsNode,
    /// Completion channel.
    Channel,
    /// Completion vector.
    CompletionVector,
    /// LAN port.
    LanPort,
}

impl core::fmt::Display for Object {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Pd => "protection domain",
            Self::Mr => "memory region",
            Self::Cq => "completion queue",
            Self::Qp => "queue pair",
            Self::Arp => "ARP entry",
            Self::Gid => "GID",
            Self::Ah => "address handle",
            Self::Mw => "memory window",
            Self::McastGroup => "multicast group",
            Self::WsNode => "work-scheduler node",
            Self::Channel => "completion channel",
            Self::CompletionVector => "completion vector",
            Self::LanPort => "LAN port",
        })
    }
}

/// An error of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// Cold start failed: firmware, package, scheduler tree or link.
    #[error(transparent)]
    Adminq(#[from] e810_adminq::Error),
    /// The package was not loaded, and the card accepts none before a core reset
    /// ([`reset_card`](crate::reset_card)).
    #[error(transparent)]
    HalfConfigured(LoadFailed),
    /// A command or the HMC failed.
    #[error(transparent)]
    Cqp(#[from] e810_cqp::Error),
    /// A queue, a completion or a transition was refused.
    #[error(transparent)]
    Datapath(#[from] e810_datapath::Error),
    /// An event queue or the vector map was refused.
    #[error(transparent)]
    Ceq(#[from] e810_ceq::Error),
    /// The LAN queues: a setting, or a device that does not answer.
    #[error(transparent)]
    Lan(#[from] e810_lan::Error),
    /// A wait ended without an answer, or the device is gone.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// No memory for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// No memory for tables.
    #[error(transparent)]
    HostMemory(#[from] NoHostMemory),
    /// GLPCI_LBARCTRL.PE_DB_SIZE is neither 4 MiB (1) nor 8 MiB (2): the
    /// function exposes no RDMA doorbells.
    #[error(
        "the function exposes no RDMA doorbell space (GLPCI_LBARCTRL.PE_DB_SIZE is {size}): enable RDMA for this port in the card's NVM settings"
    )]
    NoDoorbells {
        /// PE_DB_SIZE as read.
        size: u32,
    },
    /// All ids of a kind are taken.
    #[error("all {limit} {object}s are in use: destroy some, or ask for a larger capacity")]
    Exhausted {
        /// The kind of object.
        object: Object,
        /// How many there are.
        limit: u32,
    },
    /// Destroyed queue pairs still hold what a new one needs, because a completion queue may
    /// still know them.
    #[error(
        "{destroyed} destroyed queue pairs are not forgotten: poll their completion queues until nothing comes, or call Cq::forget_gone"
    )]
    NotForgotten {
        /// How many there are.
        destroyed: u32,
    },
    /// The object is still used by others.
    #[error("{object} {id} is still used by {users} other objects: destroy those first")]
    InUse {
        /// The kind of object.
        object: Object,
        /// Its number.
        id: u32,
        /// How many use it.
        users: u32,
    },
    /// Events of a completion queue were taken from its channel and never
    /// acknowledged.
    #[error(
        "{events} events of completion queue {cq} are not acknowledged: acknowledge each one that was taken, then destroy it"
    )]
    Unacknowledged {
        /// Number of the queue.
        cq: u32,
        /// How many.
        events: u32,
    },
    /// The channel that was waited on is closed.
    #[error("the completion channel is closed: nothing will come")]
    ChannelClosed,
    /// Objects are left at the end.
    #[error("{count} {object}s are still alive: give them back before shutting down")]
    Alive {
        /// The kind of object.
        object: Object,
        /// How many.
        count: u32,
    },
    /// The platform has no further interrupt vector, or cannot give one now.
    #[error(
        "the platform gives no further interrupt vector (this device holds {held}, {spare} of them unused; the function has {most}): use an unused one (Control::add_completion_vector), remove a completion vector, or bring the device up with more (Config::ceqs, Config::spare_vectors)"
    )]
    NoVector {
        /// Vectors that this device holds.
        held: u16,
        /// Those of them that were taken at bring-up and are not in use.
        spare: u16,
        /// Vectors that the function has.
        most: u16,
    },
    /// The object belongs to another device, or to this one before it was
    /// brought up again.
    #[error("{object} {id} does not belong to this device: use it with the Control that made it")]
    Foreign {
        /// The kind of object.
        object: Object,
        /// Its number.
        id: u32,
    },
    /// An argument is outside its limits. Nothing was changed.
    #[error("{what} is {value}, allowed is {min} to {max}")]
    OutOfRange {
        /// The argument.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// There is no such object.
    #[error("there is no {object} {id}")]
    NoSuch {
        /// The kind of object.
        object: Object,
        /// The number given.
        id: u32,
    },
    /// Verbs know it, this device does not have it. Nothing was changed.
    #[error(transparent)]
    NotOffered(#[from] Unsupported),
    /// Arguments that do not go together. Nothing was changed.
    #[error("{what}")]
    Invalid {
        /// What is wrong, and what would be right.
        what: &'static str,
    },
    /// The LAN side did not register the RDMA queue set (AQ 0x0C33).
    #[error(
        "the LAN side did not register RDMA queue set {qs_handle} of traffic class {traffic_class}: check that the port's scheduler tree has room for RDMA"
    )]
    QueueSet {
        /// The handle that WORK_SCHED_NODE returned.
        qs_handle: u16,
        /// The traffic class.
        traffic_class: u8,
    },
}

impl Error {
    /// Whether only a reset of the function helps: the device asks for one by failing a command
    /// (0xFFFF/0x8029, control-path 4.5), has stopped working on commands, or is gone.
    #[must_use]
    pub const fn needs_reset(&self) -> bool {
        match self {
            Self::Cqp(error) => error.needs_reset(),
            Self::Adminq(error) | Self::HalfConfigured(LoadFailed { error, .. }) => {
                error.needs_reset()
            }
            Self::Wait(error) | Self::Lan(e810_lan::Error::Wait(error)) => {
                matches!(error, WaitError::DeviceGone { .. })
            }
            _ => false,
        }
    }

    /// Whether the device may still carry out what failed. Memory that it was given must then not
    /// be freed.
    #[must_use]
    pub const fn leaves_command_open(&self) -> bool {
        match self {
            Self::Adminq(error) | Self::HalfConfigured(LoadFailed { error, .. }) => {
                error.leaves_command_open()
            }
            Self::Cqp(error) => error.leaves_command_open(),
            Self::Wait(_) | Self::Lan(e810_lan::Error::Wait(_)) => true,
            _ => false,
        }
    }
}

impl From<LoadFailed> for Error {
    fn from(failed: LoadFailed) -> Self {
        if failed.lock_is_used_up {
            Self::HalfConfigured(failed)
        } else {
            Self::Adminq(failed.error)
        }
    }
}

/// A bring-up that failed. What was done before was undone in order, as far as the device
/// answered. Memory stays allocated if a command that has not ended names it, or if undoing could
/// not take it back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error("{stage}: {error}")]
pub struct StageError {
    /// The stage that was being entered.
    pub stage: Stage,
    /// What went wrong there.
    pub error: Error,
    /// What went wrong while undoing, if anything. The memory concerned stays allocated, because
    /// the device may still use it. So does the memory of an unanswered command, which is not
    /// reported here; the log says how much.
    pub undo: Option<Error>,
}

/// Prints the text and what went wrong while undoing: `unwrap`, and a `main` that returns an
/// error, show this to the user.
impl core::fmt::Debug for StageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{self}")?;
        match self.undo {
            Some(undo) => write!(f, "; while undoing that: {undo}"),
            None => Ok(()),
        }
    }
}

/// The result of everything in this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
