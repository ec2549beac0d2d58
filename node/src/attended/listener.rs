//! Requests of peers.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use e810_backends::HostDevice;
use e810_cm::Reason;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Listen, ListenerId};
use e810_connect::{Answer, Call, News, Service, Told};

use super::{Shared, State};

/// The status of a question that the program refuses (cm-path 3.9).
const REFUSED: u8 = 2;

/// Takes requests for connections to a port, or questions for its UD queue pair. Dropped, it takes no more, and those that wait are
/// refused.
pub struct Listener<P: HostDevice> {
    pub(super) shared: Arc<Shared<P>>,
    id: ListenerId,
    port: u16,
    context: u64,
}

impl<P: HostDevice> fmt::Debug for Listener<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl<P: HostDevice> Listener<P> {
    pub(super) fn new(
        shared: Arc<Shared<P>>,
        space: PortSpace,
        address: IpAddr,
        port: u16,
        backlog: u32,
    ) -> Result<Self> {
        let mut state = shared.lock();
        state.listeners += 1;
        let context = state.listeners;
        // Before a request can come.
        state.requests.insert(context, VecDeque::new());
        let listen = Listen {
            space,
            port,
            address,
            only_family: true,
            backlog,
            context,
        };
        let answer = state.call(&Call::Listen(listen));
        if answer.is_err() {
            state.requests.remove(&context);
        }
        drop(state);
        match answer? {
            Answer::Listener(id, port) => Ok(Self {
                shared,
                id,
                port,
                context,
            }),
            other => bail!("the connection manager answers {other:?} to a listener"),
        }
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    fn step(&self, state: &mut State<P>) -> Option<Told> {
        state.requests.get_mut(&self.context)?.pop_front()
    }

    /// The oldest request, for [`Connection::accept`](super::Connection::accept) or
    /// [`reject`](Self::reject); waits for one, for `limit` at most.
    ///
    /// # Errors
    /// None came, or the function is gone.
    pub fn next(&self, limit: Duration) -> Result<Told> {
        let told = self.shared.wait(limit, |state| self.step(state));
        told.ok_or_else(|| self.shared.why_not("a request for a connection", limit))
    }

    /// The oldest request, for a task.
    ///
    /// # Errors
    /// The function is gone.
    pub async fn request(&self) -> Result<Told> {
        let told = poll_fn(|cx| self.shared.poll(cx.waker(), |state| self.step(state))).await;
        told.ok_or_else(|| {
            self.shared
                .why_not("a request for a connection", Duration::ZERO)
        })
    }

    /// Refuses a request, with at most 148 bytes for the peer; a question for a UD queue pair with at
    /// most 136.
    ///
    /// # Errors
    /// Too many bytes, or a peer that has given up.
    pub fn reject(&self, request: &Told, private_data: &[u8]) -> Result<()> {
        let refusal = match &request.news {
            News::Requested(asked) if asked.space.is_datagrams() => {
                Call::Answer(request.id, Err(REFUSED), private_data)
            }
            _ => Call::Reject(request.id, Reason::CONSUMER_DEFINED, private_data),
        };
        self.end(request, &refusal)
    }
}

impl<P: HostDevice> Drop for Listener<P> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // It is there: nobody else ends it.
        let _ = state.call(&Call::Unlisten(self.id));
        for request in state.requests.remove(&self.context).unwrap_or_default() {
            state.release(request.id);
        }
    }
}
