//! AdminQ rings: fetches commands from the ATQ and writes events to the ARQ (control-path 9.1).
//!
//! The firmware processes one command at a time. The ring registers belong to the function; this
//! module keeps only the firmware's own ring state.

use crate::findings::kind;
use e810_hal::RegOffset;
use e810_hal::regs as hw;

use crate::function::{EngineEnv, FunctionState};
use crate::pe::Env;
use crate::regs::ResetSource;

use super::config::AqFault;
use super::descriptor::{Command, Descriptor, LEN, Reply, flag};
use super::{AqCode, Cx, Event, Firmware, format};

const ENABLE: u32 = 1 << 31;
const CRITICAL: u32 = 1 << 30;
const OVERFLOW: u32 = 1 << 29;
const COUNT: u32 = 0x3ff;
/// Bits that the address of a ring does not have.
const BELOW_RING: u32 = 0x3f;

const ATQBAL: RegOffset = hw::PF_FW_ATQBAL.off();
const ATQBAH: RegOffset = hw::PF_FW_ATQBAH.off();
const ATQLEN: RegOffset = hw::PF_FW_ATQLEN.off();
const ATQH: RegOffset = hw::PF_FW_ATQH.off();
const ATQT: RegOffset = hw::PF_FW_ATQT.off();
const ARQBAL: RegOffset = hw::PF_FW_ARQBAL.off();
const ARQBAH: RegOffset = hw::PF_FW_ARQBAH.off();
const ARQLEN: RegOffset = hw::PF_FW_ARQLEN.off();
const ARQH: RegOffset = hw::PF_FW_ARQH.off();
const ARQT: RegOffset = hw::PF_FW_ARQT.off();

/// All registers of the queues are 0.
pub(super) fn clear_registers(state: &mut FunctionState) {
    for off in [
        ATQBAL, ATQBAH, ATQLEN, ATQH, ATQT, ARQBAL, ARQBAH, ARQLEN, ARQH, ARQT,
    ] {
        state.registers.set(off, 0);
    }
}

/// Whether the firmware serves the queues, and when it acts next.
#[derive(Debug, Default)]
pub(super) struct Queues {
    commands: bool,
    events: bool,
    due: Option<u64>,
    /// After an injected fault: no command is completed any more.
    silent: bool,
}

/// Effects of a firmware step beyond its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirmwareEffect {
    None,
    Reset(ResetSource),
}

impl Firmware {
    /// Time of the firmware's next action without a command.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let event = if self.events.is_empty() || !self.queues.events {
            None
        } else {
            Some(0)
        };
        [
            self.queues.due,
            self.port.next_change(),
            self.boot.next(),
            event,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The driver wrote an AdminQ register, whose value is already stored.
    pub(crate) fn queue_written(&mut self, off: RegOffset, env: &mut EngineEnv<'_>) {
        let value = env.state.registers.get(off);
        match off {
            ATQLEN => {
                self.queues.commands = value & ENABLE != 0;
                self.queues.silent = false;
                self.queues.due = None;
            }
            ARQLEN => self.queues.events = value & ENABLE != 0,
            ATQBAL | ARQBAL if value & BELOW_RING != 0 => {
                let text = format!("a ring at {value:#x}; its address is a multiple of 64");
                env.found(kind::ADMINQ_RING, text);
            }
            ATQT => {
                if self.queues.commands {
                    let length = env.state.registers.get(ATQLEN) & COUNT;
                    if value >= length {
                        let text = format!("ATQT = {value}, the queue has {length} descriptors");
                        env.found(kind::ADMINQ_RING, text);
                        return;
                    }
                    env.state.bus_mastering.work_requested();
                    self.wake(env.now);
                } else if value != 0 {
                    // Zero is written before a queue is set up and after it is shut down.
                    let text = format!("ATQT = {value} on a queue that is off");
                    env.found(kind::ADMINQ_RING, text);
                }
            }
            ARQT => {
                let length = env.state.registers.get(ARQLEN) & COUNT;
                if self.queues.events && value >= length {
                    let text = format!("ARQT = {value}, the queue has {length} descriptors");
                    env.found(kind::ADMINQ_RING, text);
                }
            }
            _ => {}
        }
    }

    /// Called when a command is waiting.
    fn wake(&mut self, now: u64) {
        let time = u64::from(self.config.command_us) * 1_000;
        self.queues.due.get_or_insert(now + time);
    }
}

/// Whether a write to the register at `off` notifies the firmware.
pub(crate) fn is_queue_register(off: RegOffset) -> bool {
    matches!(off, ATQBAL | ATQLEN | ATQT | ARQBAL | ARQLEN | ARQT)
}

/// Address of descriptor `index` of the ring at `low` and `high`.
fn place(env: &EngineEnv<'_>, low: RegOffset, high: RegOffset, index: u32) -> u64 {
    let registers = &env.state.registers;
    let base = u64::from(registers.get(high)) << 32 | u64::from(registers.get(low) & !BELOW_RING);
    base + u64::from(index) * LEN as u64
}

fn next(index: u32, length: u32) -> u32 {
    if index + 1 >= length { 0 } else { index + 1 }
}

impl Cx<'_, '_> {
    /// Does the work that is due: a link change, an event, a command.
    pub(crate) fn step(&mut self) -> FirmwareEffect {
        self.check_boot();
        self.check_link();
        self.deliver_events();
        let due = self.fw.queues.due.is_some_and(|due| due <= self.now());
        if !due {
            return FirmwareEffect::None;
        }
        self.fw.queues.due = None;
        let effect = self.take_command();
        self.deliver_events();
        if effect == FirmwareEffect::None && self.commands_wait() {
            let now = self.now();
            self.fw.wake(now);
        }
        effect
    }

    fn commands_wait(&self) -> bool {
        let registers = &self.env.state.registers;
        self.fw.queues.commands
            && !self.fw.queues.silent
            && registers.get(ATQH) != registers.get(ATQT)
    }

    /// Executes the command at the head.
    fn take_command(&mut self) -> FirmwareEffect {
        if !self.commands_wait() {
            return FirmwareEffect::None;
        }
        let registers = &self.env.state.registers;
        let (length, head) = (registers.get(ATQLEN) & COUNT, registers.get(ATQH));
        if head >= length {
            let text = format!("ATQH = {head}, the queue has {length} descriptors");
            self.env.found(kind::ADMINQ_RING, text);
            self.critical_error();
            return FirmwareEffect::None;
        }
        let at = place(self.env, ATQBAL, ATQBAH, head);
        let mut bytes = [0; LEN];
        if self.env.read(at, &mut bytes).is_err() {
            // The refused access is already a finding.
            self.critical_error();
            return FirmwareEffect::None;
        }
        let mut descriptor = Descriptor(bytes);
        let opcode = descriptor.opcode();
        self.env.state.tally.counter.adminq(opcode);
        let fault = self.fw.config.meet(opcode);
        let mut code = None;
        match fault {
            Some(AqFault::Silence) => {
                self.fw.queues.silent = true;
                return FirmwareEffect::None;
            }
            Some(AqFault::CriticalError) => {
                self.critical_error();
                return FirmwareEffect::None;
            }
            Some(AqFault::Reset(source)) => return FirmwareEffect::Reset(source),
            Some(AqFault::EventBefore(event)) => {
                self.push_ordered(event);
                self.deliver_events();
            }
            Some(AqFault::Error(ordered)) => code = Some(ordered),
            _ => {}
        }
        let Some(command) = self.read_command(&descriptor) else {
            self.critical_error();
            return FirmwareEffect::None;
        };
        for odd in format::oddities(&descriptor, &command) {
            let text = format!("command {opcode:#06x}: {odd}");
            self.env.found(kind::ADMINQ_BITS, text);
        }
        let mut reply = match code {
            Some(code) => command.done().refused(code),
            None => self.execute(&command),
        };
        if reply.code != AqCode::OK {
            let refusals = self.fw.refused.entry((opcode, reply.code.0)).or_default();
            *refusals += 1;
        }
        if opcode == super::package::DOWNLOAD && (fault.is_some() || reply.code != AqCode::OK) {
            self.card.package.is_left_unfinished();
        }
        if let (Some(AqFault::Truncated(most)), Some(data)) = (fault, reply.data.as_mut()) {
            data.truncate(usize::from(most));
        }
        let mut datalen = reply.data.as_ref().map(Vec::len);
        if let Some(AqFault::DataLen(said)) = fault {
            datalen = Some(usize::from(said));
        }
        if !self.write_reply(at, &mut descriptor, &reply, datalen) {
            self.critical_error();
            return FirmwareEffect::None;
        }
        self.env.state.registers.set(ATQH, next(head, length));
        if let Some(AqFault::EventAfter(event)) = fault {
            self.push_ordered(event);
        }
        FirmwareEffect::None
    }

    /// Adds an event that a test has injected, unless the driver masks its kind.
    fn push_ordered(&mut self, opcode: u16) {
        if self.fw.agent.lets_out(opcode) {
            self.fw.events.push_back(empty_event(opcode));
        }
    }

    /// The command with its buffer; `None` when the buffer cannot be read.
    fn read_command(&mut self, descriptor: &Descriptor) -> Option<Command> {
        let flags = descriptor.flags();
        let buffered = flags & flag::BUF != 0;
        let reads = buffered && flags & flag::RD != 0;
        let room = if buffered { descriptor.datalen() } else { 0 };
        if room > super::MAX_BUFFER {
            let text = format!("a buffer of {room} bytes: 4096 is the most");
            self.env.found(kind::ADMINQ_DESCRIPTOR, text);
            return None;
        }
        let mut data = Vec::new();
        if reads && room > 0 {
            data.resize(room, 0);
            self.env.read(descriptor.buffer(), &mut data).ok()?;
        }
        Some(Command {
            opcode: descriptor.opcode(),
            params: descriptor.params(),
            room,
            data,
            reads,
        })
    }

    /// Writes the buffer first and the descriptor last.
    fn write_reply(
        &mut self,
        at: u64,
        descriptor: &mut Descriptor,
        reply: &Reply,
        datalen: Option<usize>,
    ) -> bool {
        if let Some(data) = &reply.data
            && !data.is_empty()
            && self.env.write(descriptor.buffer(), data).is_err()
        {
            return false;
        }
        descriptor.complete(reply, datalen);
        self.env.write(at, &descriptor.0).is_ok()
    }

    /// The firmware stops: the critical error bits stay set until the queues are set up again
    /// `[inf critical_until_setup]`.
    fn critical_error(&mut self) {
        self.fw.queues.silent = true;
        for off in [ATQLEN, ARQLEN] {
            let value = self.env.state.registers.get(off);
            self.env.state.registers.set(off, value | CRITICAL);
        }
    }

    /// Writes waiting events to descriptors that the driver posted, and interrupts.
    pub(super) fn deliver_events(&mut self) {
        let mut delivered = false;
        while self.fw.queues.events {
            let Some(event) = self.fw.events.pop_front() else {
                break;
            };
            let registers = &self.env.state.registers;
            let length = registers.get(ARQLEN) & COUNT;
            let (head, tail) = (registers.get(ARQH), registers.get(ARQT));
            if head == tail || head >= length {
                // No descriptor: the event is lost and the overflow bit says so.
                let value = registers.get(ARQLEN);
                self.env.state.registers.set(ARQLEN, value | OVERFLOW);
                continue;
            }
            if !self.write_event(head, &event) {
                self.critical_error();
                return;
            }
            self.env.state.registers.set(ARQH, next(head, length));
            delivered = true;
        }
        if delivered {
            self.env.raise_adminq();
        }
    }

    fn write_event(&mut self, index: u32, event: &Event) -> bool {
        let at = place(self.env, ARQBAL, ARQBAH, index);
        let mut bytes = [0; LEN];
        if self.env.read(at, &mut bytes).is_err() {
            return false;
        }
        let mut descriptor = Descriptor(bytes);
        let has_room =
            descriptor.flags() & flag::BUF != 0 && event.data.len() <= descriptor.datalen();
        if !event.data.is_empty() {
            if !has_room {
                let text = format!(
                    "event {:#06x} of {} bytes, descriptor {index} has room for {}",
                    event.opcode,
                    event.data.len(),
                    descriptor.datalen()
                );
                self.env.found(kind::ADMINQ_DESCRIPTOR, text);
                return false;
            }
            if self.env.write(descriptor.buffer(), &event.data).is_err() {
                return false;
            }
        }
        descriptor.event(event);
        self.env.write(at, &descriptor.0).is_ok()
    }
}

fn empty_event(opcode: u16) -> Event {
    Event {
        opcode,
        params: [0; 8],
        data: Vec::new(),
    }
}
