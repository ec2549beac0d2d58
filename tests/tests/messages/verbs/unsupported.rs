//! What verbs know and this device does not have is refused by its name, and
//! costs no command.

use e810::{
    AccessFlags, Atomic, Data, Error, MwBind, MwType, Op, PostError, QpAttr, QpInit, QpType,
    Remote, SendFlags, SendWr, Sge, Unsupported, WcOpcode, WcStatus,
};
use e810_hal::Ns;
use e810_tests::traffic::verbs::done;
use e810_tests::traffic::{Buffer, Pair, Setup};

use crate::verbs::{A, B, sim};

#[test]
fn each_has_its_own_error() {
    let sim = sim(10);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    let caps = side.qps[0].caps();
    for (qp_type, feature) in [
        (QpType::Uc, Unsupported::Uc),
        (QpType::RawPacket, Unsupported::RawPacket),
        (QpType::XrcIni, Unsupported::Xrc),
        (QpType::XrcTgt, Unsupported::Xrc),
    ] {
        let init = QpInit::new(qp_type, &side.cqs[0], &side.cqs[0], caps);
        let error = side.control.create_qp(&side.pd, &init).unwrap_err();
        assert_eq!(error, Error::NotOffered(feature), "{qp_type}");
    }
    assert_eq!(
        side.control.create_srq(&side.pd).unwrap_err(),
        Unsupported::Srq.into()
    );
    assert_eq!(
        side.control.alloc_mw(&side.pd, MwType::Type2).unwrap_err(),
        Unsupported::MemoryWindows.into()
    );
    let memory = side.buffer.bytes();
    for (access, feature) in [
        (AccessFlags::REMOTE_ATOMIC, Unsupported::Atomics),
        (AccessFlags::MW_BIND, Unsupported::MemoryWindows),
    ] {
        let error = side.control.reg_mr(&side.pd, memory, access).unwrap_err();
        assert_eq!(error, feature.into());
    }
    let path = side.control.query_qp(&side.qps[0], e810::AttrMask::AV);
    let path = path.unwrap().attr.path;
    for (attr, feature) in [
        (
            QpAttr {
                caps: Some(caps),
                ..QpAttr::default()
            },
            Unsupported::QueueResize,
        ),
        (
            QpAttr {
                alt_path: path,
                ..QpAttr::default()
            },
            Unsupported::AlternatePath,
        ),
    ] {
        let error = side.control.modify_qp(&mut side.qps[0], &attr);
        assert_eq!(error, Err(feature.into()));
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
    for feature in [
        Unsupported::Uc,
        Unsupported::Xrc,
        Unsupported::Srq,
        Unsupported::Atomics,
        Unsupported::AlternatePath,
    ] {
        let text = Error::from(feature).to_string();
        assert!(text.contains("the E810"), "{text}");
    }
    pair.finish(&sim);
}

/// Asked for, windows are made, bound, used by a peer and invalidated. The
/// simulator takes the formats as the reference gives them; nothing shows that
/// the card does.
#[test]
fn windows_work_in_the_simulator_when_they_are_asked_for() {
    let sim = sim(11);
    let setup = Setup {
        windows: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[1];
    let mw = side.control.alloc_mw(&side.pd, MwType::Type1).unwrap();
    assert_eq!((mw.kind(), mw.stag() & 0xFF), (MwType::Type1, 0));
    side.control
        .dealloc_mw(mw)
        .map_err(|(_, error)| error)
        .unwrap();

    let mw = side.control.alloc_mw(&side.pd, MwType::Type2).unwrap();
    let memory = Buffer::new(4096);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    let mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), access)
        .unwrap();
    let bind = MwBind {
        mw_stag: mw.stag() | 7,
        mr_stag: mr.lkey(),
        addr: mr.address() + 100,
        length: 50,
        zero_based: false,
        type_1: false,
        remote_read: false,
        remote_write: true,
    };
    let wc = done(&mut pair, B, Op::BindMw(&bind));
    assert_eq!(
        (wc.status, wc.opcode),
        (WcStatus::Success, WcOpcode::BindMw)
    );
    let remote = Remote {
        addr: bind.addr,
        rkey: bind.mw_stag,
    };
    pair.sides[0].buffer.write(0, b"through the window");
    let sge = [pair.sides[0].sge(0, 18)];
    let (data, imm) = (Data::Sges(&sge), None);
    let wc = done(&mut pair, A, Op::Write { data, remote, imm });
    assert_eq!(wc.status, WcStatus::Success);
    assert_eq!(memory.read(100, 18), b"through the window");
    let stag = bind.mw_stag;
    let wc = done(&mut pair, B, Op::LocalInv { stag });
    assert_eq!(wc.status, WcStatus::Success);
    let wc = done(&mut pair, A, Op::Write { data, remote, imm });
    assert_eq!(wc.status, WcStatus::RemAccessErr, "closed");
    pair.during(Ns::from_ms(50));
    let side = &mut pair.sides[1];
    side.control
        .dealloc_mw(mw)
        .map_err(|(_, error)| error)
        .unwrap();
    side.control
        .dereg_mr(mr)
        .map_err(|(_, error)| error)
        .unwrap();
    for side in &mut pair.sides {
        side.take();
    }
    pair.finish(&sim);
}
