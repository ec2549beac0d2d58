//! The control path in this process: a thread opens the function, brings it up and does the work
//! that its events leave; the thread that gives a command carries it out itself.
//!
//! * `objects`, what was created, by number;
//! * `serve`, the thread's work;
//! * `resolve`, where packets to an address go.

use std::env;
use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::ptr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;

use anyhow::{Context as _, anyhow};
use e810::hmc::{Backing, Capacity};
use e810::{Channel, Control, Device, GidEntry, LinkPolicy, Mtu, StageError};
use e810_backends::interrupts::HostPlatform;
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice, Options};
use e810_hal::Ns;
use e810_node::address::OwnAddress;
use e810_node::simulated::simulator;
use e810_node::start::{Sizes, Start};
use e810_sim::{Mode, Sim, can_check_access};

use super::{Answer, Command, ControlPlane, Refused, over_channel};
use crate::async_events::DeviceEvent;
use crate::device::complain::complain;
use crate::errno::NotOpened;
use crate::events::{ControlEvent, EventSink};
use crate::fork::Process;
use crate::limits::complain_of_table;
use crate::memory;
use crate::rings::{DataPathOps, PlatformRings, RingMaker};

mod objects;
mod resolve;
mod serve;

use objects::{Objects, Tokens};
use resolve::Resolver;

/// How long to wait for a link when a function is opened; without a link it is opened all the same.
const LINK: Ns = Ns::from_ms(3_000);

/// MTU of a simulated interface unless one is given: every path MTU fits into it.
pub const SIMULATED_MTU: u16 = Mtu::Mtu4096.bytes() as u16 + 200;

/// How long to wait for a peer's address, unless a time is given: three questions, a second apart.
/// The kernel takes one second, in which it asks once.
pub const WAIT: Ns = Ns::from_ms(3_000);

/// The environment variable that declares the program trusted (`direct`): it leaves the memory that
/// it has registered in place, and writable. A simulated function of the process then accesses that
/// memory without a system call for each access. If the program breaks the promise, it dies.
pub const MEMORY: &str = "E810_VERBS_MEMORY";

/// Capacity for the objects of a process, because programs do not say in advance what they need. As
/// much as irdma has by default, as far as the card has it; all that a card has of address handles
/// and ARP entries, which cost little.
const CAPACITY: Capacity = Capacity {
    qps: 1024,
    cqs: 2048,
    mrs: 16_384,
    ahs: 0x2_0000,
    // All that the card's format can name: one for each peer.
    arps: 4096,
    mcast_groups: 1025,
    // 4 GiB in pages of 4 KiB; memory is allocated only for what is used.
    pbles: 0x10_0000,
};

/// Protection domains: all that a card has.
const PDS: u32 = 1 << 18;

/// Words that track requests, for each queue pair: enough for a quarter of the queue pairs if all
/// have the largest queues. The system allocates only what is used.
const TRACKER_WORDS: u32 = 3 * 2 * 32_768 / 4;

/// The same when memory is short: three times the smallest queue pair.
const LEAST_TRACKER_WORDS: u32 = 4608;

/// The most queue entries of all queue pairs together: each takes three words.
pub(crate) const QUEUE_ENTRIES: u32 = CAPACITY.qps * TRACKER_WORDS / 3;

/// How a function is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The function.
    pub spec: DeviceSpec,
    /// Its addresses, in the order of the GID table after the link-local one.
    pub addresses: Vec<OwnAddress>,
    /// The TAP interface whose addresses the function uses while it is open.
    pub tap: Option<String>,
    /// Gateways to destinations on none of its networks.
    pub gateways: Vec<IpAddr>,
    /// How long to wait for a peer's address.
    pub wait: Ns,
    /// Bytes of the longest IP packet.
    pub mtu: u16,
}

/// Opens a function and brings it up. It stays up until the process ends, or until it is gone and
/// nobody holds its control path.
///
/// # Errors
/// One line that says what failed, for which function, and what to do.
pub(crate) fn open(opening: Opening) -> Result<Arc<dyn ControlPlane>, NotOpened> {
    let (give, take) = sync_channel(1);
    let name = opening.spec.to_string();
    let failed = give.clone();
    let thread = thread::Builder::new().name("e810".to_owned());
    let thread = thread.spawn(move || {
        take_no_signals();
        let spec = opening.spec.clone();
        let serving = Serving {
            opening,
            ready: give,
        };
        if let Err(error) = e810_backends::open([&spec], Options::default(), serving) {
            // Nobody waits if it became ready before.
            let _ = failed.try_send(Err(error));
        }
    });
    let failed = |error| NotOpened::new(&name, &error);
    thread.context("a thread for its events").map_err(failed)?;
    let ready = take.recv();
    ready
        .map_err(|_| failed(anyhow!("its thread has ended; please report it")))?
        .map_err(failed)
}

/// Blocks signals in this thread and in threads that it makes: they are for the program's threads.
pub(super) fn take_no_signals() {
    // SAFETY: a set of signals, which is filled before it is used; the mask is this thread's own.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
    }
}

type Ready = SyncSender<anyhow::Result<Arc<dyn ControlPlane>>>;

/// Brings a function up. Where the process may not have as much memory as the queues could use
/// (`ulimit -v`, a system that promises no more than there is), it gets fewer queue entries.
fn bring_up<D: HostDevice>(
    start: &Start,
    function: &D,
) -> anyhow::Result<Device<D, e810::Ready<D>>> {
    let mut tracker_words_per_qp = TRACKER_WORDS;
    loop {
        // All of it has memory from the beginning, as with existing drivers: programs and their
        // peers may name any key.
        let sizes = Sizes {
            backing: Backing::Full,
            capacity: CAPACITY,
            or_fewer: true,
            pds: PDS,
            tracker_words_per_qp,
        };
        let up = start.bring_up_for(function.clone(), sizes, LinkPolicy::GoOn, &mut |_| {});
        match up {
            Err(error)
                if tracker_words_per_qp > LEAST_TRACKER_WORDS && is_out_of_memory(&error) =>
            {
                tracker_words_per_qp = LEAST_TRACKER_WORDS;
            }
            up => return up,
        }
    }
}

fn is_out_of_memory(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<StageError>();
    error.is_some_and(|error| matches!(error.error, e810::Error::HostMemory(_)))
}

/// What the function's thread works with.
struct Serving {
    opening: Opening,
    ready: Ready,
}

impl DeviceVisitor<1> for Serving {
    type Outcome = ();
    type Error = anyhow::Error;

    fn simulator(&mut self, spec: &SimSpec) -> anyhow::Result<Sim> {
        // Programs of others register what they like, and unmap it at any time.
        let is_trusted = env::var_os(MEMORY).is_some_and(|how| how == "direct");
        let simulator = simulator(spec, 1, Mode::Real, 1, false);
        let checks = !is_trusted && can_check_access();
        let simulator = simulator.checked_access(checks).build();
        #[cfg(feature = "testing")]
        crate::testing::enter_simulator(&simulator);
        Ok(simulator)
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> anyhow::Result<()> {
        let start = Start::usual(&function, self.opening.mtu)?;
        let (mut control, events) = bring_up(&start, &function)?.split();
        let (resolver, channel) = match self.set_up(&function, &mut control) {
            Ok(set_up) => set_up,
            Err(error) => {
                if let Err(failed) = control.shutdown(events) {
                    let name = &self.opening.spec;
                    complain(&format!("{name}: not shut down cleanly: {}", failed.error));
                }
                return Err(error);
            }
        };
        let yields = !matches!(self.opening.spec, DeviceSpec::Vfio(..));
        let rings = Arc::new(PlatformRings::new(control.rings(), yields));
        let stream = over_channel::is_wanted().then(over_channel::Stream::new);
        let limits = control.program_limits();
        // Only a card needs no processor of this machine.
        let data_path = match yields {
            true => DataPathOps::uncancelled::<D>(),
            false => DataPathOps::of::<D>(),
        };
        let control = Arc::new(InProcess {
            objects: Mutex::new(Objects::new(control, channel.clone(), stream.is_some())),
            to_program: stream.as_ref().map(|stream| stream.to_program.clone()),
            channel,
            tokens: Mutex::default(),
            resolver: Mutex::new(resolver),
            listeners: Mutex::default(),
            rings,
            data_path,
            gone: OnceLock::new(),
            process: Process::this(),
        });
        let given: Arc<dyn ControlPlane> = match stream {
            Some(stream) => stream.put_before(control.clone(), function.clone(), limits, yields)?,
            None => control.clone(),
        };
        let _ = self.ready.send(Ok(given));
        let why = control.serve(&function, events);
        // Commands are refused before a program hears that the device is gone.
        let _ = control.gone.set(format!("{}: {why:#}", self.opening.spec));
        control.notify(ControlEvent::Device(DeviceEvent::DeviceFatal));
        Ok(())
    }
}

impl Serving {
    /// Addresses, neighbours and events of a function.
    fn set_up<D: HostDevice>(
        &self,
        function: &D,
        control: &mut Control<D>,
    ) -> anyhow::Result<(Resolver<D>, Channel<D>)> {
        // With a TAP interface they come from its stack.
        if self.opening.tap.is_none() {
            for OwnAddress { ip, .. } in &self.opening.addresses {
                let gid = GidEntry::untagged(*ip);
                control
                    .add_gid(gid)
                    .with_context(|| format!("address {ip}"))?;
            }
        }
        // A port without a link is still a port.
        let _ = control.wait_link(LINK);
        let channel = control.create_channel()?;
        Ok((Resolver::start(function, control, &self.opening)?, channel))
    }
}

/// The control path of a function of this process.
struct InProcess<P: HostPlatform> {
    objects: Mutex<Objects<P>>,
    /// Where the completion queues of all contexts report their events.
    channel: Channel<P>,
    /// The names of objects in events. Never held during a wait, because event handlers take it.
    tokens: Mutex<Tokens>,
    resolver: Mutex<Resolver<P>>,
    listeners: Mutex<Vec<Weak<dyn EventSink>>>,
    rings: Arc<dyn RingMaker>,
    data_path: &'static DataPathOps,
    /// The program that polls its queues elsewhere, if one does.
    to_program: Option<Arc<over_channel::ToProgram>>,
    /// Why no command is possible any more.
    gone: OnceLock<String>,
    /// The process that has the function.
    process: Process,
}

impl<P: HostPlatform> fmt::Debug for InProcess<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The driver's state is consistent between its calls, and a panic in one is reported.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: HostPlatform> InProcess<P> {
    /// Whether this process may give commands: checked before any lock.
    fn check(&self) -> Result<(), Refused> {
        match self.gone.get() {
            Some(why) => Err(Refused::gone(why)),
            None => self.process.check(),
        }
    }

    /// Tells a program that polls elsewhere what has changed about its queue pairs. The lock keeps
    /// the order.
    fn tell_changes(&self, objects: &mut Objects<P>) {
        if let Some(program) = &self.to_program {
            while let Some(change) = objects.control.take_qp_change() {
                program.qp_changed(change);
            }
        }
    }

    fn notify(&self, event: ControlEvent) {
        lock(&self.listeners).retain(|sink| match sink.upgrade() {
            Some(sink) => {
                sink.notify(event);
                true
            }
            None => false,
        });
    }
}

impl<P: HostPlatform> ControlPlane for InProcess<P> {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        self.check()?;
        if command.makes_something() {
            memory::check()?;
        }
        let answer = match command {
            Command::Resolve(asked) => self.resolve(asked).map(Answer::Resolve),
            command => {
                let mut objects = lock(&self.objects);
                let answer = objects.execute(command, &self.tokens);
                self.tell_changes(&mut objects);
                answer
            }
        };
        if let Err(refused) = &answer {
            complain_of_table(refused);
        }
        answer
    }

    fn listen(&self, sink: &Arc<dyn EventSink>) {
        let mut listeners = lock(&self.listeners);
        // Dropped listeners hold memory, and there may be no event for long.
        listeners.retain(|sink| sink.strong_count() > 0);
        listeners.push(Arc::downgrade(sink));
    }

    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused> {
        self.check()?;
        Ok(self.rings.clone())
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.data_path
    }
}
