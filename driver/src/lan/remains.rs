//! What the firmware or the device did not release when asked. This is tried again when a port is
//! opened and at the end; the reset frees it.

use e810_adminq::tree::{CLASSES, QueueSet, TxQueue};
use e810_hal::{Platform, log_warn};
use e810_lan::{RxMemory, RxRing, TxMemory, TxRing};
use heapless::Vec;

use super::LanSide;
use crate::error::{Error, Result};

/// Queues and queue sets that may still be on.
#[derive(Debug)]
pub(crate) struct Remains<P: Platform> {
    /// A transmit queue that was not disabled.
    tx: Option<(TxRing<P>, TxQueue)>,
    /// One that may have been added all the same, and its memory.
    tx_unsure: Option<(TxMemory<P>, TxQueue)>,
    /// A receive queue that was not switched off.
    rx: Option<RxRing<P>>,
    /// Queue sets that were not removed.
    queue_sets: Vec<QueueSet, CLASSES>,
}

impl<P: Platform> Default for Remains<P> {
    fn default() -> Self {
        Self {
            tx: None,
            tx_unsure: None,
            rx: None,
            queue_sets: Vec::new(),
        }
    }
}

impl<P: Platform> Remains<P> {
    /// Keeps a transmit queue that may have been added. While there is one, no other is added.
    pub(super) fn keep_unsure_tx(&mut self, memory: TxMemory<P>, entry: TxQueue) {
        self.tx_unsure = Some((memory, entry));
    }

    /// Frees all memory, after a reset.
    pub(super) fn release_after_reset(self) {
        if let Some((ring, _)) = self.tx {
            ring.stop().release();
        }
        if let Some((memory, _)) = self.tx_unsure {
            memory.release();
        }
        if let Some(ring) = self.rx {
            ring.stop_after_reset().release();
        }
    }
}

impl<P: Platform> LanSide<P> {
    /// Tries again what failed before.
    ///
    /// # Errors
    /// The first step that failed again; all were tried.
    pub(super) fn end_remains(&mut self) -> Result<()> {
        let mut result = Ok(());
        if let Some((ring, entry)) = self.remains.tx.take() {
            result = self.remove_tx(ring, entry);
        }
        if let Some((memory, entry)) = self.remains.tx_unsure.take() {
            result = result.and(self.remove_unsure_tx(memory, entry));
        }
        if let Some(ring) = self.remains.rx.take() {
            result = result.and(self.disable_rx(ring));
        }
        for set in core::mem::take(&mut self.remains.queue_sets) {
            self.remove_set(set);
        }
        result
    }

    /// Has the firmware disable the transmit queue.
    pub(super) fn remove_tx(&mut self, ring: TxRing<P>, entry: TxQueue) -> Result<()> {
        ring.unbind();
        if let Err(error) = self.tree.remove_tx_queue(&mut self.adminq, entry) {
            self.remains.tx = Some((ring, entry));
            return Err(error.into());
        }
        ring.stop().release();
        Ok(())
    }

    /// The same for a queue that may have been added, and was never used.
    fn remove_unsure_tx(&mut self, memory: TxMemory<P>, entry: TxQueue) -> Result<()> {
        if let Err(error) = self.tree.remove_tx_queue(&mut self.adminq, entry) {
            self.remains.tx_unsure = Some((memory, entry));
            return Err(error.into());
        }
        memory.release();
        Ok(())
    }

    /// Switches the receive queue off.
    pub(super) fn disable_rx(&mut self, ring: RxRing<P>) -> Result<()> {
        ring.unbind();
        let disabled = ring.disable().map(RxMemory::release);
        disabled.map_err(|(ring, error)| {
            self.remains.rx = Some(ring);
            Error::from(error)
        })
    }

    pub(super) fn keep_rx(&mut self, ring: RxRing<P>) {
        self.remains.rx = Some(ring);
    }

    /// Keeps a queue set that may have been added, for the next set with its handle or the end.
    pub(super) fn keep_unsure_set(&mut self, set: QueueSet) {
        // Full: the reset at the end takes its element along.
        let _ = self.remains.queue_sets.push(set);
    }

    /// Removes an old queue set that was left when the leaf with its handle went. The firmware
    /// knows sets by their handles, so it would take the old set for the one that is added now.
    ///
    /// # Errors
    /// The firmware's refusal.
    pub(super) fn end_old_set(&mut self, handle: u16) -> Result<()> {
        let sets = &mut self.remains.queue_sets;
        let Some(place) = sets.iter().position(|set| set.handle == handle) else {
            return Ok(());
        };
        let set = sets.swap_remove(place);
        let removed = self.tree.remove_queue_set(&mut self.adminq, set);
        removed.map_err(|error| {
            // There is room: it was taken from there.
            let _ = self.remains.queue_sets.push(set);
            error.into()
        })
    }

    /// Removes a queue set that the engine has released. A refusal is only logged.
    pub(super) fn remove_set(&mut self, set: QueueSet) {
        if let Err(error) = self.tree.remove_queue_set(&mut self.adminq, set) {
            log_warn!("RDMA queue set {} stays: {}", set.handle, error);
            // Full: the reset at the end takes its element along.
            let _ = self.remains.queue_sets.push(set);
        }
    }
}
