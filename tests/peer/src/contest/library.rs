//! The library's side.

use std::cell::RefCell;
use std::rc::Rc;

use e810_tests::plain::write_cqe;
use e810_verbs::abi::constants::qp_type;
use e810_verbs::abi::make::QpCap;

use super::RING;
use super::pointers::{Device, PointerSide};
use crate::kernel::Paper;
use crate::library::{Library, NotRun};
use crate::opened::{LibraryCq, LibraryQp, Opened};

/// A queue pair of the library on plain memory.
pub struct LibraryRings {
    _opened: Opened,
    cq: LibraryCq,
    qp: LibraryQp,
    /// CQEs so far.
    written: u64,
}

/// The library's objects, and the harness that completes their requests.
pub type LibrarySide = PointerSide<LibraryRings>;

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
        let (raw_qp, raw_cq) = (qp.as_ptr(), cq.as_ptr());
        let rings = LibraryRings {
            _opened: opened,
            cq,
            qp,
            written: 0,
        };
        Ok(Self::over(rings, calls, raw_qp, raw_cq))
    }
}

impl LibraryRings {
    #[inline(always)]
    fn complete(&mut self, length: u64, q3: u64) {
        let words = [length, self.qp.context, u64::from(self.qp.id) << 32, q3];
        write_cqe(self.cq.ring(), &mut self.written, words);
    }
}

impl Device for LibraryRings {
    const NAME: &'static str = "library";

    fn qp_num(&self) -> u32 {
        self.qp.id
    }

    fn finish_send(&mut self, index: u64) {
        self.complete(0, 1 << 62 | 0x03 << 56 | index << 32);
    }

    fn finish_recv(&mut self, slot: u64) {
        self.complete(64, 0x04 << 56 | slot << 32);
    }
}
