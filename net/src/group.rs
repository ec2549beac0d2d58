//! Multicast groups that the interface is in, and when it says so to multicast routers.
//!
//! One table for IGMP (RFC 3376) and MLD (RFC 3810). Reports of others, which let versions 1 and
//! 2 be silent about a group, are not acted on.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use heapless::Vec;

use crate::random::Random;
use crate::take::swap_take;
use crate::time::{Ns, earliest};
use crate::wire::igmp::{self, Record};
use crate::wire::nd;

/// Multicast groups of an interface, with one for each of its IPv6 addresses.
pub const GROUPS: usize = 32;

/// How often a change is reported (RFC 3376 8.1, RFC 3810 9.1).
pub(crate) const ROBUSTNESS: u8 = 2;
/// Most time between such reports (RFC 3376 8.11, RFC 3810 9.11).
pub(crate) const REPORT_INTERVAL: Ns = Ns::from_secs(1);
/// How long a querier of an older version is heeded (RFC 3376 8.12, RFC 3810 9.12): robustness
/// times the query interval of 125 s, and 10 s.
pub(crate) const OLDER_QUERIER_TIME: Ns = Ns::from_secs(260);

/// A group, and what has to be said of it.
#[derive(Clone, Copy, Debug)]
struct Group {
    ip: IpAddr,
    /// How many have joined; with none the group goes when that has been said.
    users: u16,
    record: Record,
    /// Reports still to be sent.
    left: u8,
    next: Option<Ns>,
}

/// The version that the querier of a family speaks, and an answer for all groups.
#[derive(Clone, Copy, Debug)]
struct Querier {
    newest: u8,
    version: u8,
    until: Option<Ns>,
    general: Option<Ns>,
}

impl Querier {
    const fn new(newest: u8) -> Self {
        Self {
            newest,
            version: newest,
            until: None,
            general: None,
        }
    }

    fn version(&self, now: Ns) -> u8 {
        match self.until {
            Some(until) if now < until => self.version,
            _ => self.newest,
        }
    }
}

/// A report that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    /// All groups of a family, in the newest version.
    All { is_ipv4: bool },
    /// One group.
    One {
        ip: IpAddr,
        record: Record,
        /// A version older than the newest.
        older: Option<u8>,
    },
}

/// The groups.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    groups: Vec<Group, GROUPS>,
    igmp: Querier,
    mld: Querier,
}

/// Whether a group is one that every host is in and that nobody reports (RFC 3376 6, RFC 3810 6).
fn is_silent(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4 == igmp::ALL_HOSTS,
        IpAddr::V6(v6) => v6 == nd::ALL_NODES || scope(v6) <= 1,
    }
}

/// The scope of an IPv6 group (RFC 4291 2.7).
const fn scope(ip: Ipv6Addr) -> u8 {
    let [_, second, ..] = ip.octets();
    second & 0xF
}

impl Groups {
    pub(crate) const fn new() -> Self {
        Self {
            groups: Vec::new(),
            igmp: Querier::new(3),
            mld: Querier::new(2),
        }
    }

    /// The groups that packets are taken from, beside those of all nodes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        let joined = self.groups.iter().filter(|group| group.users > 0);
        joined.map(|group| group.ip)
    }

    /// Whether packets to a group are ours.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        ip == IpAddr::V4(igmp::ALL_HOSTS)
            || ip == IpAddr::V6(nd::ALL_NODES)
            || self.iter().any(|group| group == ip)
    }

    pub(crate) fn join(&mut self, ip: IpAddr, now: Ns) -> Result<(), GroupError> {
        if !ip.is_multicast() {
            return Err(GroupError::NotMulticast);
        }
        let joined = Group {
            ip,
            users: 1,
            record: Record::ToExclude,
            left: ROBUSTNESS,
            next: Some(now).filter(|_| !is_silent(ip)),
        };
        if let Some(group) = self.groups.iter_mut().find(|group| group.ip == ip) {
            match group.users {
                0 => *group = joined,
                _ => group.users = group.users.saturating_add(1),
            }
            return Ok(());
        }
        if self.groups.is_full() {
            // One that is being left says so once less.
            let left = self.groups.iter().position(|group| group.users == 0);
            swap_take(&mut self.groups, left.ok_or(GroupError::Full)?);
        }
        self.groups.push(joined).map_err(|_| GroupError::Full)
    }

    pub(crate) fn leave(&mut self, ip: IpAddr, now: Ns) -> Result<(), GroupError> {
        let group = self.groups.iter_mut();
        let group = group
            .filter(|group| group.users > 0)
            .find(|group| group.ip == ip)
            .ok_or(GroupError::NoSuch)?;
        group.users -= 1;
        if group.users == 0 {
            group.record = Record::ToInclude;
            group.left = ROBUSTNESS;
            group.next = Some(now);
            if is_silent(ip) {
                self.groups.retain(|group| group.ip != ip);
            }
        }
        Ok(())
    }

    /// A multicast router asks for a group, or for all of a family.
    pub(crate) fn query(&mut self, query: &GroupQuery, now: Ns, random: &mut Random) {
        let querier = match query.is_ipv4 {
            true => &mut self.igmp,
            false => &mut self.mld,
        };
        if query.version < querier.newest && query.version <= querier.version(now) {
            querier.version = query.version;
            querier.until = Some(now + OLDER_QUERIER_TIME);
        }
        let version = querier.version(now);
        let is_newest = version == querier.newest;
        let at = now + random.between(Ns::ZERO, query.max_response);
        if query.group.is_none() && is_newest {
            querier.general = Some(querier.general.map_or(at, |old| old.min(at)));
            return;
        }
        for group in &mut self.groups {
            let is_asked = query.group.is_none_or(|asked| asked == group.ip);
            let is_family = group.ip.is_ipv4() == query.is_ipv4;
            if !is_asked || !is_family || group.users == 0 || is_silent(group.ip) {
                continue;
            }
            let at = now + random.between(Ns::ZERO, query.max_response);
            group.next = Some(group.next.map_or(at, |old| old.min(at)));
            if group.left == 0 {
                group.record = Record::IsExclude;
                group.left = 1;
            }
        }
    }

    /// The next report that is due.
    pub(crate) fn due(&mut self, now: Ns, random: &mut Random) -> Option<Report> {
        for (is_ipv4, querier) in [(true, &mut self.igmp), (false, &mut self.mld)] {
            if querier.general.is_some_and(|at| at <= now) {
                querier.general = None;
                return Some(Report::All { is_ipv4 });
            }
        }
        let is_due = |group: &Group| group.next.is_some_and(|at| at <= now);
        let place = self.groups.iter().position(is_due)?;
        let group = self.groups.get_mut(place)?;
        group.left = group.left.saturating_sub(1);
        let again = now + random.between(Ns::ZERO, REPORT_INTERVAL);
        group.next = Some(again).filter(|_| group.left > 0);
        let (ip, record) = (group.ip, group.record);
        if group.users == 0 && group.left == 0 {
            swap_take(&mut self.groups, place);
        }
        let querier = if ip.is_ipv4() { self.igmp } else { self.mld };
        let version = querier.version(now);
        Some(Report::One {
            ip,
            record,
            older: Some(version).filter(|version| *version < querier.newest),
        })
    }

    /// The groups of a family that are reported.
    pub(crate) fn reported(&self, is_ipv4: bool) -> impl Iterator<Item = IpAddr> + Clone {
        let joined = self.groups.iter().filter(|group| group.users > 0);
        joined
            .map(|group| group.ip)
            .filter(move |ip| ip.is_ipv4() == is_ipv4 && !is_silent(*ip))
    }

    pub(crate) fn deadline(&self) -> Option<Ns> {
        let groups = self.groups.iter().filter_map(|group| group.next).min();
        earliest(groups, earliest(self.igmp.general, self.mld.general))
    }
}

/// A query of either protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupQuery {
    pub(crate) is_ipv4: bool,
    pub(crate) version: u8,
    pub(crate) group: Option<IpAddr>,
    pub(crate) max_response: Ns,
}

/// Why a group is not joined or left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// Not the address of a group.
    NotMulticast,
    /// The table is full.
    Full,
    /// The interface is not in this group.
    NoSuch,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMulticast => "not a multicast address",
            Self::Full => "no room for one more multicast group",
            Self::NoSuch => "the interface is not in this multicast group",
        })
    }
}

impl core::error::Error for GroupError {}
