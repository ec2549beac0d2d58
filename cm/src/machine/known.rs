//! Who is found by what is remote of it: two hash tables, whose chains go through the slots.

use super::secret::{REMOTE_ID, REMOTE_ID_OF_SENDER, REMOTE_QP, SOURCE};
use super::tables::NONE;
use super::{Machine, Slot, State};
use crate::GID;

impl Machine<'_> {
    /// Who has this remote id. A request of whose sender nobody knows anything has none.
    pub(super) fn by_remote_id(&self, guid: u64, id: u32) -> Option<u32> {
        let bucket = self.bucket(REMOTE_ID, guid, id);
        self.remote_id(bucket, guid, id, |slot| slot.unreached == NONE)
    }

    /// The unreached request of a sender that has this id.
    pub(super) fn unreached_twin(&self, guid: u64, id: u32, sender: &[u8; GID]) -> Option<u32> {
        let bucket = self.bucket_of_sender(guid, id, sender);
        self.remote_id(bucket, guid, id, |slot| {
            slot.unreached != NONE && slot.origin.remote == *sender
        })
    }

    fn remote_id(
        &self,
        bucket: usize,
        guid: u64,
        id: u32,
        fits: impl Fn(&Slot) -> bool,
    ) -> Option<u32> {
        let mut at = *self.by_id.get(bucket)?;
        while let Some(slot) = self.slot(at) {
            if slot.remote_guid == guid && slot.remote_comm_id == id && fits(slot) {
                return Some(at);
            }
            at = slot.next_by_id;
        }
        None
    }

    /// Who has this remote QP; as [`by_remote_id`](Self::by_remote_id), but nobody in TIMEWAIT.
    pub(super) fn by_remote_qp(&self, guid: u64, qpn: u32) -> Option<u32> {
        let mut at = *self.by_qp.get(self.bucket(REMOTE_QP, guid, qpn))?;
        while let Some(slot) = self.slot(at) {
            let fits = slot.remote_guid == guid && slot.remote_qpn == qpn;
            if fits && slot.state != State::SidrReqReceived {
                return Some(at);
            }
            at = slot.next_by_qp;
        }
        None
    }

    /// The slot can be found by what is remote of it, until it is [forgotten](Self::forget). Where
    /// it is found depends on whether it is unreached: many of these may have one id or one QP, so
    /// their senders count, and nobody finds them by their QP.
    pub(super) fn know(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else {
            return;
        };
        let is_reached = slot.unreached == NONE;
        let id = self.bucket_by_id(slot);
        let qp = self.bucket(REMOTE_QP, slot.remote_guid, slot.remote_qpn);
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.is_id_known = true;
        if let Some(first) = self.by_id.get_mut(id) {
            slot.next_by_id = core::mem::replace(first, index);
        }
        slot.is_qp_known = is_reached;
        if is_reached && let Some(first) = self.by_qp.get_mut(qp) {
            slot.next_by_qp = core::mem::replace(first, index);
        }
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.forget_qp(index);
        let Some(slot) = self.slot(index).filter(|slot| slot.is_id_known) else {
            return;
        };
        let first = self.bucket_by_id(slot);
        let first = self.by_id.get_mut(first);
        unchain(self.slots.0, first, index, |slot| &mut slot.next_by_id);
        if let Some(slot) = self.slot_mut(index) {
            slot.is_id_known = false;
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

    fn bucket_by_id(&self, slot: &Slot) -> usize {
        let (guid, id) = (slot.remote_guid, slot.remote_comm_id);
        if slot.unreached == NONE {
            self.bucket(REMOTE_ID, guid, id)
        } else {
            self.bucket_of_sender(guid, id, &slot.origin.remote)
        }
    }

    fn bucket_of_sender(&self, guid: u64, id: u32, sender: &[u8; GID]) -> usize {
        self.bucket(REMOTE_ID_OF_SENDER, guid ^ self.source(sender), id)
    }

    /// A number for the address of a sender.
    pub(super) fn source(&self, sender: &[u8; GID]) -> u64 {
        let number = u128::from_be_bytes(*sender);
        let words = [number as u64, (number >> 64) as u64];
        self.secret.number(SOURCE, words)
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
