//! Requests that cannot be posted, alone and together.

use std::ptr;

use e810_verbs::abi::extended::QpEx;
use e810_verbs::abi::work::{DataBuf, RecvWr, SendWr, Sge, Wc};

use crate::harness::connection::{INCOMING, MEMORY};
use crate::harness::objects::{DEPTH, RC, UD, address, flag, opcode};
use crate::harness::{ALONE, Connection, Cq, Ctx, memory, until};

#[test]
fn inline_data_at_no_address_is_refused_before_it_is_read() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    for length in [1, 16, 4096] {
        let nowhere = Sge {
            addr: 0,
            length,
            lkey: 0,
        };
        let flags = flag::SIGNALED | flag::INLINE;
        assert_eq!(connection.a.send_of(1, nowhere, flags), libc::EINVAL);
    }
    // The queue is as it was.
    connection.send(2, 0);
    assert_eq!(connection.cqs[0].wait(1)[0].wr_id, 2);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_program_need_not_ask_which_request_was_refused() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let mut wrong = SendWr {
        opcode: opcode::BIND_MW,
        ..SendWr::default()
    };
    // SAFETY: it is there; the function is its context's, and takes one request.
    let refused = unsafe {
        let post = (*(*connection.a.0).context).ops.post_send.unwrap();
        post(connection.a.0, &raw mut wrong, ptr::null_mut())
    };
    assert_eq!(refused, libc::EINVAL);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

/// Memory for one value at an odd address.
struct Odd(Vec<u8>);

impl Odd {
    fn with<T: Copy>(value: T) -> Self {
        let mut odd = Self(vec![0; size_of::<T>() + 1]);
        // SAFETY: there is room for one.
        unsafe { odd.place::<T>().write_unaligned(value) };
        odd
    }

    fn place<T>(&mut self) -> *mut T {
        let start = self.0.as_mut_ptr();
        start
            .wrapping_add(usize::from(start.addr().is_multiple_of(2)))
            .cast()
    }
}

/// libiscsi has its requests and SGEs in packed structures.
#[test]
fn requests_sges_and_completions_need_not_be_aligned() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let (mr, [sent, received]) = (connection.mr, connection.cqs);
    let start = mr.sge(0, 0).addr as usize as *mut u8;
    let two = |at: usize| Odd::with([mr.sge(at, 8), mr.sge(at + 8, 24)]);
    // SAFETY: the functions are the contexts', and take lists that are there; the memory is the test's.
    unsafe {
        let ops = &(*(*connection.a.0).context).ops;
        for (round, (pieces, flags)) in [(1, 0), (2, 0), (1, flag::INLINE), (2, flag::INLINE)]
            .into_iter()
            .enumerate()
        {
            for at in 0..32 {
                start.add(at).write((round * 40 + at) as u8);
                start.add(INCOMING + at).write(0);
            }
            let (mut from, mut to) = (two(0), two(INCOMING));
            let (mut bad_recv, mut bad_send) = (ptr::null_mut(), ptr::null_mut());
            // A list of two: the second has nothing to send, or to receive.
            let mut recv_next = Odd::with(RecvWr {
                wr_id: 2,
                ..RecvWr::default()
            });
            let mut recv = Odd::with(RecvWr {
                wr_id: 1,
                next: recv_next.place(),
                sg_list: to.place(),
                num_sge: pieces,
                ..RecvWr::default()
            });
            let post = ops.post_recv.unwrap();
            assert_eq!(post(connection.b.0, recv.place(), &raw mut bad_recv), 0);
            let nothing = SendWr {
                wr_id: 4,
                opcode: opcode::SEND,
                send_flags: flag::SIGNALED,
                ..SendWr::default()
            };
            let mut send_next = Odd::with(nothing);
            let mut send = Odd::with(SendWr {
                wr_id: 3,
                next: if round == 0 {
                    ptr::null_mut()
                } else {
                    send_next.place()
                },
                sg_list: from.place(),
                num_sge: pieces,
                send_flags: flag::SIGNALED | flags,
                ..nothing
            });
            let post = ops.post_send.unwrap();
            assert_eq!(post(connection.a.0, send.place(), &raw mut bad_send), 0);
            if round == 0 {
                assert_eq!(
                    post(connection.a.0, send_next.place(), &raw mut bad_send),
                    0
                );
            }
            for (cq, first) in [(received, 1), (sent, 3)] {
                for wr_id in [first, first + 1] {
                    let mut found = Odd::with([Wc::default(); 2]);
                    let poll = ops.poll_cq.unwrap();
                    // For one at a time, and for more than there are.
                    let most = if wr_id == first { 1 } else { 2 };
                    until("a completion", || poll(cq.0, most, found.place()) == 1);
                    let wc = found.place::<Wc>().read_unaligned();
                    assert_eq!((wc.wr_id, wc.status), (wr_id, 0), "round {round}");
                }
            }
            let length = if pieces == 1 { 8 } else { 32 };
            for at in 0..32 {
                let expected = if at < length {
                    (round * 40 + at) as u8
                } else {
                    0
                };
                assert_eq!(
                    start.add(INCOMING + at).read(),
                    expected,
                    "round {round}, byte {at}"
                );
            }
        }
    }
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

/// Asks for a signaled SEND of so many SGEs of 8 bytes.
fn send(qp: &mut QpEx, wr_id: u64, sge: Sge, count: usize) {
    (qp.wr_id, qp.wr_flags) = (wr_id, flag::SIGNALED);
    let sges = vec![Sge { length: 8, ..sge }; count];
    // SAFETY: between `ibv_wr_start` and `ibv_wr_complete`; the SGEs can be read.
    unsafe {
        qp.wr_send.unwrap()(qp);
        qp.wr_set_sge_list.unwrap()(qp, sges.len(), sges.as_ptr());
    }
}

/// Requests are posted together or not at all (`ibv_wr_post(3)`): a program that posts them again
/// would send what was posted twice.
#[test]
fn requests_that_are_refused_together_send_nothing() {
    let ctx = Ctx::open(ALONE);
    let pd = ctx.pd();
    let cqs = [1, 2].map(|word| ctx.cq(1024, word, None));
    let mr = pd.mr(memory(MEMORY));
    let (a, b) = (pd.extended_qp(RC, cqs[0]), pd.qp(RC, cqs[1], cqs[1]));
    a.connect(b.number(), ctx.gid(1), 1);
    b.connect(a.number(), ctx.gid(1), 1);
    for wr_id in 0..u64::from(DEPTH) {
        assert_eq!(b.recv(wr_id, mr.sge(MEMORY / 2, 64)), 0);
    }
    let sge = mr.sge(0, 8);
    let bytes = [7_u8; 101];
    // Behind a good one: more than there is room for, more SGEs than the queue pair has, more
    // inline bytes, and in pieces.
    let too_many = a.together(|qp| (0..2000).for_each(|n| send(qp, n, sge, 1)));
    assert_eq!(too_many, libc::ENOMEM);
    let too_wide = a.together(|qp| {
        send(qp, 1, sge, 1);
        send(qp, 2, sge, 2);
    });
    assert_eq!(too_wide, libc::EINVAL);
    for pieces in [1, 3] {
        let too_long = a.together(|qp| {
            send(qp, 1, sge, 1);
            let pieces = vec![
                DataBuf {
                    addr: bytes.as_ptr().cast_mut().cast(),
                    length: 33_usize.div_ceil(pieces),
                };
                pieces
            ];
            // SAFETY: as in `send`; the bytes can be read.
            unsafe {
                qp.wr_send.unwrap()(qp);
                qp.wr_set_inline_data_list.unwrap()(qp, pieces.len(), pieces.as_ptr());
            }
        });
        assert_eq!(too_long, libc::EINVAL, "{pieces} pieces");
    }
    // Those that can be posted are all that arrives, and the queue is as it was.
    let both = a.together(|qp| {
        send(qp, 100, sge, 1);
        send(qp, 101, sge, 1);
    });
    assert_eq!(both, 0);
    let sent: Vec<u64> = cqs[0].wait(2).iter().map(|wc| wc.wr_id).collect();
    assert_eq!(sent, [100, 101]);
    assert_eq!(cqs[1].wait(2).len(), 2);
    assert!(cqs[1].poll(1).is_empty(), "a SEND that was refused arrived");
    assert_eq!([a.destroy(), b.destroy()], [0; 2]);

    // A datagram without an address, behind one that has one, to a queue pair of this function.
    let (c, d) = (pd.extended_qp(UD, cqs[0]), pd.qp(UD, cqs[1], cqs[1]));
    for qp in [c, d] {
        qp.datagrams(5);
    }
    assert_eq!(d.recv(1, mr.sge(MEMORY / 2, 64)), 0);
    assert_eq!(d.recv(2, mr.sge(MEMORY / 2, 64)), 0);
    let ah = pd.try_ah(address(ctx.gid(1), 1)).unwrap();
    let to = |qp: &mut QpEx| {
        // SAFETY: as in `send`; the handle is there.
        unsafe { qp.wr_set_ud_addr.unwrap()(qp, ah.0, d.number(), 5) };
    };
    let nowhere = c.together(|qp| {
        send(qp, 1, sge, 1);
        to(qp);
        send(qp, 2, sge, 1);
    });
    assert_eq!(nowhere, libc::EINVAL);
    let somewhere = c.together(|qp| {
        send(qp, 3, sge, 1);
        to(qp);
    });
    assert_eq!(somewhere, 0);
    assert_eq!(cqs[0].wait(1)[0].wr_id, 3);
    assert_eq!(cqs[1].wait(1)[0].wr_id, 1);
    assert!(cqs[1].poll(1).is_empty(), "the first datagram arrived too");
    assert_eq!(ah.destroy(), 0);
    assert_eq!([c.destroy(), d.destroy()], [0; 2]);
    assert_eq!(cqs.map(Cq::destroy), [0; 2]);
    assert_eq!([mr.dereg(), pd.free()], [0; 2]);
    assert_eq!(ctx.close(), 0);
}
