//! Serves a registry's snapshots to other processes, on a socket.
//!
//! Any line of the client is a request; a line of JSON answers it. A client that may
//! connect may read snapshots, and cannot do anything else.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use e810_sim_server::quota::Quota;
use e810_sim_server::socket::{self, SocketFile};

use super::registry::MonitorRegistry;

/// Clients at one time.
const CLIENTS: usize = 8;
/// Bytes of a question at most.
const QUESTION: u64 = 64;
/// How long functions have for an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(2);
/// How long to wait where a client cannot be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a client may take to take one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers for a registry until it is dropped.
#[derive(Debug)]
pub struct Service {
    /// Until the end.
    socket: Option<SocketFile>,
    /// The listener, as what can be shut down.
    waker: UnixStream,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ends: AtomicBool,
    clients: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
    /// Lines of the log about those who are turned away.
    quota: Quota,
}

impl Service {
    /// Answers on a socket at `path`, for this user only.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn start(registry: MonitorRegistry, path: &Path) -> Result<Self> {
        let (listener, socket) = socket::listen(path)?;
        let waker = UnixStream::from(OwnedFd::from(listener.try_clone()?));
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || {
                for client in listener.incoming() {
                    if accepting.ends.load(Ordering::Acquire) {
                        return;
                    }
                    match client {
                        Ok(client) => accepting.accept(client, &registry),
                        Err(error) => {
                            let line = |more: &str| {
                                log::warn!("no client can connect: {error}{more}");
                            };
                            accepting.quota.line(line);
                            // What it takes, descriptors or memory, may be there later.
                            thread::sleep(PAUSE);
                        }
                    }
                }
            })
            .context("starting its thread")?;
        Ok(Self {
            socket: Some(socket),
            waker,
            shared,
            acceptor: Some(acceptor),
        })
    }
}

impl Shared {
    fn accept(&self, client: UnixStream, registry: &MonitorRegistry) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(_, thread)| !thread.is_finished());
        if clients.len() == CLIENTS {
            self.quota.line(|more| {
                log::warn!("{CLIENTS} clients are connected already; another one is refused{more}");
            });
            return;
        }
        let registry = registry.clone();
        let answering = client.try_clone().and_then(|stream| {
            let name = thread::Builder::new().name("monitor client".to_owned());
            name.spawn(move || {
                if let Err(error) = answer(&stream, &registry) {
                    log::debug!("the client is gone: {error:#}");
                }
                // The other handle on it stays a while.
                let _ = stream.shutdown(Shutdown::Both);
            })
        });
        match answering {
            Ok(thread) => clients.push((client, thread)),
            Err(error) => log::warn!("a client cannot be served: {error}"),
        }
    }
}

/// Answers a client's questions until it goes.
fn answer(mut stream: &UnixStream, registry: &MonitorRegistry) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut questions = BufReader::new(stream);
    let mut question = Vec::new();
    loop {
        question.clear();
        std::io::Read::take(&mut questions, QUESTION).read_until(b'\n', &mut question)?;
        if question.pop() != Some(b'\n') {
            // It went, or has something else in mind.
            return Ok(());
        }
        let mut line = serde_json::to_vec(&registry.snapshot(LIMIT))?;
        line.push(b'\n');
        stream.write_all(&line)?;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Removed before the thread lets the listener go.
        drop(self.socket.take());
        // The thread's waiting for a client ends with an error.
        if self.waker.shutdown(Shutdown::Both).is_ok()
            && let Some(acceptor) = self.acceptor.take()
        {
            let _ = acceptor.join();
        }
        let mut clients = self
            .shared
            .clients
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (stream, thread) in clients.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}
