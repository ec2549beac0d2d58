//! Our side through verbs: `ibv_post_send` and the others as `verbs.h` calls them, through the
//! context's pointers.

// UNSAFETY: calls the functions as C does.

use std::hint::black_box;
use std::{mem, ptr};

use e810::{CqRing, QpRecv, QpSend};
use e810_tests::plain::{Plain, Queues, Spec};
use e810_verbs::abi::objects::{Cq, Qp};
use e810_verbs::abi::work::{RdmaTarget, RecvWr, SendTarget, SendWr, Sge, Wc};
use e810_verbs::rings::DataPathOps;
use e810_verbs::testing::{cq_on, data_path, qp_on};

use super::{BATCH, Contestant, INLINE_BYTES, RING, Row, Single};

// As the library's: see there.

type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> i32;
type PostRecv = unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> i32;
type PollCq = unsafe extern "C" fn(*mut Cq, i32, *mut Wc) -> i32;

/// # Safety
/// As `ibv_post_send`.
#[inline(never)]
#[unsafe(no_mangle)]
unsafe extern "C" fn verbs_post_send(
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
unsafe extern "C" fn verbs_post_recv(
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
unsafe extern "C" fn verbs_poll_cq(
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

/// Objects of verbs on plain memory.
pub struct VerbsSide {
    /// The device's side of their rings; its own queues are spare ones.
    rig: Queues<false>,
    ops: &'static DataPathOps,
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

/// `IBV_SEND_SIGNALED` and `IBV_SEND_INLINE`; `IBV_WR_SEND` and `IBV_WR_RDMA_WRITE`.
const SIGNALED: u32 = 1 << 1;
const INLINE: u32 = 1 << 3;
const SEND: i32 = 2;
const RDMA_WRITE: i32 = 0;

fn send(sges: &[Sge; 1]) -> SendWr {
    // SAFETY: numbers and null pointers.
    let mut wr: SendWr = unsafe { mem::zeroed() };
    wr.sg_list = sges.as_ptr().cast_mut();
    wr.num_sge = 1;
    wr.opcode = SEND;
    wr.send_flags = SIGNALED;
    wr
}

impl VerbsSide {
    /// Rings of [`RING`] quanta, slots and entries.
    ///
    /// # Panics
    /// Without memory.
    #[must_use]
    pub fn new() -> Self {
        let mut rig = Queues::<false>::new(&Spec::default());
        let spare = Queues::<false>::new(&Spec::default());
        let send = QpSend::over(mem::replace(&mut rig.send, spare.send));
        let recv = QpRecv::over(mem::replace(&mut rig.recv, spare.recv));
        let cq = mem::replace(&mut rig.cq, spare.cq);
        let cq = CqRing::over(&rig.platform, cq);
        let cq = cq.unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            rig,
            ops: data_path::<Plain<false>>(),
            qp: qp_on(send, recv),
            cq: cq_on(cq),
            sent: 0,
            received: 0,
            // SAFETY: numbers.
            wc: unsafe { mem::zeroed() },
        }
    }

    #[inline(always)]
    fn post_list(&self, wr: &mut SendWr) -> bool {
        let mut bad = ptr::null_mut();
        let call = self.ops.post_send;
        // SAFETY: a queue pair that lives; a list with valid SGEs.
        unsafe { verbs_post_send(self.qp, black_box(wr), &raw mut bad, call) == 0 }
    }

    #[inline(always)]
    fn poll_some(&mut self, at_once: usize) -> usize {
        let room = self.wc.get_mut(..at_once).unwrap_or_default();
        let (place, room) = (black_box(room.as_mut_ptr()), room.len() as i32);
        // SAFETY: a completion queue that lives, and room for so many.
        unsafe { verbs_poll_cq(self.cq, room, place, 0, 0, self.ops.poll_cq) as usize }
    }
}

impl Default for VerbsSide {
    fn default() -> Self {
        Self::new()
    }
}

impl Contestant for VerbsSide {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn symbol(&self, row: Row) -> &'static str {
        match row {
            Row::Post(_) | Row::Chain(_) => "verbs_post_send",
            Row::Recv => "verbs_post_recv",
            Row::PollSend(_) | Row::PollRecv(_) | Row::Empty => "verbs_poll_cq",
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
        let mut wr = send(black_box(&sges));
        match what {
            Single::Send => {}
            Single::Write => {
                wr.opcode = RDMA_WRITE;
                wr.wr = SendTarget {
                    rdma: RdmaTarget {
                        remote_addr: 0x2000_0000,
                        rkey: 0x600,
                    },
                };
            }
            Single::Inline => wr.send_flags |= INLINE,
        }
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            good &= self.post_list(&mut wr);
        }
        good
    }

    #[inline(never)]
    fn post_chains(&mut self, length: usize) -> bool {
        let sges = [SGE];
        let mut list = [send(&sges); BATCH];
        let mut wr_id = 0;
        let mut good = true;
        for _ in 0..BATCH / length {
            let list = list.get_mut(..length).unwrap_or_default();
            let mut next = ptr::null_mut();
            for wr in list.iter_mut().rev() {
                wr.next = next;
                next = wr;
            }
            for wr in list.iter_mut() {
                wr.wr_id = wr_id;
                wr_id += 1;
            }
            good &= list.first_mut().is_some_and(|wr| self.post_list(wr));
        }
        good
    }

    #[inline(never)]
    fn post_recv(&mut self) -> bool {
        let mut sges = [SGE];
        let mut wr = RecvWr {
            wr_id: 0,
            next: ptr::null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: 1,
        };
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            let mut bad = ptr::null_mut();
            let call = self.ops.post_recv;
            // SAFETY: a queue pair that lives; a list of one with a valid SGE.
            good &=
                unsafe { verbs_post_recv(self.qp, black_box(&mut wr), &raw mut bad, 0, call) } == 0;
        }
        good
    }

    fn complete_sends(&mut self, quanta: u64) {
        for _ in 0..BATCH {
            self.rig.complete_send(self.sent % RING);
            self.sent += quanta;
        }
    }

    fn complete_recvs(&mut self) {
        for _ in 0..BATCH {
            self.rig.complete_recv(self.received % RING);
            self.received += 1;
        }
    }

    #[inline(never)]
    fn poll(&mut self, at_once: usize) -> bool {
        let mut left = BATCH;
        while left > 0 {
            let got = self.poll_some(at_once);
            if got == 0 || got > left {
                return false;
            }
            left -= got;
        }
        true
    }

    #[inline(never)]
    fn poll_empty(&mut self) -> bool {
        let mut got = 0;
        for _ in 0..BATCH {
            got |= self.poll_some(1);
        }
        got == 0
    }

    fn poll_and_check(&mut self) -> bool {
        let id = self.rig.qp.id();
        let got = self.poll_some(BATCH);
        let mut completions = self.wc.iter().zip(0..);
        got == BATCH
            && completions.all(|(wc, wr_id)| wc.wr_id == wr_id && wc.status == 0 && wc.qp_num == id)
    }
}
