//! Queues on plain memory: no device, no simulator.
//!
//! The data path exactly as the driver builds it (`DmaBuf` rings, `HostBuf`
//! slots), and the other side of the rings as words for the code that plays the
//! device: vectors and benches.
//!
//! ```
//! use e810_tests::plain::{Queues, Spec};
//! use e810_datapath::{Data, Op, SendFlags, SendWr, Wc};
//!
//! let mut queues: Queues = Queues::new(&Spec::default());
//! let wr = SendWr {
//!     wr_id: 7,
//!     op: Op::Send { data: Data::Sges(&[]), imm: None },
//!     flags: SendFlags::SIGNALED,
//! };
//! queues.send.post_send(&[wr]).unwrap();
//! assert_eq!(queues.platform.doorbells(), [(0x50_4400, queues.qp.id())]);
//!
//! queues.complete_send(0);
//! let mut wc = [Wc::default(); 2];
//! assert_eq!(queues.cq.poll(&mut wc), 1);
//! assert_eq!(wc[0].wr_id, 7);
//! ```

// UNSAFETY: this is a platform; it hands out leaked memory.

use std::alloc::{Layout as Allocation, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use e810_datapath::sizing::RqSize;
use e810_datapath::slot::{Layout, QpShape};
use e810_datapath::{
    CompletionQueue, CqKey, ExtraOps, QpKey, QpState, QpType, RecvQueue, Registry, SendLimits,
    SendQueue,
};
use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaBuf, DmaError, DmaLayout, DmaMap, DmaSegment,
    DmaWord, DmaWords, HostBuf, HostMem, InterruptVectors, Iova, Mapping, NoHostMemory, Ns, RawDma,
    RegOffset, SharedBytes, Vector,
};

/// Doorbell writes kept for [`Plain::doorbells`]; later ones replace the last.
const KEPT: usize = 16;

#[derive(Debug)]
struct Registers {
    writes: AtomicU32,
    log: [(AtomicU32, AtomicU32); KEPT],
}

/// A platform of plain memory. DMA memory is never freed.
///
/// With `RECORD`, register writes are kept; without, each is one store, as on a
/// BAR.
#[derive(Clone, Copy, Debug)]
pub struct Plain<const RECORD: bool = true> {
    registers: &'static Registers,
}

impl<const RECORD: bool> Plain<RECORD> {
    /// Another platform.
    pub fn new() -> Self {
        let registers = Box::leak(Box::new(Registers {
            writes: AtomicU32::new(0),
            log: [const { (AtomicU32::new(0), AtomicU32::new(0)) }; KEPT],
        }));
        Self { registers }
    }

    /// Register writes so far: offset and value.
    pub fn doorbells(&self) -> Vec<(u32, u32)> {
        let count = self.registers.writes.load(Ordering::Relaxed) as usize;
        self.registers
            .log
            .iter()
            .take(count)
            .map(|(off, value)| (off.load(Ordering::Relaxed), value.load(Ordering::Relaxed)))
            .collect()
    }

    /// Forgets the register writes.
    pub fn forget(&self) {
        self.registers.writes.store(0, Ordering::Relaxed);
    }

    /// DMA memory, and the device's view of it.
    pub fn dma(&self, bytes: u32) -> (DmaBuf<Self>, &'static [AtomicU64]) {
        let buf =
            DmaBuf::new(*self, DmaLayout::new(bytes as usize, 4096)).unwrap_or_else(|error| {
                unreachable!("{error}");
            });
        let cells = buf.words();
        // SAFETY: DMA memory of this platform is never freed (`dma_free` does
        // nothing), and is only accessed through atomics.
        let device = unsafe { std::slice::from_raw_parts(cells.as_ptr(), cells.len()) };
        (buf, device)
    }
}

impl<const RECORD: bool> Default for Plain<RECORD> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const RECORD: bool> Bus for Plain<RECORD> {
    fn read32(&self, _: RegOffset) -> u32 {
        0
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        if !RECORD {
            self.registers.writes.store(value, Ordering::Relaxed);
            return;
        }
        let at = self.registers.writes.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some((place, number)) = self.registers.log.get(at.min(KEPT - 1)) {
            place.store(off.get(), Ordering::Relaxed);
            number.store(value, Ordering::Relaxed);
        }
    }
}

impl<const RECORD: bool> Barrier for Plain<RECORD> {}

fn words(count: usize, align: usize) -> Option<(NonNull<AtomicU64>, Allocation)> {
    let layout = Allocation::from_size_align(count.checked_mul(8)?, align).ok()?;
    if layout.size() == 0 {
        return None;
    }
    // SAFETY: the size is not zero.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    Some((memory.cast(), layout))
}

/// Start of a cache line.
const LINE: usize = 64;

// SAFETY: fresh zeroed memory of the size and alignment asked for; zero is a
// valid `AtomicU64`, and `host_free` gets it back with the same layout.
unsafe impl<const RECORD: bool> HostMem for Plain<RECORD> {
    fn host_alloc(&self, count: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        words(count, LINE)
            .map(|(memory, _)| memory)
            .ok_or(NoHostMemory { words: count })
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, count: usize) {
        if let Ok(layout) = Allocation::from_size_align(count * 8, LINE) {
            // SAFETY: allocated in `host_alloc` with this layout (contract).
            unsafe { dealloc(memory.as_ptr().cast(), layout) }
        }
    }
}

// SAFETY: fresh zeroed memory that is never freed; there is no device.
unsafe impl<const RECORD: bool> DmaAlloc for Plain<RECORD> {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let (bytes, align) = (layout.bytes(), layout.align());
        let (memory, _) = words(bytes / 8, align).ok_or(DmaError::OutOfMemory { bytes, align })?;
        Ok(RawDma {
            iova: Iova(memory.addr().get() as u64),
            words: memory,
            len: bytes / 8,
        })
    }

    unsafe fn dma_free(&self, _: RawDma) {}
}

// SAFETY: nothing is mapped, because there is no device: each mapping is the memory itself.
unsafe impl<const RECORD: bool> DmaMap for Plain<RECORD> {
    fn dma_map(&self, memory: SharedBytes, _: Access) -> Result<Mapping, DmaError> {
        Ok(Mapping {
            id: memory.address(),
            segments: 1,
        })
    }

    fn dma_segment(&self, _: &Mapping, _: u32) -> Option<DmaSegment> {
        None
    }

    fn dma_unmap(&self, _: Mapping) {}
}

impl<const RECORD: bool> Clock for Plain<RECORD> {
    fn now(&self) -> Ns {
        Ns(0)
    }

    fn delay(&self, _: Ns) {}

    fn relax(&self) {}
}

impl<const RECORD: bool> InterruptVectors for Plain<RECORD> {
    fn vector_count(&self) -> u16 {
        0
    }

    fn vector_alloc(&self) -> Option<Vector> {
        None
    }

    fn vector_free(&self, _: Vector) {}
}

/// What queues to build.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub qp_id: u32,
    /// Quanta of the send ring.
    pub sq_quanta: u32,
    /// The receive ring.
    pub rq: RqSize,
    /// Entries of the completion ring.
    pub cq_entries: u32,
    /// Limits of the send queue.
    pub limits: SendLimits,
    pub max_recv_sge: u32,
    /// State the QP is put in.
    pub state: QpState,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            qp_id: 18,
            sq_quanta: 1024,
            rq: RqSize {
                slots: 1024,
                shift: 0,
                max_wr: 1023,
            },
            cq_entries: 1024,
            limits: SendLimits {
                qp_type: QpType::Rc,
                max_sge: 1,
                max_inline: 39,
                address_handles: 1 << 17,
                signal_all: false,
                local_fence: false,
                read_fence_rate: 0,
                extra: ExtraOps::empty(),
            },
            max_recv_sge: 1,
            state: QpState::Rts,
        }
    }
}

/// Rings and slots of the kind the driver uses.
pub type Memory<const RECORD: bool> = HostBuf<Plain<RECORD>>;
/// A send queue on plain memory.
pub type PlainSend<const RECORD: bool> =
    SendQueue<Plain<RECORD>, DmaBuf<Plain<RECORD>>, Memory<RECORD>>;
/// A receive queue on plain memory.
pub type PlainRecv<const RECORD: bool> =
    RecvQueue<Plain<RECORD>, DmaBuf<Plain<RECORD>>, Memory<RECORD>>;
/// A completion queue on plain memory.
pub type PlainCq<const RECORD: bool> =
    CompletionQueue<Plain<RECORD>, DmaBuf<Plain<RECORD>>, Memory<RECORD>>;

/// One QP, both of whose queues complete into one CQ.
#[derive(Debug)]
pub struct Queues<const RECORD: bool = true> {
    pub platform: Plain<RECORD>,
    /// The control path's side of the slots.
    pub registry: Registry<Memory<RECORD>>,
    pub qp: QpKey,
    pub cq_key: CqKey,
    pub send: PlainSend<RECORD>,
    pub recv: PlainRecv<RECORD>,
    pub cq: PlainCq<RECORD>,
    /// The send ring as the device sees it.
    pub sq_ring: &'static [AtomicU64],
    pub rq_ring: &'static [AtomicU64],
    pub cq_ring: &'static [AtomicU64],
    /// The CQ's shadow area.
    pub cq_shadow: &'static [AtomicU64],
    /// Entries that the device has written.
    pub written: u64,
    rq_shift: u8,
}

/// Writes a CQE as the device does, after `written` others: the word with the valid bit of the lap
/// last.
#[inline(always)]
pub fn write_cqe(ring: &[AtomicU64], written: &mut u64, [q0, q1, q2, q3]: [u64; 4]) {
    let entries = (ring.len() / 4) as u64;
    let valid = u64::from((*written / entries).is_multiple_of(2)) << 63;
    let at = (*written % entries) as usize * 4;
    *written += 1;
    if let Some([w0, w1, w2, w3]) = ring.get(at..).and_then(|rest| rest.first_chunk()) {
        w0.set(q0);
        w1.set(q1);
        w2.set(q2);
        w3.publish(q3 & !(1 << 63) | valid);
    }
}

/// CQ of [`Queues`].
const CQ_ID: u32 = 7;

impl<const RECORD: bool> Queues<RECORD> {
    /// Builds them.
    ///
    /// # Panics
    /// When the specification is not possible.
    #[expect(clippy::unwrap_used, reason = "a test rig may panic")]
    pub fn new(spec: &Spec) -> Self {
        let platform = Plain::new();
        let layout = Layout {
            cqs: CQ_ID + 1,
            qps: spec.qp_id + 1,
            channels: 0,
            tracker_words: QpShape::tracker_words(spec.sq_quanta, spec.rq.quanta()) + 64,
        };
        let memory = HostBuf::new(platform, layout.words()).unwrap();
        let mut registry = Registry::new(memory, layout).unwrap();
        let cq_key = registry.open_cq(CQ_ID).unwrap();
        let shape = QpShape {
            sq_quanta: spec.sq_quanta,
            rq_quanta: spec.rq.quanta(),
            qp_type: spec.limits.qp_type,
            send_cq: cq_key,
            recv_cq: cq_key,
        };
        let qp = registry.open_qp(spec.qp_id, &shape).unwrap();
        registry.set_state(qp, spec.state).unwrap();
        let slots = registry.slots().clone();
        let (sq, sq_ring) = platform.dma(spec.sq_quanta * 32);
        let (rq, rq_ring) = platform.dma(spec.rq.bytes());
        let (cq, cq_ring) = platform.dma(spec.cq_entries * 32);
        let (shadow, cq_shadow) = platform.dma(64);
        Self {
            send: SendQueue::new(platform, sq, slots.clone(), qp, spec.limits).unwrap(),
            recv: RecvQueue::new(platform, rq, slots.clone(), qp, spec.rq, spec.max_recv_sge)
                .unwrap(),
            cq: CompletionQueue::new(platform, cq, shadow, slots, cq_key, spec.cq_entries).unwrap(),
            platform,
            registry,
            qp,
            cq_key,
            sq_ring,
            rq_ring,
            cq_ring,
            cq_shadow,
            written: 0,
            rq_shift: spec.rq.shift,
        }
    }

    /// The device writes a CQE: `words` without the valid bit of the lap.
    #[inline(always)]
    pub fn complete(&mut self, words: [u64; 4]) {
        write_cqe(self.cq_ring, &mut self.written, words);
    }

    /// The device completes the send (opcode 03) at a ring index.
    #[inline(always)]
    pub fn complete_send(&mut self, index: u64) {
        let id = u64::from(self.qp.id()) << 32;
        let q3 = 1 << 62 | 0x03 << 56 | index << 32;
        self.complete([0, self.qp.bits(), id, q3]);
    }

    /// The device completes the receive in a slot with 64 bytes of a SEND ONLY.
    #[inline(always)]
    pub fn complete_recv(&mut self, slot: u64) {
        let id = u64::from(self.qp.id()) << 32;
        let q3 = 0x04 << 56 | slot << self.rq_shift << 32;
        self.complete([64, self.qp.bits(), id, q3]);
    }
}
