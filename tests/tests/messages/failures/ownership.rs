//! Objects of another device, and objects in use.

use e810::{AccessFlags, Object, QpAttr, QpInit};
use e810_tests::traffic::{Buffer, Kind, Pair, Setup, Transfer};

use crate::failures::requests::{A, sim};

#[test]
fn objects_of_another_device() {
    let sim = sim(7);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let (first, second) = pair.sides.split_at_mut(1);
    let (here, there) = (&mut first[0], &mut second[0]);
    let foreign = |error: e810::Error, wanted| {
        assert!(
            matches!(error, e810::Error::Foreign { object, .. } if object == wanted),
            "{error}"
        );
    };
    let commands = here.control.commands();
    let caps = Setup::default().caps;
    let own = QpInit::rc(&here.cqs[0], &here.cqs[0], caps);
    foreign(
        here.control.create_qp(&there.pd, &own).unwrap_err(),
        Object::Pd,
    );
    for (send_cq, recv_cq) in [(&there.cqs[0], &here.cqs[0]), (&here.cqs[0], &there.cqs[0])] {
        let init = QpInit::rc(send_cq, recv_cq, caps);
        let error = here.control.create_qp(&here.pd, &init).unwrap_err();
        foreign(error, Object::Cq);
    }
    let buffer = Buffer::new(4096);
    let error = here
        .control
        .reg_mr(&there.pd, buffer.bytes(), AccessFlags::empty())
        .unwrap_err();
    foreign(error, Object::Pd);
    let error = here
        .control
        .modify_qp(&mut there.qps[0], &QpAttr::to_error())
        .unwrap_err();
    foreign(error, Object::Qp);
    let (qp, error) = here.control.destroy_qp(there.qps.remove(0)).unwrap_err();
    foreign(error, Object::Qp);
    there.qps.push(qp);
    let (cq, error) = here.control.destroy_cq(there.cqs.remove(0)).unwrap_err();
    foreign(error, Object::Cq);
    there.cqs.push(cq);
    let mr = there
        .control
        .reg_mr(&there.pd, buffer.bytes(), AccessFlags::empty())
        .unwrap();
    let (mr, error) = here.control.dereg_mr(mr).unwrap_err();
    foreign(error, Object::Mr);
    there.control.dereg_mr(mr).unwrap();
    let mut fast = there.control.alloc_fast_mr(&there.pd, 1).unwrap();
    let rights = AccessFlags::LOCAL_WRITE;
    let register = there
        .control
        .map_fast_mr(&mut fast, buffer.bytes(), rights)
        .unwrap();
    assert_eq!(register.parts().length, 4096);
    foreign(
        here.control.unmap_fast_mr(&mut fast).unwrap_err(),
        Object::Mr,
    );
    assert!(
        fast.is_mapped(),
        "its memory is the other device's to unmap"
    );
    let (fast, error) = here.control.free_fast_mr(fast).unwrap_err();
    foreign(error, Object::Mr);
    there.control.free_fast_mr(fast).unwrap();
    let pd = there.control.alloc_pd().unwrap();
    let (pd, error) = here.control.dealloc_pd(pd).unwrap_err();
    foreign(error, Object::Pd);
    there.control.dealloc_pd(pd).unwrap();
    assert_eq!(here.control.commands(), commands);
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

#[test]
fn objects_in_use_stay() {
    let sim = sim(8);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let (cq, error) = side.control.destroy_cq(side.cqs.remove(0)).unwrap_err();
    assert!(matches!(
        error,
        e810::Error::InUse {
            object: Object::Cq,
            users: 2,
            ..
        }
    ));
    side.cqs.push(cq);
    let pd = side.control.alloc_pd().unwrap();
    let buffer = Buffer::new(4096);
    let mr = side
        .control
        .reg_mr(&pd, buffer.bytes(), AccessFlags::empty())
        .unwrap();
    let (pd, error) = side.control.dealloc_pd(pd).unwrap_err();
    assert!(matches!(
        error,
        e810::Error::InUse {
            object: Object::Pd,
            users: 1,
            ..
        }
    ));
    side.control.dereg_mr(mr).unwrap();
    side.control.dealloc_pd(pd).unwrap();
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}
