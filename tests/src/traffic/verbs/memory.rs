//! Regions that change: fast registration, invalidation, re-registration.

use e810::{
    AccessFlags, Data, Mr, MrChange, Op, Platform, QpAttr, Remote, Sge, WcFlags, WcOpcode, WcStatus,
};

use super::super::scenarios::{A, B};
use super::super::{Buffer, End, Pair, Room, pattern};
use super::done;

/// Everything a peer may do.
const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ);

/// Writes `bytes` from `from`'s buffer to the peer's memory; how it ended.
fn write(pair: &mut Pair<impl Platform>, from: End, bytes: &[u8], remote: Remote) -> WcStatus {
    let side = pair.side(from.side);
    side.buffer.write(0, bytes);
    let sge = side.sge(0, bytes.len());
    let op = Op::Write {
        data: Data::Sges(&[sge]),
        remote,
        imm: None,
    };
    done(pair, from, op).status
}

/// A region that work requests give memory and take it away again, by its own
/// program and by the peer; what uses a key afterwards fails.
pub fn fast_registration<P: Room>(pair: &mut Pair<P>) {
    let memory = pair.side(1).platform.room(5 * 4096);
    let side = pair.side(1);
    let mut fast = side.control.alloc_fast_mr(&side.pd, 8).expect("a region");
    assert_eq!(fast.max_pages(), 8);
    let mut keys = Vec::new();
    for round in 0..4u64 {
        let length = [100, 4096, 9000, 20_000][round as usize];
        let window = memory.bytes().window(64, length).expect("inside");
        let side = pair.side(1);
        let request = side
            .control
            .map_fast_mr(&mut fast, window, ALL)
            .expect("mapped");
        let again = side.control.map_fast_mr(&mut fast, window, ALL);
        assert!(again.is_err(), "it has memory");
        assert!(!keys.contains(&fast.key()), "a new key each time");
        keys.push(fast.key());
        let wc = done(pair, B, Op::FastRegister(&request));
        let ended = (wc.status, wc.opcode);
        let reported = &pair.side(1).reported;
        assert_eq!(ended, (WcStatus::Success, WcOpcode::RegMr), "{reported:?}");
        let bytes = pattern(round, length);
        let remote = Remote {
            addr: window.address(),
            rkey: fast.key(),
        };
        assert_eq!(write(pair, A, &bytes, remote), WcStatus::Success);
        let mut arrived = vec![0; length];
        window.read(0, &mut arrived).expect("inside");
        assert!(arrived == bytes, "round {round}");
        // Taken away by turns: by a request of its own, and by the peer's SEND.
        if round % 2 == 0 {
            let wc = done(pair, B, Op::LocalInv { stag: fast.key() });
            assert_eq!(
                (wc.status, wc.opcode),
                (WcStatus::Success, WcOpcode::LocalInv)
            );
        } else {
            pair.side(1).post_recv(0, round, &[]).expect("posted");
            let rkey = fast.key();
            let data = Data::Sges(&[]);
            let wc = done(pair, A, Op::SendInv { data, rkey });
            assert_eq!(wc.status, WcStatus::Success);
            let wc = pair.completions(1, 1)[0];
            assert!(wc.flags.contains(WcFlags::WITH_INV));
            assert_eq!((wc.status, wc.imm), (WcStatus::Success, rkey));
        }
        pair.side(1).control.unmap_fast_mr(&mut fast).expect("ours");
    }
    // A key of before.
    let remote = Remote {
        addr: memory.bytes().address(),
        rkey: keys[0],
    };
    assert_eq!(write(pair, A, &[1], remote), WcStatus::RemAccessErr);
    pair.side(1)
        .control
        .free_fast_mr(fast)
        .map_err(|(_, error)| error)
        .expect("given back");
    renew_both(pair);
}

/// Both ends after a failure: made anew and connected.
fn renew_both(pair: &mut Pair<impl Platform>) {
    pair.during(e810_hal::Ns::from_ms(50));
    for end in [A, B] {
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    for side in 0..2 {
        let side = pair.side(side);
        side.take();
        side.reported.clear();
    }
}

/// A region of its own memory on a side.
fn region<P: Room>(
    pair: &mut Pair<P>,
    side: usize,
    bytes: usize,
    access: AccessFlags,
) -> (Buffer, Mr<P>) {
    let memory = pair.side(side).platform.room(bytes);
    let side = pair.side(side);
    let mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), access)
        .expect("a region");
    (memory, mr)
}

fn give_back<P: Platform>(pair: &mut Pair<P>, side: usize, mr: Mr<P>) {
    let given = pair.side(side).control.dereg_mr(mr);
    given.map_err(|(_, error)| error).expect("given back");
}

/// Bytes of a zero-based region are named by offset.
pub fn zero_based<P: Room>(pair: &mut Pair<P>) {
    let (memory, mr) = region(pair, 1, 12_288, ALL | AccessFlags::ZERO_BASED);
    assert_eq!(mr.address(), 0);
    for (offset, length) in [(0usize, 10), (4095, 2), (8000, 4288)] {
        let bytes = pattern(offset as u64, length);
        let remote = Remote {
            addr: offset as u64,
            rkey: mr.rkey(),
        };
        assert_eq!(write(pair, A, &bytes, remote), WcStatus::Success);
        assert!(memory.read(offset, length) == bytes);
        // And locally: what arrived is sent back.
        let sge = Sge {
            addr: offset as u64,
            length: length as u32,
            lkey: mr.lkey(),
        };
        let into = pair.side(0).incoming();
        let there = pair.side(0).sge(into, length);
        pair.side(0).post_recv(0, 1, &[there]).expect("posted");
        done(pair, B, super::send(Data::Sges(&[sge])));
        assert_eq!(pair.completions(0, 1)[0].byte_len as usize, length);
        assert!(pair.side(0).buffer.read(into, length) == bytes);
    }
    give_back(pair, 1, mr);
}

/// Rights, memory and protection domain of a region change, its key does not
/// unless it is asked to; then the one of before is refused.
pub fn re_registration<P: Room>(pair: &mut Pair<P>) {
    let (first, mr) = region(pair, 1, 8192, AccessFlags::LOCAL_WRITE);
    let second = pair.side(1).platform.room(4096);
    let old = mr.rkey();
    let change = MrChange {
        access: Some(ALL),
        ..MrChange::default()
    };
    let mr = rereg(pair, mr, &change);
    assert_eq!(mr.rkey(), old);
    let to = |mr: &Mr<P>| Remote {
        addr: mr.address(),
        rkey: mr.rkey(),
    };
    assert_eq!(write(pair, A, b"rights", to(&mr)), WcStatus::Success);
    assert_eq!(first.read(0, 6), b"rights");
    let change = MrChange {
        memory: Some(second.bytes().into()),
        new_key: true,
        ..MrChange::default()
    };
    let mr = rereg(pair, mr, &change);
    assert_eq!(mr.rkey() >> 8, old >> 8, "the same index");
    assert_ne!(mr.rkey(), old);
    assert_eq!(mr.len(), 4096);
    assert_eq!(write(pair, A, b"memory", to(&mr)), WcStatus::Success);
    assert_eq!(second.read(0, 6), b"memory");
    let stale = Remote {
        rkey: old,
        ..to(&mr)
    };
    assert_eq!(write(pair, A, b"stale", stale), WcStatus::RemAccessErr);
    renew_both(pair);
    let side = pair.side(1);
    let pd = side.control.alloc_pd().expect("a PD");
    let change = MrChange {
        pd: Some(&pd),
        ..MrChange::default()
    };
    let mr = rereg(pair, mr, &change);
    let elsewhere = write(pair, A, b"domain", to(&mr));
    assert_eq!(elsewhere, WcStatus::RemAccessErr, "not the queue pair's");
    give_back(pair, 1, mr);
    pair.side(1).control.dealloc_pd(pd).expect("given back");
    renew_both(pair);
}

fn rereg<P: Platform>(pair: &mut Pair<P>, mr: Mr<P>, change: &MrChange<'_>) -> Mr<P> {
    let changed = pair.side(1).control.rereg_mr(mr, change);
    changed.map_err(|refused| refused.error).expect("changed")
}

/// A key is refused for the next 255 lives of its index.
pub fn stale_keys<P: Room>(pair: &mut Pair<P>) {
    let memory = pair.side(1).platform.room(4096);
    let mut keys = Vec::new();
    let side = pair.side(1);
    let mut mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), ALL)
        .expect("a region");
    for _ in 0..256 {
        assert!(!keys.contains(&mr.rkey()));
        keys.push(mr.rkey());
        let change = MrChange {
            new_key: true,
            ..MrChange::default()
        };
        mr = rereg(pair, mr, &change);
    }
    assert_eq!(mr.rkey(), keys[0], "the 257th life has the first one's key");
    for key in [keys[1], keys[255]] {
        let stale = Remote {
            addr: mr.address(),
            rkey: key,
        };
        assert_eq!(write(pair, A, b"stale", stale), WcStatus::RemAccessErr);
        renew_both(pair);
    }
    let to = Remote {
        addr: mr.address(),
        rkey: mr.rkey(),
    };
    assert_eq!(write(pair, A, b"fresh", to), WcStatus::Success);
    give_back(pair, 1, mr);
}

/// What a queue pair's peers may do is its own word too.
pub fn queue_pair_rights<P: Room>(pair: &mut Pair<P>) {
    let (memory, mr) = region(pair, 1, 4096, ALL);
    memory.write(0, b"secret");
    let forbid = QpAttr {
        access: Some(AccessFlags::REMOTE_WRITE),
        ..QpAttr::default()
    };
    let side = pair.side(1);
    side.control
        .modify_qp(&mut side.qps[0], &forbid)
        .expect("other rights");
    let sge = pair.side(0).sge(0, 6);
    let remote = Remote {
        addr: mr.address(),
        rkey: mr.rkey(),
    };
    let op = Op::Read {
        into: &[sge],
        remote,
    };
    let wc = done(pair, A, op);
    assert_eq!(wc.status, WcStatus::RemInvReqErr);
    give_back(pair, 1, mr);
    renew_both(pair);
}
