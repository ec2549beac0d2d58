//! Events of objects that are being destroyed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use e810::{AccessFlags, Event, EventSet, Notify, QpAttr, QpCaps, QpInit, RecvWr};
use e810_ceq::aeqe::Object;
use e810_hal::bus::ItrIndex;
use e810_hal::regs::{DYN_CTL_DISABLE, DYN_CTL_ENABLE_KEEP_ITR, GLINT_DYN_CTL, GLINT_ITR};
use e810_hal::{Clock, InterruptVectors, Ns};
use e810_sim::pe::{Breakage, Subject};
use e810_sim::{Mode, Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Watched};

const CAPS: QpCaps = QpCaps {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 0,
};

/// What the program knows to exist.
#[derive(Default)]
struct Known {
    qps: Mutex<HashSet<u32>>,
    cqs: Mutex<HashSet<u32>>,
    /// Events whose telling has begun.
    begun: AtomicU64,
    of_the_dead: AtomicU64,
}

/// The other thread is in the middle of a destruction by then, or waits there.
const TELLING: Duration = Duration::from_millis(3);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn hear(&self, event: Event) {
        let Event::Async(event) = event else {
            return;
        };
        let (object, id) = match event.object {
            Object::Qp(qp) => (&self.qps, qp),
            Object::Cq(cq) => (&self.cqs, cq),
            _ => return,
        };
        self.begun.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(TELLING);
        let alive = lock(object).contains(&id);
        self.of_the_dead
            .fetch_add(u64::from(!alive), Ordering::SeqCst);
    }

    /// Waits until an event is being told.
    fn await_telling(&self) {
        let before = self.begun.load(Ordering::SeqCst);
        let end = Instant::now() + Duration::from_secs(300);
        while self.begun.load(Ordering::SeqCst) == before {
            assert!(Instant::now() < end, "no event is told");
            std::thread::yield_now();
        }
    }
}

/// The handler that an interrupt calls.
fn handle(events: &Mutex<EventSet<Watched<SimPlatform>>>, vector: e810_hal::Vector, known: &Known) {
    for part in lock(events)
        .iter_mut()
        .filter(|part| part.vector() == vector)
    {
        while part.on_vector(&mut |event| known.hear(event)).more {}
    }
}

/// While one thread makes and destroys, the card reports errors of whatever there
/// is: nothing is delivered for an object whose destruction has returned.
#[test]
fn nothing_is_delivered_for_a_destroyed_queue() {
    let sim = Sim::builder().functions(2).seed(9).mode(Mode::Real).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[1];
    let events = Arc::new(Mutex::new(side.lend_events()));
    let known = Arc::new(Known::default());
    sim.set_interrupt_hook(1, {
        let (events, known) = (Arc::clone(&events), Arc::clone(&known));
        Some(Box::new(move |vector| handle(&events, vector, &known)))
    });
    let (qp_now, cq_now) = (AtomicU32::new(0), AtomicU32::new(0));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for subject in [
                    Subject::Qp(qp_now.load(Ordering::Relaxed)),
                    Subject::Cq(cq_now.load(Ordering::Relaxed)),
                ] {
                    let (code, source) = match subject {
                        Subject::Cq(_) => (0x0203, 2),
                        _ => (0x0704, 5),
                    };
                    sim.break_down(
                        1,
                        Breakage::Event {
                            code,
                            source,
                            subject,
                            wqe_index: 0,
                        },
                    );
                }
                std::thread::yield_now();
            }
        });
        for _ in 0..40 {
            let cq = side.control.create_cq(16, 0).unwrap();
            lock(&known.cqs).insert(cq.number());
            let init = QpInit::rc(&cq, &cq, CAPS);
            let mut qp = side.control.create_qp(&side.pd, &init).unwrap();
            lock(&known.qps).insert(qp.number().get());
            cq_now.store(cq.number(), Ordering::Relaxed);
            qp_now.store(qp.number().get(), Ordering::Relaxed);
            // It may have failed already.
            let attr = QpAttr::to_init(AccessFlags::empty());
            let _ = side.control.modify_qp(&mut qp, &attr);
            let number = qp.number().get();
            known.await_telling();
            side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
            lock(&known.qps).remove(&number);
            let number = cq.number();
            known.await_telling();
            side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
            lock(&known.cqs).remove(&number);
        }
        over.store(true, Ordering::Relaxed);
    });
    sim.set_interrupt_hook(1, None);
    // A thread may be in it still.
    while Arc::strong_count(&events) > 1 {
        std::thread::yield_now();
    }
    assert_eq!(known.of_the_dead.load(Ordering::SeqCst), 0);
    std::mem::swap(&mut side.events, &mut *lock(&events));
}

/// Far less than a destruction waits.
const LATER: Ns = Ns::from_us(200);

/// A program takes an event and acknowledges it in an interrupt handler, while
/// the destruction of its queue waits for that.
#[test]
fn a_destruction_waits_for_acknowledgements() {
    let sim = Sim::builder().functions(2).seed(10).build();
    let setup = Setup {
        channel: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[1];
    let channel = side.channel.clone().unwrap();
    let mut cq = side.control.create_cq_on(&channel, 16, 0).unwrap();
    let init = QpInit::rc(&cq, &cq, CAPS);
    let mut qp = side.control.create_qp(&side.pd, &init).unwrap();
    let attr = QpAttr::to_init(AccessFlags::empty());
    side.control.modify_qp(&mut qp, &attr).unwrap();
    // A queue pair that is stopped completes its receive.
    let receive = RecvWr {
        wr_id: 1,
        sges: &[],
    };
    qp.post_recv(&[receive]).unwrap();
    assert!(!cq.arm(Notify::Any));
    side.control
        .modify_qp(&mut qp, &QpAttr::to_error())
        .unwrap();
    let platform = side.platform.clone();
    let event = channel.wait(&platform, Ns::from_ms(2_000), || {
        side.progress();
    });
    let event = event.unwrap();
    side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();

    let nic = sim.function(1);
    let vector = nic.vector_alloc().unwrap();
    let control = GLINT_DYN_CTL.at(vector);
    let timed = GLINT_DYN_CTL::SWINT_TRIG::SET
        + GLINT_DYN_CTL::SW_ITR_INDX_ENA::SET
        + GLINT_DYN_CTL::SW_ITR_INDX.val(0);
    let interval = LATER.0 / 2_000;
    GLINT_ITR
        .at(ItrIndex::new(0).unwrap(), vector)
        .set(&nic, interval as u32);
    // At once, and an interval later.
    control.set(&nic, DYN_CTL_ENABLE_KEEP_ITR | timed.value);
    sim.run(Ns::from_us(1));
    assert_eq!(nic.interrupt_count(vector), 1);
    sim.set_interrupt_hook(1, {
        let channel = channel.clone();
        Some(Box::new(move |fired| {
            if fired == vector {
                channel.acknowledge(event, 1).unwrap();
            }
        }))
    });
    let start = nic.now();
    control.set(&nic, DYN_CTL_ENABLE_KEEP_ITR | timed.value);
    side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
    assert_eq!(nic.interrupt_count(vector), 2);
    assert!(nic.now() - start > Ns(LATER.0 / 2), "it has waited");
    sim.set_interrupt_hook(1, None);
    control.set(&nic, DYN_CTL_DISABLE);
    nic.vector_free(vector);
    drop(channel);
    pair.finish(&sim);
}
