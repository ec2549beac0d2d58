//! The loop that `callgrind.sh` counts instructions in.
//!
//! Each operation is a function that is not inlined, so that callgrind can
//! attribute what is executed from its entry to its exit; `callgrind.sh` divides
//! by the number of calls. The argument chooses the operation.

use std::hint::black_box;

use e810_datapath::{Data, Op, PostError, RecvWr, Refused, Remote, SendFlags, SendWr, Sge, Wc};
use e810_tests::plain::{Plain, PlainCq, PlainRecv, PlainSend, Queues, Spec};

/// Batches of 64 operations; a whole number of laps of every ring.
const BATCHES: u64 = 192;
const BATCH: u64 = 64;

#[inline(never)]
#[unsafe(no_mangle)]
fn count_post(queue: &mut PlainSend<false>, list: &[SendWr<'_>]) -> Result<(), Refused> {
    queue.post_send(list)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn count_post_one(queue: &mut PlainSend<false>, wr: &SendWr<'_>) -> Result<(), PostError> {
    queue.post_one(wr)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn count_recv_one(queue: &mut PlainRecv<false>, wr: &RecvWr<'_>) -> Result<(), PostError> {
    queue.post_one(wr)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn count_recv(queue: &mut PlainRecv<false>, list: &[RecvWr<'_>]) -> Result<(), Refused> {
    queue.post_recv(list)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn count_poll(queue: &mut PlainCq<false>, wc: &mut [Wc]) -> usize {
    queue.poll(wc)
}

/// Only what is meant to be counted runs in `count_*`; this does not.
fn drain(rig: &mut Queues<false>) {
    let mut wc = [Wc::default(); 16];
    while rig.cq.poll(&mut wc) > 0 {}
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let rig = &mut Queues::<false>::new(&Spec::default());
    let _: Plain<false> = rig.platform;
    let sges = [Sge {
        addr: 0x1000,
        length: 64,
        lkey: 5,
    }];
    let bytes = [7u8; 32];
    let pieces = [&bytes[..]];
    let remote = Remote {
        addr: 0x2000,
        rkey: 6,
    };
    let send = Op::Send {
        data: Data::Sges(&sges),
        imm: None,
    };
    let (op, quanta) = match what.as_str() {
        "write" => (
            Op::Write {
                data: Data::Sges(&sges),
                remote,
                imm: None,
            },
            1,
        ),
        "inline" => (
            Op::Send {
                data: Data::Inline(&pieces),
                imm: None,
            },
            2,
        ),
        _ => (send, 1),
    };
    let wr = |wr_id| SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
    };
    let list: Vec<SendWr<'_>> = (0..BATCH).map(wr).collect();
    let mut wc = [Wc::default(); 16];
    let (mut sent, mut received) = (0, 0);
    for _ in 0..BATCHES {
        match what.as_str() {
            "send" | "write" | "inline" => {
                for wr in &list {
                    assert!(count_post_one(&mut rig.send, black_box(wr)).is_ok());
                }
            }
            "send_list1" => {
                for wr in &list {
                    let list = std::slice::from_ref(wr);
                    assert!(count_post(&mut rig.send, black_box(list)).is_ok());
                }
            }
            "list" => assert!(count_post(&mut rig.send, black_box(&list)).is_ok()),
            "recv" => {
                for wr_id in 0..BATCH {
                    let wr = RecvWr { wr_id, sges: &sges };
                    assert!(count_recv_one(&mut rig.recv, black_box(&wr)).is_ok());
                }
            }
            "recv_list1" => {
                for wr_id in 0..BATCH {
                    let wr = RecvWr { wr_id, sges: &sges };
                    assert!(count_recv(&mut rig.recv, black_box(&[wr])).is_ok());
                }
            }
            "poll_rq" | "poll_rq_1" => {
                for wr_id in 0..BATCH {
                    let wr = RecvWr { wr_id, sges: &sges };
                    assert!(rig.recv.post_recv(&[wr]).is_ok());
                }
            }
            "empty" => {
                for _ in 0..BATCH {
                    assert_eq!(count_poll(&mut rig.cq, black_box(&mut wc)), 0);
                }
                continue;
            }
            _ => assert!(rig.send.post_send(&list).is_ok()),
        }
        for i in 0..BATCH {
            if matches!(
                what.as_str(),
                "recv" | "recv_list1" | "poll_rq" | "poll_rq_1"
            ) {
                rig.complete_recv(received % 1024);
                received += 1;
            } else {
                rig.complete_send((sent + i * quanta) % 1024);
            }
        }
        sent += BATCH * quanta;
        match what.as_str() {
            "poll_sq" | "poll_rq" => {
                for _ in 0..BATCH / 16 {
                    assert_eq!(count_poll(&mut rig.cq, black_box(&mut wc)), 16);
                }
            }
            "poll_sq_1" | "poll_rq_1" => {
                for _ in 0..BATCH {
                    let one = wc.get_mut(..1).unwrap_or_default();
                    assert_eq!(count_poll(&mut rig.cq, black_box(one)), 1);
                }
            }
            _ => drain(rig),
        }
    }
    println!("{}", BATCHES * BATCH);
}
