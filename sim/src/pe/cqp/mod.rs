//! The control queue pair: create and destroy, its ring, and command completion (control-path 4.1
//! to 4.4, 11).
//!
//! A command takes a seeded amount of time, so that a driver that polls too early, or reuses a slot
//! too early, fails a test. Commands are executed and completed in order.

mod address_ops;
mod ah_ops;
mod command;
mod cq_ops;
mod event_ops;
mod execute;
mod feature_ops;
mod flush_ops;
mod hmc_ops;
mod mr_ops;
mod qp_control_ops;
mod qp_ops;
mod sched_ops;
#[cfg(test)]
mod tests;

use super::config::CqpErrors;
use super::cq::Completion;
use super::device::{Device, Unreachable};
use super::env::{Env, PeReg};
use super::word::{bit, bits, bits8, bits16, flag, mask, put};
use crate::findings::kind;
use crate::variation::OpErr;
use crate::wqe::CqeEntries;
use command::{Command, Format, Outcome, Refusal};

/// Bytes of a CQP WQE.
const WQE_BYTES: usize = 64;
/// CCQP_DONE of PFPE_CCQPSTATUS.
const CCQP_DONE: u32 = 1;
/// CCQP_ERR of PFPE_CCQPSTATUS.
const CCQP_ERR: u32 = 1 << 31;
/// CQP_OP_ERR of PFPE_CQPTAIL.
const CQP_OP_ERR: u32 = 1 << 31;

/// The parts of the host context that the device uses (control-path 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HostContext {
    base: u64,
    entries: u16,
    cookie: u64,
    /// The bits that PFPE_CCQPSTATUS shows beside DONE.
    status: u32,
}

/// An operation that takes time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Busy {
    Create { address: u64 },
    Destroy,
    Command { command: Command, index: u16 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cqp {
    /// PFPE_CCQPHIGH.
    high: u32,
    context: Option<HostContext>,
    /// The producer's index, from PFPE_CQPDB.
    head: u16,
    tail: u16,
    /// Valid bit of the lap at `tail`.
    polarity: bool,
    /// The WQE at `tail` is not valid: the CQP waits for the next doorbell.
    stalled: bool,
    /// Commands started since the CQP was created.
    started: u32,
    busy: Option<(u64, Busy)>,
}

impl Cqp {
    /// Whether a CQP exists.
    pub(crate) fn exists(&self) -> bool {
        self.context.is_some()
    }

    /// Time at which `step` has work; `None` if it has none.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.busy {
            // A silent CQP never finishes a command.
            Some((at, _)) => (at != u64::MAX).then_some(at),
            None => self.has_wqe().then_some(0),
        }
    }

    fn has_wqe(&self) -> bool {
        self.context.is_some() && self.tail != self.head && !self.stalled
    }

    fn start(&mut self, device: &Device, what: Busy, env: &mut dyn Env) {
        let (low, high) = device.config.cqp_delay;
        let span = high.saturating_sub(low).saturating_add(1);
        let delay = low + if span == 0 { 0 } else { env.random() % span };
        self.busy = Some((env.now().saturating_add(delay), what));
    }

    /// PFPE_CCQPHIGH.
    pub(crate) fn write_high(&mut self, value: u32) {
        self.high = value;
    }

    /// PFPE_CCQPLOW: starts create, or destroy when both halves are zero.
    pub(crate) fn write_low(&mut self, value: u32, device: &Device, env: &mut dyn Env) {
        let address = u64::from(self.high) << 32 | u64::from(value);
        let what = if address == 0 {
            Busy::Destroy
        } else {
            Busy::Create { address }
        };
        self.start(device, what, env);
    }

    /// PFPE_CQPDB.
    pub(crate) fn ring(&mut self, value: u32, env: &mut dyn Env) {
        let head = bits16(value.into(), 10, 0);
        match self.context {
            // Drivers write 0 before they create the CQP.
            None if value == 0 => {}
            None => env.finding(
                kind::DOORBELL_CQP,
                format!("PFPE_CQPDB = {value}: there is no CQP"),
            ),
            Some(context) if head >= context.entries => env.finding(
                kind::CQP_HEAD,
                format!(
                    "PFPE_CQPDB = {head}: the SQ has {} entries",
                    context.entries
                ),
            ),
            Some(_) => {
                self.head = head;
                self.stalled = false;
            }
        }
    }

    /// Does one thing that is due.
    pub(crate) fn step(&mut self, device: &mut Device, env: &mut dyn Env) {
        match self.busy {
            Some((at, _)) if at > env.now() => {}
            Some((_, what)) => {
                self.busy = None;
                match what {
                    Busy::Create { address } => self.create(address, device, env),
                    Busy::Destroy => self.destroy(device, env),
                    Busy::Command { command, index } => {
                        let outcome = self.run(&command, device, env);
                        self.finish(&command, index, outcome, device, env);
                    }
                }
            }
            None if self.has_wqe() => self.fetch(device, env),
            None => {}
        }
    }

    fn create(&mut self, address: u64, device: &mut Device, env: &mut dyn Env) {
        match self.read_context(address, env) {
            Ok(context) => {
                // A new life: what an earlier one left in memory is not mistaken for contexts.
                let epoch = (env.random() as u32).max(1);
                device.restart(epoch);
                *self = Self {
                    high: self.high,
                    context: Some(context),
                    polarity: true,
                    ..Self::default()
                };
                env.set_register(PeReg::CqpTail, 0);
                env.set_register(PeReg::CcqpStatus, CCQP_DONE | context.status);
            }
            Err(refusal) => {
                let codes = u32::from(refusal.major) << 16 | u32::from(refusal.minor);
                env.set_register(PeReg::CqpErrCodes, codes);
                env.set_register(PeReg::CcqpStatus, CCQP_ERR);
            }
        }
    }

    fn read_context(&self, address: u64, env: &mut dyn Env) -> Result<HostContext, Refusal> {
        if self.context.is_some() {
            return Err(Refusal::state(env, "CQP create: there is a CQP already"));
        }
        if !address.is_multiple_of(4) {
            return Err(Refusal::parameter(
                env,
                format!("CQP context at {address:#x} is not 4-aligned"),
            ));
        }
        let mut bytes = [0; 64];
        env.read(address, &mut bytes).map_err(Unreachable::from)?;
        let words = words_of(&bytes);
        let [q0, q8, q16, q24, q32, q40, q48, q56] = words;
        // PROTOCOL_USED [4:3], SVER [31:24], CEQPERVF [39:32] and the DCQCN words have no effect
        // here.
        let undefined = [
            q0 & !(mask(4, 1) | mask(11, 8) | mask(39, 24)),
            q8 & mask(8, 0),
            q16 & !(mask(2, 0) | mask(37, 32)),
            q32 & !(mask(31, 0) | mask(51, 48) | mask(59, 56)),
            q40,
            q48 & !(mask(15, 0) | mask(63, 32)),
            q56 & !(mask(27, 0) | mask(31, 31) | mask(63, 32)),
        ];
        if undefined.iter().any(|bits| *bits != 0) {
            let text = format!(
                "CQP host context: undefined bits {undefined:#x?} in q0, q8, q16, q32, q40, q48, q56"
            );
            env.finding(kind::CQP_CONTEXT_BITS, text);
        }
        let size = bits8(q0, 11, 8);
        if !(1..=10).contains(&size) {
            return Err(Refusal::parameter(
                env,
                format!("CQP SQSIZE code {size}: codes are 1 (4) to 10 (2048)"),
            ));
        }
        let profile = bits8(q16, 2, 0);
        if !(1..=3).contains(&profile) {
            return Err(Refusal::parameter(
                env,
                format!("CQP HMC_PROFILE {profile}: profiles are 1 to 3"),
            ));
        }
        let version = bits16(q32, 31, 16);
        if version != 1 {
            return Err(Refusal::parameter(
                env,
                format!("CQP HW_MAJVER {version}: this is GEN_2, 1"),
            ));
        }
        let status = put(profile.into(), 6, 4) | put(bits(q16, 37, 32), 21, 16);
        Ok(HostContext {
            base: q8 & !mask(8, 0),
            entries: 2 << size,
            cookie: q24,
            status: status as u32,
        })
    }

    fn destroy(&mut self, device: &mut Device, env: &mut dyn Env) {
        if self.context.is_some() {
            device.flush_contexts(None, env);
            device.left_behind = device.tables.left_behind();
        }
        device.restart(0);
        *self = Self::default();
        env.set_register(PeReg::CcqpStatus, 0);
    }

    /// Reads the WQE at the tail and starts it.
    fn fetch(&mut self, device: &mut Device, env: &mut dyn Env) {
        let Some(context) = self.context else {
            return;
        };
        let at = context.base + u64::from(self.tail) * WQE_BYTES as u64;
        let mut bytes = [0; WQE_BYTES];
        let read = env.load(at + 24).and_then(|header| {
            env.read(at, &mut bytes)?;
            Ok(header)
        });
        let Ok(header) = read else {
            self.stalled = true;
            return;
        };
        let mut command = Command(words_of(&bytes));
        command.0[3] = header;
        if command.valid() != self.polarity {
            self.stalled = true;
            env.finding(
                kind::CQP_VALID,
                format!(
                    "CQP WQE {} does not carry the valid bit of this lap ({}), the doorbell says {}",
                    self.tail, u8::from(self.polarity), self.head
                ),
            );
            return;
        }
        let index = self.tail;
        self.start(device, Busy::Command { command, index }, env);
        if device.config.cqp_silent
            && let Some((at, _)) = &mut self.busy
        {
            *at = u64::MAX;
        }
    }

    fn run(&mut self, command: &Command, device: &mut Device, env: &mut dyn Env) -> Outcome {
        let number = self.started;
        self.started += 1;
        let injected = Refusal::injected();
        let (fail, refusal) = match device.config.cqp_errors {
            CqpErrors::None => (false, injected),
            CqpErrors::All => (true, injected),
            CqpErrors::Nth(n) => (n == number, injected),
            CqpErrors::Opcode(opcode) => (opcode == command.opcode(), injected),
            CqpErrors::Answer {
                opcode,
                major,
                minor,
            } => (opcode == command.opcode(), Refusal { major, minor }),
        };
        if fail {
            return Err(refusal);
        }
        let Some(format) = Format::of(command.opcode()) else {
            let text = format!(
                "CQP opcode {:#04x} is unknown, or its format is not in the sources",
                command.opcode()
            );
            return Err(Refusal::opcode(env, text));
        };
        if let Some((word, extra)) = format.undefined(command) {
            let text = format!("{}: undefined bits {extra:#x} in q{word}", format.name);
            env.finding(kind::CQP_BITS, text);
        }
        env.executed(command.opcode());
        device.execute(command, env)
    }

    /// Moves the tail and reports the result of the command.
    fn finish(
        &mut self,
        command: &Command,
        index: u16,
        outcome: Outcome,
        device: &mut Device,
        env: &mut dyn Env,
    ) {
        let Some(context) = self.context else {
            return;
        };
        self.tail = index + 1;
        if self.tail >= context.entries {
            self.tail = 0;
            self.polarity = !self.polarity;
        }
        let (value, major, minor, failed) = match outcome {
            Ok(reply) => (reply.value, 0, reply.minor, false),
            Err(refusal) => (0, refusal.major, refusal.minor, true),
        };
        if failed {
            let codes = u32::from(major) << 16 | u32::from(minor);
            env.set_register(PeReg::CqpErrCodes, codes);
        }
        let stays = device.config.variation.op_err == OpErr::Stays;
        let stale = env.register(PeReg::CqpTail) & CQP_OP_ERR;
        let error = match failed {
            true => CQP_OP_ERR,
            false if stays => stale,
            false => 0,
        };
        env.set_register(PeReg::CqpTail, u32::from(self.tail) | error);
        // Once the CCQ exists, each command writes a CQE, including the command that created the
        // CCQ but not the one that destroyed it.
        if !device.tables.ccq {
            return;
        }
        let main = |polarity: bool| {
            let header = put(minor.into(), 15, 0)
                | put(major.into(), 31, 16)
                | put(index.into(), 46, 32)
                | flag(failed, 55)
                | put(command.opcode().into(), 61, 56)
                | flag(true, 62)
                | flag(polarity, 63);
            [0, context.cookie, u64::from(value), header]
        };
        let encode = |polarity: bool, _: bool| CqeEntries {
            main: main(polarity),
            extension: None,
        };
        let completion = Completion {
            slots: 1,
            encode: &encode,
            solicited: failed,
        };
        // A CCQ that cannot take the entry has reported why; the registers tell the driver that the
        // command is done.
        let _ = device.complete(0, &completion, env);
    }
}

/// Little-endian words of 64 bytes.
fn words_of(bytes: &[u8; 64]) -> [u64; 8] {
    let (chunks, _) = bytes.as_chunks::<8>();
    let mut words = [0; 8];
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

/// Whether the header flag `n` is set.
fn set(command: &Command, n: u32) -> bool {
    bit(command.header(), n)
}
