//! `e810 tap`: a port as a network interface of the host, with the RDMA engine running beside it.

use crate::output::ending::after_failure;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use e810::{Control, Event, EventSet, Lan};
use e810_backends::host::Host;
use e810_backends::interrupts::HostPlatform;
use e810_backends::spec::SimSpec;
use e810_backends::{DeviceVisitor, HostDevice};
use e810_sim::{Mode, Sim};
use serde::Serialize;

use crate::cli::TapArgs;
use crate::cli::device::chosen;
use crate::output::json;
use crate::output::lasting::Lasting;
use crate::output::units::link_speed;
use crate::pci_functions::checks::{exists, warn_of_memlock};
use crate::pci_functions::open::open;
use crate::pci_functions::simulated::{Simulated, refuse_for_sim};
use crate::pci_functions::start::start;
use crate::pci_functions::{lifecycle, watch};
use crate::stop::Stop;
use crate::usage::{Usage, refuse};
use e810_node::address::refuse_twice;
use e810_node::simulated::simulator;
use e810_node::start::Start;
use e810_node::station::RESOLVE_LIMIT;
use e810_node::tap::{GidChange, Tap, TapChange, TapCounts, TapPlan};

/// Time between two checks for changes.
const STEP: Duration = Duration::from_millis(20);

/// A line of the JSON of `e810 tap`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TapEvent {
    /// The interface is there.
    Started {
        /// How the function was reached.
        transport: &'static str,
        interface: String,
        /// Its Ethernet address.
        mac: String,
        /// Its MTU in bytes.
        mtu: u16,
    },
    /// The port's link, and so the interface's carrier, has changed.
    Link {
        /// There is one.
        is_up: bool,
        /// Its speed in Mbit/s; 0 when it is not known.
        mbps: u32,
    },
    /// An entry of the GID table has come or gone.
    Gid(GidChange),
    Ended(TapCounts),
}

/// Runs the command.
///
/// # Errors
/// A bring-up that failed, an interface that cannot be opened or was deleted, or a device that is
/// gone.
pub fn run(args: &TapArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    refuse_twice(&args.ip, "--ip").map_err(Usage)?;
    if args.start.warm {
        refuse!("--warm: another driver has the LAN queues of such a function; leave it out");
    }
    if device.simulated().is_some_and(|spec| spec.wire.is_none()) {
        refuse!(
            "--device {device}: nobody else is on the wire of this function; give sim:wire=NAME, vfio-user:PATH or vfio:BDF"
        );
    }
    if !device.is_simulated() {
        exists(&Host::default(), &device)?;
        args.capture.refuse(&device)?;
    }
    warn_of_memlock(&[&device]);
    let stop = Stop::on_signals()?;
    let resident = Resident {
        args,
        transport: device.kind().name(),
        stop: &stop,
        out: Lasting::new(out),
        simulated: None,
    };
    open([&device], &args.backend, resident)
}

/// A function that stays until the command is interrupted.
struct Resident<'a> {
    args: &'a TapArgs,
    transport: &'static str,
    stop: &'a Stop,
    out: Lasting<'a>,
    simulated: Option<Simulated>,
}

impl DeviceVisitor<1> for Resident<'_> {
    type Outcome = ();
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        refuse_for_sim(&self.args.start, &self.args.backend)?;
        let sim = simulator(spec, 1, Mode::Real, 1, false).build();
        self.simulated = Some(Simulated::new(sim.clone(), &self.args.capture)?);
        Ok(sim)
    }

    fn visit<D: HostDevice>(mut self, [function]: [D; 1]) -> Result<()> {
        let simulated = self.simulated.take();
        let start = match &simulated {
            Some(simulated) => simulated.start(0, &self.args.start)?,
            None => start(&function, &self.args.start)?,
        };
        let watched = watch::watch([&function]);
        let result = self.stay(function.clone(), &start, &watched);
        let result = watch::explain(result, &[&function]);
        match simulated {
            Some(simulated) => simulated.finish(result),
            None => result,
        }
    }
}

impl Resident<'_> {
    /// Brings the function up, stays, and shuts it down.
    fn stay<P: HostPlatform>(
        &mut self,
        platform: P,
        start: &Start,
        watched: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let (mut control, mut events) = lifecycle::bring_up(platform.clone(), start)?;
        let plan = TapPlan {
            name: self.args.name.clone(),
            addresses: self.args.ip.clone(),
            vlan: None,
            resolve_limit: RESOLVE_LIMIT,
        };
        let mut changes = Vec::new();
        let done = match Tap::start(platform, &mut control, &plan, &mut changes) {
            Err(error) => Err(error),
            Ok(mut tap) => {
                let lan = control.lan();
                let shown = self.begin(lan, changes);
                let stayed =
                    shown.and_then(|()| self.follow(&mut tap, &mut control, &mut events, watched));
                let closed = tap.close(&mut control);
                let ended = closed.and_then(|counts| self.show(&TapEvent::Ended(counts)));
                stayed.and(ended)
            }
        };
        let end = control.shutdown(events).map_err(|failed| failed.error);
        let end = end.context("shutting down");
        match done {
            Ok(()) => end,
            Err(error) => Err(after_failure(error, end)),
        }
    }

    fn begin(&mut self, lan: Lan, changes: Vec<TapChange>) -> Result<()> {
        self.show(&TapEvent::Started {
            transport: self.transport,
            interface: self.args.name.clone(),
            mac: lan.mac.to_string(),
            mtu: lan.mtu,
        })?;
        changes
            .into_iter()
            .try_for_each(|change| self.show(&event(change)))
    }

    /// Follows addresses and link until the command is interrupted.
    fn follow<P: HostPlatform>(
        &mut self,
        tap: &mut Tap<P>,
        control: &mut Control<P>,
        events: &mut EventSet<P>,
        watched: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut changes = Vec::new();
        while !self.stop.is_asked() {
            watched()?;
            match e810::progress(control, events, |event| {
                if let Event::Async(event) = event {
                    log::warn!("{event}");
                }
            }) {
                Ok(progress) if progress.reset_needed => {
                    bail!("the card asks for a reset of the function")
                }
                Ok(_) => {}
                Err(error) if error.needs_reset() => return Err(error.into()),
                Err(error) => log::warn!("{error}"),
            }
            // The port's state has all that these events say.
            while control.take_lan_event().is_some() {}
            tap.progress(control, &mut |change| changes.push(change))?;
            for change in changes.drain(..) {
                let event = event(change);
                // The interface stays, even if nobody reads the output.
                self.out.say(|out| write(&event, self.args.json, out));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// Prints a line that must not get lost, at the beginning and at the end.
    fn show(&mut self, event: &TapEvent) -> Result<()> {
        let out = self.out.out();
        write(event, self.args.json, out)?;
        Ok(out.flush()?)
    }
}

fn write(event: &TapEvent, in_json: bool, out: &mut dyn Write) -> Result<()> {
    match in_json {
        true => json::write_line(out, "tap", event),
        false => print(event, out),
    }
}

fn event(change: TapChange) -> TapEvent {
    match change {
        TapChange::Link { is_up, mbps } => TapEvent::Link { is_up, mbps },
        TapChange::Gid(change) => TapEvent::Gid(change),
    }
}

fn print(event: &TapEvent, out: &mut dyn Write) -> Result<()> {
    match event {
        TapEvent::Started {
            transport,
            interface,
            mac,
            mtu,
        } => writeln!(out, "{interface:11} {mac}, MTU {mtu} ({transport})")?,
        TapEvent::Link { is_up: true, mbps } => {
            writeln!(out, "link        up, {}", link_speed(*mbps))?;
        }
        TapEvent::Link { is_up: false, .. } => writeln!(out, "link        down")?,
        TapEvent::Gid(change) => {
            let sign = if change.is_there { '+' } else { '-' };
            let vlan = change.vlan.map(|vlan| format!(" on VLAN {vlan}"));
            let vlan = vlan.unwrap_or_default();
            writeln!(
                out,
                "GID {:<2}     {sign} {}{vlan}",
                change.index, change.address
            )?;
        }
        TapEvent::Ended(counts) => {
            let TapCounts {
                to_tap,
                from_tap,
                too_long,
                stalled,
                interface_down,
                refused,
                unusable,
            } = counts;
            writeln!(out, "frames      {to_tap} received, {from_tap} sent")?;
            let dropped = too_long + stalled + interface_down + refused + unusable;
            if dropped > 0 {
                writeln!(
                    out,
                    "dropped     {dropped}: too long {too_long}, stalled {stalled}, interface down {interface_down}, refused {refused}, unusable {unusable}"
                )?;
            }
        }
    }
    Ok(())
}
