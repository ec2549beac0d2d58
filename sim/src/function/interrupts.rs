//! Interrupt causes, the vectors they are routed to, and the registers that control delivery.

use crate::findings::kind;
use crate::variation::{AutoMask, SharedVector};
use e810_hal::bus::ItrIndex;
use e810_hal::regs as hw;
use e810_hal::{RegOffset, Vector};

use super::{EngineEnv, FunctionState};
use crate::irq::{self, Cause, Rules, Units};

impl FunctionState {
    /// Interrupt settings from the registers.
    fn interrupt_rules(&self) -> Rules {
        let control = self.registers.get(hw::GLINT_CTL.off());
        let power_mode = self.registers.get(hw::GL_PWR_MODE_CTL.off());
        Rules {
            // DIS_AUTOMASK [0].
            auto_mask: control & 1 == 0 && self.variation.auto_mask == AutoMask::Clears,
            units: Units::of(power_mode, control, &self.variation),
        }
    }
}

impl EngineEnv<'_> {
    /// A cause register fires, if it may.
    pub(crate) fn raise_cause(&mut self, name: &str, register: RegOffset) {
        let cause = Cause::from(self.state.registers.get(register));
        if !cause.enabled {
            // The sources do not say whether a cause that is enabled later still interrupts for
            // earlier events. Here it does not, so a driver must not rely on it.
            return;
        }
        if self.state.variation.shared_vector == SharedVector::Silent && name.starts_with("QINT_") {
            let other = Cause::from(self.state.registers.get(hw::PFINT_AEQCTL.off()));
            if other.enabled && other.vector == cause.vector {
                return;
            }
        }
        self.raise_vector(name, cause.vector, cause.itr);
    }

    /// The firmware has put an event on the ARQ.
    pub(crate) fn raise_adminq(&mut self) {
        self.raise_cause("PFINT_FW_CTL", hw::PFINT_FW_CTL.off());
    }

    fn raise_vector(&mut self, name: &str, vector: u16, itr: u32) {
        let rules = self.state.interrupt_rules();
        if !self.state.irq.raise(vector, itr, rules, self.now) {
            let count = self.state.irq.count();
            self.found(
                kind::VECTOR_RANGE,
                format!("{name} is routed to vector {vector}, the function has {count}"),
            );
        }
        self.check_messages();
    }

    /// A write to GLINT_DYN_CTL(`vector`).
    pub(crate) fn write_dyn_ctl(&mut self, vector: Vector, value: u32) {
        let rules = self.state.interrupt_rules();
        let index = vector.get() as u16;
        if irq::is_trigger(value) {
            self.state.bus_mastering.work_requested();
            self.note_software_interrupt(index);
        }
        if irq::clears_pending(value) {
            self.state.msix.clear_pending(index);
        }
        if !self.state.irq.set_control(index, value, rules, self.now) {
            self.no_such_vector("GLINT_DYN_CTL", index);
        }
        self.check_messages();
    }

    /// Sets the bit of PFINT_OICR that reports a software trigger of its vector (`ice/ice_ethtool.c
    /// ice_intr_test` relies on it).
    fn note_software_interrupt(&mut self, vector: u16) {
        const SWINT: u32 = 1 << 31;
        let registers = &mut self.state.registers;
        let cause = Cause::from(registers.get(hw::PFINT_OICR_CTL.off()));
        if cause.enabled && cause.vector == vector {
            let oicr = registers.get(hw::PFINT_OICR.off()) | SWINT;
            registers.set(hw::PFINT_OICR.off(), oicr);
        }
    }

    /// A write to GLINT_ITR(`itr`, `vector`).
    pub(crate) fn write_itr(&mut self, itr: ItrIndex, vector: Vector, value: u32) {
        let rules = self.state.interrupt_rules();
        let (itr, index) = (itr.get(), vector.get() as u16);
        if !self.state.irq.set_itr(itr, index, value, rules, self.now) {
            self.no_such_vector("GLINT_ITR", index);
        }
        self.check_messages();
    }

    /// A write to GLINT_RATE(`vector`).
    pub(crate) fn write_rate(&mut self, vector: Vector, value: u32) {
        let rules = self.state.interrupt_rules();
        let index = vector.get() as u16;
        if !self.state.irq.set_rate(index, value, rules, self.now) {
            self.no_such_vector("GLINT_RATE", index);
        }
        self.check_messages();
    }

    /// Timers and rate-limit credits that interrupts wait for.
    pub(crate) fn pass_interrupt_time(&mut self) {
        let rules = self.state.interrupt_rules();
        self.state.irq.pass_time(rules, self.now);
        self.check_messages();
    }

    /// Records a write to a register of a vector that the function does not have.
    fn no_such_vector(&mut self, name: &str, vector: u16) {
        let count = self.state.irq.count();
        self.found(
            kind::VECTOR_RANGE,
            format!("{name}({vector}) was written, the function has {count} vectors"),
        );
    }

    /// Sets causes of PFINT_OICR, and raises an interrupt if one of them may.
    pub(crate) fn set_oicr(&mut self, causes: u32) {
        let registers = &mut self.state.registers;
        let oicr = registers.get(hw::PFINT_OICR.off()) | causes;
        registers.set(hw::PFINT_OICR.off(), oicr);
        if causes & registers.get(hw::PFINT_OICR_ENA.off()) != 0 {
            self.raise_cause("PFINT_OICR_CTL", hw::PFINT_OICR_CTL.off());
        }
    }
}
