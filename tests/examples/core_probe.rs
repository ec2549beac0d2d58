//! The generic core, instantiated for a platform that the compiler cannot see
//! through; `tests/rules/asm.rs` looks for panic paths in the object.
//!
//! Not an example of use, and never run. Generic code exists in machine code
//! only where it is used: what is not called from here is not checked. Each part
//! of the core has a `probe_*` function; `Metal` is a full `Platform`.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use e810::hmc::FpmQuery;
use e810::{
    AccessFlags, Adaptive, AttrMask, ColdStart, Config, Control, Cq, CqModeration, EventSet,
    GidEntry, LanInit, LinkPolicy, MacAddr, MrChange, MwType, Notify, Package, PackageSource, Path,
    Pd, Qp, QpAttr, QpCaps, QpInit, RecvWr, SendWr, VectorEvents, Wc, bring_up, bring_up_cold,
    cq_dma_bytes, v4,
};

use e810_hal::bar::Bar0;
use e810_hal::host::HostBuf;
use e810_hal::map::Access;
use e810_hal::regs::{CPU_READY, GLPE_CPUSTATUS0};
use e810_hal::{
    Barrier, Bus, Clock, DmaAlloc, DmaBuf, DmaError, DmaLayout, DmaMap, DmaSegment, DmaWord,
    DmaWords, HostMem, InterruptVectors, Iova, Mapping, NoHostMemory, Ns, RawDma, RegOffset,
    SharedBytes, Vector, WaitError, poll_until,
};

/// What an embedder supplies, behind pointers.
#[derive(Debug)]
pub struct Services {
    dma_alloc: fn(DmaLayout) -> Result<RawDma, DmaError>,
    dma_free: fn(RawDma),
    dma_map: fn(SharedBytes, Access) -> Result<Mapping, DmaError>,
    dma_segment: fn(&Mapping, u32) -> Option<DmaSegment>,
    dma_unmap: fn(Mapping),
    host_alloc: fn(usize) -> Result<NonNull<AtomicU64>, NoHostMemory>,
    host_free: fn(NonNull<AtomicU64>, usize),
    now: fn() -> Ns,
    vector_alloc: fn() -> Option<Vector>,
    vector_free: fn(Vector),
}

/// A real BAR0 and opaque services: what a unikernel has.
#[derive(Clone, Copy, Debug)]
pub struct Metal {
    bar: Bar0,
    services: &'static Services,
}

impl Bus for Metal {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        self.bar.read32(off)
    }
    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        self.bar.write32(off, value);
    }
}

// SAFETY: never run; the code that made `Services` answers for the contract.
unsafe impl DmaAlloc for Metal {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        (self.services.dma_alloc)(layout)
    }
    unsafe fn dma_free(&self, raw: RawDma) {
        (self.services.dma_free)(raw);
    }
}

// SAFETY: as above.
unsafe impl DmaMap for Metal {
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        (self.services.dma_map)(memory, access)
    }
    fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        (self.services.dma_segment)(mapping, index)
    }
    fn dma_unmap(&self, mapping: Mapping) {
        (self.services.dma_unmap)(mapping);
    }
}

// SAFETY: as above.
unsafe impl HostMem for Metal {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        (self.services.host_alloc)(words)
    }
    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        (self.services.host_free)(memory, words);
    }
}

impl Clock for Metal {
    fn now(&self) -> Ns {
        (self.services.now)()
    }
    fn delay(&self, time: Ns) {
        let end = self.now() + time;
        while self.now() < end {
            self.relax();
        }
    }
    fn relax(&self) {
        core::hint::spin_loop();
    }
}

impl Barrier for Metal {}

impl InterruptVectors for Metal {
    fn vector_count(&self) -> u16 {
        64
    }
    fn vector_alloc(&self) -> Option<Vector> {
        (self.services.vector_alloc)()
    }
    fn vector_free(&self, vector: Vector) {
        (self.services.vector_free)(vector);
    }
}

/// Memory and words of the hal, on [`Metal`].
#[unsafe(no_mangle)]
pub fn probe_hal_memory(platform: Metal, bytes: usize, index: usize) -> Option<Iova> {
    let buf = DmaBuf::new(platform, DmaLayout::new(bytes, 4096)).ok()?;
    buf.fill(index, bytes, u64::MAX);
    let first = buf.block::<8>(index)?.first()?;
    let table = HostBuf::new(platform, bytes).ok()?;
    let copy = table.clone();
    copy.word(index)?.store(first.observe(), Ordering::Relaxed);
    let iova = buf.iova().offset(8);
    buf.release();
    iova
}

/// A bounded wait on a register of the hal, on [`Metal`].
#[unsafe(no_mangle)]
pub fn probe_hal_wait(platform: Metal) -> bool {
    let answer: Result<(), WaitError> = poll_until(
        &platform,
        "protocol engine ready",
        Ns::from_ms(15_000),
        Ns::from_ms(1),
        || Ok((GLPE_CPUSTATUS0.get(&platform) == CPU_READY).then_some(())),
    );
    answer.is_ok()
}

/// The memory of a configuration, where it is not a constant.
#[unsafe(no_mangle)]
pub fn probe_driver_needs(config: &Config, card: &FpmQuery, caps: &QpCaps, cqe: u32) -> [u64; 5] {
    let or_none = |bytes: Option<usize>| bytes.unwrap_or(0) as u64;
    [
        config.host_bytes::<Metal>() as u64,
        config.dma_bytes(card),
        or_none(caps.dma_bytes()),
        caps.tracker_words().unwrap_or(0).into(),
        or_none(cq_dma_bytes(cqe)),
    ]
}

/// A start on a LAN side that is ready, on [`Metal`].
#[unsafe(no_mangle)]
pub fn probe_driver_warm(platform: Metal, config: &Config) -> bool {
    bring_up(platform, config, &mut |_| {}).is_ok_and(|device| device.shutdown().is_ok())
}

/// The whole control path of the driver, from the function's reset on, on
/// [`Metal`].
#[unsafe(no_mangle)]
pub fn probe_driver_control(
    platform: Metal,
    config: &Config,
    package: &[u8],
    memory: SharedBytes,
) -> bool {
    let Ok(package) = Package::parse(package) else {
        return false;
    };
    let start = ColdStart {
        package: PackageSource::File(package),
        link: LinkPolicy::GoOn,
    };
    let Ok(device) = bring_up_cold(platform, config, &start, &mut |_| {}) else {
        return false;
    };
    let (mut control, mut events) = device.split();
    let (Ok(pd), Ok(mut cq)) = (control.alloc_pd(), control.create_cq(64, 0)) else {
        return false;
    };
    let vectors_good = vectors(&mut control, &mut events, &cq);
    let caps = QpCaps {
        max_send_wr: 64,
        max_recv_wr: 64,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 64,
    };
    let init = QpInit::rc(&cq, &cq, caps);
    let (Ok(mr), Ok(mut qp)) = (
        control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE),
        control.create_qp(&pd, &init),
    ) else {
        return false;
    };
    let attr = QpAttr::to_init(AccessFlags::REMOTE_READ);
    let mut good = control.modify_qp(&mut qp, &attr).is_ok();
    good &= control.progress().is_ok();
    while control.take_lan_event().is_some() {}
    good &= verbs(&mut control, &pd, &mut cq, &mut qp, memory);
    good &= control.destroy_qp(qp).is_ok();
    good &= control.destroy_cq(cq).is_ok();
    good &= control.dereg_mr(mr).is_ok();
    good &= control.dealloc_pd(pd).is_ok();
    good && vectors_good && control.shutdown(events).is_ok()
}

/// Completion vectors that come and go.
#[inline(never)]
fn vectors(control: &mut Control<Metal>, events: &mut EventSet<Metal>, cq: &Cq<Metal>) -> bool {
    let Ok(added) = control.add_completion_vector() else {
        return false;
    };
    // One that only the platform can give, and has again.
    if let Ok(dynamic) = control.add_dynamic_completion_vector()
        && let Err((kept, _)) = control.remove_completion_vector(dynamic)
        && events.push(kept).is_err()
    {
        return false;
    }
    let number = added.completion_vector().unwrap_or(0);
    let mut good = !added.has_async() && added.depth().is_some_and(|depth| depth.waiting == 0);
    good &= number
        < control
            .completion_vectors()
            .min(control.max_completion_vectors());
    good &= control.interrupt_vector(number) == Some(added.vector());
    good &= control.hint_cpu(cq.completion_vector(), 1).is_ok();
    match control.remove_completion_vector(added) {
        Ok(()) => good,
        Err((kept, _)) => good && events.push(kept).is_ok(),
    }
}

/// What verbs has beyond the objects above.
#[inline(never)]
fn verbs(
    control: &mut Control<Metal>,
    pd: &Pd,
    cq: &mut Cq<Metal>,
    qp: &mut Qp<Metal>,
    memory: SharedBytes,
) -> bool {
    let address = v4(10, 0, 0, 1);
    let gid = control.add_gid(GidEntry::untagged(address)).unwrap_or(0);
    let group = v4(239, 0, 0, 1);
    let mut good = control.query_port(1).is_ok() && control.query_pkey(1, 0).is_ok();
    good &= control.query_gid(gid).is_some() && control.query_device().max_qp > 0;
    good &= control.query_qp(qp, AttrMask::all()).is_ok();
    good &= control.attach_mcast(qp, gid, group).is_ok();
    good &= control.detach_mcast(qp, gid, group).is_ok();
    if let Ok(ah) = control.create_ah(pd, &Path::to_group(gid, group)) {
        good &= control.destroy_ah(ah).is_ok();
    }
    good &= control.resize_cq(cq, 100).is_ok();
    good &= control.reset_qp(qp, &mut [cq]).is_ok();
    good &= moderate(control, cq);
    if let Ok(mr) = control.reg_mr(pd, memory, AccessFlags::ZERO_BASED)
        && let Ok(mr) = control.rereg_mr(mr, &MrChange::default())
    {
        good &= control.dereg_mr(mr).is_ok();
    }
    if let Ok(mut fast) = control.alloc_fast_mr(pd, 8) {
        good &= control
            .map_fast_mr(&mut fast, memory, AccessFlags::LOCAL_WRITE)
            .is_ok();
        good &= control.unmap_fast_mr(&mut fast).is_ok();
        good &= control.free_fast_mr(fast).is_ok();
    }
    if let Ok(mw) = control.alloc_mw(pd, MwType::Type2) {
        good &= control.dealloc_mw(mw).is_ok();
    }
    good && control.remove_gid(gid).is_ok()
}

/// Every way to moderate interrupts.
#[inline(never)]
fn moderate(control: &mut Control<Metal>, cq: &mut Cq<Metal>) -> bool {
    let fixed = CqModeration::Fixed {
        count: 16,
        period_us: 50,
    };
    [
        fixed,
        CqModeration::Adaptive(Adaptive::Load),
        CqModeration::Adaptive(Adaptive::Dim),
    ]
    .iter()
    .all(|setting| control.modify_cq(cq, *setting).is_ok())
        && control.limit_interrupts(0, 48).is_ok()
        && control.interrupt_timing(0).is_ok()
        && cq.depth().waiting == 0
        && cq.moderation().wait_us == 0
}

/// Posting, polling and event handling of the driver, on [`Metal`].
#[unsafe(no_mangle)]
pub fn probe_driver_data(
    qp: &mut Qp<Metal>,
    cq: &mut Cq<Metal>,
    events: &mut VectorEvents<Metal>,
    sends: &[SendWr<'_>],
    receives: &[RecvWr<'_>],
    completions: &mut [Wc],
) -> usize {
    let posted = qp.post_send(sends).is_ok() && qp.post_recv(receives).is_ok();
    let waiting = cq.arm(Notify::Any);
    let mut seen = 0;
    let _ = events.on_vector(&mut |_| seen = usize::wrapping_add(seen, 1));
    cq.poll(completions)
        .wrapping_add(seen)
        .wrapping_add(usize::from(posted) + usize::from(waiting))
}

/// LAN queues of the driver, on [`Metal`].
#[unsafe(no_mangle)]
pub fn probe_driver_lan(control: &mut Control<Metal>, init: &LanInit, frame: &mut [u8]) -> bool {
    let Ok(mut port) = control.open_lan(init) else {
        return false;
    };
    let group = MacAddr([0x33, 0x33, 0xFF, 1, 2, 3]);
    let joined = control.join_lan_group(&port, group).is_ok();
    let sent = port.transmit(frame).is_ok();
    let received = port.receive(frame).is_some();
    let left = control.leave_lan_group(&port, group).is_ok();
    joined && sent && received && left && control.close_lan(port).is_ok()
}

fn main() {}
