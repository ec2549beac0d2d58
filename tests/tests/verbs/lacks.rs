//! What verbs know and this device does not have is refused by its name, and
//! costs no command.

use e810::{
    AccessFlags, Atomic, Error, Lack, MwType, Op, PostError, QpAttr, QpInit, Remote, SendFlags,
    SendWr, Service, Sge,
};
use e810_tests::traffic::{Pair, Setup};

use crate::sim;

#[test]
fn each_has_its_own_error() {
    let sim = sim(10);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    let caps = side.qps[0].caps();
    for (service, lack) in [
        (Service::Uc, Lack::Uc),
        (Service::RawPacket, Lack::RawPacket),
        (Service::XrcIni, Lack::Xrc),
        (Service::XrcTgt, Lack::Xrc),
        (Service::Gsi, Lack::Gsi),
    ] {
        let init = QpInit::new(service, &side.cqs[0], &side.cqs[0], caps);
        let error = side.control.create_qp(&side.pd, &init).unwrap_err();
        assert_eq!(error, Error::NotOffered(lack), "{service}");
    }
    assert_eq!(
        side.control.create_srq(&side.pd).unwrap_err(),
        Lack::Srq.into()
    );
    assert_eq!(
        side.control.alloc_mw(&side.pd, MwType::Type2).unwrap_err(),
        Lack::MemoryWindows.into()
    );
    let memory = side.buffer.bytes();
    for (access, lack) in [
        (AccessFlags::REMOTE_ATOMIC, Lack::Atomics),
        (AccessFlags::MW_BIND, Lack::MemoryWindows),
    ] {
        let error = side.control.reg_mr(&side.pd, memory, access).unwrap_err();
        assert_eq!(error, lack.into());
    }
    let path = side.control.query_qp(&side.qps[0], e810::AttrMask::AV);
    let path = path.unwrap().attr.path;
    for (attr, lack) in [
        (
            QpAttr {
                caps: Some(caps),
                ..QpAttr::default()
            },
            Lack::QueueResize,
        ),
        (
            QpAttr {
                alt_path: path,
                ..QpAttr::default()
            },
            Lack::AlternatePath,
        ),
    ] {
        let error = side.control.modify_qp(&mut side.qps[0], &attr);
        assert_eq!(error, Err(lack.into()));
    }
    let atomic = Atomic {
        into: Sge::default(),
        remote: Remote { addr: 0, rkey: 0 },
        compare: Some(1),
        value: 2,
    };
    for (op, name) in [
        (Op::Atomic(&atomic), "ATOMIC"),
        (
            Op::ReadInv {
                into: &[],
                remote: atomic.remote,
            },
            "RDMA_READ_WITH_INV",
        ),
    ] {
        let request = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
        };
        let refused = side.post_send(0, &[request]).unwrap_err();
        assert_eq!(refused.error, PostError::NotOffered { op: name });
    }
    assert_eq!(side.control.commands(), commands);
    for lack in [
        Lack::Uc,
        Lack::Xrc,
        Lack::Srq,
        Lack::Atomics,
        Lack::AlternatePath,
    ] {
        let text = Error::from(lack).to_string();
        assert!(text.contains("the E810"), "{text}");
    }
    pair.finish(&sim);
}

/// Asked for, windows are made and given back; nothing shows that the device can
/// bind them.
#[test]
fn windows_exist_when_they_are_asked_for() {
    let sim = sim(11);
    let setup = Setup {
        windows: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[0];
    for kind in [MwType::Type1, MwType::Type2] {
        let mw = side.control.alloc_mw(&side.pd, kind).unwrap();
        assert_eq!((mw.kind(), mw.stag() & 0xFF), (kind, 0));
        side.control
            .dealloc_mw(mw)
            .map_err(|(_, error)| error)
            .unwrap();
    }
    pair.finish(&sim);
}
