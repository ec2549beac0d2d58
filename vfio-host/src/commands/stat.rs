//! `e810 stat`: a port's state, and the function's counters.

mod limits;

use std::io::Write;

use anyhow::{Context, Error, Result, bail};
use e810::{Control, GIDS, LinkFec, Mtu, Platform, PortState};
use e810_backends::host::Host;
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice};
use e810_sim::{Mode, Sim};
use serde::Serialize;

use crate::cli::StatArgs;
use crate::cli::device::chosen;
use crate::output::counters::{Counters, by_name, print_counters};
use crate::output::json;
use crate::output::units::{human_bytes, link_speed};
use crate::pci_functions::checks::warn_of_memlock;
use crate::pci_functions::open::open;
use crate::pci_functions::simulated::{refuse_for_sim, sim_start};
use crate::pci_functions::start::start;
use crate::pci_functions::{lifecycle, watch};
use e810_node::simulated::simulator;
use e810_node::start::Start;

pub use limits::LimitsReport;

/// An entry of the GID table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GidReport {
    pub index: u8,
    pub address: String,
    /// VLAN, if it is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
}

/// The JSON of `e810 stat`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StatReport {
    /// How the function was reached.
    pub transport: &'static str,
    /// The card's port, from 0, as the firmware counts; absent with `--warm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// `active` or `down`.
    pub state: &'static str,
    /// Speed of the link in Mbit/s; 0 when it is not known.
    pub link_mbps: u32,
    /// Error correction that was negotiated; absent if not known, and meaningless without a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_fec: Option<&'static str>,
    /// Ethernet address.
    pub mac: String,
    /// Hardware number of the VSI.
    pub vsi: u32,
    /// MTU of the interface in bytes.
    pub mtu: u16,
    /// Path MTU that fits it, in bytes; absent if not even 256 bytes and headers fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// The largest path MTU of a port, in bytes.
    pub max_path_mtu: u32,
    /// The longest message in bytes.
    pub max_message: u32,
    /// Limits of the device; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<LimitsReport>,
    /// Our own addresses.
    pub gids: Vec<GidReport>,
    /// Counters of the function, by the names of existing drivers.
    pub counters: Counters,
}

/// Runs the command.
///
/// # Errors
/// A bring-up that failed, a counter that could not be read, or a finding of the
/// simulator.
pub fn run(args: &StatArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    warn_of_memlock(&[&device]);
    let host = Host::default();
    let asked = Asked {
        args,
        transport: device.kind().name(),
        limits: args.verbose.then_some((&device, &host)),
        simulated: None,
    };
    let report = open([&device], &args.backend, asked)?;
    if args.json {
        return json::write_line(out, "stat", &report);
    }
    print(&report, out)
}

/// What is asked of a function.
struct Asked<'a> {
    args: &'a StatArgs,
    transport: &'static str,
    limits: Wanted<'a>,
    simulated: Option<Sim>,
}

impl DeviceVisitor<1> for Asked<'_> {
    type Outcome = StatReport;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        refuse_for_sim(&self.args.start, &self.args.backend)?;
        let sim = simulator(spec, 1, Mode::Real, 1, self.args.start.warm).build();
        Ok(self.simulated.insert(sim).clone())
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<StatReport> {
        let args = &self.args.start;
        let start = match &self.simulated {
            Some(sim) => sim_start(&sim.function(0), args)?,
            None => start(&function, args)?,
        };
        let result = read_resources(function.clone(), &start, self.transport, &self.limits);
        let report = watch::explain(result, &[&function])?;
        let findings = self.simulated.map(|sim| sim.findings()).unwrap_or_default();
        if let Some(first) = findings.first() {
            bail!("the simulator recorded findings; the first: {first}");
        }
        Ok(report)
    }
}

/// Brings a function up, queries it, and shuts it down.
fn read_resources<P: Platform>(
    platform: P,
    start: &Start,
    transport: &'static str,
    limits: &Wanted<'_>,
) -> Result<StatReport> {
    let (mut control, events) = lifecycle::bring_up(platform, start)?;
    let report =
        lifecycle::wait_link(&mut control).and_then(|()| ask(&mut control, transport, limits));
    let end = control.shutdown(events);
    end.map_err(|failed| failed.error)
        .context("shutting down")?;
    report
}

/// The device whose limits are wanted, and its machine; `None` if they are not wanted.
type Wanted<'a> = Option<(&'a DeviceSpec, &'a Host)>;

fn ask<P: Platform>(
    control: &mut Control<P>,
    transport: &'static str,
    limits: &Wanted<'_>,
) -> Result<StatReport> {
    let port = control.query_port(1)?;
    let gid = |index| {
        let entry = control.query_gid(index)?;
        Some(GidReport {
            index,
            address: entry.gid.ip().to_string(),
            vlan: entry.vlan,
        })
    };
    // 32 of them.
    let gids = (0..GIDS as u8).filter_map(gid).collect();
    Ok(StatReport {
        transport,
        port: control.lan_side().map(|side| side.identity().port.lport),
        state: match port.state {
            PortState::Active => "active",
            PortState::Down => "down",
        },
        link_mbps: port.mbps,
        link_fec: port.fec.map(LinkFec::name),
        mac: port.mac.to_string(),
        vsi: port.vsi.get(),
        mtu: control.lan().mtu,
        path_mtu: port.active_mtu.map(Mtu::bytes),
        max_path_mtu: port.max_mtu.bytes(),
        max_message: port.max_msg_sz,
        device: limits.map(|(device, host)| LimitsReport::of(control, device, host)),
        gids,
        counters: by_name(&control.gather_stats().context("reading the counters")?),
    })
}

fn print(report: &StatReport, out: &mut dyn Write) -> Result<()> {
    let speed = link_speed(report.link_mbps);
    let fec = report.link_fec.unwrap_or("not known");
    let port = report.port.map_or(String::new(), |port| port.to_string());
    writeln!(
        out,
        "port {port:<6} {}, {speed}, FEC {fec}, {}, VSI {}   ({})",
        report.state, report.mac, report.vsi, report.transport
    )?;
    let path = report
        .path_mtu
        .map_or("none fits".to_owned(), |mtu| mtu.to_string());
    writeln!(
        out,
        "MTU         {} bytes; path MTU {path}, at most {}; messages up to {}",
        report.mtu,
        report.max_path_mtu,
        human_bytes(report.max_message.into())
    )?;
    for gid in &report.gids {
        let vlan = gid.vlan.map_or(String::new(), |id| format!(", VLAN {id}"));
        writeln!(out, "GID {:<7} {}{vlan}", gid.index, gid.address)?;
    }
    if let Some(limits) = &report.device {
        limits.print(out)?;
    }
    writeln!(out, "counters of the function")?;
    print_counters(&report.counters, out)
}
