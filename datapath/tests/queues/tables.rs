//! One table of slots, or an owner's and a program's, behind the same calls.

use e810_datapath::slot::{Attention, Cause, Layout, Marked, Pending, QpShape};
use e810_datapath::{CqKey, DroppedWrs, QpKey, QpState, QpType, Registry, SlotError, Slots};

use crate::common::{Words, words};

pub(crate) struct Tables {
    /// The table with the queues.
    queues: Registry<Words>,
    owner: Option<Registry<Words>>,
}

fn table(layout: Layout) -> Registry<Words> {
    Registry::new(words(layout.words()), layout).unwrap()
}

impl Tables {
    pub(crate) fn one(layout: Layout) -> Self {
        Self {
            queues: table(layout),
            owner: None,
        }
    }

    pub(crate) fn two(layout: Layout) -> Self {
        let without_trackers = Layout {
            tracker_words: 0,
            ..layout
        };
        Self {
            queues: table(layout),
            owner: Some(table(without_trackers)),
        }
    }

    pub(crate) fn slots(&self) -> &Slots<Words> {
        self.queues.slots()
    }

    /// The table that events and commands go by.
    pub(crate) fn owner(&mut self) -> &mut Registry<Words> {
        self.owner.as_mut().unwrap_or(&mut self.queues)
    }

    /// The queues' table hears of what has happened.
    pub(crate) fn pump(&mut self) {
        while let Some(change) = self.owner.as_mut().and_then(Registry::take_changed) {
            self.queues.apply(&change).unwrap();
        }
    }

    pub(crate) fn open_cq(&mut self, id: u32) -> Result<CqKey, SlotError> {
        let Some(owner) = &mut self.owner else {
            return self.queues.open_cq(id);
        };
        let key = owner.open_cq_elsewhere(id)?;
        self.queues.open_cq_as(key, None)?;
        Ok(key)
    }

    pub(crate) fn close_cq(&mut self, key: CqKey) -> Result<(), SlotError> {
        if let Some(owner) = &mut self.owner {
            owner.close_cq(key)?;
        }
        self.queues.close_cq(key)
    }

    pub(crate) fn open_qp(&mut self, id: u32, shape: &QpShape) -> Result<QpKey, SlotError> {
        let Some(owner) = &mut self.owner else {
            return self.queues.open_qp(id, shape);
        };
        let key = owner.open_qp_elsewhere(id, shape)?;
        self.queues.open_qp_as(key, shape)?;
        Ok(key)
    }

    pub(crate) fn set_state(&mut self, key: QpKey, state: QpState) -> Result<(), SlotError> {
        self.owner().set_state(key, state)
    }

    pub(crate) fn begin_drain(&mut self, key: QpKey, notify: bool) -> Result<(), SlotError> {
        self.owner().begin_drain(key, notify)
    }

    pub(crate) fn mark_failed(&mut self, key: QpKey, cause: Cause) -> Marked {
        self.owner().slots().mark_failed(key, cause)
    }

    pub(crate) fn is_marked(&mut self, key: QpKey) -> bool {
        self.owner().is_marked(key)
    }

    pub(crate) fn take_attention(&mut self) -> Option<Attention> {
        self.owner().take_attention()
    }

    pub(crate) fn sweep(&mut self, key: QpKey) -> Result<Pending, SlotError> {
        self.owner().sweep(key)
    }

    pub(crate) fn hide_qp(&mut self, key: QpKey) -> Result<DroppedWrs, SlotError> {
        if let Some(owner) = &mut self.owner {
            assert_eq!(owner.hide_qp(key)?, DroppedWrs::default());
        }
        self.queues.hide_qp(key)
    }

    pub(crate) fn retire(&mut self, key: QpKey) -> Result<(), SlotError> {
        if let Some(owner) = &mut self.owner {
            owner.retire(key)?;
        }
        self.queues.retire(key)
    }

    pub(crate) fn reap(&mut self) -> Option<u32> {
        let id = self.queues.reap()?;
        if let Some(owner) = &mut self.owner {
            owner.forgotten(id).unwrap();
            assert_eq!(owner.reap(), Some(id));
        }
        Some(id)
    }

    pub(crate) fn reopen(&mut self, key: QpKey, qp_type: QpType) -> Result<QpKey, SlotError> {
        let Some(owner) = &mut self.owner else {
            return self.queues.reopen(key, qp_type);
        };
        let next = owner.reopen(key, qp_type)?;
        self.queues.reopen_as(next, qp_type)?;
        Ok(next)
    }

    pub(crate) fn begin(&mut self, key: QpKey) -> Result<(), SlotError> {
        self.owner().begin(key)
    }
}
