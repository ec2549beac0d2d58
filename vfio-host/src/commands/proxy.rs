//! `e810 proxy`: passes a function on to a driver in another process, and records both.

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use e810_backends::host::Host;
use e810_backends::host::limits::{Memlock, memlock, raise_open_files};
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::vfio::Vfio;
use e810_backends::vfio_user::VfioUser;
use e810_backends::{Accept, BackendError, Transport};
use e810_proxy::Proxy;
use e810_sim::Mode;
use e810_sim_server::{Server, VECTORS, socket};
use vmm_sys_util::tempdir::TempDir;

use crate::cli::ProxyArgs;
use crate::cli::device::chosen;
use crate::output::lasting::Lasting;
use crate::output::units::human_bytes;
use crate::output::unwritten::with_remedy;
use crate::pci_functions::open::TraceOption;
use crate::stop::{Stop, watched};

/// How long the function may take to be put in order when a signal ends the command.
const IN_ORDER: Duration = Duration::from_secs(20);

/// Runs the command until a signal, or until the function is gone.
///
/// # Errors
/// The function cannot be opened or is gone, the socket or the recording cannot be written, or the
/// simulator has findings.
pub fn run(args: &ProxyArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    let stop = Stop::on_signals()?;
    raise_open_files();
    let recording = TraceOption::begin(&args.trace, &[&device])?;
    let running = Running {
        args,
        device: &device,
        recording: &recording,
        stop: &stop,
    };
    let outcome = match &device {
        DeviceSpec::Sim(spec) => running.simulated(spec, out),
        DeviceSpec::VfioUser(path) => {
            let path = path.clone();
            running.serve(move || VfioUser::connect(&path), out)
        }
        DeviceSpec::Vfio(bdf, way) => {
            let (bdf, way) = (*bdf, *way);
            running.serve(move || Vfio::open_by(bdf, way, Accept::E810), out)
        }
    };
    recording.finish(outcome)
}

struct Running<'a> {
    args: &'a ProxyArgs,
    device: &'a DeviceSpec,
    recording: &'a TraceOption<'a>,
    stop: &'a Stop,
}

impl Running<'_> {
    /// Serves a simulated function to this process, so that it is recorded as one of another
    /// process is.
    fn simulated(&self, spec: &SimSpec, out: &mut dyn Write) -> Result<()> {
        let sim = spec.builder(Mode::Real).cold().vectors(VECTORS).build();
        let folder = TempDir::new_with_prefix(std::env::temp_dir().join("e810-proxy-"));
        let folder = folder.context("a folder for the simulated function's socket")?;
        let path = folder.as_path().join("function");
        let _wire = spec.join(&sim)?;
        let server = Server::start(sim, std::slice::from_ref(&path)).map_err(with_remedy)?;
        self.serve(move || VfioUser::connect(&path), out)?;
        match server.report().findings_in_all {
            0 => Ok(()),
            found => bail!("the simulator recorded {found} findings"),
        }
    }

    /// Serves drivers on the function that `open` opens.
    fn serve<T: Transport>(
        &self,
        open: impl Fn() -> Result<T, BackendError> + Send + 'static,
        out: &mut dyn Write,
    ) -> Result<()> {
        let Self { args, device, .. } = self;
        let recorder = self.recording.recorder(0);
        let mut proxy = Proxy::new(open, recorder, Accept::E810, args.allow_nvm)?;
        let is_pinned = proxy.properties().maps_any_memory;
        let listening = socket::listen(&args.socket);
        let (listener, _file) = listening
            .map_err(with_remedy)
            .with_context(|| format!("--socket {}", args.socket.display()))?;
        let ending = proxy.ending();
        let mut out = Lasting::new(out);
        let name = proxy.identity().name;
        out.say(|out| {
            if is_pinned {
                writeln!(out, "{}", pinned(&Host::default()))?;
            }
            let (socket, trace) = (args.socket.display(), args.trace.display());
            Ok(writeln!(
                out,
                "{device}, {name}, on {socket}; recording to {trace}"
            )?)
        });
        let asked = Cell::new(None);
        let watch = || {
            if self.stop.is_asked() {
                let since: Instant = asked.get().unwrap_or_else(Instant::now);
                asked.set(Some(since));
                ending.ask();
                if since.elapsed() > IN_ORDER {
                    bail!(
                        "{device} was not put in order within {} s; its owner resets it when this process is gone",
                        IN_ORDER.as_secs()
                    );
                }
            }
            Ok(())
        };
        watched("e810-proxy", move || proxy.serve(&listener), &watch)??;
        Ok(())
    }
}

/// What a user has to know before a virtual machine runs on the function.
fn pinned(host: &Host) -> String {
    let limit = match memlock(host) {
        Some(Memlock::Bytes(bytes)) => format!("{} may be pinned here", human_bytes(bytes)),
        _ => "no limit is set here".to_owned(),
    };
    format!(
        "all memory of a virtual machine on it is pinned while it runs ({limit}); give it 8 GiB, with share=on"
    )
}
