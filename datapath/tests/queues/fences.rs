//! Fences: what the program asks for, and what its queue adds.

use e810_datapath::wr::{FastRegister, FastRegisterParts, Op, PageSize, SendFlags, SendWr};
use e810_datapath::{Remote, SendLimits, SendQueue};
use e810_hal::DmaWord;

use crate::common::{Bench, LIMITS, SGE, words};

const READ_FENCE: u64 = 1 << 60;
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

const REMOTE: Remote = Remote {
    addr: 0x8000,
    rkey: 9,
};
const READ: Op<'_> = Op::Read {
    into: &[SGE],
    remote: REMOTE,
};

/// Which of `ops` have READFENCE on a queue with a rate, posted one a call or in
/// one list.
fn read_fences(rate: u8, ops: &[Op<'_>], one_list: bool) -> Vec<bool> {
    let mut bench = Bench::new();
    let cq = bench.cq(0, 16);
    let qp = bench.qp(2, cq.key, cq.key);
    let ring = words(512 * 4);
    let limits = SendLimits {
        read_fence_rate: rate,
        ..LIMITS
    };
    let slots = bench.registry.slots().clone();
    let queue = SendQueue::new(bench.platform.clone(), ring, slots, qp.key, limits);
    let mut queue = queue.unwrap();
    let list: Vec<_> = ops
        .iter()
        .map(|&op| SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::empty(),
        })
        .collect();
    if one_list {
        queue.post_send(&list).unwrap();
    } else {
        for wr in &list {
            queue.post_one(wr).unwrap();
        }
    }
    (0..ops.len())
        .map(|at| ring[at * 4 + 3].get() & READ_FENCE != 0)
        .collect()
}

/// Existing drivers fence the READ after `rate` of them, and begin anew.
#[test]
fn reads_are_fenced_at_a_rate() {
    for one_list in [false, true] {
        for rate in [1, 4, 240] {
            let fenced = read_fences(rate, &[READ; 250], one_list);
            for (at, is) in fenced.into_iter().enumerate() {
                let due = at % (usize::from(rate) + 1) == usize::from(rate);
                assert_eq!(is, due, "rate {rate}, READ {at}");
            }
        }
        assert!(!read_fences(0, &[READ; 250], one_list).contains(&true));
    }
}

/// READs alone count, those with more SGEs or none and those that invalidate too.
#[test]
fn nothing_but_reads_counts_for_the_rate() {
    let write = Op::Write {
        data: e810_datapath::Data::Sges(&[SGE]),
        remote: REMOTE,
        imm: None,
    };
    let inv = Op::ReadInv {
        into: &[SGE],
        remote: REMOTE,
    };
    let empty = Op::Read {
        into: &[],
        remote: REMOTE,
    };
    let ops = [
        READ, write, inv, write, empty, write, READ, READ, READ, write,
    ];
    let fenced = read_fences(2, &ops, false);
    let due = [4, 8];
    for (at, is) in fenced.into_iter().enumerate() {
        assert_eq!(is, due.contains(&at), "request {at}");
    }
}
