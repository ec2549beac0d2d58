//! The engine itself: its processors, limits and event queues.

use anyhow::{Context, Result, bail};
use e810::hmc::{FpmQuery, Object};
use e810_card::record::words_from_hex;
use e810_cqp::op::HEADER;
use e810_cqp::{Config, Cqp, Error, Opcode};
use e810_hal::bus::{PfId, RegIndex as _};
use e810_hal::regs::{
    CPU_READY, GLPE_CPUSTATUS0, GLPE_CPUSTATUS1, GLPE_CPUSTATUS2, PF_FUNC_RID, VSIQF_PE_CTL1,
};
use e810_hal::{Clock as _, DmaBuf, DmaLayout, Ns};
use e810_trace::Event;

use super::commands::refusal;
use crate::bench::{Bench, Raw};
use crate::experiment::{Experiment, Risk, Seen};

pub(super) const DERIVED_MAXIMA: Experiment = Experiment {
    name: "derived_maxima",
    assumes: "QUERY_FPM_VAL has maxima of the objects whose counts follow from that of queue pairs",
    does: "reads the reply of a bring-up",
    values: &["Said", "Zero"],
    if_not: "Nothing but warnings: the driver goes on with other maxima.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        let limits = limits(bench)?;
        let maxima = [Object::Hte, Object::Xf, Object::Timer, Object::Hdr]
            .map(|object| limits.objects.get(object).max);
        Ok(if maxima.iter().all(|max| *max == 0) {
            Seen::Value("Zero")
        } else {
            Seen::Value("Said")
        })
    },
};

/// The reply to QUERY_FPM_VAL.
fn limits(bench: &Bench) -> Result<FpmQuery> {
    bench.engine(|engine| {
        let lines = engine.happened();
        let mut replies = lines.iter().filter_map(|line| match line {
            Event::CqpReply { header, memory, .. }
                if e810_cqp::op::opcode_of(header.0) == Opcode::QueryFpmVal =>
            {
                words_from_hex(&memory.first()?.bytes)
            }
            _ => None,
        });
        let words = replies
            .next_back()
            .context("the recording has no reply to QUERY_FPM_VAL")?;
        let mut reply = [0; e810_cqp::op::QUERY_BYTES / 8];
        for (to, from) in reply.iter_mut().zip(words) {
            *to = from;
        }
        Ok(FpmQuery::parse(&reply)?)
    })
}

/// CEQID of CREATE_CEQ and DESTROY_CEQ, the number of entries, and the word of the ring's address
/// (control-path 4.9).
const CEQ_ID: u64 = 0x3FF;
const CEQ_ENTRIES_WORD: usize = 2;
const CEQ_ENTRIES: u64 = 0x3F_FFFF;
const CEQ_ADDRESS_WORD: usize = 4;
/// The word with the VSI, which DESTROY_CEQ does not have.
const CEQ_VSI_WORD: usize = 7;
/// Bytes of an entry, and alignment of the ring.
const CEQE_BYTES: usize = 8;
const CEQ_ALIGN: usize = 4096;

pub(super) const LAST_CEQ: Experiment = Experiment {
    name: "last_ceq",
    assumes: "all numbers below MAX_CEQS are those of completion event queues",
    does: "makes the one with the highest number (CREATE_CEQ), and destroys it",
    values: &["Usable", "Missing"],
    if_not: "Nothing: the driver goes on with fewer completion vectors.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let lines = engine.happened();
            let last = u64::from(engine.control.hmc().query.max_ceqs).saturating_sub(1);
            let header = HEADER;
            let create = Raw::last(&lines, Opcode::CreateCeq)?;
            // The driver has made it, where there are as many vectors.
            if engine
                .control
                .interrupt_vector(u16::try_from(last)?)
                .is_some()
            {
                return Ok(Seen::Value("Usable"));
            }
            let entries = create.word(CEQ_ENTRIES_WORD) & CEQ_ENTRIES;
            let bytes = usize::try_from(entries)? * CEQE_BYTES;
            let layout = DmaLayout::new(bytes, CEQ_ALIGN);
            let ring = DmaBuf::new(bench.device().clone(), layout)?;
            let create =
                create
                    .with(header, CEQ_ID, last)
                    .with(CEQ_ADDRESS_WORD, u64::MAX, ring.iova().0);
            let refused = refusal(engine.execute(&create))?;
            if refused.is_none() {
                // The ring stays allocated if this fails: the device may write there.
                let opcode = u64::from(Opcode::DestroyCeq.code()) << 32;
                let destroy = create.with(header, OPCODE, opcode);
                let destroy = destroy.with(CEQ_ADDRESS_WORD, u64::MAX, 0);
                engine.execute(&destroy.with(CEQ_VSI_WORD, u64::MAX, 0))?;
            }
            ring.release();
            Ok(match refused {
                None => Seen::Value("Usable"),
                Some(_) => Seen::Value("Missing"),
            })
        })
    },
};

/// The opcode in a header.
const OPCODE: u64 = 0x3F << 32;

pub(super) const ENGINE_ALONE: Experiment = Experiment {
    name: "engine_alone",
    assumes: "the Control QP can be made before the function has a LAN side: `e810 report` does so",
    does: "resets the function, makes the Control QP, asks it for limits and destroys it",
    values: &["Answers", "Silent"],
    if_not: "`e810 report` ends before level 3; give it --level 2.",
    seconds: 10,
    risk: Risk::None,
    run: |bench| {
        bench.reset()?;
        let rid = PF_FUNC_RID.get(bench.device());
        let function = PfId::from_u32(PF_FUNC_RID::FUNCTION_NUMBER.read(rid));
        let config = Config::new(function.context("no such function")?);
        let seen = match Cqp::create(bench.device().clone(), config) {
            Ok(mut cqp) => {
                let asked = FpmQuery::ask(&mut cqp);
                let destroyed = cqp.destroy();
                destroyed.map(|()| match asked {
                    Ok(_) => Seen::Value("Answers"),
                    Err(error) => Seen::Other(format!("it is made, but: {error}")),
                })
            }
            Err(Error::Wait(_)) => Ok(Seen::Value("Silent")),
            Err(other) => Err(other),
        };
        bench.reset()?;
        Ok(seen?)
    },
};

/// Time that processors may take to start (control-path 10).
const STARTS: Ns = Ns::from_ms(14_000);
const PAUSE: Ns = Ns::from_ms(10);

pub(super) const ENGINE_STATUS: Experiment = Experiment {
    name: "engine_status",
    assumes: "the engine's processors are ready (GLPE_CPUSTATUS) right after a reset of the function",
    does: "resets the function, and reads the registers at once",
    values: &["Ready", "Starts"],
    if_not: "Nothing: a start waits up to 14 s for them.",
    seconds: 15,
    risk: Risk::None,
    run: |bench| {
        bench.reset()?;
        let are_ready = || {
            let device = bench.device();
            let words = [
                GLPE_CPUSTATUS0.get(device),
                GLPE_CPUSTATUS1.get(device),
                GLPE_CPUSTATUS2.get(device),
            ];
            words.iter().all(|word| *word == CPU_READY)
        };
        if are_ready() {
            return Ok(Seen::Value("Ready"));
        }
        let begun = bench.device().now();
        while bench.device().now().0.saturating_sub(begun.0) < STARTS.0 {
            bench.device().delay(PAUSE);
            if are_ready() {
                return Ok(Seen::Value("Starts"));
            }
        }
        bail!("they are not ready within {STARTS}")
    },
};

pub(super) const FILTER_REGISTER: Experiment = Experiment {
    name: "filter_register",
    assumes: "VSIQF_PE_CTL1 shows that the filter of a VSI in front of the engine is open",
    does: "brings the function up, and reads the register of its VSI",
    values: &["Shows", "Hides"],
    if_not: "A function that another driver has set up has to be given its VSI (--warm --vsi).",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vsi = engine.control.lan().vsi;
            let register = VSIQF_PE_CTL1.at(vsi).get(bench.device());
            Ok(match register & 1 {
                0 => Seen::Value("Hides"),
                _ => Seen::Value("Shows"),
            })
        })
    },
};

pub(super) const PACKED_OBJECTS: Experiment = Experiment {
    name: "packed_objects",
    assumes: "the objects of the host memory cache follow each other without gaps",
    does: "brings the function up, and compares its memory with what the counts of objects take",
    values: &["Packed", "Spread"],
    if_not: "A bring-up takes more host memory than the driver says beforehand.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let memory = engine.control.hmc();
            let expected = memory.plan.backing_bytes(&memory.query)?;
            let found = engine.backed_at_start;
            Ok(if found == expected {
                Seen::Value("Packed")
            } else if found > expected {
                Seen::Value("Spread")
            } else {
                Seen::Other(format!("{found} bytes, and the objects take {expected}"))
            })
        })
    },
};
