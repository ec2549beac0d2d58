//! Requests that the device cannot carry out, and what the peer says to those it
//! refuses.

use e810::{AsyncEvent, Data, Op, Sge, WcStatus};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_ceq::event::Kind;
use e810_types::WorkQueue;

use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x0205 RDMA_READ_WHILE_ORD_ZERO, read_without_any_allowed, "a READ on a queue pair whose context was changed to allow none";
    0x0208 IB_INVALID_REQUEST, answer_that_the_request_is_invalid, "a SEND longer than the peer's receive, at the sender";
    0x020A WQE_UNEXPECTED_OPCODE, opcode_that_is_none, "a request whose opcode in the ring was changed";
    0x020B WQE_INVALID_PARAMETER, inline_length_that_is_none, "a request whose inline length in the ring was changed";
    0x020C WQE_INVALID_FRAG_DATA, fragment_of_another_lap, "a request with an SGE in the ring that is not valid";
    0x020D IB_REMOTE_ACCESS_ERROR, answer_that_access_is_refused, "a WRITE with a key that the peer never gave, at the sender";
    0x020E IB_REMOTE_OP_ERROR, answer_that_the_peer_failed, "a SEND to a receive with a bad key, at the sender";
    0x0303 DDP_UBE_DDP_MESSAGE_TOO_LONG_FOR_AVAILABLE_BUFFER, message_longer_than_its_receive, "a SEND longer than the receive, at the receiver";
}

/// A WRITE of A that is changed in the ring; findings say so too.
fn changed(status: WcStatus, change: impl Fn(&mut [u64; 4]) + Send + 'static) -> AsyncEvent {
    let mut stage = Stage::connected().may_find(&["wqe-malformed"]);
    let sge = stage.pair.sides[0].sge(0x1234, 64);
    let remote = stage.remote(A);
    let sges = [sge];
    let op = Op::Write {
        data: Data::Sges(&sges),
        remote,
        imm: None,
    };
    stage.post_changed(A, op, sge.addr, change);
    let event = stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: QpEvent::Fatal,
        sends: &[status],
        receives: &[],
    });
    stage.end();
    event
}

fn opcode_that_is_none() -> AsyncEvent {
    // Opcode [37:32].
    changed(WcStatus::LocQpOpErr, |words| words[3] |= 0x3F << 32)
}

fn inline_length_that_is_none() -> AsyncEvent {
    // INLINEDATAFLAG [57], INLINEDATALEN [55:48].
    changed(WcStatus::WrFlushErr, |words| {
        words[3] |= 1 << 57 | 0xFF << 48;
    })
}

fn fragment_of_another_lap() -> AsyncEvent {
    // VALID [63] of the fragment.
    changed(WcStatus::WrFlushErr, |words| words[1] ^= 1 << 63)
}

fn read_without_any_allowed() -> AsyncEvent {
    let mut stage = Stage::connected();
    // ORDSIZE [7:0] of the word at 160.
    stage.reconnect_changed(A, 20, |word| word & !0xFF);
    let remote = stage.remote(A);
    stage.read(A, remote);
    let event = stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: QpEvent::Fatal,
        sends: &[WcStatus::WrFlushErr],
        receives: &[],
    });
    stage.end();
    event
}

/// A SEND of 64 bytes to `receive`, which the peer's device cannot fill: what
/// each side is told.
fn refused_receive(receive: Sge, status: WcStatus, nak: (WcStatus, QpEvent)) -> [AsyncEvent; 2] {
    let mut stage = Stage::connected();
    // The first one is good, so that the index of the second says something.
    let good = stage.sge(B, 64);
    stage.receive(B, good);
    stage.send(A);
    for side in [0, 1] {
        stage.pair.completions(side, 1);
    }
    let receive = Sge {
        addr: good.addr,
        lkey: match receive.lkey {
            0 => good.lkey,
            other => other,
        },
        ..receive
    };
    stage.receive(B, receive);
    stage.receive(B, good);
    stage.send(A);
    stage.send(A);
    let there = stage.fails(&Failure {
        at: B,
        blamed: Some(WorkQueue::Recv),
        event: match status {
            WcStatus::LocLenErr => QpEvent::Fatal,
            _ => QpEvent::AccessError,
        },
        sends: &[],
        receives: &[status, WcStatus::WrFlushErr],
    });
    // Four SGEs take four quanta of a slot.
    assert_eq!(there.receive, Some(4), "{there}");
    let here = stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: nak.1,
        sends: &[nak.0, WcStatus::WrFlushErr],
        receives: &[],
    });
    stage.end();
    [here, there]
}

/// One byte too short.
fn too_short() -> [AsyncEvent; 2] {
    let short = Sge {
        length: 63,
        ..Sge::default()
    };
    let reported = (WcStatus::RemInvReqErr, QpEvent::RequestError);
    refused_receive(short, WcStatus::LocLenErr, reported)
}

fn answer_that_the_request_is_invalid() -> AsyncEvent {
    let [here, _] = too_short();
    here
}

fn message_longer_than_its_receive() -> AsyncEvent {
    let [_, there] = too_short();
    there
}

fn answer_that_the_peer_failed() -> AsyncEvent {
    let bad = Sge {
        length: 64,
        lkey: 0x00FF_F000 << 8 | 1,
        ..Sge::default()
    };
    let reported = (WcStatus::RemOpErr, QpEvent::Fatal);
    let [here, there] = refused_receive(bad, WcStatus::LocProtErr, reported);
    assert_eq!(there.kind, Kind::Ae(AeCode::AMP_BAD_STAG_INDEX));
    here
}

fn answer_that_access_is_refused() -> AsyncEvent {
    let mut stage = Stage::connected();
    let good = stage.remote(A);
    let remote = e810::Remote {
        rkey: 0x00FF_F000 << 8 | 1,
        ..good
    };
    let sge = stage.sge(A, 64);
    stage.write(A, sge, remote);
    let here = stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: QpEvent::AccessError,
        sends: &[WcStatus::RemAccessErr],
        receives: &[],
    });
    let there = stage.fails(&Failure {
        at: B,
        blamed: None,
        event: QpEvent::AccessError,
        sends: &[],
        receives: &[],
    });
    assert_eq!(there.kind, Kind::Ae(AeCode::AMP_BAD_STAG_INDEX));
    stage.end();
    here
}
