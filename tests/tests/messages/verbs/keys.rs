//! Keys and addresses of regions that change, or that are named otherwise than
//! where they lie.

use e810::{
    AccessFlags, Data, Error, Mr, MrChange, Op, Platform, Remote, SendFlags, SendWr, Sge, WcStatus,
};
use e810_sim::{DmaSegmentation, Sim};
use e810_tests::traffic::{Buffer, Pair, Setup};

use crate::verbs::sim;

const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ);

fn rereg<P: Platform>(pair: &mut Pair<P>, mr: Mr<P>, change: &MrChange<'_>) -> Mr<P> {
    let changed = pair.side(1).control.rereg_mr(mr, change);
    changed.map_err(|refused| refused.error).unwrap()
}

/// Whatever changes: what peers were told stays true (Linux' irdma registers the
/// same STag again).
#[test]
fn a_changed_region_keeps_its_key() {
    let sim = sim(31);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let (first, second) = (Buffer::new(8192), Buffer::new(4096));
    let side = &mut pair.sides[1];
    let other = side.control.alloc_pd().unwrap();
    let mr = side
        .control
        .reg_mr(&side.pd, first.bytes(), AccessFlags::LOCAL_WRITE)
        .unwrap();
    let key = mr.rkey();
    let changes = [
        MrChange {
            access: Some(ALL),
            ..MrChange::default()
        },
        MrChange {
            memory: Some(second.bytes().into()),
            ..MrChange::default()
        },
        MrChange {
            pd: Some(&other),
            ..MrChange::default()
        },
    ];
    let mr = changes.iter().fold(mr, |mr, change| {
        let mr = rereg(&mut pair, mr, change);
        assert_eq!((mr.rkey(), mr.lkey()), (key, key), "{change:?}");
        mr
    });
    assert_eq!(mr.len(), 4096);
    let side = &mut pair.sides[1];
    side.control.dereg_mr(mr).map_err(|(_, e)| e).unwrap();
    side.control.dealloc_pd(other).unwrap();
    // The next life of an index has another key.
    let mr = side.control.reg_mr(&side.pd, first.bytes(), ALL).unwrap();
    assert_ne!(mr.rkey(), key);
    side.control.dereg_mr(mr).map_err(|(_, e)| e).unwrap();
    pair.finish(&sim);
}

/// Who must not reach other memory by the key of before is shut out.
#[test]
fn a_new_key_can_be_asked_for() {
    let sim = sim(32);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let memory = Buffer::new(4096);
    let side = &mut pair.sides[1];
    let mr = side.control.reg_mr(&side.pd, memory.bytes(), ALL).unwrap();
    let old = mr.rkey();
    let change = MrChange {
        new_key: true,
        ..MrChange::default()
    };
    let mr = rereg(&mut pair, mr, &change);
    assert_eq!(mr.rkey() >> 8, old >> 8, "the same index");
    assert_ne!(mr.rkey(), old);
    assert_eq!(write(&mut pair, mr.address(), mr.rkey()), WcStatus::Success);
    let stale = write(&mut pair, mr.address(), old);
    assert_eq!(stale, WcStatus::RemAccessErr);
    let side = &mut pair.sides[1];
    side.control.dereg_mr(mr).map_err(|(_, e)| e).unwrap();
    pair.finish(&sim);
}

/// A WRITE of ten bytes from side 0 to `addr` on side 1.
fn write<P: Platform>(pair: &mut Pair<P>, addr: u64, rkey: u32) -> WcStatus {
    let side = &mut pair.sides[0];
    side.buffer.write(0, b"0123456789");
    let request = SendWr {
        wr_id: 1,
        op: Op::Write {
            data: Data::Sges(&[side.sge(0, 10)]),
            remote: Remote { addr, rkey },
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    side.post_send(0, &[request]).unwrap();
    pair.completions(0, 1)[0].status
}

/// SGEs and peers name memory by the address that was asked for, over the borders
/// of its pages, whichever way the device sees it.
#[test]
fn a_region_named_by_another_address() {
    for (seed, segments) in [
        (33, DmaSegmentation::PerPage),
        (34, DmaSegmentation::Contiguous),
    ] {
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .segmentation(segments)
            .build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let memory = Buffer::new(5 * 4096);
        let window = memory.bytes().window(100, 4 * 4096).unwrap();
        let iova = 0x5000_0000_0000 | window.address() & 0xFFF;
        let side = &mut pair.sides[1];
        let mr = side
            .control
            .reg_mr_iova(&side.pd, window, iova, ALL)
            .unwrap();
        assert_eq!((mr.address(), mr.len()), (iova, 4 * 4096));
        for offset in [0, 4096 - 105, 3 * 4096 + 11, 4 * 4096 - 10] {
            let status = write(&mut pair, iova + offset, mr.rkey());
            assert_eq!(status, WcStatus::Success);
            let mut there = [0; 10];
            window.read(offset as usize, &mut there).unwrap();
            assert_eq!(&there, b"0123456789", "{offset}");
        }
        // Local use: what arrived goes back.
        let into = pair.sides[0].incoming();
        let there = pair.sides[0].sge(into, 10);
        pair.sides[0].post_recv(0, 3, &[there]).unwrap();
        let from = Sge {
            addr: iova + 4 * 4096 - 10,
            length: 10,
            lkey: mr.lkey(),
        };
        let request = SendWr {
            wr_id: 2,
            op: Op::Send {
                data: Data::Sges(&[from]),
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        pair.sides[1].post_send(0, &[request]).unwrap();
        assert_eq!(pair.completions(1, 1)[0].status, WcStatus::Success);
        assert_eq!(pair.completions(0, 1)[0].byte_len, 10);
        assert_eq!(pair.sides[0].buffer.read(into, 10), b"0123456789");
        // Other rights leave the address, another place takes it along.
        let change = MrChange {
            access: Some(ALL | AccessFlags::RELAXED_ORDERING),
            ..MrChange::default()
        };
        let mr = rereg(&mut pair, mr, &change);
        assert_eq!(mr.address(), iova);
        let change = MrChange {
            iova: Some(iova + 0x10_0000),
            ..MrChange::default()
        };
        let mr = rereg(&mut pair, mr, &change);
        let status = write(&mut pair, iova + 0x10_0000, mr.rkey());
        assert_eq!(status, WcStatus::Success);
        // Where it lies is no name of it.
        let status = write(&mut pair, window.address(), mr.rkey());
        assert_eq!(status, WcStatus::RemAccessErr);
        let side = &mut pair.sides[1];
        side.control.dereg_mr(mr).map_err(|(_, e)| e).unwrap();
        pair.finish(&sim);
    }
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let sim = sim(35);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let memory = Buffer::new(8192);
    let (at, len) = (memory.bytes().address(), memory.bytes().len() as u64);
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    let zero_based = ALL | AccessFlags::ZERO_BASED;
    let last = 0u64.wrapping_sub(len) & !0xFFF | at & 0xFFF;
    for (iova, access) in [
        (at + 1, ALL),
        (at ^ 0x800, ALL),
        (at + 4096, zero_based),
        (last + 4096, ALL),
    ] {
        let error = side
            .control
            .reg_mr_iova(&side.pd, memory.bytes(), iova, access)
            .unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{iova:#x}: {error}");
    }
    assert_eq!(side.control.commands(), commands);
    pair.finish(&sim);
}
