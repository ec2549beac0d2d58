//! Entries that the device writes outside of CQs: command completions, CEQEs, AEQEs. Encoding the
//! fields that the recorded software read from an entry must give the same entry.

use super::fields::Fields;
use super::{BRING_UP, Case, EVENTS};
use crate::pe::Config;
use crate::pe::aeq::{Aeq, Event, Named};
use crate::pe::ceq::Ceq;
use crate::pe::cqp::command::{Command, Refusal, Reply};
use crate::pe::cqp::tests::prepared::{device, some_cq};
use crate::pe::cqp::{Cqp, HostContext};
use crate::pe::device::Device;
use crate::pe::ring::Memory;
use crate::pe::tests::env::TestEnv;
use crate::pe::word::{mask, put};
use crate::variation::{CqEventContext, QpEventContext};

const RING: u64 = 0x5_0000_0000;
const SHADOW: u64 = 0x6_0000_0000;

/// OP \[61:56\] and SQ \[62\]: the recorded software takes the opcode from its own WQE and reads
/// neither, so the recorder left them 0.
const NOT_READ: u64 = mask(62, 56);

#[test]
fn completions_of_commands_are_as_recorded() {
    let mut seen = 0;
    for case in Case::all(BRING_UP).filter(|case| case.name().starts_with("ccq_cqe")) {
        let value = case.value();
        let index: u16 = case.name().rsplit('_').next().unwrap().parse().unwrap();
        let mut env = TestEnv::new(1);
        let mut device = device(&mut env);
        env.map(RING, 4096);
        env.map(SHADOW, 64);
        let mut cq = some_cq(SHADOW);
        cq.memory = Memory::Contiguous(RING);
        cq.producer = index.into();
        device.cqs.create(0, cq, &mut device.hmc, &mut env).unwrap();
        device.tables.ccq = true;
        let mut cqp = Cqp {
            context: Some(HostContext {
                base: 0,
                entries: 64,
                cookie: 0,
                status: 0,
            }),
            polarity: true,
            ..Cqp::default()
        };
        let mut info = Fields::new(&value["info"]);
        let mut command = Command::default();
        command.0[3] = info.number("op_code") << 32;
        let (value_of, minor) = (
            info.number("op_ret_val") as u32,
            info.number("minor") as u16,
        );
        let outcome = match info.is_set("error") {
            false => Ok(Reply {
                value: value_of,
                minor,
            }),
            true => Err(Refusal {
                major: info.number("major") as u16,
                minor,
            }),
        };
        info.unused("a pointer of the recorder", &["scratch", "major"]);
        assert!(info.complaints().is_empty());
        cqp.finish(&command, index, outcome, &mut device, &mut env);
        let recorded = case.words::<4>("cqe_hex_ctx_zeroed").unwrap();
        let mut got: [u64; 4] =
            std::array::from_fn(|n| env.word(RING + 32 * u64::from(index) + 8 * n as u64));
        assert_eq!(
            got[3] & NOT_READ,
            put(15, 61, 56) | 1 << 62,
            "{}",
            case.name()
        );
        got[3] &= !NOT_READ;
        assert_eq!(got, recorded, "{}", case.name());
        assert_eq!(value["cqp_sq_tail"].number(), Some(cqp.tail.into()));
        seen += 1;
    }
    assert_eq!(seen, 3);
}

/// TCPSTATE \[60:57\] and Q2DATA \[62:61\] belong to iWARP: the device writes 0, and the recorder
/// put numbers there to see them decoded.
fn iwarps(source: &mut Fields<'_>) -> u64 {
    put(source.number("tcp_state"), 60, 57) | put(source.number("q2_data"), 62, 61)
}

#[test]
fn asynchronous_events_are_as_recorded() {
    let mut seen = 0;
    for case in Case::all(EVENTS).step_by(if cfg!(miri) { 16 } else { 1 }) {
        let value = case.value();
        for source in value["by_source"].list() {
            let mut fields = Fields::new(source);
            let mut env = TestEnv::new(1);
            let mut device = Device::new(Config::default(), 1);
            env.map(RING, 4096);
            device.aeq = Some(Aeq::new(Memory::Contiguous(RING), 16));
            // So that the recorded software finds the context that it passed.
            device.config.variation.qp_event_context = QpEventContext::Whole;
            device.config.variation.cq_event_context = CqEventContext::Shifted;
            let context = fields.number("compl_ctx");
            let of_cq = fields.is_set("cq");
            let event = Event {
                code: fields.number("ae_id") as u16,
                source: fields.number("src") as u8,
                id: fields.number("qp_cq_id") as u32,
                wqe_index: fields.number("wqe_idx") as u16,
                context: match of_cq {
                    true => Named::Cq(context),
                    false => Named::Qp(context),
                },
                state: fields.number("iwarp_state") as u8,
            };
            device.put_event(event, &mut env);
            let recorded = fields.number("qword1");
            let theirs = recorded & !iwarps(&mut fields);
            fields.same("entry", env.word(RING + 8), theirs);
            // For a CQ the software takes the context as COMPCTX << 1.
            fields.same("context", env.word(RING) << u32::from(of_cq), context);
            fields.field("overflow", 0_u64);
            fields.unused(
                "what the recorded software makes of the source",
                &[
                    "qp",
                    "sq",
                    "rq",
                    "srq",
                    "in_rdrsp_wr",
                    "out_rdrsp",
                    "err_rq_idx_valid",
                ],
            );
            let complaints = fields.complaints();
            assert!(complaints.is_empty(), "{}: {complaints:#?}", source["src"]);
            seen += 1;
        }
    }
    assert!(seen >= 900 || cfg!(miri), "{seen}");
}

/// A CEQE holds the CQ's context as CREATE_CQ passed it. The recorded ring of eight entries has a
/// second lap: entries 8 and later, whose valid bit is 0.
#[test]
fn completion_events_are_as_recorded() {
    let mut env = TestEnv::new(1);
    let mut device = Device::new(Config::default(), 1);
    env.map(RING, 4096);
    device.ceqs.insert(0, Ceq::new(Memory::Contiguous(RING), 8));
    let mut seen = 0;
    for case in Case::all(EVENTS) {
        let value = case.value();
        if value["kind"].text() != Some("ceqe") {
            continue;
        }
        let number = |key: &str| value[key].number().unwrap();
        let recorded = number("ceqe");
        // An entry with the valid bit of the other lap is not valid: the software stops there.
        if number("returned") == 0 {
            continue;
        }
        let at = number("i") % 8;
        let context = recorded & mask(62, 0);
        if let Some(ceq) = device.ceqs.get_mut(&0) {
            ceq.index = at as u32;
            ceq.polarity = number("i") < 8;
            ceq.outstanding = 0;
        }
        assert_eq!(device.ceq_event(0, 0, context, &mut env), Ok(true));
        assert_eq!(env.word(RING + 8 * at), recorded, "entry {}", number("i"));
        // CQCTX of CREATE_CQ is the number of the recorder's CQ object.
        assert_eq!(context, number("cq_id"));
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}
