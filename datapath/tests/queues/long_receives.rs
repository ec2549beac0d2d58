//! Receives of more bytes than a message may have.

use e810_datapath::sizing::RqSize;
use e810_datapath::{PostError, RecvQueue, RecvWr, Sge};
use e810_hal::DmaWord;

use crate::common::{Bench, SGE, words};

/// Slots of three SGEs.
const SLOTS: RqSize = RqSize {
    slots: 8,
    shift: 1,
    max_wr: 7,
};

/// Their sum is no length of anything: a message ends before it. Existing drivers
/// do not add it up either.
#[test]
fn a_list_may_be_longer_than_any_message() {
    let longest = Sge {
        length: 0x7FFF_FFFF,
        ..SGE
    };
    let too_long = Sge {
        length: 1 << 31,
        ..SGE
    };
    let mut bench = Bench::new();
    let cq = bench.cq(0, 16);
    let qp = bench.qp(2, cq.key, cq.key);
    let ring = words(16 * 4);
    let slots = bench.registry.slots().clone();
    let queue = RecvQueue::new(bench.platform.clone(), ring, slots, qp.key, SLOTS, 3);
    let mut queue = queue.unwrap();
    let wr = RecvWr {
        wr_id: 1,
        sges: &[longest; 3],
    };
    queue.post_recv(&[wr]).unwrap();
    queue.post_one(&wr).unwrap();
    // q1, and the second words of what follows.
    for entry in [0, 8] {
        for word in [1, 5, 7] {
            assert_eq!(ring[entry + word].get() >> 32 & 0x7FFF_FFFF, 0x7FFF_FFFF);
        }
    }
    let wr = RecvWr {
        wr_id: 2,
        sges: &[longest, too_long],
    };
    let refused = queue.post_recv(&[wr]).unwrap_err();
    assert_eq!(
        refused.error,
        PostError::SgeTooLong {
            index: 1,
            length: 1 << 31,
            limit: 0x7FFF_FFFF,
        }
    );
}
