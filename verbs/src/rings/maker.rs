//! Creating rings: first their memory, which the control path is told of, then the rings to poll
//! and to post to, from what it grants.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use e810::{
    CqGrant, CqPlace, CqRing, Platform, QpCaps, QpGrant, QpMemory, QpPlace, QpRecv, QpSend,
};

use super::{CqRings, PlatformCqRings, PlatformQpRings, QpRings};
use crate::control::{Kind, Refused};

/// Creates rings on the platform of the program's process.
pub trait RingMaker: fmt::Debug + Send + Sync {
    /// Creates the ring of a completion queue for at least `entries` completions; `ask` asks the
    /// control path for it.
    ///
    /// # Errors
    /// No memory, or a refusal of the control path.
    fn cq(&self, entries: u32, ask: Ask<'_, CqPlace, CqGrant>)
    -> Result<Box<dyn CqRings>, Refused>;

    /// Creates the queues of a queue pair for `caps`.
    ///
    /// # Errors
    /// As [`cq`](Self::cq).
    fn qp(
        &self,
        caps: &QpCaps,
        ask: Ask<'_, QpPlace, QpGrant>,
    ) -> Result<Box<dyn QpRings>, Refused>;

    /// Frees the memory that the device may have used, once `may_use` says that it no longer does.
    fn free_unanswered(&self, may_use: &dyn Fn(QpPlace) -> bool);
}

/// Asks the control path for an object on memory at a place.
pub type Ask<'a, Place, Grant> = &'a mut dyn FnMut(Place) -> Result<Grant, Refused>;

/// What an error of memory for rings means.
type WhyNoMemory = Box<dyn Fn(e810::Error) -> Refused + Send + Sync>;

/// For rings on `P`.
pub struct PlatformRings<P: Platform> {
    rings: e810::Rings<P>,
    why_no_memory: WhyNoMemory,
    /// The device is a program of this machine.
    yields: bool,
    /// Memory of queue pairs whose creation the device did not answer.
    unanswered: Mutex<Vec<QpMemory<P>>>,
}

impl<P: Platform> PlatformRings<P> {
    /// `yields`: the device is a program of this machine, and needs its processors.
    pub fn new(rings: e810::Rings<P>, yields: bool) -> Self {
        Self {
            rings,
            why_no_memory: Box::new(Refused::from),
            yields,
            unanswered: Mutex::default(),
        }
    }
}

impl<P: Platform> PlatformRings<P> {
    /// Of a program that knows why it gets no memory for rings.
    pub fn with_why(
        self,
        why_no_memory: impl Fn(e810::Error) -> Refused + Send + Sync + 'static,
    ) -> Self {
        let why_no_memory = Box::new(why_no_memory);
        Self {
            why_no_memory,
            ..self
        }
    }
}

impl<P: Platform> fmt::Debug for PlatformRings<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlatformRings")
    }
}

impl<P: Platform + Send + Sync + 'static> RingMaker for PlatformRings<P>
where
    e810::Rings<P>: Send + Sync,
    CqRing<P>: Send,
    QpSend<P>: Send,
    QpRecv<P>: Send,
    QpMemory<P>: Send,
{
    fn cq(
        &self,
        entries: u32,
        ask: Ask<'_, CqPlace, CqGrant>,
    ) -> Result<Box<dyn CqRings>, Refused> {
        let memory = self.rings.cq_memory(entries).map_err(&self.why_no_memory)?;
        match ask(memory.place()) {
            Ok(granted) => {
                let ring = self.rings.cq(memory, &granted)?;
                Ok(Box::new(PlatformCqRings::new(ring, self.yields)))
            }
            // Kept for good: nobody can find out whether the queue exists.
            Err(refused) if refused.kind == Kind::MayUseMemory => Err(refused),
            Err(refused) => {
                memory.release();
                Err(refused)
            }
        }
    }

    fn qp(
        &self,
        caps: &QpCaps,
        ask: Ask<'_, QpPlace, QpGrant>,
    ) -> Result<Box<dyn QpRings>, Refused> {
        let memory = self.rings.qp_memory(caps).map_err(&self.why_no_memory)?;
        match ask(memory.place()) {
            Ok(granted) => {
                let (send, recv) = self.rings.qp(memory, &granted)?;
                let is_datagram = granted.qp_type().is_datagram();
                Ok(Box::new(PlatformQpRings::new(send, recv, is_datagram)))
            }
            Err(refused) if refused.kind == Kind::MayUseMemory => {
                let all = self.unanswered.lock();
                all.unwrap_or_else(PoisonError::into_inner).push(memory);
                Err(refused)
            }
            Err(refused) => {
                memory.release();
                Err(refused)
            }
        }
    }

    fn free_unanswered(&self, may_use: &dyn Fn(QpPlace) -> bool) {
        let all = self.unanswered.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        let over = all.extract_if(.., |memory| !may_use(memory.place()));
        over.for_each(QpMemory::release);
    }
}
