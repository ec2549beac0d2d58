//! What a case gives: its fields, as the types of the driver.

use std::net::{IpAddr, Ipv4Addr};

use e810_cqp::op::{HwQpType, IpPair, QueueMemory};
use e810_hal::Iova;
use e810_hal::bus::{CeqId, PfId, VsiId};
use e810_types::HwQpState;
use serde_json::Value;

use crate::context::{flag, narrow, numbers, or_zero, v6};

/// VSI of the CQs of the recorder, where a case does not give it.
const VSI: u64 = 21;

/// Builds a case's request from its `in` object.
pub(super) struct Input<'a>(pub(super) &'a Value);

impl Input<'_> {
    pub(super) fn get(&self, key: &str) -> u64 {
        or_zero(self.0, key)
    }

    pub(super) fn is(&self, key: &str) -> bool {
        flag(self.0, key)
    }

    pub(super) fn as_<T: TryFrom<u64>>(&self, key: &str) -> T {
        narrow(self.get(key))
    }

    pub(super) fn at(&self, key: &str) -> Iova {
        Iova(self.get(key))
    }

    pub(super) fn pf(&self, key: &str) -> PfId {
        PfId::new(self.as_(key)).unwrap()
    }

    pub(super) fn vsi(&self, key: &str) -> VsiId {
        let vsi = self.0[key].as_u64().unwrap_or(VSI);
        VsiId::new(narrow(vsi)).unwrap()
    }

    pub(super) fn ceq(&self) -> CeqId {
        CeqId::new(self.as_("ceq_id")).unwrap()
    }

    pub(super) fn qp_type(&self) -> HwQpType {
        match self.get("qp_type") {
            1 => HwQpType::Iwarp,
            2 => HwQpType::Uda,
            3 => HwQpType::RoceRc,
            4 => HwQpType::RoceUd,
            other => panic!("QP type {other}"),
        }
    }

    pub(super) fn state(&self) -> HwQpState {
        HwQpState::from_code(self.as_("next_iwarp_state")).unwrap()
    }

    /// The queue's memory; existing drivers give either an address or a list.
    pub(super) fn memory(&self, address: &str) -> QueueMemory {
        if self.is("virtual_map") {
            QueueMemory::Pbles(self.as_("first_pm_pbl_idx"))
        } else {
            QueueMemory::Contiguous(self.at(address))
        }
    }

    /// IPv4 addresses in requests are the first of the four numbers.
    pub(super) fn ip(&self, key: &str) -> IpAddr {
        let parts = numbers(&self.0[key]);
        if self.is("ipv4_valid") {
            IpAddr::V4(Ipv4Addr::from(parts[0]))
        } else {
            IpAddr::V6(v6(parts))
        }
    }

    pub(super) fn ips(&self, source: &str, destination: &str) -> IpPair {
        match (self.ip(source), self.ip(destination)) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => IpPair::V4 {
                source,
                destination,
            },
            (IpAddr::V6(source), IpAddr::V6(destination)) => IpPair::V6 {
                source,
                destination,
            },
            _ => unreachable!("one flag gives both families"),
        }
    }
}
