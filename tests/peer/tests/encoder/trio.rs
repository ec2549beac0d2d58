//! Two queue pairs of the library and one of ours, of one shape.

use std::cell::RefCell;
use std::iter;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_datapath::sizing::{CqSize, RqSize, SqSize};
use e810_datapath::{ExtraOps, QpState, QpType, SendLimits, Wc};
use e810_hal::DmaWord;
use e810_peer::kernel::Paper;
use e810_peer::{Calls, Library, LibraryAh, LibraryCq, LibraryQp, Opened};
use e810_tests::plain::{Queues, Spec, write_cqe};
use e810_verbs::abi::constants::qp_type;
use e810_verbs::abi::make::QpCap;
use e810_verbs::abi::state::AhAttr;
use e810_verbs::abi::work;

/// What rings are filled with before a post: the first queue pair of the
/// library, and ours; the second has the opposite.
pub(crate) const PATTERN: u64 = 0xA5A5_A5A5_A5A5_A5A5;

/// Sizes of the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) qp_type: QpType,
    pub(crate) send_wr: u32,
    pub(crate) recv_wr: u32,
    pub(crate) sges: u32,
    pub(crate) inline: u32,
}

/// A queue pair of the library with its CQ.
pub(crate) struct Theirs {
    pub(crate) cq: LibraryCq,
    pub(crate) qp: LibraryQp,
    written: u64,
}

pub(crate) struct Trio {
    pub(crate) opened: Opened,
    pub(crate) calls: Calls,
    pub(crate) theirs: [Theirs; 2],
    pub(crate) ours: Queues<true>,
    pub(crate) ah: LibraryAh,
}

/// Completions that a CQ is asked for.
const CQE: u32 = 511;

impl Trio {
    pub(crate) fn new(library: &Library, shape: Shape) -> Self {
        let opened = library
            .open(Rc::new(RefCell::new(Paper::default())))
            .expect("a context");
        let pd = opened.alloc_pd().unwrap();
        let cap = QpCap {
            max_send_wr: shape.send_wr,
            max_recv_wr: shape.recv_wr,
            max_send_sge: shape.sges,
            max_recv_sge: shape.sges,
            max_inline_data: shape.inline,
        };
        let kind = match shape.qp_type {
            QpType::Ud => qp_type::UD,
            _ => qp_type::RC,
        };
        let theirs = [(); 2].map(|()| {
            let cq = opened.create_cq(CQE as i32).unwrap();
            let qp = opened.create_qp(pd, &cq, kind, cap, false).unwrap();
            Theirs { cq, qp, written: 0 }
        });
        let sq = SqSize::new(shape.send_wr, shape.sges, shape.inline).unwrap();
        let rq = RqSize::new(shape.recv_wr, shape.sges).unwrap();
        let ours = Queues::new(&Spec {
            qp_id: 18,
            sq_quanta: sq.quanta,
            rq,
            cq_entries: CqSize::new(CQE).unwrap().entries,
            limits: SendLimits {
                qp_type: shape.qp_type,
                max_sge: shape.sges,
                max_inline: shape.inline,
                address_handles: 1 << 17,
                signal_all: false,
                local_fence: false,
                read_fence_rate: 0,
                extra: ExtraOps::all(),
            },
            max_recv_sge: shape.sges,
            state: QpState::Rts,
        });
        let ah = opened.create_ah(pd, AhAttr::default()).unwrap();
        let calls = opened.calls().unwrap();
        let trio = Self {
            opened,
            calls,
            theirs,
            ours,
            ah,
        };
        // Sizes that both found on their own.
        for them in &trio.theirs {
            assert_eq!(them.qp.sq().len(), trio.ours.sq_ring.len());
            assert_eq!(them.qp.rq().len(), trio.ours.rq_ring.len());
            assert_eq!(them.cq.ring().len(), trio.ours.cq_ring.len());
            assert_eq!(them.qp.cap.max_send_wr, sq.max_wr);
            assert_eq!(them.qp.cap.max_recv_wr, rq.max_wr);
        }
        trio
    }

    /// Writes one completion (CQE, and its extension) for each of the three, as
    /// the device does; polls all; compares what they say.
    pub(crate) fn complete(
        &mut self,
        length: u64,
        q2: u64,
        q3: u64,
        extension: Option<[u64; 4]>,
    ) -> Wc {
        let extended = u64::from(extension.is_some()) << 50;
        let ours = self.ours.qp;
        // The extension first: an entry is read when its first half is valid.
        self.ours.complete([
            length,
            ours.bits(),
            u64::from(ours.id()) << 32 | q2,
            q3 | extended,
        ]);
        if let Some(words) = extension {
            self.ours.complete(words);
        }
        for them in &mut self.theirs {
            let id = u64::from(them.qp.id) << 32;
            let first = [length, them.qp.context, id | q2, q3 | extended];
            for words in iter::once(first).chain(extension) {
                write_cqe(them.cq.ring(), &mut them.written, words);
            }
        }
        let mut wc = [Wc::default(); 2];
        assert_eq!(self.ours.cq.poll(&mut wc), 1);
        for n in 0..2 {
            let said = self.theirs[n].cq.poll(&self.calls).unwrap();
            assert_eq!(said.len(), 1);
            let (own, their) = (wc[0], said[0]);
            assert_eq!(their.wr_id, own.wr_id);
            assert_eq!(their.status, own.status as i32, "{own:?}");
            assert_eq!(their.qp_num, self.theirs[n].qp.id);
            if their.status == 0 {
                compare(&own, &their, self.theirs[n].qp.id);
            } else {
                assert_eq!(their.vendor_err, own.vendor_err);
            }
        }
        wc[0]
    }
}

/// What both say of a success.
fn compare(own: &Wc, their: &work::Wc, their_id: u32) {
    // The library tells receives with immediate data by an opcode that it has
    // replaced before, so all of them are plain receives to it
    // (docs/hardware-notes.md).
    let opcode = (own.opcode as i32).min(128);
    assert_eq!(their.opcode, opcode, "{own:?}");
    assert_eq!(their.byte_len, own.byte_len);
    // Our own flags start at bit 8.
    assert_eq!(their.wc_flags, u32::from(own.flags.bits()) & 0xff);
    match their.wc_flags & 0b1010 {
        0b10 => assert_eq!(u32::from_be(their.imm_data), own.imm),
        0b1000 => assert_eq!(their.imm_data, own.imm),
        _ => {}
    }
    let other = if their.src_qp == their_id {
        own.qp_num
    } else {
        their.src_qp
    };
    assert_eq!(other, own.src_qp);
}

/// Fills rings before a post.
pub(crate) fn fill(first: &[AtomicU64], second: &[AtomicU64], ours: &[AtomicU64]) {
    for (ring, pattern) in [(first, PATTERN), (second, !PATTERN), (ours, PATTERN)] {
        for cell in ring {
            cell.store(pattern, Ordering::Relaxed);
        }
    }
}

/// Which bytes of a word the library wrote: those that are equal in both.
pub(crate) fn mask(first: u64, second: u64) -> u64 {
    let difference = first ^ second;
    let bytes = difference.to_ne_bytes();
    assert!(bytes.iter().all(|byte| matches!(byte, 0 | 0xff)));
    !difference
}

/// Compares three rings; says how many quanta the library wrote to.
pub(crate) fn rings(first: &[AtomicU64], second: &[AtomicU64], ours: &[AtomicU64]) -> usize {
    let mut written = 0;
    let quanta = first.chunks(4).zip(second.chunks(4)).zip(ours.chunks(4));
    for (at, ((first, second), ours)) in quanta.enumerate() {
        let masks: Vec<u64> = first
            .iter()
            .zip(second)
            .map(|(first, second)| mask(first.get(), second.get()))
            .collect();
        let left_alone = masks.iter().all(|mask| *mask == 0);
        written += usize::from(!left_alone);
        for (word, mask) in masks.iter().enumerate() {
            let (theirs, own) = (first[word].get(), ours[word].get());
            let mask = if left_alone { u64::MAX } else { *mask };
            assert_eq!(
                own & mask,
                theirs & mask,
                "quantum {at} word {word}: {own:#018x}, the library has {theirs:#018x}, mask {mask:#018x}"
            );
        }
    }
    written
}
