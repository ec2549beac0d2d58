//! Golden vectors of the control QP: its requests, its bring-up, the CCQ.

mod build;
mod input;
mod objects;
mod tables;

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;

use e810_cqp::Error;
use e810_cqp::ccq::CompletionRing;
use e810_cqp::host_context::{
    Dcqcn, HmcProfile, HostContext, Protocol, clear_registers, write_address,
};
use e810_cqp::qpc::cqp_size_code;
use e810_cqp::ring::{SendRing, publish, ring_doorbell};
use e810_hal::regs::{PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CCQPSTATUS, PFPE_CQPDB, PFPE_CQPTAIL};
use e810_hal::{Barrier, Bus, DmaWord, Iova, RegOffset};

use crate::context::{narrow, or_zero};
use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Case, Outcome, Rule, number};
use input::Input;

/// Registers written, in order; barriers do nothing here.
#[derive(Default)]
struct Machine(RefCell<Vec<(RegOffset, u32)>>);

impl Barrier for Machine {}

impl Bus for Machine {
    fn read32(&self, off: RegOffset) -> u32 {
        panic!("{off} was read")
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.0.borrow_mut().push((off, value));
    }
}

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// How many requests came before a case's own, from its name, and the ring it
/// is about. `wrap4_*` complete each request, `full4_*` none.
fn history(case: &Case<'_>) -> (u64, bool) {
    let input = &case["in"];
    match input["cqp_sq_size"].as_u64() {
        Some(_) => (
            number(input, "arp_index"),
            input["completed"].as_u64() != Some(0),
        ),
        None => (or_zero(case, "wqe_index"), true),
    }
}

fn request(case: &Case<'_>) -> Outcome {
    if !build::is_sent(case["op"].as_str().unwrap()) {
        return Outcome::Skipped(Feature::OtherCommands);
    }
    let input = &case["in"];
    let refused = case["ret"].as_i64() != Some(0);
    let mut ring = SendRing::new(narrow(input["cqp_sq_size"].as_u64().unwrap_or(64))).unwrap();
    let (before, completed) = history(case);
    for _ in 0..before {
        let claim = ring.claim();
        if completed {
            claim.unwrap();
            ring.retire().unwrap();
        }
    }
    let posted = Input(input)
        .build(case)
        .and_then(|request| Ok((request, ring.claim()?)));
    let (request, entry) = match (posted, refused) {
        (Err(_), true) => return Outcome::Passed,
        (Ok(_), true) => return Outcome::Failed("accepted, the recorder refused it".to_owned()),
        // The root of the scheduler tree: 65535 is cut to 14 bits there.
        (Err(Error::OutOfRange { .. }), false) if input["parent_id"].as_u64() == Some(65535) => {
            return Outcome::Deviates(
                Rule::RefusesBadInput,
                "a node id of more than 14 bits is refused, not cut",
            );
        }
        (Err(error), false) => return Outcome::Failed(format!("refused: {error}")),
        (Ok(posted), false) => posted,
    };
    let machine = Machine::default();
    let words = memory(ring.entries() as usize * 8);
    publish(&words[..], &machine, entry, &request.wqe).unwrap();
    ring_doorbell(&machine, &machine, ring.head());

    let base = entry.index as usize * 8;
    let got: Vec<u64> = words[base..base + 8].iter().map(DmaWord::get).collect();
    // The CCQ's own requests were recorded without their doorbell; destroying
    // the AEQ also writes an interrupt register, which is the event queues'.
    let doorbell = case["doorbells"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|write| write["db"] == "PFPE_CQPDB+0")
        .map_or_else(|| ring.head(), |write| narrow(number(write, "val")));
    let beside = ["sdbuf_hex", "mg_ctx_hex"]
        .iter()
        .find_map(|key| case[*key].as_str())
        .map_or_else(Vec::new, hex::words);
    Outcome::all([
        Outcome::same("wqe_index", u64::from(entry.index), case.u64("wqe_index")),
        Outcome::same("polarity", u64::from(entry.polarity), case.u64("polarity")),
        Outcome::same("wqe", got, hex::words(case["wqe_hex"].as_str().unwrap())),
        Outcome::same("beside", request.beside, beside),
        Outcome::same(
            "doorbell",
            machine.0.into_inner(),
            vec![(PFPE_CQPDB.off(), doorbell)],
        ),
    ])
}

#[test]
fn wqes() {
    report::file("cqp_wqes.json", |file| {
        file.each("cases", |case| Some(request(case)));
    });
}

/// Register writes of the creation, in order.
fn create_registers(case: &Case<'_>) -> Outcome {
    let machine = Machine::default();
    clear_registers(&machine);
    write_address(&machine, Iova(number(&case["in"], "host_ctx_pa")));
    let off = |name: &str| match name {
        "PFPE_CQPTAIL+0" => PFPE_CQPTAIL.off(),
        "PFPE_CQPDB+0" => PFPE_CQPDB.off(),
        "PFPE_CCQPSTATUS+0" => PFPE_CCQPSTATUS.off(),
        "PFPE_CCQPHIGH+0" => PFPE_CCQPHIGH.off(),
        "PFPE_CCQPLOW+0" => PFPE_CCQPLOW.off(),
        other => panic!("register {other}"),
    };
    let expected: Vec<(RegOffset, u32)> = case["registers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|write| {
            (
                off(write["db"].as_str().unwrap()),
                narrow(number(write, "val")),
            )
        })
        .collect();
    Outcome::same("registers", machine.0.into_inner(), expected)
}

/// The host context; its pointer, qword 3, is zeroed in the vectors.
fn host_context(case: &Case<'_>) -> Outcome {
    let input = Input(&case["in"]);
    let context = HostContext {
        entries: input.as_("sq_size"),
        sq: input.at("sq_pa"),
        cookie: 0,
        protocol: match input.get("protocol_used") {
            0 => Protocol::Any,
            1 => Protocol::Iwarp,
            _ => Protocol::Roce,
        },
        profile: match input.get("hmc_profile") {
            1 => HmcProfile::Default,
            2 => HmcProfile::FavourVf,
            _ => HmcProfile::Equal,
        },
        structure_version: input.as_("struct_ver"),
        hardware_major: input.as_("hw_maj_ver"),
        hardware_minor: input.as_("hw_min_ver"),
        enabled_vfs: input.as_("ena_vf_count"),
        ceqs_per_vf: input.as_("ceqs_per_vf"),
        disable_packed: input.is("disable_packed"),
        roce_rto_policy: input.is("rocev2_rto_policy"),
        congestion: input.is("cc_cfg_valid").then(|| Dcqcn {
            min_rate: input.as_("min_rate"),
            min_decrease_factor: input.as_("min_dec_factor"),
            timer: input.as_("dcqcn_t"),
            hyper_increase: input.as_("hai_factor"),
            additive_increase: input.as_("rai_factor"),
            byte_counter: input.as_("dcqcn_b"),
            fast_recovery: input.as_("dcqcn_f"),
            reduce_period: input.as_("rreduce_mperiod"),
        }),
    };
    let expected = hex::words(case["host_ctx_hex_qword3_zeroed"].as_str().unwrap());
    Outcome::all([
        Outcome::same(
            "hw_sq_size",
            cqp_size_code(context.entries).map(u64::from),
            Ok(case.u64("hw_sq_size")),
        ),
        Outcome::same("context", context.encode().map(Vec::from), Ok(expected)),
        create_registers(case),
    ])
}

/// A CCQ entry: case `ccq_cqe_<n>` is about entry and WQE index *n*.
fn ccq_entry(case: &Case<'_>) -> Outcome {
    let words = hex::words(case["cqe_hex_ctx_zeroed"].as_str().unwrap());
    let index = case
        .name
        .rsplit('_')
        .next()
        .unwrap()
        .parse::<usize>()
        .unwrap();
    let machine = Machine::default();
    let (entries, shadow) = (memory(64 * 4), memory(8));
    let mut ring = CompletionRing::new(64).unwrap();
    for _ in 0..index {
        ring.advance(&shadow[..], &machine);
    }
    for (cell, word) in entries[index * 4..].iter().zip(words) {
        cell.set(word);
    }
    let Some(entry) = ring.peek(&entries[..], &machine) else {
        return Outcome::Failed("no entry seen".to_owned());
    };
    ring.advance(&shadow[..], &machine);
    let info = &case["info"];
    Outcome::all([
        Outcome::same("index", u64::from(entry.index) + 1, case.u64("cqp_sq_tail")),
        Outcome::same("error", u64::from(entry.error), number(info, "error")),
        Outcome::same("major", u64::from(entry.major), number(info, "major")),
        Outcome::same("minor", u64::from(entry.minor), number(info, "minor")),
        Outcome::same(
            "op_ret_val",
            u64::from(entry.ret_val),
            number(info, "op_ret_val"),
        ),
        Outcome::same("shadow", shadow[0].get(), case.u64("shadow_qword0")),
    ])
}

#[test]
fn bring_up() {
    report::file("cqp_bringup.json", |file| {
        file.each("cases", |case| match case.name.as_str() {
            name if name.starts_with("cqp_create") => Some(host_context(case)),
            name if name.starts_with("ccq_cqe") => Some(ccq_entry(case)),
            // Interrupt registers belong to the event queues.
            _ => None,
        });
    });
}
