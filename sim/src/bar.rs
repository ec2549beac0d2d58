//! BAR0 register semantics: the side effects of reads and writes on top of the plain register file.

use crate::findings::{Kind, Log, kind};
use crate::fw::Firmware;
use crate::variation::EngineAlone;
use e810_hal::RegOffset;
use e810_hal::regs as hw;
use e810_hal::regs::Element;

use crate::function::{EngineEnv, Function};
use crate::fw;
use crate::lan::LanQueues;
use crate::pe::Doorbell;
use crate::regs::lan::place;
use crate::regs::{self, ResetSource};

/// The effect of a register write beyond its own function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    None,
    /// The function was reset.
    PfReset,
    /// The whole card is reset.
    GlobalReset(ResetSource),
}

/// PFGEN_CTRL.PFSWR.
const PFSWR: u32 = 1;
/// QRX_CTRL.QENA_REQ.
const QENA_REQ: u32 = 1;
/// PFPE_CCQPSTATUS.CCQP_DONE.
const CCQP_DONE: u32 = 1;

/// Bits that a doorbell has: QP id and WQE_DESC_INDEX, CQ id, and so on (control-path 2.2).
const fn doorbell_bits(doorbell: Doorbell) -> u32 {
    match doorbell {
        Doorbell::CqpDb => 0x7ff,
        Doorbell::CcqpHigh | Doorbell::CcqpLow | Doorbell::AeqAlloc => u32::MAX,
        // The driver clears the whole register.
        Doorbell::CqpTail => 0x8000_07ff,
        Doorbell::WqeAlloc => 0xfff3_ffff,
        Doorbell::CqArm | Doorbell::CqAck => 0x7_ffff,
        Doorbell::PdInv => 0x01ff_8fff,
    }
}

/// Whether the doorbell makes the engine fetch work, as opposed to one that configures the engine.
const fn rings(doorbell: Doorbell) -> bool {
    matches!(
        doorbell,
        Doorbell::CqpDb
            | Doorbell::WqeAlloc
            | Doorbell::CqArm
            | Doorbell::CqAck
            | Doorbell::AeqAlloc
    )
}

/// Whether the doorbell makes the engine access memory: a write to the low half of the CQP context
/// address starts the fetch of that context.
const fn reaches_out(doorbell: Doorbell) -> bool {
    rings(doorbell) || matches!(doorbell, Doorbell::CcqpLow)
}

fn doorbell(off: RegOffset) -> Option<Doorbell> {
    const WQEALLOC: RegOffset = hw::PFPE_WQEALLOC.off();
    const PAGE_WQEALLOC: RegOffset = hw::DB_WQE_ALLOC.off();
    const CQARM: RegOffset = hw::PFPE_CQARM.off();
    const PAGE_CQARM: RegOffset = hw::DB_CQ_ARM.off();
    const CQACK: RegOffset = hw::PFPE_CQACK.off();
    const AEQALLOC: RegOffset = hw::PFPE_AEQALLOC.off();
    const CQPDB: RegOffset = hw::PFPE_CQPDB.off();
    const CCQPHIGH: RegOffset = hw::PFPE_CCQPHIGH.off();
    const CCQPLOW: RegOffset = hw::PFPE_CCQPLOW.off();
    const CQPTAIL: RegOffset = hw::PFPE_CQPTAIL.off();
    const PDINV: RegOffset = hw::PFHMC_PDINV.off();
    const PDINV_FPMAT: RegOffset = hw::PFHMC_PDINV_FPMAT.off();
    Some(match off {
        WQEALLOC | PAGE_WQEALLOC => Doorbell::WqeAlloc,
        CQARM | PAGE_CQARM => Doorbell::CqArm,
        CQACK => Doorbell::CqAck,
        AEQALLOC => Doorbell::AeqAlloc,
        CQPDB => Doorbell::CqpDb,
        CCQPHIGH => Doorbell::CcqpHigh,
        CCQPLOW => Doorbell::CcqpLow,
        CQPTAIL => Doorbell::CqpTail,
        PDINV | PDINV_FPMAT => Doorbell::PdInv,
        _ => return None,
    })
}

/// Whether a write to the register at `off` concerns only the engine or a LAN queue, which executes
/// it at its next turn. Other writes may concern the firmware or other functions.
pub(crate) fn is_posted(off: RegOffset) -> bool {
    doorbell(off).is_some_and(rings)
        || place::tx_doorbell(off).is_some()
        || place::rx_tail(off).is_some()
}

/// The value that QRX_CTRL reads as: the queue follows QENA_REQ \[0\] at once, and QENA_STAT \[2\]
/// shows it.
const fn rx_control(value: u32) -> u32 {
    const STATE: u32 = 1 << 2;
    if value & QENA_REQ != 0 {
        value | STATE
    } else {
        value & !STATE
    }
}

/// The name that accesses are counted under.
fn count_name(element: Option<Element>) -> &'static str {
    element.map_or("others", |element| element.register.name)
}

/// Whether writing a 1 clears a bit: malicious-driver reports and wake-up reasons.
fn clears_by_ones(element: &Element) -> bool {
    let name = element.register.name;
    name.contains("_MDET_") || name == "PFPM_WUS"
}

impl Function {
    /// The driver reads the register at `off`.
    pub(crate) fn read32(&mut self, off: RegOffset, log: &mut Log, now: u64) -> u32 {
        self.state.stats.register_reads += 1;
        let element = self.state.registers.element(off);
        self.state.tally.counter.read(count_name(element));
        let Some(element) = element else {
            let text = format!("read of {}", regs::name(off));
            self.lint(log, now, kind::REGISTER_UNKNOWN, text);
            return regs::POISON;
        };
        if !regs::is_readable(&element) {
            self.lint(
                log,
                now,
                kind::REGISTER_WRITE_ONLY,
                format!("read of {element}"),
            );
            return regs::POISON;
        }
        if let Some(value) = self.state.registers.shown(off) {
            return value;
        }
        let port = self.state.index();
        let (counters, fcs) = (
            &self.state.lan_queues.counters,
            self.state.variation.counted_fcs,
        );
        if let Some(value) = counters.register(&element, port, fcs) {
            return value;
        }
        if now < self.state.engine_ready_at && element.register.name.starts_with("GLPE_CPUSTATUS") {
            return 0;
        }
        if let Some(vector) = hw::GLINT_DYN_CTL.locate(off) {
            return self.state.irq.control(vector.get() as u16);
        }
        if let Some((itr, vector)) = hw::GLINT_ITR.locate(off) {
            return self.state.irq.itr(itr.get(), vector.get() as u16);
        }
        if let Some(vector) = hw::GLINT_RATE.locate(off) {
            return self.state.irq.rate(vector.get() as u16);
        }
        if off == hw::PFGEN_CTRL.off() {
            let resetting = self
                .state
                .reset
                .is_some_and(|reset| reset.source == ResetSource::Pfr);
            return if resetting { PFSWR } else { 0 };
        }
        let value = self.state.registers.get(off);
        if off == hw::PFINT_OICR.off() {
            self.state.registers.set(off, 0);
        }
        value
    }

    /// The driver writes the register at `off`.
    pub(crate) fn write32(
        &mut self,
        off: RegOffset,
        value: u32,
        log: &mut Log,
        now: u64,
    ) -> Effect {
        self.state.stats.register_writes += 1;
        if self.state.reset.is_some() {
            let text = format!("write of {value:#x} to {}", regs::name(off));
            self.lint(log, now, kind::REGISTER_IN_RESET, text);
            return Effect::None;
        }
        let registers = &self.state.registers;
        let name = || count_name(registers.element(off));
        self.state.tally.counter.wrote(off, name);
        match doorbell(off) {
            Some(doorbell) => {
                self.write_doorbell(doorbell, off, value, log, now);
                Effect::None
            }
            None => self.write_register(off, value, log, now),
        }
    }

    fn write_doorbell(
        &mut self,
        doorbell: Doorbell,
        off: RegOffset,
        value: u32,
        log: &mut Log,
        now: u64,
    ) {
        self.state.stats.doorbells += u64::from(rings(doorbell));
        if value & !doorbell_bits(doorbell) != 0 {
            let text = format!("write of {value:#x} to {}", regs::name(off));
            self.lint(log, now, kind::REGISTER_BITS, text);
        }
        if reaches_out(doorbell) {
            self.state.bus_mastering.work_requested();
        }
        let is_alone = self.fw.as_ref().is_some_and(Firmware::has_no_vsi);
        if doorbell == Doorbell::CcqpLow
            && value != 0
            && is_alone
            && self.state.variation.engine_alone == EngineAlone::Silent
        {
            return;
        }
        self.with_engine(log, now, |engine, env| {
            engine.doorbell(doorbell, value, env);
        });
        self.runnable = true;
    }

    fn write_register(&mut self, off: RegOffset, value: u32, log: &mut Log, now: u64) -> Effect {
        let Some(element) = self.state.registers.element(off) else {
            let text = format!("write of {value:#x} to {}", regs::name(off));
            self.lint(log, now, kind::REGISTER_UNKNOWN, text);
            return Effect::None;
        };
        if !regs::is_writable(&element) {
            let text = format!("write of {value:#x} to {element}");
            self.lint(log, now, kind::REGISTER_READ_ONLY, text);
            return Effect::None;
        }
        if value & !regs::named_bits(&element) != 0 {
            let text = format!("write of {value:#x} to {element}");
            self.lint(log, now, kind::REGISTER_BITS, text);
        }
        if let Some(vector) = hw::GLINT_DYN_CTL.locate(off) {
            self.state.registers.hide(vector);
            self.engine_env(log, now).write_dyn_ctl(vector, value);
        } else if let Some((itr, vector)) = hw::GLINT_ITR.locate(off) {
            self.state.registers.hide(vector);
            self.engine_env(log, now).write_itr(itr, vector, value);
        } else if let Some(vector) = hw::GLINT_RATE.locate(off) {
            self.state.registers.hide(vector);
            self.engine_env(log, now).write_rate(vector, value);
        } else if off == hw::PFINT_OICR.off() {
            // Writing a bit sets it (control-path 2.6).
            self.engine_env(log, now).set_oicr(value);
        } else if off == hw::PFGEN_CTRL.off() {
            if value & PFSWR != 0 {
                // While a reset of the card is announced, a driver waits for that one instead
                // (control-path 9.2).
                if let Some(source) = self.known_reset(now) {
                    let text = format!("a PF reset is asked for, {source:?} is announced");
                    self.lint(log, now, kind::RESET_IN_RESET, text);
                }
                self.start_pf_reset(now);
                return Effect::PfReset;
            }
        } else if off == hw::GLGEN_RTRIG.off() {
            return global_reset(value);
        } else if off == hw::PFPE_CCQPSTATUS.off() {
            // The driver clears it before a create; the state of a live CQP is the device's
            // [inf live_cqp_status].
            if self.state.registers.get(off) & CCQP_DONE == 0 {
                self.state.registers.write(off, value);
            }
        } else if let Some(queue) = place::rx_control(off) {
            self.state.registers.write(off, rx_control(value));
            let on = value & QENA_REQ != 0;
            LanQueues::switch_rx(queue, on, &mut self.engine_env(log, now));
        } else if let Some(queue) = place::rx_tail(off) {
            self.state.registers.write(off, value);
            LanQueues::rx_tail(queue, value, &mut self.engine_env(log, now));
        } else if clears_by_ones(&element) {
            let left = self.state.registers.get(off) & !value;
            self.state.registers.write(off, left);
        } else {
            self.state.registers.write(off, value);
            self.tell_firmware(off, value, log, now);
        }
        Effect::None
    }

    /// Notifies the firmware and the LAN queues of a write that may concern them.
    fn tell_firmware(&mut self, off: RegOffset, value: u32, log: &mut Log, now: u64) {
        let Some(fw) = &mut self.fw else {
            return;
        };
        let mut env = EngineEnv {
            state: &mut self.state,
            log,
            now,
        };
        if fw::is_queue_register(off) {
            fw.queue_written(off, &mut env);
        } else if let Some(queue) = place::tx_doorbell(off) {
            let Some(vsi) = env.state.lan_queues.vsi_of(queue) else {
                return;
            };
            let Some(sent) = LanQueues::doorbell(queue, value, &fw.sender(vsi), &mut env) else {
                return;
            };
            if let Some(off) = place::tx_head(queue) {
                env.state.registers.set(off, sent.head);
            }
            if let Some(off) = place::tx_interrupt(queue).filter(|_| sent.has_reported) {
                env.raise_cause("QINT_TQCTL", off);
            }
        }
    }

    fn lint(&mut self, log: &mut Log, now: u64, kind: Kind, text: String) {
        self.engine_env(log, now).found(kind, text);
    }
}

/// The widest reset requested through GLGEN_RTRIG.
fn global_reset(value: u32) -> Effect {
    // CORER [0], GLOBR [1], EMPFWR [2].
    if value & 4 != 0 {
        Effect::GlobalReset(ResetSource::Empr)
    } else if value & 2 != 0 {
        Effect::GlobalReset(ResetSource::Globr)
    } else if value & 1 != 0 {
        Effect::GlobalReset(ResetSource::Corer)
    } else {
        Effect::None
    }
}

#[cfg(test)]
mod tests;
