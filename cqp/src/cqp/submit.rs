//! Posting commands (control-path 3.6, 4.1, 4.3).

use e810_hal::clock::live;
use e810_hal::regs::PFPE_CQPTAIL;
use e810_hal::{DmaWord, DmaWords, Platform, log_debug};

use super::layout::{Places, offset};
use super::status::error_codes;
use super::{Cqp, RegisterWait};
use crate::error::{Error, Result};
use crate::op::{Command, HEADER, SdEntry, UpdatePeSds, Wqe, opcode_of};
use crate::ring::{Entry, publish, ring_doorbell};
use crate::ticket::{Completion, Ticket};

impl<P: Platform> Cqp<P> {
    /// Posts a command without waiting for it.
    ///
    /// # Errors
    /// What the command's encoding says; [`Error::RingFull`]; [`Error::Unfinished`] when only
    /// registers report completions and the last command has not finished; [`Error::Wait`] when
    /// the device is gone.
    pub fn submit(&mut self, command: &dyn Command) -> Result<Ticket> {
        match command.encode() {
            Ok(wqe) => self.claim().and_then(|entry| self.post(entry, &wqe)),
            Err(error) => Err(error),
        }
    }

    /// Posts UPDATE_PE_SDS with 1 to 11 entries; those after the third go to
    /// the SD slot of the WQE.
    ///
    /// # Errors
    /// As [`Cqp::submit`].
    pub fn submit_sds(&mut self, entries: &[SdEntry]) -> Result<Ticket> {
        let places = Places::new(self.ring.entries());
        let slot = places.slot(self.ring.head());
        let update = UpdatePeSds {
            function: self.function,
            entries,
            slot: offset(self.memory.iova(), slot)?,
        };
        let wqe = update.encode()?;
        // The slot belongs to the entry that is claimed next. It is free: the
        // ring has not handed that entry out.
        let entry = self.claim()?;
        let cells = self.memory.words().get((slot / 8) as usize..);
        let words = update.slot_entries().flat_map(SdEntry::words);
        for (cell, word) in cells.unwrap_or_default().iter().zip(words) {
            cell.set(word);
        }
        self.post(entry, &wqe)
    }

    /// Posts UPDATE_PE_SDS and waits for its end. If it does not end in time, [`Cqp::late_end`]
    /// reports its outcome for the `subject` given here.
    ///
    /// # Errors
    /// As [`Cqp::submit_sds`] and [`Cqp::wait`].
    pub fn update_sds(&mut self, entries: &[SdEntry], subject: u64) -> Result<Completion> {
        self.submit_sds(entries)
            .and_then(|ticket| self.wait_for(ticket, subject))
    }

    /// Takes a free entry.
    pub(super) fn claim(&mut self) -> Result<Entry> {
        if self.ccq.is_none() && self.outstanding() > 0 {
            // Perhaps a given-up command has finished meanwhile.
            self.poll_registers()?;
            if self.outstanding() > 0 {
                let op = self.slots().op(self.ring.index_of(self.completed));
                return Err(Error::Unfinished { op });
            }
        }
        self.ring.claim()
    }

    /// Publishes a WQE in its entry and rings the doorbell. Without the CCQ,
    /// the tail is read in between.
    pub(super) fn post(&mut self, entry: Entry, wqe: &Wqe) -> Result<Ticket> {
        let watch_registers = self.ccq.is_none();
        self.post_watching(entry, wqe, watch_registers)
    }

    pub(super) fn post_watching(
        &mut self,
        entry: Entry,
        wqe: &Wqe,
        watch_registers: bool,
    ) -> Result<Ticket> {
        let op = opcode_of(wqe[HEADER]);
        let ticket = Ticket {
            sequence: entry.sequence,
            op,
        };
        self.slots().open(entry.index, op);
        publish(&self.memory, &self.platform, entry, wqe)?;
        if watch_registers {
            match self.registers_before() {
                Ok(wait) => self.register_wait = Some(wait),
                Err(gone) => {
                    self.slots().abandon(entry.index);
                    return Err(gone);
                }
            }
        }
        self.counters.posted = self.counters.posted.wrapping_add(1);
        ring_doorbell(&self.platform, &self.platform, self.ring.head());
        log_debug!("{} posted at {}", op, entry.index);
        Ok(ticket)
    }

    /// What the registers say before a command, so that its end shows in them.
    pub(super) fn registers_before(&self) -> Result<RegisterWait> {
        let tail = PFPE_CQPTAIL.read(&self.platform);
        live("PFPE_CQPTAIL", tail.get())?;
        let stale = tail.is_set(PFPE_CQPTAIL::CQP_OP_ERR);
        Ok(RegisterWait {
            tail: tail.read(PFPE_CQPTAIL::WQTAIL),
            stale: stale.then(|| error_codes(&self.platform)).transpose()?,
        })
    }
}
