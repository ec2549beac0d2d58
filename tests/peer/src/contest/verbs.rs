//! Our side through verbs.

use std::mem;

use e810::{CqRing, QpRecv, QpSend};
use e810_tests::plain::{Plain, Queues, Spec};
use e810_verbs::testing::{cq_on, data_path, qp_on};

use super::pointers::{Device, PointerSide};
use crate::opened::Calls;

/// Objects of verbs on plain memory. The rig is the device's side of their rings; its own queues
/// are spare ones.
pub type VerbsSide = PointerSide<Queues<false>>;

impl Default for VerbsSide {
    /// Rings of [`RING`](super::RING) quanta, slots and entries.
    fn default() -> Self {
        let mut rig = Queues::<false>::new(&Spec::default());
        let spare = Queues::<false>::new(&Spec::default());
        let send = QpSend::over(mem::replace(&mut rig.send, spare.send));
        let recv = QpRecv::over(mem::replace(&mut rig.recv, spare.recv));
        let cq = mem::replace(&mut rig.cq, spare.cq);
        let cq = CqRing::over(&rig.platform, cq);
        let cq = cq.unwrap_or_else(|error| unreachable!("{error}"));
        let ops = data_path::<Plain<false>>();
        let calls = Calls {
            post_send: ops.post_send,
            post_recv: ops.post_recv,
            poll_cq: ops.poll_cq,
        };
        Self::over(rig, calls, qp_on(send, recv), cq_on(cq))
    }
}

impl Device for Queues<false> {
    const NAME: &'static str = "verbs";

    fn qp_num(&self) -> u32 {
        self.qp.id()
    }

    fn finish_send(&mut self, index: u64) {
        self.complete_send(index);
    }

    fn finish_recv(&mut self, slot: u64) {
        self.complete_recv(slot);
    }
}
