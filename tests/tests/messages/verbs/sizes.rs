//! The sizes that a device says it has can be had.

use e810::{Data, Op, SendFlags, SendWr, WcStatus};
use e810_tests::traffic::{Pair, Setup};

use crate::verbs::sim;

/// Linux' `irdma_create_cq` compares what is asked for with 1,048,575 before it
/// doubles it: cards take rings of twice that (21 bits in CREATE_CQ).
#[test]
fn a_completion_queue_of_the_greatest_size() {
    let sim = sim(41);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let most = side.control.query_device().max_cqe;
    for cqe in [most / 2, most] {
        let cq = side.control.create_cq(cqe, 0).unwrap();
        assert!(cq.entries() >= 2 * cqe);
        side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
    }
    // A resize alike, there and back, while it works.
    for cqe in [most, 16] {
        let side = &mut pair.sides[0];
        let cq = &mut side.cqs[0];
        side.control.resize_cq(cq, cqe).unwrap();
        for wr_id in 0..3 {
            let request = SendWr {
                wr_id,
                op: Op::Send {
                    data: Data::Inline(&[]),
                    imm: None,
                },
                flags: SendFlags::SIGNALED,
            };
            pair.sides[1].post_recv(0, wr_id, &[]).unwrap();
            pair.sides[0].post_send(0, &[request]).unwrap();
            assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
            assert_eq!(pair.completions(1, 1)[0].status, WcStatus::Success);
        }
    }
    pair.finish(&sim);
}

/// What Linux' irdma says: `page_size_cap` of 4 KiB, 2 MiB and 1 GiB.
#[test]
fn the_page_sizes_of_a_region() {
    let sim = sim(42);
    let pair = Pair::simulated(&sim, Setup::default());
    assert_eq!(pair.sides[0].control.query_device().page_sizes, 0x4020_1000);
    pair.finish(&sim);
}
