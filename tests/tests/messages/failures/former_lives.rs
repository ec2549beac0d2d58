//! Handles, tokens and parts that are kept too long, or are of another function: an error or
//! nothing, never another object's.

use e810::hmc::Capacity;
use e810::polling::{CqPool, PollMode};
use e810::{
    AccessFlags, Control, Cq, Error, EventSet, Notify, Pd, Qp, QpAttr, QpCaps, QpControl, QpInit,
    QpRecv, QpReopened, QpSend, RecvWr, VectorEvents, VsiId, Wc, bring_up,
};
use e810::{Config, Lan, MacAddr};
use e810_hal::{Clock, Ns};
use e810_sim::{Profile, Sim, SimPlatform};

type Up = (Control<SimPlatform>, EventSet<SimPlatform>);

const CAPS: QpCaps = QpCaps {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 32,
};

fn sim(functions: u8) -> Sim {
    let builder = Sim::builder().seed(7).profile(Profile::card());
    builder.functions(functions).build()
}

/// Few numbers, so that each comes again soon.
fn up(nic: &SimPlatform) -> Up {
    let lan = Lan {
        vsi: VsiId::new(nic.vsi()).unwrap(),
        mac: MacAddr(nic.mac()),
        mtu: 1500,
    };
    let capacity = Capacity {
        qps: 4,
        cqs: 5,
        mrs: 8,
        ahs: 1,
        arps: 8,
        mcast_groups: 1,
        pbles: 512,
    };
    let config = Config {
        capacity,
        ..Config::new(lan)
    };
    bring_up(nic.clone(), &config, &mut |_| {}).unwrap().split()
}

fn create(control: &mut Control<SimPlatform>, pd: &Pd, cq: &Cq<SimPlatform>) -> Qp<SimPlatform> {
    control.create_qp(pd, &QpInit::rc(cq, cq, CAPS)).unwrap()
}

/// Parts of another function are refused, with all parts, and nothing happens to them.
#[test]
fn a_shutdown_with_parts_of_another_function_is_refused() {
    for of_async in [false, true] {
        let sim = sim(2);
        let [(first, mut first_events), (second, mut second_events)] =
            [0, 1].map(|function| up(&sim.function(function)));
        let held = [0, 1].map(|function| sim.memory(function).dma_blocks);
        let is_meant = |part: &VectorEvents<_>| part.has_async() == of_async;
        let place = second_events.iter().position(is_meant).unwrap();
        let stray = second_events.swap_remove(place).unwrap();
        first_events.push(stray).unwrap();
        // In front of its own.
        let last = first_events.len() - 1;
        first_events.swap(0, last);
        let refused = first.shutdown(first_events).unwrap_err();
        assert!(matches!(refused.error, Error::Foreign { .. }), "{refused}");
        assert_eq!([0, 1].map(|function| sim.memory(function).dma_blocks), held);
        let (first, mut first_events) = refused.parts.unwrap();
        let stray = first_events.swap_remove(0).unwrap();
        second_events.push(stray).unwrap();
        for (control, events) in [(first, first_events), (second, second_events)] {
            control
                .shutdown(events)
                .map_err(|failed| failed.error)
                .unwrap();
        }
        assert!(
            [0, 1]
                .map(|function| sim.memory(function))
                .iter()
                .all(|m| m.nothing_held())
        );
        assert_eq!(sim.findings(), []);
    }
}

#[test]
fn a_release_after_a_reset_gives_parts_of_another_function_back() {
    let sim = sim(2);
    let nics = [0, 1].map(|function| sim.function(function));
    let [(first, mut first_events), (second, mut second_events)] = nics.each_ref().map(up);
    first_events.push(second_events.pop().unwrap()).unwrap();
    nics[0].function_level_reset();
    let mut foreign = first.release_after_reset(first_events);
    assert_eq!(foreign.len(), 1);
    assert_eq!(sim.memory(0).dma_blocks, 0);
    second_events.push(foreign.pop().unwrap()).unwrap();
    second
        .shutdown(second_events)
        .map_err(|failed| failed.error)
        .unwrap();
}

/// Also where the next device has its tables at the same addresses.
#[test]
fn an_object_of_a_device_that_is_gone_is_foreign() {
    let sim = sim(1);
    let nic = sim.function(0);
    let mut old = Vec::new();
    for _ in 0..12 {
        let (mut control, events) = up(&nic);
        let new = control.alloc_pd().unwrap();
        for pd in std::mem::take(&mut old) {
            let (pd, error) = control.dealloc_pd(pd).unwrap_err();
            assert!(matches!(error, Error::Foreign { .. }), "{error}");
            old.push(pd);
        }
        old.push(new);
        control
            .shutdown(events)
            .map_err(|failed| failed.error)
            .unwrap();
    }
}

/// The word that a queue pair was destroyed frees no rings of the number's next queue pair.
#[test]
fn the_end_of_a_queue_pair_is_of_one_life() {
    let sim = sim(1);
    let (mut control, events) = up(&sim.function(0));
    let pd = control.alloc_pd().unwrap();
    let mut cq = control.create_cq(64, 0).unwrap();
    let first = create(&mut control, &pd, &cq);
    let number = first.number();
    let (part, send, recv) = first.into_parts();
    let over = control
        .destroy_qp_control(part)
        .map_err(|(_, error)| error)
        .unwrap();
    send.release(&over);
    recv.release(&over);
    let next = loop {
        cq.poll(&mut [Wc::default(); 4]);
        let qp = create(&mut control, &pd, &cq);
        if qp.number() == number {
            break qp;
        }
        control.destroy_qp(qp).map_err(|(_, error)| error).unwrap();
    };
    let held = sim.memory(0).dma_blocks;
    let (part, send, recv) = next.into_parts();
    send.release(&over);
    recv.release(&over);
    assert_eq!(sim.memory(0).dma_blocks, held);
    drop((control, events, part));
}

type Parts = (
    QpControl<SimPlatform>,
    QpSend<SimPlatform>,
    QpRecv<SimPlatform>,
);

/// A reset restarts its own queues, each once, and is finished once.
#[test]
fn a_reset_is_of_one_queue_pair_and_over_once() {
    let sim = sim(2);
    let mut sides = [0, 1].map(|function| {
        let (mut control, events) = up(&sim.function(function));
        let pd = control.alloc_pd().unwrap();
        let cq = control.create_cq(64, 0).unwrap();
        let qp: Parts = create(&mut control, &pd, &cq).into_parts();
        (control, events, cq, qp)
    });
    let mut before = Vec::new();
    let mut tokens: Vec<QpReopened> = Vec::new();
    for (control, _, cq, (part, send, recv)) in &mut sides {
        for _ in 0..2 {
            let resetting = control.begin_reset_qp(part).unwrap();
            // Its key is that of the reset before, as long as it was not opened again.
            for old in &tokens {
                assert!(control.finish_reset_qp(part, old.clone()).is_err());
            }
            cq.forget_gone();
            for old in &before {
                assert!(control.reopen_qp(part, old).is_err());
            }
            let reopened = control.reopen_qp(part, &resetting).unwrap();
            before.push(resetting);
            for other in &tokens {
                assert!(send.restart(other).is_err() && recv.restart(other).is_err());
                assert!(control.finish_reset_qp(part, other.clone()).is_err());
            }
            send.restart(&reopened).unwrap();
            recv.restart(&reopened).unwrap();
            control.finish_reset_qp(part, reopened.clone()).unwrap();
            tokens.push(reopened);
        }
        control
            .modify_qp(part, &QpAttr::to_init(AccessFlags::empty()))
            .unwrap();
        recv.post_recv(&[RecvWr {
            wr_id: 1,
            sges: &[],
        }])
        .unwrap();
        for any in &tokens {
            assert!(recv.restart(any).is_err(), "it has a request");
            assert!(control.finish_reset_qp(part, any.clone()).is_err());
        }
        assert_eq!(part.state(), e810::QpState::Init);
    }
    assert_eq!(sim.findings(), []);
}

/// A ring that is kept after its queue is destroyed is empty, is told nothing and takes nothing
/// of the number's next queue.
#[test]
fn a_ring_of_a_queue_that_is_gone_leaves_the_next_alone() {
    let sim = sim(1);
    let nic = sim.function(0);
    let (mut control, mut events) = up(&nic);
    let pd = control.alloc_pd().unwrap();
    let (part, mut old) = control.create_cq(16, 0).unwrap().into_parts();
    let number = part.number();
    let over = control
        .destroy_cq_control(part)
        .map_err(|(_, error)| error)
        .unwrap();
    let mut cq = loop {
        let cq = control.create_cq(16, 0).unwrap();
        if cq.number() == number {
            break cq;
        }
        control.destroy_cq(cq).map_err(|(_, error)| error).unwrap();
    };
    let mut qp = create(&mut control, &pd, &cq);
    control
        .modify_qp(&mut qp, &QpAttr::to_init(AccessFlags::empty()))
        .unwrap();
    qp.post_recv(&[RecvWr {
        wr_id: 1,
        sges: &[],
    }])
    .unwrap();
    let use_old = |old: &mut e810::CqRing<SimPlatform>| {
        assert!(!old.arm(Notify::Any));
        assert_eq!(old.poll(&mut [Wc::default(); 4]), 0);
        assert!(!old.take_event() && !old.has_failed());
        old.forget_gone();
    };
    use_old(&mut old);
    assert!(!cq.arm(Notify::Any));
    use_old(&mut old);
    control.modify_qp(&mut qp, &QpAttr::to_error()).unwrap();
    let until = nic.now() + Ns::from_ms(100);
    while nic.now() < until {
        nic.delay(Ns::from_us(100));
        for part in &mut events {
            let _ = part.poll(&mut |_| {});
        }
        control.progress().unwrap();
        use_old(&mut old);
    }
    assert!(cq.take_event());
    assert_eq!(cq.poll(&mut [Wc::default(); 4]), 1);
    // Its own memory is still its own.
    let held = sim.memory(0).dma_blocks;
    old.release(&over);
    assert_eq!(sim.memory(0).dma_blocks, held - 2);
    drop((control, events));
    assert_eq!(sim.findings(), []);
}

#[test]
fn places_in_a_pool_are_of_that_pool() {
    let sim = sim(1);
    let (mut control, events) = up(&sim.function(0));
    let channel = control.create_channel().unwrap();
    let mut pools = [0, 1].map(|_| {
        let pool = CqPool::<_, 1>::new(channel.clone(), 16, PollMode::event());
        pool.unwrap()
    });
    let [first, second] = &mut pools;
    let lease = first.get(&mut control, 16, None).unwrap();
    let other = second.get(&mut control, 16, None).unwrap();
    assert!(second.cq(&lease).is_none() && first.cq(&lease).is_some());
    let lease = second.put(lease).unwrap_err();
    assert!(
        second.get(&mut control, 16, None).is_err(),
        "all places are in use"
    );
    first.put(lease).unwrap();
    second.put(other).unwrap();
    for pool in pools {
        pool.drain(&mut control)
            .map_err(|(_, error)| error)
            .unwrap();
    }
    control.close_channel(&channel).unwrap();
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
}

/// Queues that are kept after their queue pair is gone take no request, also when another queue
/// pair that works has the number.
#[test]
fn queues_of_a_queue_pair_that_is_gone_take_nothing() {
    let sim = sim(1);
    let (mut control, events) = up(&sim.function(0));
    let pd = control.alloc_pd().unwrap();
    let mut cq = control.create_cq(64, 0).unwrap();
    let to_init = QpAttr::to_init(AccessFlags::empty());
    let mut first = create(&mut control, &pd, &cq);
    let number = first.number();
    control.modify_qp(&mut first, &to_init).unwrap();
    first
        .post_recv(&[RecvWr {
            wr_id: 1,
            sges: &[],
        }])
        .unwrap();
    let (part, _send, mut old) = first.into_parts();
    let _over = control
        .destroy_qp_control(part)
        .map_err(|(_, error)| error)
        .unwrap();
    assert!(
        old.post_recv(&[RecvWr {
            wr_id: 2,
            sges: &[]
        }])
        .is_err()
    );
    let mut next = loop {
        cq.poll(&mut [Wc::default(); 4]);
        let qp = create(&mut control, &pd, &cq);
        if qp.number() == number {
            break qp;
        }
        control.destroy_qp(qp).map_err(|(_, error)| error).unwrap();
    };
    for attr in [Some(to_init), Some(QpAttr::to_error()), None] {
        assert!(
            old.post_recv(&[RecvWr {
                wr_id: 3,
                sges: &[]
            }])
            .is_err()
        );
        assert!(old.list().is_err());
        if let Some(attr) = attr {
            control.modify_qp(&mut next, &attr).unwrap();
        }
    }
    let dropped = control
        .destroy_qp(next)
        .map_err(|(_, error)| error)
        .unwrap();
    assert_eq!(dropped.receives, 0);
    drop((control, events));
}
