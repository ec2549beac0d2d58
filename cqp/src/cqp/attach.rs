//! Creation of the CCQ, whose first completion is that of its own creation, and its destruction,
//! which completes through the registers (control-path 3.1 step 15, 3.4, 4.3, 4.4).

use e810_hal::bus::{CeqId, VsiId};
use e810_hal::{DmaBuf, DmaLayout, Platform, log_error, log_info, log_warn, poll_until};

use super::layout::{CCQ_ALIGN, ccq_places, offset};
use super::status::Tail;
use super::{Ccq, Cqp, shadow_of};
use crate::ccq::CompletionRing;
use crate::error::{Error, Result};
use crate::limits::{CCQ_ID, CCQ_SHADOW_THRESHOLD, NO_PROGRESS_LIMIT, POLL_PAUSE};
use crate::op::{Command, CqAttributes, CreateCq, DestroyCq};
use crate::ticket::Ticket;

/// Choices at the creation of the CCQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CcqConfig {
    /// CEQ for its events. CEQ 0 in existing drivers, created after the CCQ.
    pub ceq: CeqId,
    /// VSIIDX: the main VSI.
    pub vsi: VsiId,
    /// CQCTX, 63 bits: what a CEQE for the CCQ carries.
    pub context: u64,
}

impl<P: Platform> Ccq<P> {
    fn attributes(&self) -> Result<CqAttributes> {
        let shadow = (self.shadow as u64).wrapping_mul(8);
        Ok(CqAttributes {
            context: self.context,
            // Every completion raises an event while armed (control-path 4.8).
            mask_ceqe: false,
            ..CqAttributes::new(
                CCQ_ID,
                self.entries,
                self.memory.iova(),
                offset(self.memory.iova(), shadow)?,
                self.config.ceq,
            )
        })
    }
}

impl<P: Platform> Cqp<P> {
    /// Creates the CCQ; from then on completions come through it. The HMC must
    /// be backed, CQ 0 with it ([`Hmc::ensure`](crate::hmc::Hmc::ensure) under
    /// [`Backing::OnDemand`](crate::hmc::Backing::OnDemand)).
    ///
    /// # Errors
    /// [`Error::CcqAttached`]; [`Error::Unfinished`]; [`Error::Dma`]; [`Error::Cqp`] when the
    /// device refuses; [`Error::Wait`] after 1 s or when the device is gone. The memory is freed,
    /// unless the device may still write to it; completions come from registers as before.
    pub fn attach_ccq(&mut self, config: CcqConfig) -> Result<()> {
        if self.ccq.is_some() {
            return Err(Error::CcqAttached);
        }
        let ccq = self.allocate_ccq(config)?;
        let ticket = match self.post_creation(&ccq) {
            Ok(ticket) => ticket,
            Err(error) => {
                give_back(ccq, error);
                return Err(error);
            }
        };
        self.ccq = Some(ccq);
        let ended = self.wait_for_first(ticket);
        if let Err(error) = self.finish(ticket, ended) {
            if let Some(ccq) = self.ccq.take() {
                give_back(ccq, error);
            }
            return Err(error);
        }
        log_info!("CCQ attached");
        Ok(())
    }

    fn allocate_ccq(&self, config: CcqConfig) -> Result<Ccq<P>> {
        let (entries, shadow) = ccq_places(self.ring.entries());
        let ring = CompletionRing::new(entries)?;
        let layout = DmaLayout::new(shadow.saturating_add(CCQ_ALIGN), CCQ_ALIGN);
        Ok(Ccq {
            ring,
            entries,
            memory: DmaBuf::new(self.platform.clone(), layout)?,
            shadow: shadow / 8,
            context: config.context,
            config,
        })
    }

    fn post_creation(&mut self, ccq: &Ccq<P>) -> Result<Ticket> {
        let command = CreateCq {
            cq: ccq.attributes()?,
            // Rings of existing drivers are never that small; for a CQ it is half the entries.
            shadow_threshold: CCQ_SHADOW_THRESHOLD.min(ccq.entries / 2),
            vsi: ccq.config.vsi,
            check_overflow: true,
        };
        self.submit(&command)
    }

    /// Waits on the CCQ for the completion of its own creation. If the device refuses, it has no
    /// CCQ to report that on, so this checks CQP_OP_ERR too `[inf ccq_refusal]`; a moved tail is
    /// not success.
    fn wait_for_first(&mut self, ticket: Ticket) -> Result<()> {
        let platform = self.platform.clone();
        let label = "CCQ creation";
        poll_until(&platform, label, NO_PROGRESS_LIMIT, POLL_PAUSE, || {
            self.drain_ccq();
            if !self.has_ended(ticket)? && self.read_tail()? == Some(Tail::Failed) {
                self.fail_by_registers()?;
            }
            Ok(self.has_ended(ticket)?.then_some(()))
        })
    }

    /// Destroys the CCQ and frees its memory; registers report the end. Nothing may be in flight.
    ///
    /// If CQP_OP_ERR was set before, by a command on the CCQ, a moved tail counts as the CCQ's
    /// end. The memory is then kept until the CQP's is freed, because the registers would not
    /// show a refusal with the same codes.
    ///
    /// # Errors
    /// [`Error::NoCcq`]; [`Error::Unfinished`]; [`Error::Cqp`], the CCQ then
    /// stays attached; [`Error::Wait`] after 5 s or when the device is gone,
    /// the CCQ's memory is then leaked.
    pub fn detach_ccq(&mut self) -> Result<()> {
        self.drain_ccq();
        let ccq = self.ccq.as_ref().ok_or(Error::NoCcq)?;
        if self.outstanding() > 0 {
            let op = self.slots().op(self.ring.index_of(self.completed));
            return Err(Error::Unfinished { op });
        }
        let wqe = ccq.attributes().and_then(|cq| DestroyCq { cq }.encode())?;
        let entry = self.ring.claim()?;
        let ticket = self.post_watching(entry, &wqe, true)?;
        self.inherited = self.register_wait.and_then(|wait| wait.stale);
        let doubtful = self.inherited.is_some();
        let ended = self.wait_on_registers(ticket, NO_PROGRESS_LIMIT);
        let result = self.finish(ticket, ended);
        let refused = matches!(result, Err(Error::Cqp { .. }));
        if !refused && let Some(ccq) = self.ccq.take() {
            match result {
                Ok(_) if doubtful => {
                    log_warn!("CQP_OP_ERR was set before the CCQ was destroyed and still may be");
                    self.parted = Some(ccq.memory);
                }
                Ok(_) => ccq.memory.release(),
                Err(error) => log_error!("the CCQ's memory is leaked: {}", error),
            }
        }
        result.map(|_| log_info!("CCQ detached"))
    }

    /// Goes back to registers without destroying the CCQ: for a device that refused to destroy
    /// it. The CCQ's memory is kept until the CQP's is freed. Nothing may be in flight.
    ///
    /// # Errors
    /// [`Error::NoCcq`]; [`Error::Unfinished`]; [`Error::Wait`] when the device is
    /// gone.
    pub fn part_from_ccq(&mut self) -> Result<()> {
        self.drain_ccq();
        if self.outstanding() > 0 {
            let op = self.slots().op(self.ring.index_of(self.completed));
            return Err(Error::Unfinished { op });
        }
        self.inherited = self.registers_before()?.stale;
        let ccq = self.ccq.take().ok_or(Error::NoCcq)?;
        log_warn!("the CCQ was not destroyed: going on by registers");
        self.parted = Some(ccq.memory);
        Ok(())
    }

    /// Asks for an event with the next completion. Poll once more afterwards: a completion that
    /// came before may raise none.
    ///
    /// # Errors
    /// [`Error::NoCcq`].
    pub fn arm_ccq(&mut self) -> Result<()> {
        let Ccq {
            ring,
            memory,
            shadow,
            ..
        } = self.ccq.as_mut().ok_or(Error::NoCcq)?;
        ring.arm(shadow_of(memory, *shadow), &self.platform, &self.platform);
        Ok(())
    }
}

/// Frees the memory of a CCQ that was not created, unless the device may have
/// created it after all.
fn give_back<P: Platform>(ccq: Ccq<P>, error: Error) {
    if error.leaves_command_open() {
        log_error!("the CCQ's memory is leaked: {}", error);
    } else {
        ccq.memory.release();
    }
}
