//! An answer of a resolver, to be waited for.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use e810_hal::Ns;

use super::Unresolved;
use crate::route::Neighbour;

/// How often a thread that waits for an answer does something else.
const STEP: Duration = Duration::from_millis(20);
/// Time that the resolving thread may take beyond the limit, on a busy machine.
const GRACE: Duration = Duration::from_secs(5);

/// The pending answer to where packets to a destination go.
#[derive(Debug)]
pub struct PendingResolve {
    destination: IpAddr,
    answer: Receiver<Result<Neighbour, Unresolved>>,
    limit: Ns,
}

impl PendingResolve {
    pub(crate) const fn new(
        destination: IpAddr,
        answer: Receiver<Result<Neighbour, Unresolved>>,
        limit: Ns,
    ) -> Self {
        Self {
            destination,
            answer,
            limit,
        }
    }

    /// The answer, if it is there. It is taken once; after that it says that nobody answers.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub(crate) fn try_take(&self) -> Option<Result<Neighbour, Unresolved>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Unresolved::Ended {
                destination: self.destination,
            })),
        }
    }

    /// Waits for it; `idle` is called meanwhile, and may end the wait.
    ///
    /// # Errors
    /// [`Unresolved`], or the error of `idle`.
    pub fn wait(self, idle: &dyn Fn() -> anyhow::Result<()>) -> anyhow::Result<Neighbour> {
        let limit = Instant::now() + Duration::from_nanos(self.limit.0) + GRACE;
        loop {
            match self.answer.recv_timeout(STEP) {
                Ok(answer) => return Ok(answer?),
                Err(RecvTimeoutError::Timeout) if Instant::now() < limit => idle()?,
                Err(_) => {
                    let destination = self.destination;
                    return Err(Unresolved::Ended { destination }.into());
                }
            }
        }
    }
}
