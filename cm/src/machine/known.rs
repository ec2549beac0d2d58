//! Who is found by what is remote of it: two hash tables, whose chains go through the slots.

use super::secret::{REMOTE_ID, REMOTE_QP};
use super::tables::NONE;
use super::{Machine, Slot, State};
use crate::GID;

impl Machine<'_> {
    /// Who has this remote id. A request of whose sender nobody knows anything has none.
    pub(super) fn by_remote_id(&self, guid: u64, id: u32) -> Option<u32> {
        self.remote_id(guid, id, |slot| slot.unreached == NONE)
    }

    /// The unreached request of a sender that has this id.
    pub(super) fn unreached_twin(&self, guid: u64, id: u32, sender: &[u8; GID]) -> Option<u32> {
        self.remote_id(guid, id, |slot| {
            slot.unreached != NONE && slot.origin.remote == *sender
        })
    }

    fn remote_id(&self, guid: u64, id: u32, fits: impl Fn(&Slot) -> bool) -> Option<u32> {
        let mut at = *self.by_id.get(self.bucket(REMOTE_ID, guid, id))?;
        while let Some(slot) = self.slot(at) {
            if slot.remote_guid == guid && slot.remote_comm_id == id && fits(slot) {
                return Some(at);
            }
            at = slot.next_by_id;
        }
        None
    }

    /// Who has this remote QP; as [`by_remote_id`](Self::by_remote_id).
    pub(super) fn by_remote_qp(&self, guid: u64, qpn: u32) -> Option<u32> {
        let mut at = *self.by_qp.get(self.bucket(REMOTE_QP, guid, qpn))?;
        while let Some(slot) = self.slot(at) {
            let fits = slot.remote_guid == guid && slot.remote_qpn == qpn;
            if fits && slot.unreached == NONE && slot.state != State::SidrReqReceived {
                return Some(at);
            }
            at = slot.next_by_qp;
        }
        None
    }

    /// The slot can be found by what is remote of it, until it is [forgotten](Self::forget).
    pub(super) fn know(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else {
            return;
        };
        let id = self.bucket(REMOTE_ID, slot.remote_guid, slot.remote_comm_id);
        let qp = self.bucket(REMOTE_QP, slot.remote_guid, slot.remote_qpn);
        let Some(slot) = self.slots.0.get_mut(index as usize) else {
            return;
        };
        slot.is_id_known = true;
        if let Some(first) = self.by_id.get_mut(id) {
            slot.next_by_id = core::mem::replace(first, index);
        }
        slot.is_qp_known = true;
        if let Some(first) = self.by_qp.get_mut(qp) {
            slot.next_by_qp = core::mem::replace(first, index);
        }
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.forget_qp(index);
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if core::mem::take(&mut slot.is_id_known) {
            let (guid, id) = (slot.remote_guid, slot.remote_comm_id);
            let first = self.bucket(REMOTE_ID, guid, id);
            let first = self.by_id.get_mut(first);
            unchain(self.slots.0, first, index, |slot| &mut slot.next_by_id);
        }
    }

    /// Another connection may have the remote QP.
    pub(super) fn forget_qp(&mut self, index: u32) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if core::mem::take(&mut slot.is_qp_known) {
            let (guid, qpn) = (slot.remote_guid, slot.remote_qpn);
            let first = self.bucket(REMOTE_QP, guid, qpn);
            let first = self.by_qp.get_mut(first);
            unchain(self.slots.0, first, index, |slot| &mut slot.next_by_qp);
        }
    }

    fn bucket(&self, purpose: u64, guid: u64, number: u32) -> usize {
        let hash = self.secret.number(purpose, [guid, number.into()]);
        hash as usize & self.by_id.len().saturating_sub(1)
    }
}

/// Takes a slot out of a chain.
fn unchain(
    slots: &mut [Slot],
    first: Option<&mut u32>,
    index: u32,
    next: impl Fn(&mut Slot) -> &mut u32,
) {
    let Some(first) = first else {
        return;
    };
    let after = slots
        .get_mut(index as usize)
        .map_or(NONE, |slot| core::mem::replace(next(slot), NONE));
    if *first == index {
        *first = after;
        return;
    }
    let mut at = *first;
    while let Some(slot) = slots.get_mut(at as usize) {
        let link = next(slot);
        if *link == index {
            *link = after;
            return;
        }
        at = *link;
    }
}
