//! Entries of the asynchronous event queue as the device writes them.

use anyhow::{Context, Result};
use e810::{AccessFlags, Op, Remote};
use e810_card::record::words_from_hex;
use e810_cqp::Opcode;
use e810_hal::Clock as _;
use e810_trace::Event;

use super::STOPS;
use crate::bench::Raw;
use crate::experiment::{Experiment, Risk, Seen};

/// The number of the object in the header of a command (control-path 4.7, 4.8).
const OBJECT: u64 = 0x3_FFFF;
/// CQ_OPERATION_ERROR (control-path 7.5).
const CQ_ERROR: u64 = 0x203;

/// The words of the first asynchronous event among `lines` that is about the queue pair, or the completion
/// queue, with this number.
fn event_of(lines: &[Event], is_cq: bool, number: u32) -> Result<[u64; 2]> {
    let mut events = lines.iter().filter_map(|line| match line {
        Event::Aeqe { bytes, .. } => <[u64; 2]>::try_from(words_from_hex(bytes)?).ok(),
        _ => None,
    });
    // QPCQID and AECODE (control-path 7.3).
    let is_it = |[_, word]: &[u64; 2]| {
        let id = word & 0x3_FFFF | (word >> 46 & 1) << 18;
        id == u64::from(number) && (word >> 34 & 0xFFF == CQ_ERROR) == is_cq
    };
    let found = events.find(is_it);
    found.context("the recording has no such asynchronous event")
}

/// What an event has for a context that was given.
fn context(found: u64, given: u64, values: [(&'static str, u64); 2]) -> Seen {
    for (name, wanted) in values {
        if found == wanted {
            return Seen::Value(name);
        }
    }
    Seen::Other(format!("{found:#x} for {given:#x}"))
}

pub(super) const QP_EVENT_CONTEXT: Experiment = Experiment {
    name: "qp_event_context",
    assumes: "the event of a queue pair has the context that the queue pair was created with",
    does: "writes with a key that does not exist, and looks at the event",
    values: &["Whole", "Zero"],
    if_not: "Nothing: the driver goes by the number.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [sender, target] = engine.pair(cq)?;
            let number = engine.get(target)?.number().get();
            let lines = engine.happened();
            let is_it = |header: u64| header & OBJECT == u64::from(number);
            let (_, host) = Raw::last_that(&lines, Opcode::CreateQp, is_it)?;
            // QPCOMPCTX (control-path 5.2).
            let given = host.get(21).copied().unwrap_or(0);
            engine.break_in(sender)?;
            engine.wait(STOPS)?;
            let [found, _] = event_of(&engine.happened(), false, number)?;
            Ok(context(found, given, [("Whole", given), ("Zero", 0)]))
        })
    },
};

/// More than the smallest completion queue has entries, and not more than a send queue has.
const REQUESTS: usize = 15;

pub(super) const CQ_EVENT_CONTEXT: Experiment = Experiment {
    name: "cq_event_context",
    assumes: "the event of a completion queue has the queue's context, shifted right by one",
    does: "lets a completion queue overflow, and looks at the event",
    values: &["Shifted", "Whole"],
    if_not: "Nothing: the driver takes both.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(1)?;
            let [qp, _] = engine.pair(cq)?;
            let lines = engine.happened();
            let number = engine.cqs.get(cq).context("no queue")?.number();
            let is_it = |header: u64| header & OBJECT == u64::from(number);
            let (made, _) = Raw::last_that(&lines, Opcode::CreateCq, is_it)?;
            let given = made.word(1);
            // Nobody polls the queue meanwhile.
            for _ in 0..REQUESTS {
                engine.write(qp)?;
            }
            // The driver does not see the event: it would flush queue pairs to a queue that takes nothing.
            bench.device().delay(STOPS);
            let [found, _] = event_of(&engine.happened(), true, number)?;
            Ok(context(
                found,
                given,
                [("Shifted", given >> 1), ("Whole", given)],
            ))
        })
    },
};

pub(super) const READ_SINK: Experiment = Experiment {
    name: "read_sink",
    assumes: "the event for a READ into memory that may not be written blames the response",
    does: "reads into memory whose key allows no writes, and looks at the event",
    values: &["Response", "Request"],
    if_not: "A READ into memory that may not be written completes with another status.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [qp, _] = engine.pair(cq)?;
            let number = engine.get(qp)?.number().get();
            let bytes = engine.bytes;
            let read_only = AccessFlags::REMOTE_READ;
            let sink = engine.control.reg_mr(&engine.pd, bytes, read_only)?;
            let sges = [e810::Sge {
                addr: sink.address() + 8192,
                length: 8,
                lkey: sink.lkey(),
            }];
            let remote = Remote {
                addr: engine.mr.address(),
                rkey: engine.mr.rkey(),
            };
            let posted = engine.send(
                qp,
                Op::Read {
                    into: &sges,
                    remote,
                },
            );
            let waited = posted.and_then(|()| engine.wait(STOPS));
            let lines = engine.happened();
            engine.fail(qp)?;
            if let Err((_, error)) = engine.control.dereg_mr(sink) {
                return Err(error.into());
            }
            waited?;
            let [_, word] = event_of(&lines, false, number)?;
            // AESRC (data-path 7.3).
            Ok(match word >> 50 & 0xF {
                5 | 7 => Seen::Value("Request"),
                9 | 0xB | 0xD | 0xF => Seen::Value("Response"),
                other => Seen::Other(format!("its source is {other:#x}")),
            })
        })
    },
};
