//! The library's side.

// UNSAFETY: calls C.

use std::cell::RefCell;
use std::hint::black_box;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use e810_hal::DmaWord;

use super::{BATCH, Contestant, INLINE_BYTES, RING, Row, Single};
use crate::abi::{
    CRecvWr, CSendWr, CSge, CWc, Cq, PollCq, PostRecv, PostSend, Qp, QpCap, opcode, qp_type,
    send_flag,
};
use crate::kernel::Paper;
use crate::library::{Library, NotRun};
use crate::opened::{Calls, LibraryCq, LibraryQp, Opened};

// The calls that are counted go through these, so that an instruction counter
// finds them by name. The function comes last, so that nothing has to be moved
// for the jump, and at another place in each, so that a compiler does not find
// them equal and make one of all three.

/// # Safety
/// As `ibv_post_send`.
#[inline(never)]
#[unsafe(no_mangle)]
unsafe extern "C" fn library_post_send(
    qp: *mut Qp,
    wr: *mut CSendWr,
    bad: *mut *mut CSendWr,
    call: PostSend,
) -> i32 {
    // SAFETY: passed on.
    unsafe { call(qp, wr, bad) }
}

/// # Safety
/// As `ibv_post_recv`.
#[inline(never)]
#[unsafe(no_mangle)]
unsafe extern "C" fn library_post_recv(
    qp: *mut Qp,
    wr: *mut CRecvWr,
    bad: *mut *mut CRecvWr,
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
unsafe extern "C" fn library_poll_cq(
    cq: *mut Cq,
    room: i32,
    wc: *mut CWc,
    _places: usize,
    _and_one: usize,
    call: PollCq,
) -> i32 {
    // SAFETY: passed on.
    unsafe { call(cq, room, wc) }
}

/// A queue pair of the library on plain memory, and the harness that completes
/// its requests.
pub struct LibrarySide {
    _opened: Opened,
    calls: Calls,
    cq: LibraryCq,
    qp: LibraryQp,
    /// CQEs, sends and receives so far.
    written: u64,
    sent: u64,
    received: u64,
    wc: [CWc; BATCH],
}

impl LibrarySide {
    /// Rings of [`RING`] quanta, slots and entries.
    ///
    /// # Errors
    /// The library cannot be used.
    pub fn new(library: &Library) -> Result<Self, NotRun> {
        let opened = library.open(Rc::new(RefCell::new(Paper::default())))?;
        let failed = |error: std::io::Error| NotRun::NotLoaded(error.to_string());
        let calls = opened.calls().map_err(failed)?;
        let pd = opened.alloc_pd().map_err(failed)?;
        // (511 + 1) * 2 entries; (383 << 1) + 258 quanta, rounded up; 1023 + 1 slots.
        let cq = opened.create_cq(511).map_err(failed)?;
        let cap = QpCap {
            max_send_wr: 383,
            max_recv_wr: 1023,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 39,
        };
        let qp = opened
            .create_qp(pd, &cq, qp_type::RC, cap, false)
            .map_err(failed)?;
        let sizes = [qp.sq().len(), qp.rq().len(), cq.ring().len()];
        if sizes != [RING as usize * 4; 3] {
            return Err(NotRun::OtherShape("its rings have other sizes"));
        }
        Ok(Self {
            _opened: opened,
            calls,
            cq,
            qp,
            written: 0,
            sent: 0,
            received: 0,
            wc: [CWc::default(); BATCH],
        })
    }

    /// Writes a CQE as the device does: the valid bit of its lap last.
    #[inline(always)]
    fn complete(&mut self, length: u64, q3: u64) {
        let valid = u64::from((self.written / RING).is_multiple_of(2)) << 63;
        let at = (self.written % RING) as usize * 4;
        self.written += 1;
        let ring: &[AtomicU64] = self.cq.ring();
        if let Some([w0, w1, w2, w3]) = ring.get(at..).and_then(|rest| rest.first_chunk()) {
            w0.set(length);
            w1.set(self.qp.context);
            w2.set(u64::from(self.qp.id) << 32);
            w3.publish(q3 | valid);
        }
    }

    #[inline(always)]
    fn post_one(&self, wr: &mut CSendWr) -> bool {
        let mut bad = ptr::null_mut();
        // SAFETY: a QP that lives; a list of one with a valid SGE.
        let code = unsafe {
            library_post_send(
                self.qp.as_ptr(),
                black_box(wr),
                &mut bad,
                self.calls.post_send,
            )
        };
        code == 0
    }
}

const SGE: CSge = CSge {
    addr: 0x1000_0000,
    length: 64,
    lkey: 0x500,
};

impl Contestant for LibrarySide {
    fn name(&self) -> &'static str {
        "library"
    }

    fn symbol(&self, row: Row) -> &'static str {
        match row {
            Row::Post(_) | Row::Chain(_) => "library_post_send",
            Row::Recv => "library_post_recv",
            Row::PollSend(_) | Row::PollRecv(_) | Row::Empty => "library_poll_cq",
        }
    }

    #[inline(never)]
    fn post(&mut self, what: Single) -> bool {
        let bytes = [7u8; INLINE_BYTES];
        let mut sges = [SGE];
        let mut wr = CSendWr::new(opcode::SEND, send_flag::SIGNALED);
        match what {
            Single::Send => {}
            Single::Write => {
                wr.opcode = opcode::RDMA_WRITE;
                wr.remote = 0x2000_0000;
                wr.rkey = 0x600;
            }
            Single::Inline => {
                wr.send_flags |= send_flag::INLINE;
                sges = [CSge {
                    addr: bytes.as_ptr().expose_provenance() as u64,
                    length: INLINE_BYTES as u32,
                    lkey: 0,
                }];
            }
        }
        wr.set_sges(black_box(&sges));
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            good &= self.post_one(&mut wr);
        }
        good
    }

    #[inline(never)]
    fn post_chains(&mut self, length: usize) -> bool {
        let sges = [SGE];
        let mut wr = CSendWr::new(opcode::SEND, send_flag::SIGNALED);
        wr.set_sges(black_box(&sges));
        let mut list = [wr; BATCH];
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
            let mut bad = ptr::null_mut();
            // SAFETY: a QP that lives; a list that ends with null.
            let code = unsafe {
                library_post_send(
                    self.qp.as_ptr(),
                    black_box(next),
                    &mut bad,
                    self.calls.post_send,
                )
            };
            good &= code == 0;
        }
        good
    }

    #[inline(never)]
    fn post_recv(&mut self) -> bool {
        let sges = [SGE];
        let mut wr = CRecvWr::new(0, black_box(&sges));
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            let mut bad = ptr::null_mut();
            // SAFETY: a QP that lives; a list of one.
            let code = unsafe {
                library_post_recv(
                    self.qp.as_ptr(),
                    black_box(&mut wr),
                    &mut bad,
                    0,
                    self.calls.post_recv,
                )
            };
            good &= code == 0;
        }
        good
    }

    fn complete_sends(&mut self, quanta: u64) {
        for _ in 0..BATCH {
            self.complete(0, 1 << 62 | 0x03 << 56 | (self.sent % RING) << 32);
            self.sent += quanta;
        }
    }

    fn complete_recvs(&mut self) {
        for _ in 0..BATCH {
            self.complete(64, 0x04 << 56 | (self.received % RING) << 32);
            self.received += 1;
        }
    }

    #[inline(never)]
    fn poll(&mut self, at_once: usize) -> bool {
        let (cq, call) = (self.cq.as_ptr(), self.calls.poll_cq);
        let wc = black_box(self.wc.as_mut_ptr());
        let mut left = BATCH as i32;
        while left > 0 {
            // SAFETY: a CQ that lives, and room for `at_once` completions, which
            // is at most a batch.
            let got = unsafe { library_poll_cq(cq, at_once.min(BATCH) as i32, wc, 0, 0, call) };
            if got <= 0 {
                return false;
            }
            left -= got;
        }
        true
    }

    #[inline(never)]
    fn poll_empty(&mut self) -> bool {
        let (cq, call) = (self.cq.as_ptr(), self.calls.poll_cq);
        let wc = black_box(self.wc.as_mut_ptr());
        let mut got = 0;
        for _ in 0..BATCH {
            // SAFETY: a CQ that lives, room for one.
            got |= unsafe { library_poll_cq(cq, 1, wc, 0, 0, call) };
        }
        got == 0
    }

    fn poll_and_check(&mut self) -> bool {
        let (cq, call) = (self.cq.as_ptr(), self.calls.poll_cq);
        // SAFETY: a CQ that lives, room for a batch.
        let got = unsafe { library_poll_cq(cq, BATCH as i32, self.wc.as_mut_ptr(), 0, 0, call) };
        got == BATCH as i32
            && self
                .wc
                .iter()
                .zip(0..)
                .all(|(wc, wr_id)| wc.wr_id == wr_id && wc.status == 0 && wc.qp_num == self.qp.id)
    }
}
