//! The commands of the control path and their answers: plain data, in one table.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use e810::{
    AccessFlags, AttrMask, CqDestroyed, CqGrant, CqPlace, CqResized, CqRingPlace, DeviceAttr, GIDS,
    GidEntry, Path, PortAttr, QpAttr, QpCaps, QpDestroyed, QpGrant, QpPlace, QpReopened, QpType,
    QueriedQp,
};
use e810_node::route::Neighbour;
use serde::{Deserialize, Serialize};

use super::CallBytes;

/// A name that the library gives a queue pair or a completion queue, for events. No name is given
/// twice in a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Token(pub u64);

impl Token {
    /// A new one.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Memory of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// In the program; once a program has mapped its memory for the device itself, there.
    pub address: usize,
    /// Bytes.
    pub length: usize,
}

/// A GID table: its entries by their indices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GidTable(Vec<(u8, GidEntry)>);

impl GidTable {
    pub(crate) fn of(entry: impl Fn(u8) -> Option<GidEntry>) -> Self {
        let indices = 0..GIDS as u8;
        Self(indices.filter_map(|at| Some((at, entry(at)?))).collect())
    }

    /// Those that there are, with their indices.
    pub fn entries(&self) -> impl Iterator<Item = (u8, GidEntry)> + '_ {
        self.0.iter().copied()
    }

    /// The one with this index.
    #[must_use]
    pub fn get(&self, index: u8) -> Option<GidEntry> {
        self.entries()
            .find_map(|(at, entry)| (at == index).then_some(entry))
    }
}

/// One kind of command, with the type of its answer.
pub trait Operation {
    type Answer;

    fn command(self) -> Command;

    /// The answer, if it belongs to this kind of command.
    fn answer(answer: Answer) -> Result<Self::Answer, Answer>;
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* } -> $answer:ty;
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
            pub struct $name {
                $($(#[$of_field])* pub $field: $type),*
            }

            impl Operation for $name {
                type Answer = $answer;

                fn command(self) -> Command {
                    Command::$name(self)
                }

                fn answer(answer: Answer) -> Result<$answer, Answer> {
                    match answer {
                        Answer::$name(answer) => Ok(answer),
                        other => Err(other),
                    }
                }
            }
        )+

        /// A command to the control path. Objects are named by their numbers.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum Command {
            $($name($name)),+
        }

        impl Command {
            /// What it is called.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name)),+
                }
            }
        }

        /// The answer to the command of the same name.
        #[derive(Debug, Serialize, Deserialize)]
        pub enum Answer {
            $($name($answer)),+
        }
    };
}

operations! {
    /// What the device offers.
    QueryDevice {} -> DeviceAttr;
    /// The attributes of a port.
    QueryPort {
        /// From 1.
        port: u8
    } -> PortAttr;
    /// The GID table, in one answer: who binds or resolves an address looks through all of it.
    QueryGids {} -> GidTable;
    /// An entry of a port's P_Key table.
    QueryPkey { port: u8, index: u16 } -> u16;
    /// Where packets to an address go that are sent from a VLAN, or from none. May take as long as
    /// a neighbour may take to answer.
    Resolve {
        destination: IpAddr,
        vlan: Option<u16>,
        /// Milliseconds that a neighbour has to answer, at most 30,000; if `None`, what the function
        /// was opened with.
        limit: Option<u32>
    } -> Neighbour;
    /// Lends the owner a file, which comes with the message and has `bytes` bytes: the device
    /// reaches it at the address of the answer.
    Lend {
        bytes: u64,
        /// Where the program has mapped it, if it registers memory there.
        address: Option<u64>
    } -> u64;
    /// The file at this address is lent no more.
    TakeBack { iova: u64 } -> ();
    /// Lends the program's own memory, of which it registers pieces later: a descriptor of its
    /// `/proc/self/mem` comes with the message.
    LendProcess {} -> ();
    /// The file of the program's doorbells comes with the message (`doorbells.rs`).
    LendDoorbells {} -> ();
    /// Some were rung while the owner slept.
    Wake {} -> ();
    /// Answers the number of the protection domain.
    AllocPd {} -> u32;
    DeallocPd { number: u32 } -> ();
    /// Registers memory; answers its key, for local use and for peers.
    RegMr {
        pd: u32,
        memory: Memory,
        /// The address of its first byte for peers and requests.
        iova: u64,
        access: AccessFlags
    } -> u32;
    /// Changes a region; answers its new key.
    ReregMr {
        key: u32,
        pd: Option<u32>,
        access: Option<AccessFlags>,
        memory: Option<Memory>,
        /// The address of its first byte for peers and requests, unless it is that of the memory.
        iova: Option<u64>
    } -> u32;
    DeregMr { key: u32 } -> ();
    /// Creates a completion queue on the program's memory.
    CreateCq {
        place: CqPlace,
        /// The completion vector of its events.
        vector: u16,
        /// Its name in events.
        token: Token
    } -> CqGrant;
    /// Moves a completion queue to another ring; nobody polls it meanwhile. `None` if it already
    /// has that size.
    ResizeCq { number: u32, place: CqRingPlace } -> Option<CqResized>;
    DestroyCq { number: u32 } -> CqDestroyed;
    /// Creates a queue pair on the program's memory; also answers the sizes granted.
    CreateQp {
        pd: u32,
        qp_type: QpType,
        send_cq: u32,
        recv_cq: u32,
        /// Sizes asked for.
        caps: QpCaps,
        /// Every send request is signaled.
        signal_all: bool,
        /// Its name in events.
        token: Token,
        place: QpPlace
    } -> (QpGrant, QpCaps);
    /// Whether the device may still use the rings of a queue pair whose creation it did not answer.
    MayUse { place: QpPlace } -> bool;
    /// Changes a queue pair, but not to RESET.
    ModifyQp { number: u32, attr: Box<QpAttr> } -> ();
    /// The attributes of a queue pair.
    QueryQp { number: u32, mask: AttrMask } -> Box<QueriedQp>;
    /// First step to RESET, with these attributes: the device no longer has the queue pair. Then
    /// its completion queues forget it.
    BeginReset { number: u32, attr: Box<QpAttr> } -> ();
    /// Second step: the queue pair is opened again. Then its queues restart.
    Reopen { number: u32 } -> QpReopened;
    /// Third step: the device has the queue pair again.
    FinishReset { number: u32 } -> ();
    DestroyQp { number: u32 } -> QpDestroyed;
    /// The program's own slots have forgotten a queue pair that was destroyed: its number is free.
    Forgotten { number: u32 } -> ();
    /// Creates an address handle; answers its number.
    CreateAh { pd: u32, path: Path } -> u32;
    DestroyAh { number: u32 } -> ();
    /// Adds a queue pair to a multicast group.
    AttachMcast { qp: u32, group: IpAddr } -> ();
    /// Removes it from the group.
    DetachMcast { qp: u32, group: IpAddr } -> ();
    /// A call of the connection manager ([`e810_connect::Call`]), which may refuse it.
    Connecting { call: CallBytes } -> Result<Box<e810_connect::Answer>, e810_connect::Refused>;
}

impl Command {
    /// Whether the peer of a connection hears by it that there is, or will be, none.
    #[must_use]
    pub fn ends_connection(&self) -> bool {
        use e810_connect::Call;
        let Self::Connecting(asked) = self else {
            return false;
        };
        matches!(
            asked.call.call(),
            Some(Call::Release(_) | Call::Reject(..) | Call::Disconnect(_) | Call::Answer(..))
        )
    }

    /// Whether the command takes memory.
    #[must_use]
    pub const fn makes_something(&self) -> bool {
        matches!(
            self,
            Self::AllocPd(_)
                | Self::RegMr(_)
                | Self::ReregMr(_)
                | Self::CreateCq(_)
                | Self::ResizeCq(_)
                | Self::CreateQp(_)
                | Self::CreateAh(_)
                | Self::AttachMcast(_)
                | Self::Resolve(_)
        )
    }
}
