//! Executes recorded commands and compares the resulting device state with the inputs of the
//! command.

mod hmc;
mod objects;
mod queues;
mod tables;

use super::fields::Fields;
use super::prepared::{clear, device, prepare};
use super::{COMMANDS, CONTEXTS, Case, RECORDED};
use crate::findings::Class;
use crate::pe::cqp::command::{Command, Format, Reply};
use crate::pe::device::Device;
use crate::pe::qp::HOST_WORDS;
use crate::pe::tests::env::TestEnv;

/// Recorded commands that a device has to refuse: the recorder's inputs cannot occur in a real
/// device, or the model does not implement their purpose.
const IMPOSSIBLE: [(&str, &str); 5] = [
    (
        "qp_create_type1_virt0",
        "iWARP, which the model does not serve",
    ),
    (
        "qp_create_type1_virt1",
        "iWARP, which the model does not serve",
    ),
    ("cq_create_3_ov0", "CEQ 1023, and MAX_CEQS is at most 1023"),
    ("cq_create_3_ov1", "CEQ 1023, and MAX_CEQS is at most 1023"),
    (
        "mr_reg_ps0_lvl1_va0",
        "16 TiB in pages of 4 KiB need more PBLEs than there can be",
    ),
];

/// Commands without a recorded case: existing drivers do not issue MODIFY_ADDR_HANDLE, and
/// DESTROY_MCAST_GRP has the words of its siblings.
const NOT_RECORDED: [u8; 2] = [0x1d, 0x28];

/// Input names for the function that a command is about.
const FUNCTION: [&str; 4] = ["hmc_fn_id", "hmc_fcn_id", "hmc_fcn_index", "hmc_fcn_idx"];

/// A command on a device, and its inputs.
struct Run<'a> {
    c: Command,
    device: &'a mut Device,
    env: &'a mut TestEnv,
    inputs: Fields<'a>,
    reply: Reply,
}

impl Run<'_> {
    /// Whether the device recorded a finding of this kind.
    fn found(&self, kind: &str) -> bool {
        self.env.findings.iter().any(|(_, name, _)| *name == kind)
    }

    /// Objects that must exist before the command, according to its inputs.
    fn before(&mut self) {
        match self.c.opcode() {
            0x00..=0x02 | 0x13 | 0x22 | 0x29 | 0x2a => self.before_pair(),
            0x03..=0x05 | 0x16..=0x1b => self.before_queue(),
            0x09 | 0x0a | 0x0d | 0x1c..=0x1e | 0x26..=0x28 => self.before_object(),
            0x1f..=0x21 | 0x2b => self.before_hmc(),
            _ => self.before_table(),
        }
    }

    /// State that the command must have led to.
    fn after(&mut self) {
        match self.c.opcode() {
            0x00..=0x02 | 0x13 | 0x22 | 0x29 | 0x2a => self.after_pair(),
            0x03..=0x05 | 0x16..=0x1b => self.after_queue(),
            0x09 | 0x0a | 0x0d | 0x1c..=0x1e | 0x26..=0x28 => self.after_object(),
            0x1f..=0x21 | 0x2b => self.after_hmc(),
            _ => self.after_table(),
        }
    }
}

#[test]
fn commands_do_what_went_in() {
    let mut env = TestEnv::new(7);
    let mut shared = device(&mut env);
    let host = Case::all(CONTEXTS)
        .next()
        .unwrap()
        .words::<HOST_WORDS>("ctx_hex")
        .unwrap();
    let (mut run, mut wrong) = (Vec::new(), Vec::new());
    let step = if cfg!(miri) { 12 } else { 1 };
    for (n, case) in Case::all(COMMANDS).enumerate().step_by(step) {
        let name = case.name();
        let Some(mut c) = case.command() else {
            continue;
        };
        if IMPOSSIBLE.iter().any(|(impossible, _)| *impossible == name) {
            continue;
        }
        let value = case.value();
        let mut inputs = Fields::new(&value["in"]);
        // Commands that change the layout or the backing get a device of their own, so that they do
        // not affect later commands.
        let mut own = matches!(c.opcode(), 0x1f | 0x21).then(|| device(&mut env));
        let target = own.as_mut().unwrap_or(&mut shared);
        clear(target, 2 + n as u32);
        // The device refuses commands for another function.
        for key in FUNCTION
            .into_iter()
            .filter(|key| value["in"][key].number().is_some())
        {
            target.config.pf = inputs.number(key) as u8;
        }
        if c.opcode() == 0x1f {
            hmc::select_pe_part(&mut c);
        }
        prepare(target, &mut env, &c, host);
        let mut step = Run {
            c,
            device: target,
            env: &mut env,
            inputs,
            reply: Reply::default(),
        };
        hmc::recorded_buffer(&case, &mut step);
        step.before();
        match step.device.execute(&c, step.env) {
            Ok(reply) => step.reply = reply,
            Err(refusal) => wrong.push(format!("{name}: {refusal:?}")),
        }
        step.after();
        let complaints = step.inputs.complaints();
        wrong.extend(complaints.into_iter().map(|text| format!("{name}: {text}")));
        let faults = env.findings.drain(..);
        let faults = faults.filter(|(class, ..)| *class == Class::Fault);
        wrong.extend(faults.map(|fault| format!("{name}: {fault:?}")));
        run.push(c.opcode());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if !cfg!(miri) {
        assert_eq!(run.len(), RECORDED - IMPOSSIBLE.len());
        let left = (0..64).filter(|op| Format::of(*op).is_some() && !run.contains(op));
        assert_eq!(left.collect::<Vec<_>>(), NOT_RECORDED);
    }
}
