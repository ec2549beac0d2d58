//! [`Env`] for the engine of a function: DMA through the IOMMU, registers, interrupts, frames to
//! send.

use crate::findings::{Kind, kind};
use e810_hal::RegOffset;
use e810_hal::bus::{CeqId, PfId};
use e810_hal::regs as hw;

use super::EngineEnv;
use crate::bus_master::BusMastering;
use crate::pe::{DmaFault, Env, EventCount, OicrCause, PeReg};

impl EngineEnv<'_> {
    fn place(&self, register: PeReg) -> Option<RegOffset> {
        let pf = PfId::new(u16::from(self.state.index()))?;
        Some(match register {
            PeReg::CqpTail => hw::PFPE_CQPTAIL.off(),
            PeReg::CcqpStatus => hw::PFPE_CCQPSTATUS.off(),
            PeReg::CqpErrCodes => hw::PFPE_CQPERRCODES.off(),
            PeReg::CritErr => hw::GLPE_CRITERR.off(),
            PeReg::HmcErrorInfo => hw::PFHMC_ERRORINFO.off(),
            PeReg::HmcErrorData => hw::PFHMC_ERRORDATA.off(),
            PeReg::AeqDropCount => hw::GLPE_PFAEQEDROPCNT.at(pf).off(),
            PeReg::CeqDropCount => hw::GLPE_PFCEQEDROPCNT.at(pf).off(),
            PeReg::CqDropCount => hw::GLPE_PFCQEDROPCNT.at(pf).off(),
            PeReg::FlmXmitAllocErr => hw::GLPE_PFFLMXMITALLOCERR.at(pf).off(),
            PeReg::FlmQ1AllocErr => hw::GLPE_PFFLMQ1ALLOCERR.at(pf).off(),
            PeReg::FlmRrfAllocErr => hw::GLPE_PFFLMRRFALLOCERR.at(pf).off(),
        })
    }

    /// Puts a frame of the LAN queues on the wire.
    pub(crate) fn transmit_lan(&mut self, frame: Vec<u8>) {
        self.state.stats.frames_sent += 1;
        self.state.lan_outbox.push(frame);
    }
}

impl Env for EngineEnv<'_> {
    fn read(&mut self, iova: u64, into: &mut [u8]) -> Result<(), DmaFault> {
        self.check_bus_mastering(iova, into.len(), false)?;
        let done = self.state.memory.iommu.read(iova, into);
        done.map_err(|no| self.no_access(no))?;
        self.did_read(into.len());
        Ok(())
    }

    fn reads_ahead(&self) -> bool {
        self.state.memory.has_far_programs()
    }

    fn read_ahead(&mut self, iova: u64, bytes: usize) {
        if self.state.bus_mastering == BusMastering::On {
            self.state.memory.iommu.read_ahead(iova, bytes);
        }
    }

    fn forget_ahead(&mut self) {
        self.state.memory.iommu.forget_ahead();
    }

    fn write(&mut self, iova: u64, from: &[u8]) -> Result<(), DmaFault> {
        self.check_bus_mastering(iova, from.len(), true)?;
        let done = self.state.memory.iommu.write(iova, from);
        done.map_err(|no| self.no_access(no))?;
        self.did_write(from.len());
        Ok(())
    }

    fn load(&mut self, iova: u64) -> Result<u64, DmaFault> {
        self.check_bus_mastering(iova, 8, false)?;
        let done = self.state.memory.iommu.load(iova);
        let value = done.map_err(|no| self.no_access(no))?;
        self.did_read(8);
        Ok(value)
    }

    fn load_words(&mut self, iova: u64, into: &mut [u64]) -> Result<(), DmaFault> {
        let bytes = into.len() * 8;
        self.check_bus_mastering(iova, bytes, false)?;
        let done = self.state.memory.iommu.load_words(iova, into);
        done.map_err(|no| self.no_access(no))?;
        self.did_read(bytes);
        Ok(())
    }

    fn load_quantum(&mut self, iova: u64) -> Result<[u64; 4], DmaFault> {
        self.check_bus_mastering(iova, 32, false)?;
        let done = self.state.memory.iommu.load_quantum(iova);
        let words = done.map_err(|no| self.no_access(no))?;
        self.did_read(32);
        Ok(words)
    }

    fn store(&mut self, iova: u64, value: u64) -> Result<(), DmaFault> {
        self.write_entry(iova, &[value], 0)
    }

    fn write_entry(&mut self, iova: u64, words: &[u64], valid_word: usize) -> Result<(), DmaFault> {
        self.check_bus_mastering(iova, words.len() * 8, true)?;
        let done = self.state.memory.iommu.write_entry(iova, words, valid_word);
        done.map_err(|no| self.no_access(no))?;
        self.did_write(words.len() * 8);
        Ok(())
    }

    fn raise_ceq(&mut self, ceq: u16) {
        match CeqId::new(ceq) {
            Some(id) => self.raise_cause(
                &format!("GLINT_CEQCTL({ceq})"),
                hw::GLINT_CEQCTL.at(id).off(),
            ),
            None => self.found(
                kind::VECTOR_RANGE,
                format!("CEQ {ceq} has no cause register"),
            ),
        }
    }

    fn raise_aeq(&mut self) {
        self.raise_cause("PFINT_AEQCTL", hw::PFINT_AEQCTL.off());
    }

    fn raise_oicr(&mut self, cause: OicrCause) {
        self.set_oicr(1 << (cause as u32));
    }

    fn register(&mut self, register: PeReg) -> u32 {
        self.place(register)
            .map_or(0, |off| self.state.registers.get(off))
    }

    fn set_register(&mut self, register: PeReg, value: u32) {
        if let Some(off) = self.place(register) {
            self.state.registers.set(off, value);
        }
    }

    fn counted(&mut self, what: EventCount) {
        let stats = &mut self.state.stats;
        let count = match what {
            EventCount::Armed => &mut stats.arms,
            EventCount::ArmedAgain => &mut stats.arms_repeated,
            EventCount::Written => &mut stats.ceqes,
            EventCount::AtOnce => &mut stats.events_at_once,
            EventCount::SolicitedAtOnce => &mut stats.solicited_at_once,
        };
        *count += 1;
    }

    fn executed(&mut self, opcode: u8) {
        self.state.stats.commands += 1;
        self.state.tally.counter.cqp(opcode);
    }

    fn has_queue_set(&self, handle: u16) -> bool {
        let lan = self.state.lan.as_ref();
        lan.is_none_or(|lan| lan.queue_sets.contains(&handle))
    }

    fn has_vsi(&self, vsi: u16) -> bool {
        let lan = self.state.lan.as_ref();
        lan.is_none_or(|lan| lan.vsis.contains(&vsi))
    }

    fn sent_here(&self) -> bool {
        self.state.sent_here
    }

    fn mappings_removed(&self) -> Option<u64> {
        Some(self.state.memory.iommu.removed())
    }

    fn frame_buffer(&mut self) -> Vec<u8> {
        self.state.spare_frames.pop().unwrap_or_default()
    }

    fn transmit(&mut self, frame: Vec<u8>) {
        self.state.stats.frames_sent += 1;
        self.state.outbox.push(frame);
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn finding(&mut self, kind: Kind, text: String) {
        self.found(kind, text);
    }

    fn random(&mut self) -> u64 {
        self.state.rng.next_u64()
    }
}
