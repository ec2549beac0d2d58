//! The control path in this process: a thread opens the function, brings it up and handles its
//! events; the thread that gives a command carries it out itself.

use std::any::Any;
use std::env;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use e810::{CqKey, QpChange};
use e810_attach::messages::Listeners;
use e810_attach::owner::{self, Hears, MemoryOf, Opening, Owner, ProgramId, Ready, SlotsOf};
use e810_attach::threads::spawn;
use e810_backends::HostDevice;
use e810_backends::interrupts::HostPlatform;
use e810_backends::spec::SimSpec;
use e810_connect::Told;
use e810_node::simulated::simulator;
use e810_sim::{Mode, Sim, can_check_access};

use super::{Answer, Command, ControlPlane, Refused, over_socket};
use crate::control::{ControlEvent, EventSink};
use crate::errno::NotOpened;
use crate::fork::Process;
use crate::limits::complain_of_table;
use crate::memory;
use crate::rings::{DataPathOps, PlatformRings, RingMaker};

/// How long the last datagram of a connection may take to the wire. A card needs microseconds; the thread of
/// a simulated one may wait for a processor.
const LAST_WORD: Duration = Duration::from_millis(500);

/// The environment variable that declares the program trusted (`direct`): it leaves the memory that
/// it has registered in place, and writable. A simulated function of the process then accesses that
/// memory without a system call for each access. If the program breaks the promise, it dies.
pub const MEMORY: &str = "E810_VERBS_MEMORY";

/// Opens a function and brings it up. It stays up until the process ends, or until it is gone and
/// nobody holds its control path.
///
/// # Errors
/// One line that says what failed, for which function, and what to do.
pub(crate) fn open(opening: Opening) -> Result<Arc<dyn ControlPlane>, NotOpened> {
    let (give, take) = sync_channel(1);
    let name = opening.spec.to_string();
    let failed = give.clone();
    let thread = spawn("e810", move || {
        let waits = Waits {
            yields: opening.yields(),
            control: give,
        };
        if let Err(error) = owner::serve(&opening, waits) {
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

/// Who waits for the function.
struct Waits {
    /// The function needs the processors of this machine.
    yields: bool,
    control: SyncSender<anyhow::Result<Arc<dyn ControlPlane>>>,
}

impl Ready for Waits {
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

    fn ready<D: HostDevice>(
        self,
        owner: &Arc<Owner<D>>,
        function: &D,
    ) -> anyhow::Result<Box<dyn Any>> {
        // Only a card needs no processor of this machine.
        let data_path = match self.yields {
            true => DataPathOps::uncancelled::<D>(),
            false => DataPathOps::of::<D>(),
        };
        let control: Arc<dyn ControlPlane> = match over_socket::is_wanted() {
            true => over_socket::attach(owner, function.clone())?,
            false => Arc::new(InProcess::join(owner, self.yields, data_path)),
        };
        // Somebody waits.
        let _ = self.control.send(Ok(control.clone()));
        // The function's thread holds it until the function is gone, whoever else does.
        Ok(Box::new(control))
    }
}

/// The program of this process, which has its slots with the owner's.
struct InProcess<P: HostPlatform> {
    owner: Arc<Owner<P>>,
    program: ProgramId,
    heard: Arc<Heard>,
    rings: Arc<dyn RingMaker>,
    data_path: &'static DataPathOps,
    /// The process that has the function.
    process: Process,
}

/// What it hears.
#[derive(Debug, Default)]
struct Heard(Listeners);

impl Hears for Heard {
    fn event(&self, event: ControlEvent) {
        self.0.notify(event);
    }

    // Its slots are the owner's, which know.
    fn qp_changed(&self, _: QpChange) {}
    fn cq_event(&self, _: CqKey) {}
    fn cq_failed(&self, _: CqKey) {}

    fn connection(&self, told: Told) {
        self.0.connection(&told);
    }
}

impl<P: HostPlatform> InProcess<P> {
    fn join(owner: &Arc<Owner<P>>, yields: bool, data_path: &'static DataPathOps) -> Self {
        let heard = Arc::new(Heard::default());
        Self {
            program: owner.join(heard.clone(), SlotsOf::Owner, MemoryOf::Owner),
            rings: Arc::new(PlatformRings::new(owner.rings(), yields)),
            owner: owner.clone(),
            heard,
            data_path,
            process: Process::this(),
        }
    }

    /// Whether this process may give commands: checked before any lock.
    fn check(&self) -> Result<(), Refused> {
        self.owner.check()?;
        self.process.check()
    }
}

impl<P: HostPlatform> fmt::Debug for InProcess<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl<P: HostPlatform> ControlPlane for InProcess<P> {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        self.check()?;
        if command.makes_something() {
            memory::check()?;
        }
        let ends = command.ends_connection();
        let answer = self.owner.call(self.program, command);
        if ends {
            // The function ends with its process, which may be next.
            self.owner.let_datagrams_leave(self.program, LAST_WORD);
        }
        if let Err(refused) = &answer {
            complain_of_table(refused);
        }
        answer
    }

    fn listen(&self, sink: &Arc<dyn EventSink>) {
        self.heard.0.add(sink);
    }

    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused> {
        self.check()?;
        Ok(self.rings.clone())
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.data_path
    }
}
