//! Queue pairs and completion queues in parts: a program that keeps the control path apart from the
//! rings can do what others do with the whole, and rings of others are left alone.

use e810::{
    CqGrant, CqInit, CqRing, Data, Error, OneSge, Op, QpDestroyed, QpGrant, QpInit, QpState,
    RecvWr, Remote, SendFlags, SendWr, Wc, WcStatus,
};
use e810_tests::traffic::{Pair, Room, Setup};
use serde_json::{from_value, to_value};

use crate::verbs::sim;

const SIGNALED: SendFlags = SendFlags::SIGNALED;

/// Polls a ring on its own until it has given so many completions.
fn poll<P: Room>(pair: &mut Pair<P>, ring: &mut CqRing<P>, count: usize) -> Vec<(u64, WcStatus)> {
    let mut found = Vec::new();
    pair.until("completions of a ring", |_| {
        let mut wcs = [Wc::default(); 4];
        let done = ring.poll(&mut wcs);
        found.extend(wcs[..done].iter().map(|wc| (wc.wr_id, wc.status)));
        found.len() >= count
    });
    found
}

fn ids(found: &[(u64, WcStatus)]) -> Vec<u64> {
    found.iter().map(|(id, _)| *id).collect()
}

#[test]
fn parts_do_what_the_whole_does() {
    let sim = sim(30);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let (mut qp, mut send, mut recv) = pair.side(0).qps.remove(0).into_parts();
    let (mut cq, mut ring) = pair.side(0).cqs.remove(0).into_parts();
    let remote = Remote {
        addr: pair.side(1).mr.address() + pair.side(1).incoming() as u64,
        rkey: pair.side(1).mr.rkey(),
    };
    let sge = pair.side(0).sge(0, 64);
    let write = |wr_id| SendWr {
        wr_id,
        op: Op::Write {
            data: Data::Sges(std::slice::from_ref(&sge)),
            remote,
            imm: None,
        },
        flags: SIGNALED,
    };

    // A list, request by request, with one doorbell; and one alone.
    let mut list = send.list().unwrap();
    list.post(&write(1)).unwrap();
    list.post_one_sge(2, SIGNALED, &sge, OneSge::Write(remote))
        .unwrap();
    let inline = SendWr {
        op: Op::Nop,
        ..write(3)
    };
    list.post(&inline).unwrap();
    drop(list);
    send.post_one_sge(4, SIGNALED, &sge, OneSge::Read(remote))
        .unwrap();
    assert_eq!(ids(&poll(&mut pair, &mut ring, 4)), [1, 2, 3, 4]);
    assert!(ring.is_idle());

    // Another ring while completions wait in the old one.
    send.post_one_sge(5, SIGNALED, &sge, OneSge::Write(remote))
        .unwrap();
    pair.during(e810::Ns::from_ms(1));
    assert!(!ring.is_idle());
    assert!(ring.can_resize());
    let memory = ring.memory_for(200).unwrap();
    let control = &mut pair.side(0).control;
    let resized = control.resize_cq_control(&mut cq, memory.place());
    ring.resized(memory, resized.unwrap().unwrap()).unwrap();
    assert!(cq.entries() >= 200);
    send.post_one_sge(6, SIGNALED, &sge, OneSge::Write(remote))
        .unwrap();
    assert_eq!(ids(&poll(&mut pair, &mut ring, 2)), [5, 6]);

    // A reset in its steps: what was posted is gone, and the number stays.
    let number = qp.number();
    recv.post_recv(&[RecvWr {
        wr_id: 7,
        sges: &[],
    }])
    .unwrap();
    let control = &mut pair.side(0).control;
    let resetting = control.begin_reset_qp(&mut qp).unwrap();
    assert_eq!(resetting.discarded().receives, 1);
    ring.forget_gone();
    let reopened = control.reopen_qp(&mut qp, &resetting).unwrap();
    send.restart(&reopened).unwrap();
    recv.restart(&reopened).unwrap();
    control.finish_reset_qp(&mut qp, reopened).unwrap();
    assert_eq!((qp.number(), qp.state()), (number, QpState::Reset));

    let destroyed = control.destroy_qp_control(qp).map_err(|(_, error)| error);
    let destroyed = destroyed.unwrap();
    send.release(&destroyed);
    recv.release(&destroyed);
    let destroyed = control.destroy_cq_control(cq).map_err(|(_, error)| error);
    ring.release(&destroyed.unwrap());
    pair.finish(&sim);
}

#[test]
fn parts_of_another_device_are_left_alone() {
    let sim = sim(31);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let [one, other] = &mut pair.sides[..] else {
        panic!("two sides");
    };
    let (mut qp, mut send, recv) = one.qps.remove(0).into_parts();
    let (other_qp, other_send, other_recv) = other.qps.remove(0).into_parts();
    assert_eq!(qp.number(), other_qp.number(), "the same number on both");

    // A reset that was begun elsewhere.
    let mut other_qp = other_qp;
    let resetting = other.control.begin_reset_qp(&mut other_qp).unwrap();
    let wrong = one.control.reopen_qp(&mut qp, &resetting);
    assert!(matches!(wrong, Err(Error::Invalid { .. })), "{wrong:?}");
    let reopened = other.control.reopen_qp(&mut other_qp, &resetting).unwrap();
    assert!(send.restart(&reopened).is_err());
    let wrong = one.control.finish_reset_qp(&mut qp, reopened);
    assert!(matches!(wrong, Err(Error::Invalid { .. })), "{wrong:?}");
    assert_eq!(qp.state(), QpState::Rts);

    // A queue pair that was destroyed elsewhere: these queues are kept, for good.
    let destroyed = other.control.destroy_qp_control(other_qp);
    let destroyed = destroyed.map_err(|(_, error)| error).unwrap();
    let held = sim.memory(0).dma_blocks;
    send.release(&destroyed);
    assert_eq!(sim.memory(0).dma_blocks, held);
    other_send.release(&destroyed);
    other_recv.release(&destroyed);
    let destroyed = one.control.destroy_qp_control(qp);
    let destroyed = destroyed.map_err(|(_, error)| error).unwrap();
    recv.release(&destroyed);
    assert!(sim.memory(0).dma_blocks < held, "its own are freed");

    // Memory of another queue's resize.
    let (mut cq, mut ring) = other.cqs.remove(0).into_parts();
    let (mut one_cq, one_ring) = one.cqs.remove(0).into_parts();
    let memory = one_ring.memory_for(300).unwrap();
    let resized = one.control.resize_cq_control(&mut one_cq, memory.place());
    assert!(ring.resized(memory, resized.unwrap().unwrap()).is_err());
    let memory = ring.memory_for(300).unwrap();
    let resized = other.control.resize_cq_control(&mut cq, memory.place());
    ring.resized(memory, resized.unwrap().unwrap()).unwrap();
    let destroyed = other.control.destroy_cq_control(cq);
    let destroyed = destroyed.map_err(|(_, error)| error).unwrap();
    one_ring.release(&destroyed);
    ring.release(&destroyed);
    assert_eq!(sim.findings(), []);
}

/// What is granted passes between processes; what is none, is over or does not fit the memory makes
/// no rings.
#[test]
fn rings_are_made_of_what_was_granted() {
    let sim = sim(32);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = pair.side(0);
    let control = &mut side.control;
    let rings = control.rings();
    let memory = rings.cq_memory(20).unwrap();
    let made = control.create_cq_on_memory(&CqInit::new(0, 0), memory.place());
    let (cq, granted) = made.unwrap();
    let passed = to_value(granted).unwrap();
    let granted: CqGrant = from_value(passed.clone()).unwrap();
    assert_eq!(
        (granted.number(), granted.entries()),
        (cq.number(), cq.entries())
    );
    let mut ring = rings.cq(memory, &granted).unwrap();
    assert_eq!(ring.poll(&mut [Wc::default()]), 0);
    let generation = 1u64 << 32;
    let key = passed["key"].as_u64().unwrap();
    for (field, value) in [
        ("entries", u64::from(u32::MAX)),
        ("entries", u64::from(granted.entries()) + 4),
        ("entries", 0),
        ("key", key + generation),
    ] {
        let mut other = passed.clone();
        other[field] = value.into();
        let other: CqGrant = from_value(other).unwrap();
        let memory = rings.cq_memory(20).unwrap();
        assert!(rings.cq(memory, &other).is_err(), "{field} {value}");
    }
    for (field, value) in [("key", 0_u64), ("key", 1 << 63), ("ceq", 1024)] {
        let mut other = passed.clone();
        other[field] = value.into();
        assert!(from_value::<CqGrant>(other).is_err(), "{field} {value}");
    }

    let caps = Setup::default().caps;
    let memory = rings.qp_memory(&caps).unwrap();
    let init = QpInit::rc(&cq, &cq, caps);
    let made = control.create_qp_on_memory(&side.pd, &init, memory.place());
    let (qp, granted) = made.unwrap();
    let passed = to_value(granted).unwrap();
    let granted: QpGrant = from_value(passed.clone()).unwrap();
    assert_eq!(
        (granted.number(), granted.qp_type()),
        (qp.number(), qp.qp_type())
    );
    let (send, recv) = rings.qp(memory, &granted).unwrap();
    for (part, field, value) in [
        ("rq", "shift", 4),
        ("rq", "shift", 255),
        ("rq", "slots", 0),
        ("rq", "slots", u32::MAX),
        ("limits", "max_sge", 14),
        ("limits", "max_inline", 102),
        ("limits", "address_handles", u32::MAX),
    ] {
        let mut other = passed.clone();
        other[part][field] = value.into();
        let other: QpGrant = from_value(other).unwrap();
        let memory = rings.qp_memory(&caps).unwrap();
        assert!(rings.qp(memory, &other).is_err(), "{field} {value}");
    }
    let destroyed = control.destroy_qp_control(qp).map_err(|(_, error)| error);
    let destroyed: QpDestroyed = from_value(to_value(destroyed.unwrap()).unwrap()).unwrap();
    ring.forget_gone();
    send.release(&destroyed);
    recv.release(&destroyed);
    let destroyed = control.destroy_cq_control(cq).map_err(|(_, error)| error);
    ring.release(&destroyed.unwrap());
    assert_eq!(sim.findings(), []);
}
