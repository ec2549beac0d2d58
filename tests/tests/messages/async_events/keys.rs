//! Keys of memory: what an SGE or a peer names and may not.

use e810::{AccessFlags, AsyncEvent, Remote, Sge, WcStatus};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_tests::traffic::{Buffer, Setup};
use e810_types::WorkQueue;

use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x0102 AMP_UNALLOCATED_STAG, deregistered_key, "an SGE with the key of a region that was deregistered";
    0x0103 AMP_INVALID_STAG, key_before_its_registration, "a peer writes to a fast region that has no memory yet";
    0x0105 AMP_BAD_PD, key_of_another_domain, "an SGE with the key of a region of another protection domain";
    0x0106 AMP_BAD_STAG_KEY, key_of_another_life, "a peer writes with a key whose low 8 bits are wrong";
    0x0107 AMP_BAD_STAG_INDEX, key_that_was_never_given, "a peer writes with a key that was never given";
    0x0108 AMP_BOUNDS_VIOLATION, end_behind_the_region, "an SGE that ends beyond its region";
    0x0109 AMP_RIGHTS_VIOLATION, region_closed_to_peers, "a peer writes to a region without REMOTE_WRITE";
    0x010A AMP_TO_WRAP, address_that_wraps, "a peer writes past the highest address";
    0x0206 STAG_ZERO_INVALID, key_zero, "an SGE with key 0 on a queue pair without privilege";
}

/// The highest index there can be.
const NO_KEY: u32 = 0x00FF_F000 << 8 | 1;

/// The device refuses an SGE of A: its send queue is blamed.
fn refused_here(stage: &mut Stage, sge: Sge, status: WcStatus, event: QpEvent) -> AsyncEvent {
    let remote = stage.remote(A);
    stage.write(A, sge, remote);
    stage.send(A);
    let incoming = stage.sge(A, 64);
    stage.receive(A, incoming);
    stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event,
        sends: &[status, WcStatus::WrFlushErr],
        receives: &[WcStatus::WrFlushErr],
    })
}

/// B's device refuses what A names: A is told by a NAK, and B's queue pair has
/// nobody to blame.
fn refused_there(stage: &mut Stage, remote: Remote) -> AsyncEvent {
    let incoming = stage.sge(B, 64);
    stage.receive(B, incoming);
    let sge = stage.sge(A, 64);
    stage.write(A, sge, remote);
    let event = stage.fails(&Failure {
        at: B,
        blamed: None,
        event: QpEvent::AccessError,
        sends: &[],
        receives: &[WcStatus::WrFlushErr],
    });
    stage.peer_fails(A, AeCode::IB_REMOTE_ACCESS_ERROR, WcStatus::RemAccessErr);
    event
}

fn deregistered_key() -> AsyncEvent {
    let mut stage = Stage::connected();
    let memory = Buffer::new(4096);
    let side = &mut stage.pair.sides[0];
    let access = AccessFlags::LOCAL_WRITE;
    let mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), access)
        .unwrap();
    let sge = Sge {
        addr: mr.address(),
        length: 64,
        lkey: mr.lkey(),
    };
    side.control.dereg_mr(mr).unwrap();
    let event = refused_here(&mut stage, sge, WcStatus::LocProtErr, QpEvent::AccessError);
    stage.end();
    event
}

fn key_before_its_registration() -> AsyncEvent {
    let mut stage = Stage::connected();
    let side = &mut stage.pair.sides[1];
    let fast = side.control.alloc_fast_mr(&side.pd, 1).unwrap();
    let rkey = fast.key();
    let event = refused_there(&mut stage, Remote { addr: 0, rkey });
    let side = &mut stage.pair.sides[1];
    side.control.free_fast_mr(fast).unwrap();
    stage.end();
    event
}

fn key_of_another_domain() -> AsyncEvent {
    let mut stage = Stage::connected();
    let memory = Buffer::new(4096);
    let side = &mut stage.pair.sides[0];
    let other = side.control.alloc_pd().unwrap();
    let access = AccessFlags::LOCAL_WRITE;
    let mr = side.control.reg_mr(&other, memory.bytes(), access).unwrap();
    let sge = Sge {
        addr: mr.address(),
        length: 64,
        lkey: mr.lkey(),
    };
    let event = refused_here(&mut stage, sge, WcStatus::LocProtErr, QpEvent::AccessError);
    let side = &mut stage.pair.sides[0];
    side.control.dereg_mr(mr).unwrap();
    side.control.dealloc_pd(other).unwrap();
    stage.end();
    event
}

fn key_of_another_life() -> AsyncEvent {
    let mut stage = Stage::connected();
    let good = stage.remote(A);
    let remote = Remote {
        rkey: good.rkey ^ 0x80,
        ..good
    };
    let event = refused_there(&mut stage, remote);
    stage.end();
    event
}

fn key_that_was_never_given() -> AsyncEvent {
    let mut stage = Stage::connected();
    let good = stage.remote(A);
    let remote = Remote {
        rkey: NO_KEY,
        ..good
    };
    let event = refused_there(&mut stage, remote);
    stage.end();
    event
}

fn end_behind_the_region() -> AsyncEvent {
    let mut stage = Stage::connected();
    let bytes = Setup::default().buffer;
    let sge = stage.pair.sides[0].sge(bytes - 63, 64);
    let event = refused_here(&mut stage, sge, WcStatus::LocProtErr, QpEvent::AccessError);
    stage.end();
    event
}

fn region_closed_to_peers() -> AsyncEvent {
    let mut stage = Stage::connected();
    let memory = Buffer::new(4096);
    let side = &mut stage.pair.sides[1];
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
    let mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), access)
        .unwrap();
    let remote = Remote {
        addr: mr.address(),
        rkey: mr.rkey(),
    };
    let event = refused_there(&mut stage, remote);
    stage.pair.sides[1].control.dereg_mr(mr).unwrap();
    stage.end();
    event
}

fn address_that_wraps() -> AsyncEvent {
    let mut stage = Stage::connected();
    let good = stage.remote(A);
    let remote = Remote {
        addr: u64::MAX - 10,
        ..good
    };
    let event = refused_there(&mut stage, remote);
    stage.end();
    event
}

fn key_zero() -> AsyncEvent {
    let mut stage = Stage::connected();
    let good = stage.sge(A, 64);
    let sge = Sge { lkey: 0, ..good };
    let event = refused_here(&mut stage, sge, WcStatus::WrFlushErr, QpEvent::Fatal);
    stage.end();
    event
}
