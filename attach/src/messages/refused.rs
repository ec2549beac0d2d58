//! Why a command was not carried out, as plain data.

use core::ffi::c_int;

use e810::{Error, NotMade, Object};
use e810_hal::DmaError;
use e810_node::station::Unresolved;
use serde::{Deserialize, Serialize};

use super::{Malformed, Share, VERSION};
use crate::errno;
use crate::owner::QUEUE_ENTRIES;

/// Characters of the longest text; the rest is cut off.
const LONGEST: usize = 800;

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{why}")]
pub struct Refused {
    pub kind: Kind,
    /// For `errno` (`docs/verbs.md`).
    pub errno: c_int,
    pub why: String,
    /// Details that the error number does not convey.
    pub limit: Option<Limit>,
}

/// What the refusal means for the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// The object is unchanged.
    Unchanged,
    /// The same; the device has refused the command.
    ByDevice,
    /// A region could not be changed, and is gone.
    MrLost,
    /// The device did not answer, and may use the memory of the new object.
    MayUseMemory,
    /// The device is gone, or never existed.
    Gone,
}

/// A limit that programs run into, as one line that says what to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Limit {
    /// A limit of the system, or of how the function was brought up.
    OfSystem(String),
    /// A table of peers is full; each of these tables has a bit.
    Table(u8, String),
    /// What the server gives to one program, or user.
    OfServer(Share),
}

impl Refused {
    fn new(kind: Kind, errno: c_int, why: impl ToString) -> Self {
        Self {
            kind,
            errno,
            why: why.to_string().chars().take(LONGEST).collect(),
            limit: None,
        }
    }

    #[must_use]
    pub fn gone(why: impl ToString) -> Self {
        Self::new(Kind::Gone, libc::EIO, why)
    }

    /// What the other end said first is no message of this version; `other` is that end.
    pub(crate) fn unintelligible(other: &str, said: Malformed) -> Self {
        let why = match said {
            Malformed::Version(theirs) => format!(
                "{other} speaks version {theirs} of the messages between programs and their server, this process version {VERSION}: \
                 use one version of e810 for both, and restart what is older"
            ),
            Malformed::Other(_) => format!("{other} sends {said}"),
        };
        Self::new(Kind::Gone, libc::EPROTO, why)
    }

    /// Nothing came from the other end in time.
    pub(crate) fn silent(other: &str, limit: std::time::Duration) -> Self {
        let why = format!(
            "{other} has said nothing for {} s: if it is stopped, let it go on (`kill -CONT`), or end it",
            limit.as_secs()
        );
        Self::new(Kind::Gone, libc::ETIMEDOUT, why)
    }

    /// The tables of a program's queues do not fit into its memory.
    pub(crate) fn no_tables(error: Error) -> Self {
        let Error::HostMemory(none) = error else {
            return error.into();
        };
        let why = format!(
            "the tables of the function's queues take {} MB of address space, which this process does not get: raise its limit (`ulimit -v`)",
            none.words.saturating_mul(8) / 1_000_000
        );
        Self::new(Kind::Gone, libc::ENOMEM, why)
    }

    /// No object has this number (any more).
    #[must_use]
    pub fn no_such(object: &str, number: u32) -> Self {
        let why = format!("there is no {object} {number}");
        Self::new(Kind::Unchanged, libc::EINVAL, why)
    }

    /// A Q_Key of management datagrams.
    pub(crate) fn privileged_qkey(qkey: u32) -> Self {
        let why = format!(
            "Q_Key {qkey:#x}: bit 31 is reserved for management datagrams, use a Q_Key without it"
        );
        Self::new(Kind::Unchanged, libc::EPERM, why)
    }

    /// No memory for the library's own part of an object.
    #[must_use]
    pub fn no_memory() -> Self {
        Self::new(Kind::Unchanged, libc::ENOMEM, "out of memory")
    }

    /// The server has as many files of programs mapped as it may have.
    pub(crate) fn no_mappings(most: usize) -> Self {
        let why = format!(
            "the server has {most} files of programs mapped, and the kernel has no room for many more: end programs, or raise the limit \
             (`sysctl vm.max_map_count`) and start the server again"
        );
        Self::new(Kind::Unchanged, libc::ENOMEM, why)
    }

    /// The connection manager cannot be had.
    pub(crate) fn no_connections(error: &anyhow::Error) -> Self {
        Self::new(Kind::Unchanged, errno::of_any(error), format!("{error:#}"))
    }

    /// The program has as much as the server gives it.
    #[must_use]
    pub fn share(share: Share) -> Self {
        Self {
            limit: Some(Limit::OfServer(share)),
            ..Self::new(Kind::Unchanged, libc::ENOMEM, share)
        }
    }

    /// The server ends, and attaches no more programs.
    pub(crate) fn closing() -> Self {
        let why = "the server is ending, and takes no new programs: wait for the next one (`e810 run --wait SECONDS`)";
        Self::new(Kind::Gone, libc::ECONNREFUSED, why)
    }

    /// Whether a program that was to be attached has met the end of a server, so that the next one
    /// may take it.
    pub(crate) fn is_end_of_server(&self) -> bool {
        self.kind == Kind::Gone && matches!(self.errno, libc::ECONNREFUSED | libc::EIO)
    }

    /// The server has too few descriptors left for one more program.
    pub(crate) fn descriptors(limit: u64) -> Self {
        let why = format!(
            "the server may have {limit} descriptors open, and has too few left for one more program: start it with more (`ulimit -n`; `LimitNOFILE=` of its unit)"
        );
        Self::new(Kind::Gone, libc::ENFILE, why)
    }

    /// Too many processes of a user are connected and are no programs.
    pub(crate) fn crowd(most: u64) -> Self {
        let why = format!(
            "{most} processes of this user are connected to the server and are no programs yet: try again"
        );
        Self::new(Kind::Gone, libc::EAGAIN, why)
    }

    /// Somebody asks, and does not read the answers.
    pub(crate) fn unread() -> Self {
        let why = "the answers to earlier questions were not read";
        Self::new(Kind::Gone, libc::EAGAIN, why)
    }

    /// A program does not read what it is told.
    pub(crate) fn deaf() -> Self {
        let why = "it is cut off: too many messages for it were not read";
        Self::new(Kind::Gone, libc::EIO, why)
    }

    /// The system has no more of something that a command takes.
    #[must_use]
    pub fn by_system(what: &str, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
        let remedy = match errno {
            libc::EMFILE => ": raise this process's limit of descriptors (`ulimit -n`)",
            _ => "",
        };
        Self::new(Kind::Unchanged, errno, format!("{what}: {error}{remedy}"))
    }

    /// The program names memory for a ring that it has not lent.
    #[must_use]
    pub fn not_lent() -> Self {
        let why = "the memory of a queue is neither in a file that the program has lent, nor at I/O addresses of its own";
        Self::new(Kind::Unchanged, libc::EFAULT, why)
    }

    /// The program wants the queue pair of management datagrams.
    pub(crate) fn management() -> Self {
        let why =
            "queue pair 1, which has the management datagrams of all programs, is no program's";
        Self::new(Kind::Unchanged, libc::EINVAL, why)
    }

    /// The program lends no file at that address.
    pub(crate) fn no_such_file() -> Self {
        let why = "no file is lent at this address";
        Self::new(Kind::Unchanged, libc::EINVAL, why)
    }

    /// The program wants a file back that the device uses.
    pub(crate) fn holds_queues() -> Self {
        let why = "queues of the device are in this file: destroy them first";
        Self::new(Kind::Unchanged, libc::EBUSY, why)
    }

    /// The function cannot be shared with one more program.
    pub(crate) fn not_admitted(error: &e810_backends::BackendError) -> Self {
        Self::new(Kind::Gone, libc::ENODEV, error)
    }

    /// A process may not open its own memory, so no device of another process can reach it.
    #[must_use]
    pub fn no_process_memory(error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(libc::EACCES);
        let remedy = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "; the owner's device cannot reach the memory of a program that is not dumpable (prctl PR_SET_DUMPABLE)"
            }
            _ => "",
        };
        let why = format!("/proc/self/mem: {error}{remedy}");
        Self::new(Kind::Unchanged, errno, why)
    }

    /// The control path returned something that is no answer to the command.
    #[must_use]
    pub fn unexpected(answer: impl std::fmt::Debug) -> Self {
        let why = format!("the control path answered {answer:?}; please report it");
        Self::new(Kind::Unchanged, libc::EIO, why)
    }

    /// Something new was not made.
    pub(crate) fn of_new(error: Error) -> Self {
        let may_use_memory = error.leaves_command_open();
        NotMade {
            error,
            may_use_memory,
        }
        .into()
    }

    /// A region could not be changed, and is gone.
    pub(crate) fn mr_lost(error: Error) -> Self {
        let why = format!("the memory region is gone: {error}");
        Self {
            why,
            kind: Kind::MrLost,
            ..Self::from(error)
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::Cqp(_) if !error.needs_reset() => Kind::ByDevice,
            _ => Kind::Unchanged,
        };
        Self {
            limit: limit_in(&error),
            ..Self::new(kind, error.errno(), error)
        }
    }
}

impl From<NotMade> for Refused {
    fn from(failed: NotMade) -> Self {
        let refused = Self::from(failed.error);
        match failed.may_use_memory {
            true => Self {
                kind: Kind::MayUseMemory,
                ..refused
            },
            false => refused,
        }
    }
}

impl From<Unresolved> for Refused {
    fn from(error: Unresolved) -> Self {
        let table = match error {
            Unresolved::NoRoom { .. } => Some(1),
            Unresolved::KernelTableFull { .. } => Some(2),
            _ => None,
        };
        let limit = table.map(|table| Limit::Table(table, error.to_string()));
        Self {
            limit,
            ..Self::new(Kind::Unchanged, of_unresolved(&error), error)
        }
    }
}

/// As the kernel's resolver, except for a full table: the kernel's number would leave programs to
/// find out why a peer that is there does not answer.
const fn of_unresolved(unresolved: &Unresolved) -> c_int {
    match unresolved {
        Unresolved::NoAnswer { .. } | Unresolved::NoSource { .. } => libc::ETIMEDOUT,
        Unresolved::NoRoute { .. }
        | Unresolved::NoKernelRoute { .. }
        | Unresolved::NoStation { .. } => libc::ENETUNREACH,
        Unresolved::NoRoom { .. } | Unresolved::KernelTableFull { .. } => libc::ENOBUFS,
        Unresolved::Ended { .. } => libc::EIO,
    }
}

/// The limit that an error of the driver names.
fn limit_in(error: &Error) -> Option<Limit> {
    Some(match error {
        Error::Dma(error @ (DmaError::LockLimit { .. } | DmaError::TooManyMappings { .. })) => {
            Limit::OfSystem(error.to_string())
        }
        Error::Dma(error @ DmaError::NoFile { .. }) => Limit::OfSystem(format!(
            "{error}; a program that cannot runs on functions like sim:wire=NAME"
        )),
        Error::Datapath(e810::DatapathError::Slot(e810::SlotError::NoSpace { words })) => {
            Limit::OfSystem(format!(
                "its queues need {} entries in one piece, and of the function's, {QUEUE_ENTRIES} at most, there are not as many left: \
                 make fewer queue pairs, or smaller ones",
                words / 3
            ))
        }
        Error::Exhausted {
            object: Object::Arp,
            limit,
        } => Limit::Table(
            4,
            format!(
                "the card's ARP table is full: queue pairs and address handles go to {limit} addresses; use fewer peers, or destroy those that are not needed"
            ),
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_system_are_limits() {
        let limit = |error: DmaError| Refused::from(Error::from(error)).limit;
        let bytes = 4096;
        let locked = DmaError::LockLimit {
            bytes,
            limit: 8192,
            in_use: None,
        };
        assert!(matches!(limit(locked), Some(Limit::OfSystem(_))));
        let mappings = DmaError::TooManyMappings { bytes };
        assert!(matches!(limit(mappings), Some(Limit::OfSystem(_))));
        let no_file = DmaError::NoFile { address: 0, bytes };
        assert!(matches!(limit(no_file), Some(Limit::OfSystem(_))));
        assert_eq!(limit(DmaError::NoAddresses { bytes }), None);
        assert_eq!(Refused::gone("").limit, None);
        let slots = e810::SlotError::NoSpace { words: 3 * 4096 };
        let refused = Refused::from(Error::from(e810::DatapathError::from(slots)));
        let Some(Limit::OfSystem(text)) = refused.limit else {
            panic!("{refused:?}")
        };
        assert!(text.contains("need 4096 entries"), "{text}");
    }

    #[test]
    fn full_tables_are_named_and_others_are_not_spoken_of() {
        let destination = [10, 8, 1, 1].into();
        let arp = Error::Exhausted {
            object: Object::Arp,
            limit: 4095,
        };
        let family = "ipv4";
        let neighbours = 4096;
        let named = [
            (
                Unresolved::NoRoom {
                    destination,
                    neighbours,
                }
                .into(),
                "the table of neighbours is full",
            ),
            (
                Unresolved::KernelTableFull {
                    destination,
                    family,
                }
                .into(),
                "net.ipv4.neigh.default.gc_thresh3",
            ),
            (Refused::from(arp), "the card's ARP table is full"),
        ];
        let mut bits = 0;
        for (refused, name) in named {
            let Some(Limit::Table(bit, line)) = refused.limit else {
                panic!("{refused:?}")
            };
            assert!(line.contains(name), "{line}");
            assert_eq!(refused.errno, libc::ENOBUFS, "{line}");
            bits += bit;
        }
        assert_eq!(bits, 7, "each its own");
        let ahs = Refused::from(Error::Exhausted {
            object: Object::Ah,
            limit: 1024,
        });
        assert_eq!((ahs.limit, ahs.errno), (None, libc::ENOMEM));
        let no_route = Refused::from(Unresolved::NoRoute { destination });
        assert_eq!((no_route.limit, no_route.errno), (None, libc::ENETUNREACH));
        let no_answer = Unresolved::NoAnswer {
            destination,
            via: destination,
            limit: e810_hal::Ns::from_ms(3000),
        };
        assert_eq!(Refused::from(no_answer).errno, libc::ETIMEDOUT);
    }
}
