//! Commands of the Control QP that no driver sends, or answers that none looks at.

use anyhow::{Result, bail};
use e810::hmc::Object;
use e810_cqp::op::{AllocMwStag, DeallocStag, FlushWqes, HwQpType, ModifyQp, StagKind};
use e810_cqp::{Error, Opcode};
use e810_hal::regs::PFPE_CQPTAIL;
use e810_hal::{Clock as _, Iova};
use e810_trace::Event;
use e810_types::HwQpState;

use super::STOPS;
use crate::bench::{Engine, Raw};
use crate::experiment::{Experiment, Risk, Seen};

/// "Error, see minor", and the minor codes that the experiments wait for (control-path 4.5).
const MAJOR: u16 = 0xFFFF;
const NOTHING_TO_FLUSH_CODE: u16 = 0x8006;
const INVALID_STATE: u16 = 0x8002;

/// The code with which a command was refused; `None` if it was carried out.
pub(super) fn refusal(done: e810::Result<e810_cqp::Completion>) -> Result<Option<(u16, u16)>> {
    match done {
        Ok(_) => Ok(None),
        // Nothing that such a device answers says anything.
        Err(error) if error.needs_reset() => Err(error.into()),
        Err(e810::Error::Cqp(Error::Cqp { major, minor, .. })) => Ok(Some((major, minor))),
        Err(other) => Err(other.into()),
    }
}

fn flush(qp: u32) -> FlushWqes {
    FlushWqes {
        qp,
        sq: true,
        rq: true,
        codes: None,
        event: None,
    }
}

pub(super) const NOTHING_TO_FLUSH: Experiment = Experiment {
    name: "nothing_to_flush",
    assumes: "FLUSH_WQES of a queue pair with nothing outstanding fails with 0xFFFF/0x8006",
    does: "moves an idle queue pair to ERROR, and flushes it twice",
    values: &["Refused", "Done"],
    if_not: "Nothing: the driver takes both answers.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [qp, _] = engine.pair(cq)?;
            engine.fail(qp)?;
            let number = engine.get(qp)?.number().get();
            Ok(match refusal(engine.execute(&flush(number)))? {
                None => Seen::Value("Done"),
                Some((MAJOR, NOTHING_TO_FLUSH_CODE)) => Seen::Value("Refused"),
                Some(other) => Seen::Other(format!("{other:#06x?}")),
            })
        })
    },
};

/// MODIFY_QP to ERROR of a queue pair that was created in `lines`, with nothing else.
fn to_error(lines: &[Event], number: u32) -> Result<ModifyQp> {
    let is_it = |header: u64| header & 0xFF_FFFF == u64::from(number);
    let (created, _) = Raw::last_that(lines, Opcode::CreateQp, is_it)?;
    let (context, shadow) = (created.word(2), created.word(5));
    Ok(ModifyQp::new(
        number,
        HwQpType::RoceRc,
        Iova(context),
        Iova(shadow),
        HwQpState::Error,
    ))
}

/// Whether a queue pair refuses to go to ERROR, as one in this state may.
fn refuses(engine: &mut Engine<'_>, command: &ModifyQp) -> Result<bool> {
    match refusal(engine.execute(command))? {
        None => Ok(false),
        Some((MAJOR, INVALID_STATE)) => Ok(true),
        Some(other) => bail!("MODIFY_QP to ERROR fails with {other:#06x?}"),
    }
}

pub(super) const ERROR_REFUSED: Experiment = Experiment {
    name: "error_refused",
    assumes: "only a queue pair that MODIFY_QP has moved to ERROR refuses to be moved there again",
    does: "moves queue pairs to ERROR: an idle one, one that the device has stopped, and one twice",
    values: &["Again", "Known", "Always", "Never"],
    if_not: "Nothing: the driver goes on after this code.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(64)?;
            let idle = engine.qp(cq)?;
            let [twice, _] = engine.pair(cq)?;
            let [sender, stopped] = engine.pair(cq)?;
            let lines = engine.happened();
            let command = |engine: &mut Engine<'_>, index| {
                let number = engine.get(index)?.number().get();
                to_error(&lines, number)
            };
            let command_idle = command(engine, idle)?;
            let command_twice = command(engine, twice)?;
            let command_stopped = command(engine, stopped)?;
            let is_idle_refused = refuses(engine, &command_idle)?;
            let is_first_refused = refuses(engine, &command_twice)?;
            let is_again_refused = refuses(engine, &command_twice)?;
            // The driver does not see the event before: it would move the queue pair itself.
            engine.break_in(sender)?;
            bench.device().delay(STOPS);
            if !engine
                .happened()
                .iter()
                .any(|line| matches!(line, Event::Aeqe { .. }))
            {
                bail!("the device stops no queue pair");
            }
            let is_stopped_refused = refuses(engine, &command_stopped)?;
            let found = (
                is_first_refused,
                is_again_refused,
                is_idle_refused,
                is_stopped_refused,
            );
            Ok(match found {
                (false, false, false, false) => Seen::Value("Never"),
                (false, true, false, false) => Seen::Value("Again"),
                (false, true, true, false) => Seen::Value("Known"),
                (false, true, true, true) => Seen::Value("Always"),
                other => Seen::Other(format!("refused at first, again, idle, stopped: {other:?}")),
            })
        })
    },
};

pub(super) const OP_ERR: Experiment = Experiment {
    name: "op_err",
    assumes: "CQP_OP_ERR (PFPE_CQPTAIL) is clear after the next good command",
    does: "sends a command that fails and one that does not, and reads the register after each",
    values: &["Cleared", "Stays"],
    if_not: "Nothing: the driver goes by the codes of a command.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let is_set = || {
                PFPE_CQPTAIL
                    .read(bench.device())
                    .is_set(PFPE_CQPTAIL::CQP_OP_ERR)
            };
            engine.control.gather_stats()?;
            // No queue pair has this number: the highest are not handed out.
            let last = engine.control.hmc().count(Object::Qp).saturating_sub(1);
            if refusal(engine.execute(&flush(last)))?.is_none() {
                bail!("FLUSH_WQES of a queue pair that does not exist is carried out");
            }
            if !is_set() {
                return Ok(Seen::Other("a failed command does not set it".to_owned()));
            }
            engine.control.gather_stats()?;
            Ok(match is_set() {
                true => Seen::Value("Stays"),
                false => Seen::Value("Cleared"),
            })
        })
    },
};

/// Bits of WORK_SCHED_NODE's header: NODEID, NODEOP, ENABLENODE (control-path 4.13).
const NODE_ID: u64 = 0x3FFF;
const NODE_OP: u64 = 0xF << 52;
const DELETE: u64 = 2 << 52;

pub(super) const QUEUE_SET_HANDLES: Experiment = Experiment {
    name: "queue_set_handles",
    assumes: "WORK_SCHED_NODE does not give the handle of a deleted leaf to the next one",
    does: "adds a leaf to the work scheduler, deletes it, and adds it again",
    values: &["Next", "Lowest"],
    if_not: "Nothing: the driver takes any handle.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            engine.pair(cq)?;
            let add = last_added(&engine.happened())?;
            let node = add.word(e810_cqp::op::HEADER) & NODE_ID;
            // A number that the driver has not given to a node.
            let add = add.with(e810_cqp::op::HEADER, NODE_ID, node + 8);
            let delete = add.with(e810_cqp::op::HEADER, NODE_OP, DELETE);
            let first = engine.execute(&add)?.ret_val;
            engine.execute(&delete)?;
            let second = engine.execute(&add)?.ret_val;
            engine.execute(&delete)?;
            Ok(if first == second {
                Seen::Value("Lowest")
            } else {
                Seen::Value("Next")
            })
        })
    },
};

/// The last command that added a leaf.
fn last_added(lines: &[Event]) -> Result<Raw> {
    let adds = |header| header & NODE_OP == 0 && header & LEAF != 0;
    Ok(Raw::last_that(lines, Opcode::WorkSchedNode, adds)?.0)
}

/// NODETYPE of WORK_SCHED_NODE: a leaf.
const LEAF: u64 = 1 << 61;

pub(super) const ARP_AGAIN: Experiment = Experiment {
    name: "arp_again",
    assumes: "MANAGE_ARP writes over a valid entry, and what names the entry goes on",
    does: "sends the command for a neighbour twice",
    values: &["Replaced", "Refused"],
    if_not: "A neighbour whose Ethernet address changes stays as it was (`Control::move_neighbour` fails): connect again.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [from, to] = engine.pair(cq)?;
            let again = Raw::last(&engine.happened(), Opcode::ManageArp)?;
            if refusal(engine.execute(&again))?.is_some() {
                return Ok(Seen::Value("Refused"));
            }
            engine.receive(to)?;
            engine.send_bytes(from, 8)?;
            let done = engine.completions(cq, 2)?;
            Ok(match done.iter().all(|wc| wc.status.is_success()) {
                true => Seen::Value("Replaced"),
                false => Seen::Other("the next message is lost".to_owned()),
            })
        })
    },
};

/// VSI of WORK_SCHED_NODE, and one that no switch has given out.
const VSI_WORD: usize = 4;
const VSI: u64 = 0xFFFF << 48;
const NO_VSI: u64 = 766 << 48;

pub(super) const UNKNOWN_VSI: Experiment = Experiment {
    name: "unknown_vsi",
    assumes: "WORK_SCHED_NODE refuses a VSI that the switch does not have",
    does: "adds a leaf of such a VSI to the work scheduler",
    values: &["Refused", "Taken"],
    if_not: "Nothing: the driver names its own VSI.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            engine.pair(cq)?;
            let add = last_added(&engine.happened())?;
            let header = e810_cqp::op::HEADER;
            let node = add.word(header) & NODE_ID;
            let add = add.with(header, NODE_ID, node + 8);
            // With the function's own VSI it is no mistake.
            engine.execute(&add)?;
            engine.execute(&add.with(header, NODE_OP, DELETE))?;
            let add = add.with(VSI_WORD, VSI, NO_VSI);
            if refusal(engine.execute(&add))?.is_some() {
                return Ok(Seen::Value("Refused"));
            }
            engine.execute(&add.with(header, NODE_OP, DELETE))?;
            Ok(Seen::Value("Taken"))
        })
    },
};

pub(super) const WINDOWS: Experiment = Experiment {
    name: "windows",
    assumes: "there are memory windows, although existing drivers do not offer them on this generation any more",
    does: "allocates a window (ALLOC_STAG) and gives it back",
    values: &["Work", "Refused"],
    if_not: "There are no memory windows: leave `Quirks::memory_windows` off.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let (pd, last) = (engine.pd.id(), engine.control.hmc().count(Object::Mr));
            // The highest are not handed out for so few regions.
            let index = last.saturating_sub(1);
            let window = AllocMwStag {
                index,
                pd,
                type_1: true,
                bind_ignores_key: false,
            };
            if refusal(engine.execute(&window))?.is_some() {
                return Ok(Seen::Value("Refused"));
            }
            let kind = StagKind::Window;
            engine.execute(&DeallocStag { index, pd, kind })?;
            Ok(Seen::Value("Work"))
        })
    },
};

pub(super) const FLUSHED_BOTH: Experiment = Experiment {
    name: "flushed_both",
    assumes: "FLUSH_WQES that has flushed both queues says so with another code than for none or one of them",
    does: "flushes a queue pair with a request in each queue, past the driver",
    values: &["Another", "Zero"],
    if_not: "Nothing: the driver does not look at the code.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [qp, _] = engine.pair(cq)?;
            let number = engine.get(qp)?.number().get();
            let command = to_error(&engine.happened(), number)?;
            engine.receive(qp)?;
            // The peer has no receive for it, so it stays.
            engine.send_bytes(qp, 8)?;
            engine.execute(&command)?;
            Ok(match engine.execute(&flush(number))?.minor {
                0 => Seen::Value("Zero"),
                code @ (2 | 3) => Seen::Other(format!("{code}, which is that of one queue")),
                _ => Seen::Value("Another"),
            })
        })
    },
};
