//! How much a program may have, and all programs of a user together.

use e810::DeviceAttr;
use e810_node::connections::{LISTENERS, connections_of};

use super::bring_up::PBLES;
use crate::messages::Resource;

/// Bytes of a page of the device.
const PAGE: u64 = 4096;
/// Questions for addresses of peers under way: each has a thread of the server.
const QUESTIONS: u64 = 1024;
/// Programs: each has a thread of the server, doorbells and descriptors.
const PROGRAMS: u64 = 256;

/// A limit for each resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Most([u64; Resource::ALL.len()]);

/// How much of what is shared one may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A program. It is one program, whatever this says of those.
    pub program: Most,
    /// All programs together of a user who is neither root nor the server's.
    pub user: Most,
    /// All programs.
    pub programs: u64,
}

/// Limits that somebody asks for, in place of the usual ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AskedLimits {
    pub program: Vec<(Resource, u64)>,
    pub user: Vec<(Resource, u64)>,
    pub programs: Option<u64>,
}

impl Most {
    /// No limits.
    pub const ANY: Self = Self([u64::MAX; Resource::ALL.len()]);

    #[must_use]
    pub const fn of(&self, resource: Resource) -> u64 {
        // The array has a place for each.
        match self.0.as_slice().split_at_checked(resource as usize) {
            Some((_, [most, ..])) => *most,
            _ => 0,
        }
    }

    pub(super) fn set(&mut self, resource: Resource, most: u64) {
        if let Some(place) = self.0.get_mut(resource as usize) {
            *place = most;
        }
    }

    fn each(of: impl Fn(Resource) -> u64) -> Self {
        Self(Resource::ALL.map(of))
    }
}

impl Limits {
    /// No limits, as for programs of the owner's own process.
    pub const NONE: Self = Self {
        program: Most::ANY,
        user: Most::ANY,
        programs: u64::MAX,
    };

    /// Half of what a function has for a program, three quarters for a user; what is asked for goes
    /// before that.
    #[must_use]
    pub fn shares(attr: &DeviceAttr, asked: &AskedLimits) -> Self {
        let (qps, cqs) = (u64::from(attr.max_qp), u64::from(attr.max_cq));
        let programs = asked.programs.unwrap_or(PROGRAMS);
        let whole = |resource| match resource {
            Resource::Qps => qps,
            Resource::Cqs => cqs,
            Resource::Mrs => attr.max_mr.into(),
            Resource::Ahs => attr.max_ah.into(),
            Resource::Pds => attr.max_pd.into(),
            Resource::Groups => attr.max_mcast_groups.into(),
            // A page list has an entry for each page, in the worst case.
            Resource::Bytes => u64::from(PBLES) * PAGE,
            // Two for each.
            Resource::Files => 2 * (qps + cqs),
            Resource::Questions => QUESTIONS,
            Resource::Connections => connections_of(attr.max_qp) as u64,
            Resource::Listeners => LISTENERS as u64,
            Resource::Programs => programs,
        };
        let mut limits = Self {
            program: Most::each(|resource| whole(resource).div_ceil(2)),
            user: Most::each(|resource| (whole(resource) * 3).div_ceil(4)),
            programs,
        };
        for (resource, most) in &asked.program {
            limits.program.set(*resource, *most);
        }
        for (resource, most) in &asked.user {
            limits.user.set(*resource, *most);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_its_limit() {
        for (at, resource) in Resource::ALL.into_iter().enumerate() {
            assert_eq!(resource as usize, at);
            let mut most = Most::ANY;
            most.set(resource, 7);
            for other in Resource::ALL {
                let expected = if other == resource { 7 } else { u64::MAX };
                assert_eq!(most.of(other), expected);
            }
        }
    }
}
