//! Memory windows: binds that the device refuses, and what peers may not do
//! through them.

use e810::{AccessFlags, AsyncEvent, Mr, Mw, MwBind, MwType, Op, Remote, WcStatus};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_sim::SimPlatform;
use e810_tests::traffic::{Buffer, End, Setup, Watched};
use e810_types::WorkQueue;

use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x0104 AMP_BAD_QP, window_of_another_queue_pair, "a peer writes through a window that another queue pair has bound";
    0x0114 AMP_MWBIND_VALID_STAG, bound_twice, "a bind of a window of type 2 that is bound";
    0x0115 AMP_MWBIND_OF_MR_STAG, region_for_window, "a bind that names a region as window";
    0x0116 AMP_MWBIND_TO_ZERO_BASED_STAG, zero_based_region, "a bind to a zero-based region";
    0x0117 AMP_MWBIND_TO_MW_STAG, window_for_region, "a bind to a window";
    0x0118 AMP_MWBIND_INVALID_RIGHTS, more_than_the_region_grants, "a bind with remote write to a region without local write";
    0x0119 AMP_MWBIND_INVALID_BOUNDS, end_behind_the_region, "a bind that ends beyond its region";
    0x011A AMP_MWBIND_TO_INVALID_PARENT, region_that_is_gone, "a bind to a region that was deregistered";
    0x011B AMP_MWBIND_BIND_DISABLED, region_without_binds, "a bind to a region without MW_BIND";
    0x011E AMP_MWBIND_ZERO_BASED_TYPE1_MW, zero_based_window_of_type_1, "a bind of a zero-based window of type 1";
    0x0120 AMP_MWBIND_WRONG_TYPE, window_of_the_other_type, "a bind for windows of type 1 that names a window of type 2";
}

const BYTES: usize = 4096;
/// Rights of regions that windows are bound to.
const RIGHTS: AccessFlags = AccessFlags::LOCAL_WRITE.union(AccessFlags::MW_BIND);

/// A region, and a window that is not bound yet.
pub(crate) struct Parts {
    at: End,
    pub(crate) region: Mr<Watched<SimPlatform>>,
    window: Mw,
}

impl Parts {
    pub(crate) fn give_back(self, stage: &mut Stage) {
        let control = &mut stage.pair.sides[self.at.side].control;
        control.dealloc_mw(self.window).unwrap();
        control.dereg_mr(self.region).unwrap();
    }
}

pub(crate) fn region_with_window(stage: &mut Stage, at: End, kind: MwType) -> Parts {
    of_rights(stage, at, kind, RIGHTS)
}

fn of_rights(stage: &mut Stage, at: End, kind: MwType, access: AccessFlags) -> Parts {
    let memory = Buffer::new(BYTES);
    let side = &mut stage.pair.sides[at.side];
    let region = side.control.reg_mr(&side.pd, memory.bytes(), access);
    Parts {
        at,
        region: region.unwrap(),
        window: side.control.alloc_mw(&side.pd, kind).unwrap(),
    }
}

/// The request that binds the window to the whole region.
pub(crate) fn bind(parts: &Parts) -> MwBind {
    MwBind {
        mw_stag: parts.window.stag() | 0x21,
        mr_stag: parts.region.lkey(),
        addr: parts.region.address(),
        length: BYTES as u64,
        zero_based: false,
        type_1: parts.window.kind() == MwType::Type1,
        remote_read: true,
        remote_write: true,
    }
}

fn windows() -> Stage {
    Stage::new(Setup {
        windows: true,
        queue_pairs: 2,
        ..Setup::default()
    })
}

/// A bind of A that the device refuses, with this status.
fn refused(stage: &mut Stage, bind: &MwBind, status: WcStatus) -> AsyncEvent {
    stage.post(A, Op::BindMw(bind));
    stage.send(A);
    let event = match status {
        WcStatus::MwBindErr => QpEvent::AccessError,
        _ => QpEvent::Fatal,
    };
    stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event,
        sends: &[status, WcStatus::WrFlushErr],
        receives: &[],
    })
}

/// A bind of A to a region with these rights, changed, that the device refuses.
fn refused_bind(
    access: AccessFlags,
    kind: MwType,
    status: WcStatus,
    change: impl FnOnce(&mut MwBind),
) -> AsyncEvent {
    let mut stage = windows();
    let parts = of_rights(&mut stage, A, kind, access);
    let mut bind = bind(&parts);
    change(&mut bind);
    let event = refused(&mut stage, &bind, status);
    parts.give_back(&mut stage);
    stage.end();
    event
}

fn window_of_another_queue_pair() -> AsyncEvent {
    const OTHER: [End; 2] = [End { side: 0, qp: 1 }, End { side: 1, qp: 1 }];
    let mut stage = windows();
    let parts = region_with_window(&mut stage, B, MwType::Type2);
    let bind = bind(&parts);
    stage.succeeds(B, Op::BindMw(&bind));
    let remote = Remote {
        addr: bind.addr,
        rkey: bind.mw_stag,
    };
    // Through the queue pair that has bound it the peer may write.
    let sge = stage.sge(A, 64);
    stage.write(A, sge, remote);
    assert_eq!(stage.pair.completions(0, 1)[0].status, WcStatus::Success);
    stage.write(OTHER[0], sge, remote);
    let event = stage.fails(&Failure {
        at: OTHER[1],
        blamed: None,
        event: QpEvent::AccessError,
        sends: &[],
        receives: &[],
    });
    stage.peer_fails(
        OTHER[0],
        AeCode::IB_REMOTE_ACCESS_ERROR,
        WcStatus::RemAccessErr,
    );
    parts.give_back(&mut stage);
    stage.end();
    event
}

fn bound_twice() -> AsyncEvent {
    let mut stage = windows();
    let parts = region_with_window(&mut stage, A, MwType::Type2);
    let bind = bind(&parts);
    stage.succeeds(A, Op::BindMw(&bind));
    let event = refused(&mut stage, &bind, WcStatus::MwBindErr);
    parts.give_back(&mut stage);
    stage.end();
    event
}

fn region_for_window() -> AsyncEvent {
    refused_bind(RIGHTS, MwType::Type2, WcStatus::WrFlushErr, |bind| {
        bind.mw_stag = bind.mr_stag;
    })
}

fn zero_based_region() -> AsyncEvent {
    let rights = RIGHTS | AccessFlags::ZERO_BASED;
    refused_bind(rights, MwType::Type2, WcStatus::WrFlushErr, |_| {})
}

fn window_for_region() -> AsyncEvent {
    let mut stage = windows();
    let bound = region_with_window(&mut stage, A, MwType::Type2);
    let first = bind(&bound);
    stage.succeeds(A, Op::BindMw(&first));
    let parts = region_with_window(&mut stage, A, MwType::Type2);
    let second = MwBind {
        mr_stag: first.mw_stag,
        ..bind(&parts)
    };
    let event = refused(&mut stage, &second, WcStatus::WrFlushErr);
    parts.give_back(&mut stage);
    bound.give_back(&mut stage);
    stage.end();
    event
}

fn more_than_the_region_grants() -> AsyncEvent {
    let rights = AccessFlags::MW_BIND;
    refused_bind(rights, MwType::Type2, WcStatus::MwBindErr, |_| {})
}

fn end_behind_the_region() -> AsyncEvent {
    refused_bind(RIGHTS, MwType::Type2, WcStatus::MwBindErr, |bind| {
        bind.length += 1;
    })
}

fn region_that_is_gone() -> AsyncEvent {
    let mut stage = windows();
    let gone = region_with_window(&mut stage, A, MwType::Type2);
    let mr_stag = gone.region.lkey();
    gone.give_back(&mut stage);
    let parts = region_with_window(&mut stage, A, MwType::Type2);
    let bind = MwBind {
        mr_stag,
        ..bind(&parts)
    };
    let event = refused(&mut stage, &bind, WcStatus::WrFlushErr);
    parts.give_back(&mut stage);
    stage.end();
    event
}

fn region_without_binds() -> AsyncEvent {
    let rights = AccessFlags::LOCAL_WRITE;
    refused_bind(rights, MwType::Type2, WcStatus::MwBindErr, |_| {})
}

fn zero_based_window_of_type_1() -> AsyncEvent {
    refused_bind(RIGHTS, MwType::Type1, WcStatus::WrFlushErr, |bind| {
        bind.zero_based = true;
    })
}

fn window_of_the_other_type() -> AsyncEvent {
    refused_bind(RIGHTS, MwType::Type2, WcStatus::WrFlushErr, |bind| {
        bind.type_1 = true;
    })
}
