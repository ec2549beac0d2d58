//! Level 3: limits and features of the RDMA engine, through the control QP.
//!
//! The control QP is created on a function that is otherwise as a reset leaves it, and
//! destroyed again: no host memory cache, no queue, no package. That the engine answers
//! these two commands in that state is `[inf engine_alone]`: existing drivers send them after the
//! LAN side is set up (control-path 3.1, steps 7 to 11).

use e810_cqp::hmc::{Features, FpmQuery, Object};
use e810_cqp::op::{Command, QUERY_BYTES, QueryFeatures, QueryFpm};
use e810_cqp::{Config, Cqp};
use e810_hal::bus::{PfId, RegIndex};
use e810_hal::clock::live;
use e810_hal::regs::{CPU_READY, GLPE_CPUSTATUS0, GLPE_CPUSTATUS1, GLPE_CPUSTATUS2, PF_FUNC_RID};
use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, Iova, Ns, Platform, WaitError, poll_until};

use crate::journal::{Journal, JournalError, Medium};
use crate::record::{Record, hex, words_from_hex};

/// What level 3 does, said before it begins.
pub const DOES: &str = "creates the control QP of the RDMA engine, asks for limits and features, \
    destroys it and resets the function; no package, queue or memory region is made";

/// Limit and interval of the wait for the engine's processors (control-path 10).
const ENGINE_LIMIT: Ns = Ns::from_ms(14_000);
const ENGINE_PAUSE: Ns = Ns::from_ms(1_000);
/// Alignment of a command's buffer.
const ALIGN: usize = 256;
/// Bytes for the feature list: more than any list that was seen (control-path 6.8).
const FEATURE_BYTES: usize = 4096;

/// Why level 3 ends early.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The report, or a function that is gone.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The engine's processors are not ready.
    #[error("{0}; a card without RDMA, or one whose firmware has not started it, has no level 3")]
    NotReady(#[from] WaitError),
    /// A step of the control QP.
    #[error("{what}: {source}")]
    Cqp {
        /// The step.
        what: &'static str,
        /// What was wrong.
        source: e810_cqp::Error,
    },
    /// The reset at the end.
    #[error("resetting the function: {0}")]
    Reset(#[from] e810_adminq::Error),
}

/// Asks the engine of a function that was reset and has no control QP.
pub fn ask_all<M: Medium, P: Platform>(
    journal: &mut Journal<M>,
    platform: &P,
) -> Result<(), EngineError> {
    if let Some(ready) = journal.access("waiting for the engine", || wait_ready(platform))? {
        ready?;
    }
    let rid = live("PF_FUNC_RID", PF_FUNC_RID.get(platform))?;
    let number = PF_FUNC_RID::FUNCTION_NUMBER.read(rid);
    // Three bits, and there are as many PF numbers.
    let Some(function) = PfId::from_u32(number) else {
        return Ok(());
    };
    let config = Config::new(function);
    let failed = |what| move |source| EngineError::Cqp { what, source };
    let create = || Cqp::create(platform.clone(), config);
    let Some(created) = journal.access("creating the control QP", create)? else {
        return Ok(());
    };
    let mut cqp = created.map_err(failed("creating the control QP"))?;
    let asked = questions(journal, &mut cqp);
    let destroyed = journal.access("destroying the control QP", || cqp.destroy())?;
    // Also after a failure: nothing of this process may stay in the engine's reach.
    let reset = journal.access("resetting the function", || {
        e810_adminq::reset::reset_function(platform, false)
    })?;
    asked?;
    destroyed
        .transpose()
        .map_err(failed("destroying the control QP"))?;
    reset.transpose()?;
    Ok(())
}

fn wait_ready<P: Platform>(platform: &P) -> Result<(), WaitError> {
    let label = "engine processors (GLPE_CPUSTATUS0..2)";
    poll_until(platform, label, ENGINE_LIMIT, ENGINE_PAUSE, || {
        let status = [
            GLPE_CPUSTATUS0.get(platform),
            GLPE_CPUSTATUS1.get(platform),
            GLPE_CPUSTATUS2.get(platform),
        ];
        for word in status {
            live(label, word)?;
        }
        Ok(status.iter().all(|word| *word == CPU_READY).then_some(()))
    })
}

fn questions<M: Medium, P: Platform>(
    journal: &mut Journal<M>,
    cqp: &mut Cqp<P>,
) -> Result<(), EngineError> {
    let function = cqp.function();
    ask(journal, cqp, "QUERY_FPM_VAL", QUERY_BYTES, &|buffer| {
        Box::new(QueryFpm { function, buffer })
    })?;
    ask(
        journal,
        cqp,
        "QUERY_RDMA_FEATURES",
        FEATURE_BYTES,
        &|buffer| {
            Box::new(QueryFeatures {
                buffer,
                bytes: FEATURE_BYTES as u32,
            })
        },
    )
}

/// Sends a command with a buffer and writes down what the device put there.
fn ask<M: Medium, P: Platform>(
    journal: &mut Journal<M>,
    cqp: &mut Cqp<P>,
    name: &'static str,
    bytes: usize,
    command: &dyn Fn(Iova) -> Box<dyn Command>,
) -> Result<(), EngineError> {
    let failed = |source| EngineError::Cqp { what: name, source };
    let layout = DmaLayout::new(bytes, ALIGN);
    let memory = DmaBuf::new(cqp.platform().clone(), layout);
    let memory = memory.map_err(|error| failed(error.into()))?;
    let command = command(memory.iova());
    let Some(done) = journal.access(&format!("CQP {name}"), || cqp.execute(&*command))? else {
        memory.release();
        return Ok(());
    };
    // The end of the command before what it wrote.
    cqp.platform().from_device();
    match done {
        Ok(_) => {
            let words = memory.words().iter().map(|word| word.get().to_le_bytes());
            let data: Vec<u8> = words.flatten().collect();
            memory.release();
            let name = name.to_owned();
            let data = hex(&data);
            Ok(journal.put(&Record::Cqp { name, data })?)
        }
        Err(error) => {
            // Memory that the device may still write stays allocated.
            if !error.leaves_command_open() {
                memory.release();
            }
            Err(failed(error))
        }
    }
}

/// The limits of a report's QUERY_FPM_VAL, as the driver reads them.
#[must_use]
pub fn limits(data: &str) -> Option<FpmQuery> {
    let mut reply = [0; QUERY_BYTES / 8];
    for (to, from) in reply.iter_mut().zip(words_from_hex(data)?) {
        *to = from;
    }
    FpmQuery::parse(&reply).ok()
}

/// The features of a report's QUERY_RDMA_FEATURES, as the driver reads them.
#[must_use]
pub fn features(data: &str) -> Option<Features> {
    Features::parse(words_from_hex(data)?.into_iter()).ok()
}

/// Objects of which a person wants to know how many a card has.
pub const COUNTED: [Object; 7] = [
    Object::Qp,
    Object::Cq,
    Object::Mr,
    Object::Pble,
    Object::FsiAv,
    Object::FsiMc,
    Object::Q1,
];

#[cfg(test)]
mod tests;
