//! Golden vectors of event queues and interrupts.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_ceq::ae::QpEvent;
use e810_ceq::aeqe::{About, Aeqe};
use e810_ceq::limits::MAX_IDS;
use e810_ceq::{AeCode, Ceq, CeqEntries, CeqStep, Itr, Timer, irq};
use e810_hal::regs;
use e810_hal::{Bus, CeqId, RegOffset, Vector};
use e810_types::HwQpState;
use serde_json::Value;

use crate::report::{self, Case, Outcome, number};

/// Entries of the ring that the `ceqe` cases walk over.
const CEQ_ENTRIES: u32 = 8;

#[test]
fn events() {
    report::file("events.json", |file| {
        let memory = [const { AtomicU64::new(0) }; CEQ_ENTRIES as usize];
        let mut walk = CeqWalk::new(&memory);
        file.each("cases", |case| {
            Some(match case["kind"].as_str() {
                Some("aeqe") => aeqe(case),
                Some("ceqe") => walk.step(case),
                _ => Outcome::Failed(format!("unknown kind {}", case["kind"])),
            })
        });
    });
}

/// One AE code: what follows from it, and an entry with each source.
fn aeqe(case: &Case<'_>) -> Outcome {
    let code = AeCode(u16::try_from(case.u64("ae_id")).unwrap());
    let entries = case["by_source"].as_array().unwrap();
    let recorded = |key| entries.iter().find(|entry| number(entry, key) == 1);
    // The recorder does not list the entry's first word: it is the context of
    // an entry that names a QP and no CQ, or half that of one that names a CQ.
    let context = entries
        .iter()
        .find(|entry| number(entry, "cq") == 0 && number(entry, "compl_ctx") != 0)
        .map(|entry| number(entry, "compl_ctx"))
        .or_else(|| recorded("cq").map(|entry| number(entry, "compl_ctx") >> 1))
        .unwrap_or(0);
    Outcome::all(
        [
            Outcome::same(
                "flush_code",
                u64::from(code.flush().0),
                case.u64("flush_code"),
            ),
            Outcome::same(
                "qp_event",
                QpEvent::of(code.flush()).name(),
                case["qp_event"].as_str().unwrap(),
            ),
        ]
        .into_iter()
        .chain(entries.iter().map(|entry| by_source(context, entry))),
    )
}

fn by_source(context: u64, entry: &Value) -> Outcome {
    let got = Aeqe::decode([context, number(entry, "qword1")]);
    let names = |what| u64::from(got.about.contains(what));
    let iw_state = match got.iw_state {
        Some(HwQpState::Invalid) => 0,
        Some(HwQpState::Idle) => 1,
        Some(HwQpState::Rts) => 2,
        Some(HwQpState::Sqd) => 3,
        Some(HwQpState::Rtr) => 4,
        Some(HwQpState::Terminate) => 5,
        Some(HwQpState::Error) => 6,
        None => 7,
    };
    // What existing drivers make of COMPCTX (control-path 7.3).
    let context = match () {
        () if got.about.contains(About::CQ) => got.context << 1,
        () if got.about.intersects(About::QP.union(About::SRQ)) => got.context,
        () => 0,
    };
    let fields = [
        ("src", got.source.0.into()),
        ("ae_id", got.code.0.into()),
        ("qp_cq_id", got.id.into()),
        ("wqe_idx", got.wqe_index.into()),
        ("tcp_state", got.tcp_state.into()),
        ("iwarp_state", iw_state),
        ("q2_data", got.q2_data.into()),
        ("overflow", got.overflow.into()),
        ("qp", names(About::QP)),
        ("cq", names(About::CQ)),
        ("srq", names(About::SRQ)),
        ("sq", names(About::SQ)),
        ("rq", names(About::RQ)),
        ("in_rdrsp_wr", names(About::INBOUND)),
        ("out_rdrsp", names(About::OUTBOUND)),
        ("err_rq_idx_valid", names(About::RQ_INDEX)),
        ("compl_ctx", context),
    ];
    Outcome::all(fields.map(|(key, value)| {
        let what = format!("source {}: {key}", got.source.0);
        Outcome::same(&what, value, number(entry, key))
    }))
}

/// A CEQ being written and read entry by entry.
struct CeqWalk<'a> {
    memory: &'a [AtomicU64],
    ceq: Ceq<&'a [AtomicU64]>,
    next: u64,
}

impl<'a> CeqWalk<'a> {
    fn new(memory: &'a [AtomicU64]) -> Self {
        let entries = CeqEntries::new(CEQ_ENTRIES).unwrap();
        Self {
            memory,
            ceq: Ceq::new(memory, entries, MAX_IDS).unwrap(),
            next: 0,
        }
    }

    /// The device writes the next entry, and it is read.
    fn write_and_read(&mut self, entry: u64) -> CeqStep {
        let index = self.next % u64::from(CEQ_ENTRIES);
        self.memory[usize::try_from(index).unwrap()].store(entry.to_le(), Ordering::Release);
        self.next += 1;
        self.ceq.poll()
    }

    fn step(&mut self, case: &Case<'_>) -> Outcome {
        let number = case.u64("i");
        // Entries that the file leaves out still pass through the ring.
        while self.next < number {
            let lap = self.next / u64::from(CEQ_ENTRIES);
            let entry = u64::from(lap.is_multiple_of(2)) << 63 | (100 + self.next);
            assert!(matches!(self.write_and_read(entry), CeqStep::Event(_)));
        }
        let before = self.ceq.poll();
        let got = self.write_and_read(case.u64("ceqe"));
        let position = self.ceq.position();
        let (returned, id) = match got {
            CeqStep::Event(cq) => (1, cq.id()),
            _ => (0, 0),
        };
        Outcome::all([
            Outcome::same("poll before the write", before, CeqStep::Empty),
            Outcome::same("returned", returned, case.u64("returned")),
            Outcome::same("cq_id", id.into(), case.u64("cq_id")),
            Outcome::same("ring_tail", position.index().into(), case.u64("ring_tail")),
            Outcome::same("polarity", position.polarity().into(), case.u64("polarity")),
        ])
    }
}

#[test]
fn interrupts() {
    report::file("cqp_bringup.json", |file| {
        file.each("cases", |case| {
            case.name.starts_with("irq_").then(|| interrupt(case))
        });
    });
}

/// Register writes as the vectors show them: name, byte offset, value.
#[derive(Default)]
struct Writes(RefCell<Vec<(String, u64)>>);

impl Bus for Writes {
    fn read32(&self, off: RegOffset) -> u32 {
        panic!("{off} is read: interrupt registers are only written")
    }

    fn write32(&self, off: RegOffset, value: u32) {
        let register = regs::find(off).unwrap().register;
        let name = format!("{}+{}", register.name, off.get() - register.offset);
        self.0.borrow_mut().push((name, value.into()));
    }
}

/// What is done to a vector, a CEQ and the AEQ, and the writes it makes.
fn interrupt(case: &Case<'_>) -> Outcome {
    let input = |key| u16::try_from(number(&case["in"], key)).unwrap();
    let vector = Vector::new(input("vector")).unwrap();
    let ceq = CeqId::new(input("ceq_id")).unwrap();
    // The AEQ's own vector is never throttled (control-path 2.4).
    let itr = if input("vector") == input("aeq_vector") {
        Itr::NONE
    } else {
        Itr::from_us(input("ceq_itr_us").into()).unwrap()
    };
    let bus = Writes::default();
    for step in case["sequence"].as_array().unwrap() {
        match step.as_str().unwrap() {
            "enable vector" => irq::enable_vector(&bus, vector, Timer::Itr0, itr),
            "disable vector" => irq::disable_vector(&bus, vector),
            "map ceq on" => irq::enable_ceq_cause(&bus, ceq, vector, Timer::None),
            "map ceq off" => irq::disable_ceq_cause(&bus, ceq, vector, Timer::None),
            "map aeq on" => irq::enable_aeq_cause(&bus, vector),
            "map aeq off" => irq::disable_aeq_cause(&bus, vector),
            other => panic!("unknown step `{other}`"),
        }
    }
    let recorded: Vec<(String, u64)> = case["registers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|write| {
            let name = write["db"].as_str().unwrap().to_owned();
            (name, number(write, "val"))
        })
        .collect();
    Outcome::same("registers", bus.0.into_inner(), recorded)
}
