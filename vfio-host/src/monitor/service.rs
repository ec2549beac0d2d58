//! Serves a registry's snapshots to other processes, on a socket.
//!
//! Any line of a client is a request; the answer is a line of JSON. A client that may connect can
//! read snapshots and nothing else.

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

/// Maximum clients at a time.
pub(super) const CLIENTS: usize = 8;
/// Maximum bytes of a request.
const QUESTION: u64 = 64;
/// Time that functions have for an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(2);
/// Pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that a client has to take an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers for a registry until it is dropped.
#[derive(Debug)]
pub struct Service {
    /// Removed at the end.
    socket: Option<SocketFile>,
    /// A handle of the listener that can be shut down.
    waker: UnixStream,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ends: AtomicBool,
    clients: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
    /// Limits the log lines about clients that are refused.
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
                            // Descriptors or memory may be available later.
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

/// What a client reads that is refused, in place of a snapshot.
pub(super) const REFUSAL: &[u8] = b"\"busy\"\n";

impl Shared {
    fn accept(&self, client: UnixStream, registry: &MonitorRegistry) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(_, thread)| !thread.is_finished());
        if clients.len() == CLIENTS {
            self.quota.line(|more| {
                log::warn!("{CLIENTS} clients are connected already; another one is refused{more}");
            });
            // There is room for it in any socket that is new.
            let _ = (&client).write_all(REFUSAL);
            return;
        }
        let registry = registry.clone();
        let answering = client.try_clone().and_then(|stream| {
            let name = thread::Builder::new().name("monitor client".to_owned());
            name.spawn(move || {
                if let Err(error) = answer(&stream, &registry) {
                    log::debug!("the client is gone: {error:#}");
                }
                // The other handle of the stream stays open for a while.
                let _ = stream.shutdown(Shutdown::Both);
            })
        });
        match answering {
            Ok(thread) => clients.push((client, thread)),
            Err(error) => log::warn!("a client cannot be served: {error}"),
        }
    }
}

/// Answers a client's requests until it leaves.
fn answer(mut stream: &UnixStream, registry: &MonitorRegistry) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut questions = BufReader::new(stream);
    let mut question = Vec::new();
    loop {
        question.clear();
        std::io::Read::take(&mut questions, QUESTION).read_until(b'\n', &mut question)?;
        if question.pop() != Some(b'\n') {
            // The client left, or speaks another protocol.
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
        // Remove the socket before the thread drops the listener.
        drop(self.socket.take());
        // This ends the thread's wait for a client, with an error.
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
