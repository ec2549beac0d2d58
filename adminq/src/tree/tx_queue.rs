//! The LAN transmit queue in the tree (lan-path 1.1, 3.1; control-path 9.7).
//!
//! Existing drivers give LAN queues a chain of their own from the VSI's element down to a queue
//! group, beside that of the RDMA queue sets; this driver does the same. In a tree of 5 layers
//! the VSI's element is the queue group, and there is no chain.

use e810_hal::Platform;
use e810_hal::bus::TxQueueId;

use super::{NotAdded, Tree, add_element, place};
use crate::code::Code;
use crate::error::Result;
use crate::op::{AddTxQueue, DisableQueue, TxQueueContext};
use crate::queue::AdminQ;

/// A LAN transmit queue in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TxQueue {
    /// The queue, by the function's count.
    pub queue: TxQueueId,
    /// TEID of the leaf.
    pub teid: u32,
    parent: u32,
}

impl Tree {
    /// Adds a LAN transmit queue, which is on afterwards; first makes the missing part of the
    /// chain down to it. The new leaf is read back, as in existing drivers: it must hang where
    /// requested.
    ///
    /// # Errors
    /// No such traffic class, a full tree, a context that does not fit, refused commands. The
    /// error comes with the queue if the device may have it all the same: then the ring belongs
    /// to the device until the queue is [removed](Self::remove_tx_queue). What was made of the
    /// chain stays, and is used by the next try.
    pub fn add_tx_queue<P: Platform>(
        &mut self,
        queue: &mut AdminQ<P>,
        context: &TxQueueContext,
    ) -> Result<TxQueue, NotAdded<TxQueue>> {
        let parent = self
            .tx_queue_group(queue, context.traffic_class)
            .map_err(NotAdded::before)?;
        let add = AddTxQueue::new(parent, context).map_err(NotAdded::before)?;
        let undo = DisableQueue::lan(parent, context.queue);
        let at = |teid| TxQueue {
            queue: context.queue,
            teid,
            parent,
        };
        place(queue, parent, &add, &undo).named(at)
    }

    /// Disables a LAN transmit queue and removes its leaf. Its frames are lost.
    ///
    /// # Errors
    /// Those of the command; the queue may still be on. If there is no such queue this is no
    /// error, as in existing drivers (lan-path 1.3).
    pub fn remove_tx_queue<P: Platform>(
        &mut self,
        queue: &mut AdminQ<P>,
        tx_queue: TxQueue,
    ) -> Result<()> {
        let disable = DisableQueue::lan(tx_queue.parent, tx_queue.queue);
        match queue.execute(&disable) {
            Err(error) if error.refusal() == Some(Code::ENOENT) => Ok(()),
            other => other,
        }
    }

    /// The queue group for LAN queues of a traffic class.
    fn tx_queue_group<P: Platform>(
        &mut self,
        queue: &mut AdminQ<P>,
        traffic_class: u8,
    ) -> Result<u32> {
        let vsi = self.extend(queue, traffic_class, self.layers.vsi)?;
        let wanted = self.layers.group.saturating_sub(self.layers.vsi);
        let place = self.layers.vsi.saturating_sub(self.entry);
        let class = self.class(traffic_class)?;
        // The chain may continue below the VSI, with the elements of the RDMA queue sets.
        let vsi = class.chain.get(place).map_or(vsi, |element| element.teid);
        while class.lan_chain.len() < wanted {
            let above = class.lan_chain.last().map_or(vsi, |last| last.teid);
            let made = add_element(queue, above);
            let element = made.inspect_err(|error| class.stuck |= error.refusal().is_none())?;
            // At most as many as there are layers.
            let _ = class.lan_chain.push(element);
        }
        Ok(class.lan_chain.last().map_or(vsi, |last| last.teid))
    }
}
