//! Fast registrations and invalidations.

use e810::{
    AccessFlags, AsyncEvent, Data, FastMr, FastRegister, FastRegisterParts, MwType, Op, WcStatus,
};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_sim::SimPlatform;
use e810_tests::traffic::{Buffer, Setup, Watched};
use e810_types::WorkQueue;

use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;
use crate::async_events::windows::{bind, region_with_window};
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x010C AMP_FASTREG_VALID_STAG, registered_twice, "a fast registration of a region that is registered already";
    0x010D AMP_FASTREG_MW_STAG, window_registered, "a fast registration that names a memory window";
    0x010E AMP_FASTREG_INVALID_RIGHTS, rights_for_the_peer_alone, "a fast registration with remote write and without local write";
    0x0110 AMP_FASTREG_INVALID_LENGTH, longer_than_the_region, "a fast registration longer than its region can be";
    0x0112 AMP_INVALIDATE_NO_REMOTE_ACCESS_RIGHTS, key_that_is_not_the_peers, "a SEND with invalidate that names a key without remote rights";
    0x0113 AMP_INVALIDATE_MR_WITH_BOUND_WINDOWS, region_with_a_window, "an invalidation of a region that has a window";
    0x011C PRIV_OPERATION_DENIED, registration_without_privilege, "a request turned into a fast registration on a queue pair without privilege";
    0x011D AMP_INVALIDATE_TYPE1_MW, window_of_type_1, "an invalidation of a window of type 1";
    0x011F AMP_FASTREG_INVALID_PBL_HPS_CFG, page_size_that_is_none, "a fast registration whose page size in the ring is not a valid code";
    0x0121 AMP_FASTREG_PBLE_MISMATCH, list_that_is_not_there, "a fast registration with a page list beyond the last one";
}

/// Bytes that every region here has room for.
const BYTES: usize = 2 * 4096;

/// Queue pairs that take fast registrations and binds.
fn privileged() -> Stage {
    Stage::new(Setup {
        fast_register: true,
        windows: true,
        ..Setup::default()
    })
}

/// A region of A to be filled, and the request that fills it.
fn fast(stage: &mut Stage) -> (FastMr<Watched<SimPlatform>>, FastRegister) {
    let memory = Buffer::new(BYTES);
    let side = &mut stage.pair.sides[0];
    let mut fast = side.control.alloc_fast_mr(&side.pd, 2).unwrap();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let request = side.control.map_fast_mr(&mut fast, memory.bytes(), access);
    (fast, request.unwrap())
}

/// A request of A that the device refuses.
fn refused(stage: &mut Stage, op: Op<'_>) -> AsyncEvent {
    stage.post(A, op);
    stage.fails(&FAILURE)
}

/// What these codes have in common: nothing says more than that it failed.
const FAILURE: Failure<'_> = Failure {
    at: A,
    blamed: Some(WorkQueue::Send),
    event: QpEvent::Fatal,
    sends: &[WcStatus::WrFlushErr],
    receives: &[],
};

/// The request with other parts.
fn changed(request: &FastRegister, change: impl FnOnce(&mut FastRegisterParts)) -> FastRegister {
    let mut parts = *request.parts();
    change(&mut parts);
    FastRegister::from_parts(parts)
}

/// A fast registration of A, changed, that the device refuses.
fn refused_registration(change: impl FnOnce(&mut FastRegisterParts)) -> AsyncEvent {
    let mut stage = privileged();
    let (fast, request) = fast(&mut stage);
    let request = changed(&request, change);
    let event = refused(&mut stage, Op::FastRegister(&request));
    stage.pair.sides[0].control.free_fast_mr(fast).unwrap();
    stage.end();
    event
}

fn registered_twice() -> AsyncEvent {
    let mut stage = privileged();
    let (fast, request) = fast(&mut stage);
    stage.succeeds(A, Op::FastRegister(&request));
    let event = refused(&mut stage, Op::FastRegister(&request));
    stage.pair.sides[0].control.free_fast_mr(fast).unwrap();
    stage.end();
    event
}

fn window_registered() -> AsyncEvent {
    let mut stage = privileged();
    let (fast, request) = fast(&mut stage);
    let side = &mut stage.pair.sides[0];
    let window = side.control.alloc_mw(&side.pd, MwType::Type2).unwrap();
    let request = changed(&request, |parts| parts.stag_index = window.stag() >> 8);
    let event = refused(&mut stage, Op::FastRegister(&request));
    let side = &mut stage.pair.sides[0];
    side.control.dealloc_mw(window).unwrap();
    side.control.free_fast_mr(fast).unwrap();
    stage.end();
    event
}

fn rights_for_the_peer_alone() -> AsyncEvent {
    // LOCAL_READ and REMOTE_WRITE (data-path 6.2).
    refused_registration(|request| request.rights = 0x09)
}

fn longer_than_the_region() -> AsyncEvent {
    refused_registration(|request| request.length = BYTES as u64 + 1)
}

fn list_that_is_not_there() -> AsyncEvent {
    refused_registration(|request| request.first_pble = (1 << 28) - 1)
}

fn page_size_that_is_none() -> AsyncEvent {
    let mut stage = privileged();
    let (fast, request) = fast(&mut stage);
    // The first word of the request is the address; HPAGESIZE [47:46] of the
    // last.
    stage.post_changed(
        A,
        Op::FastRegister(&request),
        request.parts().start,
        |words| {
            words[3] |= 3 << 46;
        },
    );
    let event = stage.fails(&FAILURE);
    stage.pair.sides[0].control.free_fast_mr(fast).unwrap();
    stage.end();
    event
}

fn registration_without_privilege() -> AsyncEvent {
    let mut stage = Stage::connected();
    let sge = stage.pair.sides[0].sge(0x1234, 64);
    let remote = stage.remote(A);
    let sges = [sge];
    let data = Data::Sges(&sges);
    let op = Op::Write {
        data,
        remote,
        imm: None,
    };
    // A fast registration of 64 bytes (data-path 1.5, 1.7); VALID and SIGCOMPL
    // stay.
    stage.post_changed(A, op, sge.addr, |words| {
        (words[1], words[2]) = (0, 64);
        words[3] = words[3] & 3 << 62 | 1 << 61 | 0x09 << 32;
    });
    let event = stage.fails(&Failure {
        event: QpEvent::AccessError,
        sends: &[WcStatus::LocProtErr],
        ..FAILURE
    });
    stage.end();
    event
}

fn key_that_is_not_the_peers() -> AsyncEvent {
    let mut stage = Stage::connected();
    let memory = Buffer::new(4096);
    let side = &mut stage.pair.sides[1];
    let access = AccessFlags::LOCAL_WRITE;
    let mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), access)
        .unwrap();
    let rkey = mr.rkey();
    let incoming = stage.sge(B, 64);
    stage.receive(B, incoming);
    stage.receive(B, incoming);
    let data = Data::Sges(&[]);
    stage.post(A, Op::SendInv { data, rkey });
    let event = stage.fails(&Failure {
        at: B,
        blamed: Some(WorkQueue::Recv),
        event: QpEvent::AccessError,
        sends: &[],
        receives: &[WcStatus::RemAccessErr, WcStatus::WrFlushErr],
    });
    stage.peer_fails(A, AeCode::IB_REMOTE_ACCESS_ERROR, WcStatus::RemAccessErr);
    stage.pair.sides[1].control.dereg_mr(mr).unwrap();
    stage.end();
    event
}

fn region_with_a_window() -> AsyncEvent {
    let mut stage = privileged();
    let parts = region_with_window(&mut stage, A, MwType::Type2);
    stage.succeeds(A, Op::BindMw(&bind(&parts)));
    let stag = parts.region.lkey();
    let event = refused(&mut stage, Op::LocalInv { stag });
    parts.give_back(&mut stage);
    stage.end();
    event
}

fn window_of_type_1() -> AsyncEvent {
    let mut stage = privileged();
    let parts = region_with_window(&mut stage, A, MwType::Type1);
    let bind = bind(&parts);
    stage.succeeds(A, Op::BindMw(&bind));
    let stag = bind.mw_stag;
    let event = refused(&mut stage, Op::LocalInv { stag });
    parts.give_back(&mut stage);
    stage.end();
    event
}
