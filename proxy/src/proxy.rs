//! A socket with a function behind it, for one driver after the other.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use e810_backends::{Accept, BackendError, Identity, Notice, Properties, Transport, identify};
use e810_sim_server::connection::serve_connection;
use e810_trace::Recorder;

use crate::passing::Passing;
use crate::shared::{Shared, lock};
use crate::vectors::Vectors;

/// How often the listener is asked for a driver, in which time the proxy also ends.
const LOOK: Duration = Duration::from_millis(20);
/// How long queues are not looked at while nobody accesses the device, in milliseconds.
const SAMPLE: i32 = 1;

/// Why a proxy ended, or a driver could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The function behind it failed.
    #[error(transparent)]
    Device(#[from] BackendError),
    /// The kernel takes the function, or it is broken.
    #[error("{device}: {notice}")]
    Notice {
        /// The function behind it.
        device: String,
        /// The kernel's notice.
        notice: Notice,
    },
    /// The system has no descriptors, threads or memory.
    #[error("{during}")]
    System {
        /// What was being done.
        during: &'static str,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

fn system(during: &'static str) -> impl Fn(io::Error) -> ProxyError {
    move |cause| ProxyError::System { during, cause }
}

/// Ends a proxy from another thread.
#[derive(Clone, Debug, Default)]
pub struct Ending(Arc<EndingState>);

#[derive(Debug, Default)]
struct EndingState {
    is_asked: AtomicBool,
    user: Mutex<Option<Arc<UnixStream>>>,
}

impl Ending {
    /// Sends the driver away, and ends the proxy when the function is in order again.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::SeqCst);
        if let Some(user) = &*lock(&self.0.user) {
            // It may have left.
            let _ = user.shutdown(Shutdown::Both);
        }
    }

    fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::SeqCst)
    }

    /// The driver that is served now, or nobody.
    fn serves(&self, user: Option<Arc<UnixStream>>) {
        *lock(&self.0.user) = user;
        if self.is_asked() {
            self.ask();
        }
    }
}

/// The function, opened.
#[derive(Debug)]
struct Opened<T: Transport> {
    transport: Arc<T>,
    vectors: Arc<Vectors>,
    identity: Identity,
}

impl<T: Transport> Opened<T> {
    fn new(transport: T, accept: Accept) -> Result<Self, ProxyError> {
        let identity = identify(&transport, accept)?;
        let notices = transport.notice_events();
        let notices: Vec<_> = notices.iter().map(|fd| fd.as_raw_fd()).collect();
        let vectors = Vectors::new(transport.properties().vectors, &notices);
        let vectors = vectors.map_err(system("events for the function's vectors"))?;
        Ok(Self {
            transport: Arc::new(transport),
            vectors: Arc::new(vectors),
            identity,
        })
    }
}

/// A function that is passed on to one driver after the other.
#[derive(Debug)]
pub struct Proxy<T: Transport, W: Write, O> {
    open: O,
    accept: Accept,
    opened: Opened<T>,
    shared: Arc<Shared<W>>,
    ending: Ending,
}

impl<T, W, O> Proxy<T, W, O>
where
    T: Transport,
    W: Write + Debug + Send + 'static,
    O: Fn() -> Result<T, BackendError>,
{
    /// A proxy of the function that `open` opens, recorded by `recorder`. Commands that write to
    /// flash or to a module are stopped ([`crate::guard`]) unless `allow_nvm`.
    ///
    /// # Errors
    /// The function cannot be opened, it is no E810 that `accept` allows (no register was touched), or
    /// there are no descriptors for its vectors.
    pub fn new(
        open: O,
        recorder: Recorder<W>,
        accept: Accept,
        allow_nvm: bool,
    ) -> Result<Self, ProxyError> {
        Ok(Self {
            opened: Opened::new(open()?, accept)?,
            open,
            accept,
            shared: Arc::new(Shared::new(recorder, allow_nvm)),
            ending: Ending::default(),
        })
    }

    /// The properties of the transport to the function.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.opened.transport.properties()
    }

    /// What the function is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.opened.identity
    }

    /// How another thread ends it.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending.clone()
    }

    /// Serves drivers until [`Ending::ask`], or until the function fails. The function is then as
    /// before: without interrupts, memory and bus mastering, and reset.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub fn serve(&mut self, listener: &UnixListener) -> Result<(), ProxyError> {
        listener
            .set_nonblocking(true)
            .map_err(system("waiting for drivers"))?;
        while !self.ending.is_asked() {
            match listener.accept() {
                Ok((user, _)) => self.serve_next(user)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(LOOK);
                    self.check()?;
                }
                Err(error) => {
                    log::warn!("a driver could not be let in: {error}");
                    thread::sleep(LOOK);
                }
            }
        }
        Ok(())
    }

    /// Serves a driver. One that had the connection to the function cut, as a served function does
    /// with a driver that cuts its memory, does not end the proxy if there is a new one.
    fn serve_next(&mut self, user: UnixStream) -> Result<(), ProxyError> {
        let served = self.serve_one(user);
        match served {
            Err(ProxyError::Device(error)) if self.opened.transport.failure().is_some() => {
                let reopened = (self.open)().map_err(|_| error.clone().into());
                self.opened = reopened.and_then(|transport| Opened::new(transport, self.accept))?;
                log::warn!("{error}; the function was opened again");
                Ok(())
            }
            other => other,
        }
    }

    fn serve_one(&self, user: UnixStream) -> Result<(), ProxyError> {
        user.set_nonblocking(false)
            .map_err(system("serving a driver"))?;
        let user = Arc::new(user);
        self.ending.serves(Some(user.clone()));
        let mut passing = Passing::new(
            self.opened.transport.clone(),
            self.shared.clone(),
            self.opened.vectors.clone(),
            user.clone(),
        );
        let is_over = Arc::new(AtomicBool::new(false));
        let watching = self.watch(user.clone(), is_over.clone());
        let served = watching.map(|watching| {
            if let Err(lost) = serve_connection(&user, &mut passing) {
                log::info!("a driver was sent away: {lost}");
            }
            is_over.store(true, Ordering::SeqCst);
            self.opened.vectors.wake();
            watching.join()
        });
        self.ending.serves(None);
        let failed = passing.failed.take();
        let ended = passing.end();
        match served? {
            Ok(watched) => watched?,
            // A bug here must not leave the function to its next driver unseen.
            Err(panic) => std::panic::resume_unwind(panic),
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        Ok(ended?)
    }

    /// A thread that passes interrupts on, and looks at queues in between.
    fn watch(
        &self,
        user: Arc<UnixStream>,
        is_over: Arc<AtomicBool>,
    ) -> Result<thread::JoinHandle<Result<(), ProxyError>>, ProxyError> {
        let (transport, shared, vectors) = (
            self.opened.transport.clone(),
            self.shared.clone(),
            self.opened.vectors.clone(),
        );
        let work = move || {
            let mut watched = Ok(());
            while !is_over.load(Ordering::SeqCst) {
                match vectors.pass_on(SAMPLE, |fired| shared.interrupts(fired)) {
                    Ok(true) => {}
                    Ok(false) => shared.look(),
                    Err(cause) => watched = Err(system("waiting for interrupts")(cause)),
                }
                watched = watched.and_then(|()| check(&*transport));
                if watched.is_err() {
                    // It may have left.
                    let _ = user.shutdown(Shutdown::Both);
                    break;
                }
            }
            watched
        };
        let thread = thread::Builder::new().name("e810-proxy-irq".to_owned());
        thread
            .spawn(work)
            .map_err(system("a thread for interrupts"))
    }

    fn check(&self) -> Result<(), ProxyError> {
        check(&*self.opened.transport)
    }
}

/// Fails when the function is gone.
fn check<T: Transport>(transport: &T) -> Result<(), ProxyError> {
    if let Some(notice) = transport.notice() {
        let device = transport.name().to_owned();
        return Err(ProxyError::Notice { device, notice });
    }
    match transport.failure() {
        Some(error) => Err(error.clone().into()),
        None => Ok(()),
    }
}
