//! A side that is called as `verbs.h` calls it: through function pointers, with
//! its structures.

// UNSAFETY: calls the functions as C does.

use std::hint::black_box;
use std::ptr;

use e810_verbs::abi::constants::{opcode, send_flag};
use e810_verbs::abi::objects::{Cq, Qp};
use e810_verbs::abi::work::{RdmaTarget, RecvWr, SendWr, Sge, Wc};

use super::{BATCH, Contestant, INLINE_BYTES, RING, Row, Single};
use crate::abi::{PollCq, PostRecv, PostSend};
use crate::opened::Calls;

// The calls that are counted go through these, so that an instruction counter
// finds them by name. The function comes last, so that nothing has to be moved
// for the jump, and at another place in each, so that a compiler does not find
// them equal and make one of all three.

/// # Safety
/// As `ibv_post_send`.
#[inline(never)]
#[unsafe(no_mangle)]
unsafe extern "C" fn pointer_post_send(
    qp: *mut Qp,
    wr: *mut SendWr,
    bad: *mut *mut SendWr,
    call: PostSend,
) -> i32 {
    // SAFETY: passed on.
    unsafe { call(qp, wr, bad) }
}

/// # Safety
/// As `ibv_post_recv`.
#[inline(never)]
#[unsafe(no_mangle)]
unsafe extern "C" fn pointer_post_recv(
    qp: *mut Qp,
    wr: *mut RecvWr,
    bad: *mut *mut RecvWr,
    _place: usize,
    call: PostRecv,
) -> i32 {
    // SAFETY: passed on.
    unsafe { call(qp, wr, bad) }
}

/// # Safety
/// As `ibv_poll_cq`.
#[inline(never)]
#[unsafe(no_mangle)]
unsafe extern "C" fn pointer_poll_cq(
    cq: *mut Cq,
    room: i32,
    wc: *mut Wc,
    _places: usize,
    _and_one: usize,
    call: PollCq,
) -> i32 {
    // SAFETY: passed on.
    unsafe { call(cq, room, wc) }
}

/// The device's side of the queues.
pub trait Device {
    /// The contestant's name.
    const NAME: &'static str;
    /// The number of the queue pair.
    fn qp_num(&self) -> u32;
    /// Completes the send at an index of the ring.
    fn finish_send(&mut self, index: u64);
    /// Completes the receive in a slot.
    fn finish_recv(&mut self, slot: u64);
}

/// A queue pair and a completion queue behind pointers, and the harness that
/// completes their requests.
pub struct PointerSide<D> {
    device: D,
    calls: Calls,
    qp: *mut Qp,
    cq: *mut Cq,
    sent: u64,
    received: u64,
    wc: [Wc; BATCH],
}

const SGE: Sge = Sge {
    addr: 0x1000_0000,
    length: 64,
    lkey: 0x500,
};

fn send(sges: &mut [Sge; 1]) -> SendWr {
    SendWr {
        sg_list: black_box(sges.as_mut_ptr()),
        num_sge: 1,
        opcode: opcode::SEND,
        send_flags: send_flag::SIGNALED,
        ..SendWr::default()
    }
}

impl<D> PointerSide<D> {
    /// Over objects that live as long as `device`, and their functions.
    pub(super) fn over(device: D, calls: Calls, qp: *mut Qp, cq: *mut Cq) -> Self {
        Self {
            device,
            calls,
            qp,
            cq,
            sent: 0,
            received: 0,
            wc: [Wc::default(); BATCH],
        }
    }

    #[inline(always)]
    fn post_list(&self, wr: *mut SendWr) -> bool {
        let mut bad = ptr::null_mut();
        let call = self.calls.post_send;
        // SAFETY: a queue pair that lives; a list that ends with null, with valid SGEs.
        unsafe { pointer_post_send(self.qp, black_box(wr), &raw mut bad, call) == 0 }
    }
}

impl<D: Device> Contestant for PointerSide<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn symbol(&self, row: Row) -> &'static str {
        match row {
            Row::Post(_) | Row::Chain(_) => "pointer_post_send",
            Row::Recv => "pointer_post_recv",
            Row::PollSend(_) | Row::PollRecv(_) | Row::Empty => "pointer_poll_cq",
        }
    }

    #[inline(never)]
    fn post(&mut self, what: Single) -> bool {
        let bytes = [7u8; INLINE_BYTES];
        let mut sges = [SGE];
        if what == Single::Inline {
            sges = [Sge {
                addr: bytes.as_ptr().expose_provenance() as u64,
                length: INLINE_BYTES as u32,
                lkey: 0,
            }];
        }
        let mut wr = send(&mut sges);
        match what {
            Single::Send => {}
            Single::Write => {
                wr.opcode = opcode::RDMA_WRITE;
                wr.wr.rdma = RdmaTarget {
                    remote_addr: 0x2000_0000,
                    rkey: 0x600,
                };
            }
            Single::Inline => wr.send_flags |= send_flag::INLINE,
        }
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            good &= self.post_list(&raw mut wr);
        }
        good
    }

    #[inline(never)]
    fn post_chains(&mut self, length: usize) -> bool {
        let mut sges = [SGE];
        let mut list = [send(&mut sges); BATCH];
        let mut wr_id = 0;
        let mut good = true;
        for _ in 0..BATCH / length {
            let mut next = ptr::null_mut();
            for wr in list.iter_mut().take(length).rev() {
                wr.next = next;
                next = ptr::from_mut(wr);
            }
            for wr in list.iter_mut().take(length) {
                wr.wr_id = wr_id;
                wr_id += 1;
            }
            good &= self.post_list(next);
        }
        good
    }

    #[inline(never)]
    fn post_recv(&mut self) -> bool {
        let mut sges = [SGE];
        let mut wr = RecvWr {
            wr_id: 0,
            sg_list: black_box(sges.as_mut_ptr()),
            num_sge: 1,
            ..RecvWr::default()
        };
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            let (wr, mut bad) = (black_box(&raw mut wr), ptr::null_mut());
            let call = self.calls.post_recv;
            // SAFETY: a queue pair that lives; a list of one with a valid SGE.
            good &= unsafe { pointer_post_recv(self.qp, wr, &raw mut bad, 0, call) } == 0;
        }
        good
    }

    fn complete_sends(&mut self, quanta: u64) {
        for _ in 0..BATCH {
            self.device.finish_send(self.sent % RING);
            self.sent += quanta;
        }
    }

    fn complete_recvs(&mut self) {
        for _ in 0..BATCH {
            self.device.finish_recv(self.received % RING);
            self.received += 1;
        }
    }

    #[inline(always)]
    fn poll_some(&mut self, at_once: usize) -> usize {
        let room = self.wc.get_mut(..at_once).unwrap_or_default();
        let (wc, room) = (black_box(room.as_mut_ptr()), room.len() as i32);
        // SAFETY: a completion queue that lives, and room for so many.
        unsafe { pointer_poll_cq(self.cq, room, wc, 0, 0, self.calls.poll_cq) as usize }
    }

    fn poll_and_check(&mut self) -> bool {
        let id = self.device.qp_num();
        let got = self.poll_some(BATCH);
        let mut completions = self.wc.iter().zip(0..);
        got == BATCH
            && completions.all(|(wc, wr_id)| wc.wr_id == wr_id && wc.status == 0 && wc.qp_num == id)
    }
}
