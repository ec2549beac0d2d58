//! A connection to a peer.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use e810::{Cq, Qp, Wc, WcOpcode};
use e810_backends::HostDevice;
use e810_cm::Reason;
use e810_cm::machine::{self, Connect};
use e810_connect::{self as connect, Grant, News, NotConnected, Phase, PrivateData, Told};

use super::{Attended, Shared, State};

/// Why there is no connection, or no longer one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The peer has refused.
    #[error("the peer refuses: {}", reason_text(*reason))]
    Refused {
        /// Why.
        reason: Reason,
        /// What the peer's program says.
        private_data: PrivateData,
    },
    /// The peer does not answer, or no network and no gateway of the function leads to it.
    #[error(
        "the peer does not answer, or there is no way to it: check that it is up, that its address \
         is right (`e810 ping`), and that a network or a gateway of this function leads to it"
    )]
    Unreachable,
    /// The peer has ended the connection.
    #[error("the connection has ended")]
    Disconnected,
    /// A step was not possible; the peer was told.
    #[error(transparent)]
    Step(#[from] NotConnected),
}

fn reason_text(reason: Reason) -> String {
    match reason.text() {
        Some(text) => format!("{text} (reason {})", reason.0),
        None => format!("reason {}", reason.0),
    }
}

/// A reliable connection with its queue pair. [`end`](Self::end) gives the queue pair back; dropped,
/// the connection ends, and the queue pair stays the device's.
pub struct Connection<P: HostDevice> {
    shared: Arc<Shared<P>>,
    /// There until it is ended.
    inner: Option<connect::Connection<P>>,
    ended: Option<Ended>,
    private_data: PrivateData,
}

impl<P: HostDevice> fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

impl<P: HostDevice> Connection<P> {
    /// Takes a queue pair in RESET and brings it to INIT: receives can be posted then. Peers may
    /// write. They may read unless `reads` is 0; how many READs they do at once is what
    /// `responder_resources` tells them, here and there.
    ///
    /// # Errors
    /// The device's refusal, with the queue pair.
    pub fn new(function: &Attended<P>, qp: Qp<P>, reads: u8) -> Result<Self, (Qp<P>, e810::Error)> {
        let shared = Arc::clone(&function.shared);
        let inner = connect::Connection::new(&mut *shared.lock(), qp, reads)?;
        Ok(Self {
            shared,
            inner: Some(inner),
            ended: None,
            private_data: PrivateData::new(),
        })
    }

    /// Its queue pair, to post to.
    ///
    /// # Panics
    /// Never: it is there until [`end`](Self::end), which takes the connection.
    pub const fn qp(&mut self) -> &mut Qp<P> {
        match &mut self.inner {
            Some(inner) => inner.qp(),
            None => unreachable!(),
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.inner
            .as_ref()
            .map_or(Phase::Over, connect::Connection::phase)
    }

    /// What the peer's program has said when it accepted, with zeros up to the size of the field.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Asks a peer, as [`Attended::ask`] has it; wait for [`established`](Self::established) next.
    ///
    /// # Errors
    /// [`NotConnected`].
    pub fn connect(&mut self, ask: &Connect<'_>) -> Result<(), NotConnected> {
        let mut state = self.shared.lock();
        match &mut self.inner {
            Some(inner) => inner.connect(&mut *state, ask),
            None => Err(NotConnected::Phase(Phase::Over)),
        }
    }

    /// Accepts a request. Messages can be sent when the peer is ready
    /// ([`established`](Self::established)), or after the first has arrived.
    ///
    /// # Errors
    /// [`NotConnected`]; the peer was told.
    pub fn accept(&mut self, request: &Told, grant: &Grant<'_>) -> Result<(), NotConnected> {
        let mut state = self.shared.lock();
        match &mut self.inner {
            Some(inner) => inner.accept(&mut *state, request, grant),
            None => Err(NotConnected::Phase(Phase::Over)),
        }
    }

    /// Takes note of what was told.
    fn hear(&mut self, state: &mut State<P>) {
        let Some(inner) = &mut self.inner else {
            return;
        };
        let Some(id) = inner.id() else {
            return;
        };
        while let Some(told) = state.next(id) {
            let heard = inner.hear(state, &told);
            let ended = match (heard, told.news) {
                (Err(error), _) => Some(Ended::Step(error)),
                (_, News::Accepted { private_data, .. }) => {
                    self.private_data = private_data;
                    None
                }
                (
                    _,
                    News::Rejected {
                        reason,
                        private_data,
                    },
                ) => Some(Ended::Refused {
                    reason,
                    private_data,
                }),
                (_, News::Unreachable) => Some(Ended::Unreachable),
                (_, News::Disconnected) => Some(Ended::Disconnected),
                _ => None,
            };
            self.ended = self.ended.take().or(ended);
        }
    }

    fn is_established(&mut self, state: &mut State<P>) -> Option<Result<(), Ended>> {
        self.hear(state);
        match (&self.ended, self.phase()) {
            (Some(ended), _) => Some(Err(ended.clone())),
            (None, Phase::Established) => Some(Ok(())),
            _ => None,
        }
    }

    fn is_over(&mut self, state: &mut State<P>) -> Option<()> {
        self.hear(state);
        let is_over = match self.phase() {
            Phase::Over | Phase::New | Phase::Unreachable => true,
            // Packets of one that was accepted before may be on their way.
            Phase::Refused(_) => {
                let id = self.inner.as_ref().and_then(connect::Connection::id);
                let state = id.and_then(|id| state.connections.state(id));
                state != Some(machine::State::TimeWait)
            }
            _ => false,
        };
        is_over.then_some(())
    }

    /// Whether the connection has ended, and why; looks without a wait.
    pub fn ended(&mut self) -> Option<Ended> {
        let shared = Arc::clone(&self.shared);
        self.hear(&mut shared.lock());
        self.ended.clone()
    }

    /// Waits until both sides are ready, for `limit` at most.
    ///
    /// # Errors
    /// [`Ended`]; nothing has come, or the function is gone.
    pub fn established(&mut self, limit: Duration) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        match shared.wait(limit, |state| self.is_established(state)) {
            Some(done) => Ok(done?),
            None => Err(shared.why_not("a connection", limit)),
        }
    }

    /// The same for a task.
    ///
    /// # Errors
    /// [`Ended`], or the function is gone.
    pub async fn ready(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let done = poll_fn(|cx| shared.poll(cx.waker(), |state| self.is_established(state)));
        match done.await {
            Some(done) => Ok(done?),
            None => Err(shared.why_not("a connection", Duration::ZERO)),
        }
    }

    /// Takes completions of the connection's queue, as [`Attended::completions`]; also takes note of
    /// the first message, and of the connection's end: then it returns what there is, and after that
    /// the error.
    ///
    /// # Errors
    /// [`Ended`], or the function is gone.
    pub fn completions(
        &mut self,
        cq: &mut Cq<P>,
        wcs: &mut [Wc],
        limit: Duration,
    ) -> Result<usize> {
        let shared = Arc::clone(&self.shared);
        let found = shared.wait(limit, |state| {
            let mut count = cq.poll(wcs);
            if count == 0 && cq.arm(e810::Notify::Any) {
                count = cq.poll(wcs);
            }
            if count > 0 {
                let inner = self.inner.as_mut()?;
                let own = inner.qp().number().get();
                let is_message = |wc: &Wc| {
                    let (recv, write) = (WcOpcode::Recv, WcOpcode::RecvRdmaWithImm);
                    // The queue may be of others, too.
                    wc.qp_num == own && wc.status.is_success() && [recv, write].contains(&wc.opcode)
                };
                if wcs.iter().take(count).any(is_message) {
                    inner.arrived(state);
                }
                return Some(Ok(count));
            }
            self.hear(state);
            self.ended.clone().map(Err)
        });
        match found {
            Some(done) => Ok(done?),
            None => match &shared.lock().gone {
                Some(why) => bail!("{why}"),
                None => Ok(0),
            },
        }
    }

    /// Ends it: the peer is told, and requests that are outstanding complete with an error.
    ///
    /// # Errors
    /// [`NotConnected`]. The peer is told even if the device refuses.
    pub fn disconnect(&mut self) -> Result<(), NotConnected> {
        let mut state = self.shared.lock();
        match &mut self.inner {
            Some(inner) => inner.disconnect(&mut *state),
            None => Ok(()),
        }
    }

    /// Waits until no packet of the connection arrives any more, after it was ended by either side,
    /// for `limit` at most.
    ///
    /// # Errors
    /// It is not over by then, or the function is gone.
    pub fn over(&mut self, limit: Duration) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let done = shared.wait(limit, |state| self.is_over(state));
        done.ok_or_else(|| shared.why_not("the end of a connection", limit))
    }

    /// Forgets it, in any state, and gives the queue pair back.
    #[must_use = "the queue pair is the device's until it is destroyed"]
    pub fn end(mut self) -> Qp<P> {
        match self.leave() {
            Some(qp) => qp,
            None => unreachable!("nothing else takes the queue pair of one that is not dropped"),
        }
    }

    fn leave(&mut self) -> Option<Qp<P>> {
        let inner = self.inner.take()?;
        let mut state = self.shared.lock();
        if let Some(id) = inner.id() {
            state.told.remove(&id);
        }
        Some(inner.end(&mut *state))
    }
}

impl<P: HostDevice> Drop for Connection<P> {
    fn drop(&mut self) {
        // The driver keeps the memory of a queue pair that is dropped.
        drop(self.leave());
    }
}
