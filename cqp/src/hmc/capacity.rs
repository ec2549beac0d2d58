//! Number of objects that the caller asks for.

use super::object::Object;
use super::plan::PBLES_PER_PAGE;
use super::query::FpmQuery;
use crate::limits::{MAX_MCAST_GROUPS, RESERVED_CQS, RESERVED_QPS};

/// Number of objects of each kind that the driver must be able to hold at a time.
///
/// They count objects in the device, including reserved ids, as the limit tables of existing
/// drivers do: with `qps: 64`, ids 3 to 63 are the caller's. See [`Capacity::usable_qps`] and
/// related functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Capacity {
    /// Queue pairs; rounded up to a power of two. Ids 0 to 2 are reserved.
    pub qps: u32,
    /// Completion queues. Ids 0 (the CCQ) to 2 are reserved.
    pub cqs: u32,
    /// Memory regions and windows. Index 0 is reserved.
    pub mrs: u32,
    /// Address handles. Index 0 is reserved.
    pub ahs: u32,
    /// ARP entries: own addresses and next hops. Index 0 is reserved.
    pub arps: u32,
    /// Multicast groups, at most 4096. Index 0 is reserved.
    pub mcast_groups: u32,
    /// Physical buffer list entries, 8 bytes for each page of a region that is not contiguous; at
    /// least 512, which the device needs. Their memory is allocated as they are used.
    pub pbles: u32,
}

impl Capacity {
    /// 64 QPs, 128 CQs, 1024 regions, 64 address handles, 256 ARP entries, 16
    /// multicast groups, and PBLEs for 1 GiB in pages of 4 KiB.
    pub const DEFAULT: Self = Self {
        qps: 64,
        cqs: 128,
        mrs: 1024,
        ahs: 64,
        arps: 256,
        mcast_groups: 16,
        pbles: 0x4_0000,
    };

    /// Reduced to what the device of `query` has.
    pub(super) fn within(&self, query: &FpmQuery) -> Self {
        let most = |object, wanted: u32| wanted.min(query.limits(object).max);
        let qps = query.limits(Object::Qp).max;
        Self {
            // The largest power of two.
            qps: self.qps.min(1 << qps.checked_ilog2().unwrap_or(0)),
            cqs: most(Object::Cq, self.cqs),
            mrs: most(Object::Mr, self.mrs),
            ahs: most(Object::FsiAv, self.ahs),
            arps: most(Object::Arp, self.arps),
            mcast_groups: most(Object::FsiMc, self.mcast_groups),
            // Up to a page of them is lost.
            pbles: self.pbles.min(
                query
                    .limits(Object::Pble)
                    .max
                    .saturating_sub(PBLES_PER_PAGE),
            ),
        }
    }

    /// QPs the caller can create.
    #[must_use]
    pub const fn usable_qps(&self) -> u32 {
        self.qps.saturating_sub(RESERVED_QPS)
    }

    /// CQs the caller can create.
    #[must_use]
    pub const fn usable_cqs(&self) -> u32 {
        self.cqs.saturating_sub(RESERVED_CQS)
    }

    /// Regions and windows the caller can have.
    #[must_use]
    pub const fn usable_mrs(&self) -> u32 {
        self.mrs.saturating_sub(1)
    }

    /// Address handles the caller can have.
    #[must_use]
    pub const fn usable_ahs(&self) -> u32 {
        self.ahs.saturating_sub(1)
    }

    /// Multicast groups that the format can name.
    pub(super) const fn groups(&self) -> u32 {
        if self.mcast_groups > MAX_MCAST_GROUPS {
            MAX_MCAST_GROUPS
        } else {
            self.mcast_groups
        }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// When HMC objects get their memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Backing {
    /// Everything except PBLEs before SHMC_PAGES_ALLOCATED, in direct segments of 2 MiB, as in
    /// existing drivers.
    #[default]
    Full,
    /// `[inf backing_on_demand]` Before SHMC_PAGES_ALLOCATED, only what the device hands out
    /// itself; pages of QPs, CQs, regions, address handles and multicast groups when the first id
    /// inside them is used.
    ///
    /// This rests on two inferences that no source confirms: that the device touches those
    /// objects only when a command or a packet names their id, and that segments of objects other
    /// than PBLEs may be paged (the SD format does not say what it backs). MD is committed in
    /// proportion to the QPs instead of at the device's maximum, a third inference.
    OnDemand,
}
