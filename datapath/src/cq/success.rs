//! What a successful entry completes; the same in all paths.

use super::entry;
use crate::slot::Atom;
use crate::status::{WcOpcode, WcStatus};
use crate::track::Tracker;
use crate::wc::{Wc, WcFlags};

/// Operation and bytes of the request that a common entry of a send queue names. `None`
/// where the entry takes the slow path: a completion that was not asked for, or an
/// operation that depends on what was posted.
#[inline(always)]
pub(super) fn sent<A: Atom>(tracker: &Tracker<'_, A>, q3: u64) -> Option<(WcOpcode, u32)> {
    let tag = tracker.tag();
    if !tag.is_expected() {
        return None;
    }
    Some((WcOpcode::of_sq(entry::op_byte(q3))?, tag.bytes()))
}

/// Operation and bytes of a receive that a common entry names: that of a send, since
/// any other is not common.
#[inline(always)]
pub(super) fn received(q0: u64) -> (WcOpcode, u32) {
    (WcOpcode::Recv, entry::payload_bytes(q0))
}

/// A completion without flags and immediate data.
#[inline(always)]
pub(super) fn completion(
    wr_id: u64,
    qp_num: u32,
    status: WcStatus,
    (opcode, byte_len): (WcOpcode, u32),
) -> Wc {
    Wc {
        wr_id,
        byte_len,
        qp_num,
        src_qp: qp_num,
        imm: 0,
        vendor_err: 0,
        flags: WcFlags::empty(),
        status,
        opcode,
    }
}
