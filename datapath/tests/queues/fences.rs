//! LOCALFENCE: what the program asks for, and what its queue adds.

use e810_datapath::wr::{FastRegister, FastRegisterParts, Op, PageSize, SendFlags, SendWr};
use e810_datapath::{SendLimits, SendQueue};
use e810_hal::Cell;

use crate::common::{Bench, LIMITS, words};

const LOCAL_FENCE: u64 = 1 << 61;

const REGION: FastRegister = FastRegister::from_parts(FastRegisterParts {
    stag_index: 1,
    stag_key: 2,
    start: 0x1000,
    zero_based: false,
    length: 4096,
    pages: 0x1000,
    listed: false,
    first_pble: 0,
    page_size: PageSize::Size4K,
    rights: 1,
});

/// LOCALFENCE in the header of a request, for flags without and with it.
fn fences(op: Op<'_>, local_fence: bool) -> [bool; 2] {
    [SendFlags::empty(), SendFlags::LOCAL_FENCE].map(|flags| {
        let mut bench = Bench::new();
        let cq = bench.cq(0, 16);
        let qp = bench.qp(2, cq.key, cq.key);
        let ring = words(512 * 4);
        let limits = SendLimits {
            local_fence,
            ..LIMITS
        };
        let slots = bench.registry.slots().clone();
        let queue = SendQueue::new(bench.platform.clone(), ring, slots, qp.key, limits);
        let wr_id = 1;
        queue
            .unwrap()
            .post_one(&SendWr { wr_id, op, flags })
            .unwrap();
        ring[3].get() & LOCAL_FENCE != 0
    })
}

/// As kernel drivers do, the queue's setting puts it into what changes keys.
#[test]
fn what_changes_keys_is_fenced() {
    for op in [Op::LocalInv { stag: 4 }, Op::FastRegister(&REGION)] {
        assert_eq!(fences(op, false), [false, true], "{op:?}");
        assert_eq!(fences(op, true), [true, true], "{op:?}");
    }
}

#[test]
fn nothing_else_is_fenced_unasked() {
    assert_eq!(fences(Op::Nop, true), [false, true]);
    let op = Op::Send {
        data: e810_datapath::Data::Sges(&[]),
        imm: None,
    };
    assert_eq!(fences(op, true), [false, true]);
}
