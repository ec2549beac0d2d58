//! What the wire brings: packets that do not belong, a peer that does not answer,
//! paths that are not there.

use std::net::IpAddr;

use e810::{AccessFlags, AsyncEvent, Mtu, QpAttr, Remote, WcStatus};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_sim::wire::{Addresses, Bth, Frame, Headers, Opcode, Path, Reth};
use e810_tests::traffic::{End, Pair, Setup};
use e810_types::WorkQueue;

use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x0207 IB_RREQ_AND_Q1_FULL, more_reads_than_are_taken, "a peer with more READs outstanding than this queue pair takes";
    0x0312 RDMAP_ROE_UNEXPECTED_OPCODE, middle_without_a_beginning, "a packet from the middle of a message that never began";
    0x0313 ROE_INVALID_RDMA_READ_REQUEST, read_that_the_queue_pair_forbids, "a peer reads through a queue pair without REMOTE_READ";
    0x0314 ROE_INVALID_RDMA_WRITE_OR_READ_RESP, write_shorter_than_it_says, "a packet of a WRITE that is shorter than its header says";
    0x0316 ROCE_RSP_LENGTH_ERROR, other_path_mtu, "a READ from a peer with another path MTU";
    0x0401 INVALID_ARP_ENTRY, address_that_is_not_in_the_table, "a SEND on a queue pair whose context was changed to name an address table entry that does not exist";
    0x050A LLP_TOO_MANY_RETRIES, peer_that_is_gone, "a SEND to a queue pair that was destroyed";
    0x050F LLP_TOO_MANY_RNRS, peer_without_receives, "a SEND to a peer that posts no receive";
}

/// B's queue pair stops, and its event blames neither queue.
const THERE: Failure<'_> = Failure {
    at: B,
    blamed: None,
    event: QpEvent::Fatal,
    sends: &[],
    receives: &[],
};

/// The next packet of A's connection, as somebody else makes it.
fn packet(stage: &mut Stage, opcode: Opcode, reth: Option<Reth>, payload: usize) -> Vec<u8> {
    let [from, to] = [0, 1].map(|side| {
        let side = &stage.pair.sides[side];
        let IpAddr::V4(ip) = side.ip() else {
            panic!("IPv4");
        };
        (side.control.lan().mac.0, ip)
    });
    let path = Path {
        src_mac: from.0,
        dst_mac: to.0,
        ip: Addresses::V4 {
            src: from.1,
            dst: to.1,
        },
        ..Path::default()
    };
    let psn = Pair::<e810_sim::SimPlatform>::psn(A);
    let mut headers = Headers::new(Bth::new(opcode, stage.pair.number(B), psn));
    headers.reth = reth;
    Frame::new(&path, &headers, payload).unwrap().seal()
}

/// B fails by a packet that A did not send; A, which asked for nothing, goes on.
fn fails_by(opcode: Opcode, reth: Option<Reth>, payload: usize) -> AsyncEvent {
    let mut stage = Stage::connected();
    let reth = reth.map(|reth| {
        let Remote { addr, rkey } = stage.remote(A);
        Reth { addr, rkey, ..reth }
    });
    let frame = packet(&mut stage, opcode, reth, payload);
    assert_eq!(stage.sim.receive_frames([frame.as_slice()]), 1);
    let incoming = stage.sge(B, 64);
    stage.receive(B, incoming);
    let event = stage.fails(&Failure {
        receives: &[WcStatus::WrFlushErr],
        ..THERE
    });
    stage.end();
    event
}

fn middle_without_a_beginning() -> AsyncEvent {
    fails_by(Opcode::SEND_MIDDLE, None, 1024)
}

fn write_shorter_than_it_says() -> AsyncEvent {
    let reth = Reth {
        len: 8,
        ..Reth::default()
    };
    fails_by(Opcode::WRITE_ONLY, Some(reth), 4)
}

fn read_that_the_queue_pair_forbids() -> AsyncEvent {
    let mut stage = Stage::connected();
    let forbid = QpAttr {
        access: Some(AccessFlags::REMOTE_WRITE),
        ..QpAttr::default()
    };
    let side = &mut stage.pair.sides[1];
    side.control.modify_qp(&mut side.qps[0], &forbid).unwrap();
    let remote = stage.remote(A);
    stage.read(A, remote);
    let event = stage.fails(&THERE);
    stage.peer_fails(A, AeCode::IB_INVALID_REQUEST, WcStatus::RemInvReqErr);
    stage.end();
    event
}

/// Both queue pairs made anew; `change` changes what the one of `at` is told on
/// its way.
fn reconnect(stage: &mut Stage, at: End, change: impl Fn(&mut QpAttr)) {
    for end in [A, B] {
        stage.pair.renew(end);
    }
    for end in [A, B] {
        for mut attr in stage.pair.steps(end) {
            if end == at {
                change(&mut attr);
            }
            let side = &mut stage.pair.sides[end.side];
            side.control.modify_qp(&mut side.qps[0], &attr).unwrap();
        }
    }
}

fn more_reads_than_are_taken() -> AsyncEvent {
    let mut stage = Stage::connected();
    reconnect(&mut stage, B, |attr| {
        attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.map(|_| 1);
    });
    let remote = stage.remote(A);
    // All at once: their packets follow each other closely.
    let into = [stage.sge(A, 4096)];
    let op = e810::Op::Read {
        into: &into,
        remote,
    };
    let list = [1, 2, 3, 4, 5, 6, 7, 8].map(|wr_id| e810::SendWr {
        wr_id,
        op,
        flags: e810::SendFlags::SIGNALED,
    });
    stage.pair.sides[0].post_send(0, &list).unwrap();
    let event = stage.fails(&THERE);
    let side = &mut stage.pair.sides[0];
    let done: Vec<WcStatus> = side.take().iter().map(|wc| wc.status).collect();
    // Those that were taken, the one that was not, and the rest.
    let taken = done.iter().take_while(|wc| **wc == WcStatus::Success);
    let (_, refused) = done.split_at(taken.count());
    assert_eq!(refused[0], WcStatus::RemInvReqErr, "{done:?}");
    assert!(refused[1..].iter().all(|wc| *wc == WcStatus::WrFlushErr));
    assert_eq!(done.len(), 8);
    stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: QpEvent::RequestError,
        sends: &[],
        receives: &[],
    });
    stage.end();
    event
}

fn other_path_mtu() -> AsyncEvent {
    let mut stage = Stage::connected();
    reconnect(&mut stage, B, |attr| {
        attr.path_mtu = attr.path_mtu.map(|_| Mtu::Mtu512);
    });
    let remote = stage.remote(A);
    let into = [stage.sge(A, 1000)];
    stage.post(
        A,
        e810::Op::Read {
            into: &into,
            remote,
        },
    );
    // The event's source is the same as for a peer's WRITE: nobody is blamed.
    let event = stage.fails(&Failure {
        at: A,
        sends: &[WcStatus::WrFlushErr],
        ..THERE
    });
    stage.end();
    event
}

/// A's send queue is blamed for its only SEND.
fn send_fails(stage: &mut Stage, status: WcStatus) -> AsyncEvent {
    stage.send(A);
    stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: QpEvent::Fatal,
        sends: &[status],
        receives: &[],
    })
}

fn address_that_is_not_in_the_table() -> AsyncEvent {
    let mut stage = Stage::connected().may_find(&["qp-arp"]);
    // ARPIDX [63:48] of the word at 48: an entry that nobody made.
    stage.reconnect_changed(A, 6, |word| word & !(0xFFFF << 48) | 7 << 48);
    let event = send_fails(&mut stage, WcStatus::WrFlushErr);
    stage.end();
    event
}

fn peer_that_is_gone() -> AsyncEvent {
    let mut stage = Stage::connected();
    let there = &mut stage.pair.sides[1];
    let gone = there.qps.remove(0);
    there.control.destroy_qp(gone).unwrap();
    let event = send_fails(&mut stage, WcStatus::RetryExcErr);
    stage.pair.sides[1].add_qp();
    stage.end();
    event
}

fn peer_without_receives() -> AsyncEvent {
    let mut stage = Stage::new(Setup {
        rnr_retry: 1,
        ..Setup::default()
    });
    let event = send_fails(&mut stage, WcStatus::RnrRetryExcErr);
    stage.end();
    event
}
