//! What programs have of what they share, and how much of it one may have.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a program has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    pub pds: usize,
    pub mrs: usize,
    pub cqs: usize,
    /// Also those whose numbers the program has not given back.
    pub qps: usize,
    pub ahs: usize,
    /// Multicast groups that some of its queue pairs are in.
    pub groups: usize,
    /// Files that it lends, with its rings; and those for regions that are more than its regions.
    pub files: usize,
    /// Bytes of its rings; and of its regions or of the files for them, whichever are more.
    pub bytes: u64,
    /// Questions for addresses of peers that are under way.
    pub questions: usize,
    /// Connections, also those that a peer has asked for, and that are not over.
    pub connections: usize,
    /// Ports at which it takes requests for connections.
    pub listeners: usize,
}

/// What programs share, and what there are limits of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Resource {
    Qps,
    Cqs,
    Mrs,
    Ahs,
    Pds,
    Groups,
    Bytes,
    Files,
    Questions,
    Connections,
    Listeners,
    Programs,
}

/// Whose limit it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Whose {
    /// This program's.
    Program,
    /// That of all programs of a user.
    User(u32),
    /// That of all programs.
    All,
}

/// A limit of the server that a program has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Share {
    pub resource: Resource,
    pub whose: Whose,
    pub most: u64,
}

impl Resource {
    pub const ALL: [Self; 12] = [
        Self::Qps,
        Self::Cqs,
        Self::Mrs,
        Self::Ahs,
        Self::Pds,
        Self::Groups,
        Self::Bytes,
        Self::Files,
        Self::Questions,
        Self::Connections,
        Self::Listeners,
        Self::Programs,
    ];

    /// Its name in options.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Qps => "qps",
            Self::Cqs => "cqs",
            Self::Mrs => "mrs",
            Self::Ahs => "ahs",
            Self::Pds => "pds",
            Self::Groups => "groups",
            Self::Bytes => "bytes",
            Self::Files => "files",
            Self::Questions => "questions",
            Self::Connections => "connections",
            Self::Listeners => "listeners",
            Self::Programs => "programs",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Qps => "queue pairs",
            Self::Cqs => "completion queues",
            Self::Mrs => "memory regions",
            Self::Ahs => "address handles",
            Self::Pds => "protection domains",
            Self::Groups => "multicast groups",
            Self::Bytes => "bytes of registered memory and rings",
            Self::Files => "files with rings",
            Self::Questions => "questions for addresses of peers under way",
            Self::Connections => "connections",
            Self::Listeners => "listeners for connections",
            Self::Programs => "attached programs",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Bytes => "deregister some, or register less",
            Self::Files => "destroy queue pairs or completion queues",
            Self::Questions => "ask for fewer at a time",
            Self::Connections | Self::Listeners => "give up some",
            Self::Programs => "end some",
            Self::Groups => "leave some",
            _ => "destroy some",
        }
    }
}

impl Held {
    /// The sum of both.
    pub(crate) const fn add(&mut self, other: &Self) {
        let Self {
            pds,
            mrs,
            cqs,
            qps,
            ahs,
            groups,
            files,
            bytes,
            questions,
            connections,
            listeners,
        } = other;
        self.pds += *pds;
        self.mrs += *mrs;
        self.cqs += *cqs;
        self.qps += *qps;
        self.ahs += *ahs;
        self.groups += *groups;
        self.files += *files;
        self.bytes = self.bytes.saturating_add(*bytes);
        self.questions += *questions;
        self.connections += *connections;
        self.listeners += *listeners;
    }

    /// How much of this it is; a program is one.
    #[must_use]
    pub const fn of(&self, resource: Resource) -> u64 {
        let objects = match resource {
            Resource::Qps => self.qps,
            Resource::Cqs => self.cqs,
            Resource::Mrs => self.mrs,
            Resource::Ahs => self.ahs,
            Resource::Pds => self.pds,
            Resource::Groups => self.groups,
            Resource::Files => self.files,
            Resource::Questions => self.questions,
            Resource::Connections => self.connections,
            Resource::Listeners => self.listeners,
            Resource::Bytes => return self.bytes,
            Resource::Programs => 1,
        };
        objects as u64
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, key) = (self.resource.name(), self.resource.key());
        let (most, remedy) = (self.most, self.resource.remedy());
        let option = match self.whose {
            Whose::Program => {
                write!(f, "the server gives a program {most} {name} at most")?;
                "--program-limits"
            }
            Whose::User(uid) => {
                write!(
                    f,
                    "the server gives the programs of user {uid} {most} {name} at most"
                )?;
                "--user-limits"
            }
            Whose::All => {
                return write!(
                    f,
                    "the server takes {most} {name} at most: {remedy}, or start the server with `e810 serve --{key} N`"
                );
            }
        };
        write!(
            f,
            ": {remedy}, or start the server with `e810 serve {option} {key}=N`"
        )
    }
}
