//! Queues and contexts whose memory goes wrong, a queue that is full, a queue
//! that is drained.

use e810::{AccessFlags, AsyncEvent, Data, Op, QpAttr, QpState, Sge, WcStatus};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_ceq::aeqe::Object;
use e810_ceq::event::Kind;
use e810_hal::Ns;
use e810_tests::traffic::{Buffer, Setup};
use e810_types::WorkQueue;

use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x0203 CQ_OPERATION_ERROR, completion_queue_that_is_full, "more completions than a CQ has room for, and nobody polls";
    0x0700 LCE_QP_CATASTROPHIC, context_that_was_overwritten, "the memory of a queue pair's context is overwritten";
    0x0704 LOCAL_QP_CATASTROPHIC, memory_that_is_gone, "a WRITE from memory that was unmapped while its key was valid";
    0x0900 QP_SUSPEND_COMPLETE, send_queue_that_is_drained, "a queue pair is moved to SQD";
}

/// A's queue pair stops, and nothing says which request it was.
const HERE: Failure<'_> = Failure {
    at: A,
    blamed: None,
    event: QpEvent::Fatal,
    sends: &[WcStatus::WrFlushErr],
    receives: &[],
};

fn completion_queue_that_is_full() -> AsyncEvent {
    const REQUESTS: usize = 40;
    let mut stage = Stage::new(Setup {
        cqe: 4,
        separate_cqs: true,
        ..Setup::default()
    });
    stage.pair.sides[0].polling = false;
    let remote = stage.remote(A);
    for _ in 0..REQUESTS {
        let sge = stage.sge(A, 8);
        stage.write(A, sge, remote);
    }
    let side = &stage.pair.sides[0];
    let number = side.cqs[0].number();
    let event = stage.reported_for(0, Object::Cq(number));
    assert_eq!((event.blamed, event.receive), (None, None));
    assert_eq!(event.qp_event(), None);
    let side = &mut stage.pair.sides[0];
    assert!(side.cqs[0].has_failed() && !side.cqs[1].has_failed());
    // What cannot be completed any more cannot be flushed either: said once.
    assert!(side.failed.len() <= 1, "{:?}", side.failed);
    side.failed.clear();
    side.polling = true;
    stage.pair.during(Ns::from_ms(60));
    // The queue pair that could not complete has failed with it.
    let number = stage.pair.number(A);
    let fatal = stage.reported_for(0, Object::Qp(number));
    assert_eq!(fatal.kind, Kind::Ae(AeCode::LOCAL_QP_CATASTROPHIC));
    let done = stage.pair.sides[0].take();
    assert_eq!(done.len(), REQUESTS);
    let good = done.iter().filter(|wc| wc.status == WcStatus::Success);
    assert!((1..10).contains(&good.count()), "{done:?}");
    // Its CQ is of no use any more.
    stage.close_with_failed_cq();
    event
}

fn context_that_was_overwritten() -> AsyncEvent {
    /// Words that the simulator keeps of the host context before the state of
    /// the protocol.
    const BEFORE_STATE: usize = 40;
    let setup = Setup::default();
    let stage = Stage::configured(setup, |_, config| config.write_through = true);
    let mut stage = stage.may_find(&["hmc-context"]);
    let number = stage.pair.number(A) as usize;
    let blocks = stage.pair.sides[0].platform.blocks();
    let contexts = blocks.iter().filter(|block| block.align == 512);
    let contexts = contexts.max_by_key(|block| block.bytes).unwrap();
    // Where the queues are: words 1 and 2 of the context, here and in the memory
    // given to the card.
    let queues = [1, 2].map(|word| contexts.get(number * 64 + word));
    let given = blocks.iter().filter(|block| block.align >= 4096);
    let (block, at) = given
        .flat_map(|block| (1..block.words()).map(move |word| (block, word - 1)))
        .find(|(block, at)| [*at, at + 1].map(|word| block.get(word)) == queues)
        .unwrap();
    for word in 0..16 {
        block.set(at + BEFORE_STATE + word, u64::MAX);
    }
    stage.send(A);
    let event = stage.fails(&HERE);
    stage.end();
    event
}

fn memory_that_is_gone() -> AsyncEvent {
    let stage = Stage::new(Setup {
        fast_register: true,
        ..Setup::default()
    });
    let mut stage = stage.may_find(&["dma-freed"]);
    let memory = Buffer::new(4096);
    let side = &mut stage.pair.sides[0];
    let mut fast = side.control.alloc_fast_mr(&side.pd, 1).unwrap();
    let access = AccessFlags::LOCAL_WRITE;
    let request = side.control.map_fast_mr(&mut fast, memory.bytes(), access);
    stage.succeeds(A, Op::FastRegister(&request.unwrap()));
    // Before the invalidation that comes first.
    let control = &mut stage.pair.sides[0].control;
    control.unmap_fast_mr(&mut fast).unwrap();
    let sge = Sge {
        addr: memory.bytes().address(),
        length: 64,
        lkey: fast.key(),
    };
    let remote = stage.remote(A);
    stage.write(A, sge, remote);
    let event = stage.fails(&HERE);
    stage.pair.sides[0].control.free_fast_mr(fast).unwrap();
    stage.end();
    event
}

/// The program is told by an event of its own.
fn send_queue_that_is_drained() -> AsyncEvent {
    let mut stage = Stage::new(Setup::default());
    // Begun, and not at its end before the peer has a receive.
    stage.send(A);
    let side = &mut stage.pair.sides[0];
    let sqd = QpAttr::to_sqd(true);
    side.control.modify_qp(&mut side.qps[0], &sqd).unwrap();
    stage.pair.during(Ns::from_ms(1));
    assert!(stage.pair.sides[0].drained.is_empty());
    let incoming = stage.sge(B, 64);
    stage.receive(B, incoming);
    for side in [0, 1] {
        stage.pair.completions(side, 1);
    }
    let event = stage.logged(0, AeCode::QP_SUSPEND_COMPLETE);
    let number = stage.pair.number(A);
    assert_eq!(event.object, Object::Qp(number));
    assert_eq!((event.blamed, event.qp_event()), (None::<WorkQueue>, None));
    let side = &mut stage.pair.sides[0];
    assert_eq!(std::mem::take(&mut side.drained), [number]);
    assert_eq!(side.qps[0].state(), QpState::Sqd);
    let rts = QpAttr {
        state: Some(QpState::Rts),
        ..QpAttr::default()
    };
    side.control.modify_qp(&mut side.qps[0], &rts).unwrap();
    stage.receive(B, incoming);
    let sges = [stage.sge(A, 64)];
    let data = Data::Sges(&sges);
    stage.succeeds(A, Op::Send { data, imm: None });
    stage.pair.completions(1, 1);
    stage.end();
    event
}
