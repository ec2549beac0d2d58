//! One object of each kind, made and given back step by step.

use e810::{
    AccessFlags, Control, Cq, Error, Mr, Pd, Platform, Qp, QpCaps, QpInit, Result, SharedBytes,
};

/// What was being made or given back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    Pd,
    Cq,
    Mr,
    Qp,
}

/// The objects there are. Each is given back by [`Objects::give_back`].
#[derive(Debug)]
pub struct Objects<P: Platform> {
    pub pd: Option<Pd>,
    /// Completions of both directions.
    pub cq: Option<Cq<P>>,
    /// The region on the memory given.
    pub mr: Option<Mr<P>>,
    /// A queue pair in RESET.
    pub qp: Option<Qp<P>>,
}

/// Sizes of the queue pair: small, and room for a short message inline.
const CAPS: QpCaps = QpCaps {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 32,
};

impl<P: Platform> Default for Objects<P> {
    fn default() -> Self {
        Self {
            pd: None,
            cq: None,
            mr: None,
            qp: None,
        }
    }
}

impl<P: Platform> Objects<P> {
    /// Gives their memory back without a word to the device, which was reset.
    pub fn release_after_reset(self, platform: &P) {
        if let Some(qp) = self.qp {
            qp.release_after_reset();
        }
        if let Some(cq) = self.cq {
            cq.release_after_reset();
        }
        if let Some(mr) = self.mr {
            mr.release_after_reset(platform);
        }
    }

    /// Makes what is missing; events of the completion queue go to completion
    /// vector `vector`. After an error, those made before it are there, and
    /// calling again goes on.
    ///
    /// # Errors
    /// The step, and why.
    pub fn make(
        &mut self,
        control: &mut Control<P>,
        memory: SharedBytes,
        vector: u16,
    ) -> Result<(), (Step, Error)> {
        let pd = match self.pd.take() {
            Some(pd) => pd,
            None => control.alloc_pd().map_err(|error| (Step::Pd, error))?,
        };
        let pd = self.pd.insert(pd);
        let cq = match self.cq.take() {
            Some(cq) => cq,
            None => control
                .create_cq(64, vector)
                .map_err(|error| (Step::Cq, error))?,
        };
        let cq = self.cq.insert(cq);
        if self.mr.is_none() {
            let access =
                AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
            let made = control.reg_mr(pd, memory, access);
            self.mr = Some(made.map_err(|error| (Step::Mr, error))?);
        }
        if self.qp.is_none() {
            let init = QpInit::rc(cq, cq, CAPS);
            let made = control.create_qp(pd, &init);
            self.qp = Some(made.map_err(|error| (Step::Qp, error))?);
        }
        Ok(())
    }

    /// Gives back what is there. After an error, calling again goes on.
    ///
    /// # Errors
    /// The step, and why.
    pub fn give_back(&mut self, control: &mut Control<P>) -> Result<(), (Step, Error)> {
        macro_rules! give {
            ($place:ident, $destroy:ident, $step:ident) => {
                if let Some(object) = self.$place.take()
                    && let Err((object, error)) = control.$destroy(object)
                {
                    self.$place = Some(object);
                    return Err((Step::$step, error));
                }
            };
        }
        give!(qp, destroy_qp, Qp);
        give!(mr, dereg_mr, Mr);
        give!(cq, destroy_cq, Cq);
        give!(pd, dealloc_pd, Pd);
        Ok(())
    }
}
