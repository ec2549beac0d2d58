//! `e810 ping`: echo requests from a function's LAN queues.

mod report;

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use e810::{Control, EventSet, v4};
use e810_backends::host::Host;
use e810_backends::interrupts::HostPlatform;
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice};
use e810_net::{Ping, PingFailure};
use e810_sim::{Mode, Sim};

use crate::cli::PingArgs;
use crate::cli::address::AddressArgs;
use crate::cli::device::chosen;
use crate::measure::ended::Ending;
use crate::output::json;
use crate::pci_functions::checks::{exists, warn_of_memlock};
use crate::pci_functions::open::open;
use crate::pci_functions::simulated::{Simulated, refuse_for_sim};
use crate::pci_functions::start::start;
use crate::pci_functions::{lifecycle, watch};
use crate::stop::Stop;
use crate::usage::{Usage, refuse};
use e810_node::address::{OwnAddress, refuse_twice};
use e810_node::simulated::simulator;
use e810_node::start::Start;
use e810_node::station::{Network, Pace, Station, StationEvent};
pub use report::{PingReport, RoundTrips, Unanswered};
use report::{Times, ms};

/// Maximum requests in flight; the interface has room for one more.
const UNDER_WAY: u64 = 15;
/// Maximum wait for the last reply; the interface gives up after 10 s.
const LAST: Duration = Duration::from_secs(12);
/// How long the loop waits for an event before it checks devices and signals.
const STEP: Duration = Duration::from_millis(10);

/// Runs the command.
///
/// # Errors
/// A bring-up that failed, or no reply at all.
pub fn run(args: &PingArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    // Without others on the wire, a second function of this process answers.
    let is_alone = device.simulated().is_some_and(|spec| spec.wire.is_none());
    let destination = check(args, &device, is_alone)?;
    if !device.is_simulated() {
        exists(&Host::default(), &device)?;
        args.capture.refuse(&device)?;
    }
    warn_of_memlock(&[&device]);
    let stop = Stop::on_signals()?;
    let asked = Asked {
        args,
        destination,
        is_alone,
        transport: device.kind().name(),
        stop: &stop,
        out: &mut *out,
        simulated: None,
    };
    let report = open([&device], &args.backend, asked)?;
    show(args, &report, out)?;
    if report.received == 0 {
        // After Ctrl-C before the first reply, the peer has not failed.
        stop.check()?;
        bail!("{destination}: no reply{}", remedy(&report.unanswered));
    }
    Ok(())
}

fn show(args: &PingArgs, report: &PingReport, out: &mut dyn Write) -> Result<()> {
    match args.json {
        true => json::write_line(out, "ping", report),
        false => report.print(out),
    }
}

/// The address to ping, if the options fit together.
fn check(args: &PingArgs, device: &DeviceSpec, is_alone: bool) -> Result<IpAddr> {
    let addresses = AddressArgs {
        ip: args.ip.clone(),
        gateway: args.gateway.clone(),
        ..AddressArgs::default()
    };
    addresses.check()?;
    refuse_twice(&args.peer_ip, "--peer-ip").map_err(Usage)?;
    if args.start.warm {
        refuse!("--warm: another driver has the LAN queues of such a function; leave it out");
    }
    if !is_alone && !args.peer_ip.is_empty() {
        refuse!("--peer-ip: with {device} the peer has its own addresses; leave it out");
    }
    match args.destination {
        Some(destination) if destination.is_unspecified() || destination.is_multicast() => {
            refuse!("{destination}: it is not the address of one host; name one")
        }
        Some(destination) => Ok(destination),
        None if is_alone => Ok(peer_addresses(args).first().map_or(PEER, |peer| peer.ip)),
        None => refuse!("DEST is missing: give the IP address to ping from {device}"),
    }
}

/// Default addresses of two simulated functions.
const OWN: IpAddr = v4(10, 8, 10, 1);
const PEER: IpAddr = v4(10, 8, 10, 2);

fn peer_addresses(args: &PingArgs) -> Vec<OwnAddress> {
    match args.peer_ip.as_slice() {
        [] => vec![OwnAddress::alone(PEER)],
        given => given.to_vec(),
    }
}

/// What may help, by cause.
const fn remedy(unanswered: &Unanswered) -> &'static str {
    match unanswered {
        Unanswered { no_route: 1.., .. } => {
            ": no address of the function has a route there; give one of that family with --ip ADDR/LEN, and --gateway"
        }
        Unanswered { too_long: 1.., .. } => {
            ": the packet is too long for the path; give a smaller --size, or a larger --mtu"
        }
        Unanswered {
            unreachable: 1.., ..
        } => {
            ": the next hop answers neither ARP nor neighbour discovery; check cable, VLAN and addresses"
        }
        _ => {
            ": it is on the link but answers no echo request; check whether a firewall drops them there"
        }
    }
}

struct Asked<'a> {
    args: &'a PingArgs,
    destination: IpAddr,
    is_alone: bool,
    transport: &'static str,
    stop: &'a Stop,
    out: &'a mut dyn Write,
    simulated: Option<Simulated>,
}

impl DeviceVisitor<1> for Asked<'_> {
    type Outcome = PingReport;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        refuse_for_sim(&self.args.start, &self.args.backend)?;
        let functions = if self.is_alone { 2 } else { 1 };
        let sim = simulator(spec, functions, Mode::Real, 1, false).build();
        self.simulated = Some(Simulated::new(sim.clone(), &self.args.capture)?);
        Ok(sim)
    }

    fn visit<D: HostDevice>(mut self, [function]: [D; 1]) -> Result<PingReport> {
        let args = self.args;
        let Some(simulated) = self.simulated.take() else {
            let start = start(&function, &args.start)?;
            let watched = watch::watch([&function]);
            let result = with(function.clone(), &start, &self.network(), |station| {
                self.ask(station, &watched)
            });
            return watch::explain(result, &[&function]);
        };
        let own = simulated.start(0, &args.start)?;
        let answering = match self.is_alone {
            true => Some(simulated.start(1, &args.start)?),
            false => None,
        };
        let network = self.network();
        let ask = |station: &Station<D>| self.ask(station, &|| Ok(()));
        let report = match answering {
            None => with(function, &own, &network, ask),
            Some(start) => {
                let there = simulated.sim().function(1);
                let network_there = Network {
                    addresses: peer_addresses(args),
                    vlan: args.vlan,
                    ..Network::default()
                };
                with(there, &start, &network_there, |_| {
                    with(function, &own, &network, ask)
                })
            }
        };
        simulated.finish(report)
    }
}

/// Does `job` with a function that is up and on its link, and shuts it down.
fn with<P: HostPlatform, T>(
    platform: P,
    start: &Start,
    network: &Network,
    job: impl FnOnce(&Station<P>) -> Result<T>,
) -> Result<T> {
    let (mut control, events) = lifecycle::bring_up(platform.clone(), start)?;
    let done = on_link(platform, &mut control, network, job);
    shut_down(control, events, done)
}

fn on_link<P: HostPlatform, T>(
    platform: P,
    control: &mut Control<P>,
    network: &Network,
    job: impl FnOnce(&Station<P>) -> Result<T>,
) -> Result<T> {
    lifecycle::wait_link(control)?;
    let station = Station::start(platform, control, network, Pace::Quick)?;
    let done = job(&station);
    let closed = station.close(control);
    let done = done?;
    closed?;
    Ok(done)
}

/// Shuts the function down. After a failure that failure is returned, because it says more.
fn shut_down<P: HostPlatform, T>(
    control: Control<P>,
    events: EventSet<P>,
    done: Result<T>,
) -> Result<T> {
    let end = control.shutdown(events).map_err(|failed| failed.error);
    match (done, end.context("shutting down")) {
        (Ok(done), Ok(())) => Ok(done),
        (Ok(_), Err(error)) => Err(error),
        (Err(error), end) => {
            if let Err(end) = end {
                log::warn!("not shut down cleanly: {end:#}");
            }
            Err(error)
        }
    }
}

impl Asked<'_> {
    /// The network of the function that asks.
    fn network(&self) -> Network {
        let args = self.args;
        let addresses = match args.ip.as_slice() {
            [] if self.is_alone => vec![OwnAddress::alone(OWN)],
            given => given.to_vec(),
        };
        Network {
            addresses,
            gateways: args.gateway.clone(),
            vlan: args.vlan,
            ..Network::default()
        }
    }

    /// Sends requests until the end. After a failure, prints what there is.
    fn ask<P: HostPlatform>(
        &mut self,
        station: &Station<P>,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<PingReport> {
        let mut report = PingReport {
            transport: self.transport,
            ending: Ending::COMPLETE,
            destination: self.destination,
            size: self.args.size,
            transmitted: 0,
            received: 0,
            unanswered: Unanswered::default(),
            round_trip_ns: None,
        };
        let mut times = Times::default();
        let asked = self.ask_all(station, watch, &mut report, &mut times);
        report.round_trip_ns = times.summary();
        report.ending = Ending::of(&asked, self.stop);
        if asked.is_err() && report.transmitted > 0 {
            show(self.args, &report, self.out)?;
            self.out.flush()?;
        }
        asked.map(|()| report)
    }

    fn ask_all<P: HostPlatform>(
        &mut self,
        station: &Station<P>,
        watch: &dyn Fn() -> Result<()>,
        report: &mut PingReport,
        times: &mut Times,
    ) -> Result<()> {
        let (args, destination) = (self.args, self.destination);
        if !args.json {
            writeln!(
                self.out,
                "PING {destination}: {} bytes of payload ({})",
                args.size, self.transport
            )?;
        }
        let interval = Duration::from_nanos(args.interval.0);
        let most = args.count.unwrap_or(u64::MAX);
        let (mut next, mut under_way) = (Instant::now(), 0);
        loop {
            watch()?;
            let is_over = report.transmitted == most || self.stop.is_asked();
            if self.stop.is_asked() || is_over && under_way == 0 {
                break;
            }
            if is_over && next.elapsed() > LAST {
                report.unanswered.timed_out += under_way;
                break;
            }
            if !is_over && under_way < UNDER_WAY && Instant::now() >= next {
                report.transmitted += 1;
                under_way += 1;
                next += interval;
                station.ping(Ping {
                    ip: destination,
                    ident: std::process::id() as u16,
                    seq: report.transmitted as u16,
                    length: args.size,
                });
            }
            let to_next = next.saturating_duration_since(Instant::now());
            let step = if is_over { STEP } else { to_next.min(STEP) };
            let Some(event) = station.wait_event(step) else {
                continue;
            };
            let line = match event {
                StationEvent::Echo {
                    seq,
                    length,
                    round_trip,
                } => {
                    report.received += 1;
                    times.add(round_trip);
                    let bytes = u32::from(length) + 8;
                    let time = ms(round_trip.0);
                    format!("{bytes} bytes from {destination}: seq={seq} time={time} ms")
                }
                StationEvent::NoEcho { seq, why } => {
                    let why = why.unwrap_or(PingFailure::TimedOut);
                    report.unanswered.add(why);
                    format!("no reply from {destination}: seq={seq} {}", reason(why))
                }
            };
            under_way = under_way.saturating_sub(1);
            if !args.json {
                writeln!(self.out, "{line}")?;
                self.out.flush()?;
            }
        }
        Ok(())
    }
}

/// Why there is no reply, in words.
const fn reason(why: PingFailure) -> &'static str {
    match why {
        PingFailure::NoRoute => "no route there",
        PingFailure::Unreachable => "the next hop does not answer",
        PingFailure::TooLong => "too long for the path",
        _ => "timed out",
    }
}
