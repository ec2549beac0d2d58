//! `e810 up`: a bring-up, stage by stage, and the memory it takes.

pub mod limits;
mod linux;
pub mod report;

use std::io::Write;

use anyhow::{Context, Error, Result};
use e810::hmc::{Backing, FpmQuery, Object, Plan, SEGMENT_BYTES};
use e810::{Lan, LanSide, LinkPolicy, LoadedBy, Memory, Platform, Reached};
use e810_backends::counted::Counted;
use e810_backends::host::Host;
use e810_backends::spec::SimSpec;
use e810_backends::{DeviceVisitor, HostDevice};
use e810_hal::Clock;
use e810_hal::regs::GL_RDPU_CNTRL;
use e810_sim::{Mode, Sim};

use crate::cli::UpArgs;
use crate::cli::device::chosen;
use crate::measure::access::{Times, times};
use crate::output::json;
use crate::output::units::{human_bytes, human_ns};
use crate::pci_functions::card_users::refuse_if_used;
use crate::pci_functions::checks::warn_of_memlock;
use crate::pci_functions::lifecycle::wait_link;
use crate::pci_functions::open::open;
use crate::pci_functions::simulated::{Simulated, refuse_for_sim};
use crate::pci_functions::start::start;
use crate::pci_functions::watch;
use e810_node::simulated::simulator;
use e810_node::start::{LINK, Start};
use limits::as_source;
use report::{LanReport, ObjectReport, StageReport, UpReport};

/// Runs the command.
///
/// # Errors
/// The stage that failed, or a finding of the simulator.
pub fn run(args: &UpArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    if !device.is_simulated() {
        args.capture.refuse(&device)?;
    }
    if let Some(bdf) = device.bdf()
        && args.reset_card
        && !args.force
    {
        refuse_if_used(&Host::default(), bdf, "--reset-card")?;
    }
    warn_of_memlock(&[&device]);
    let both_ways = BothWays {
        args,
        simulated: None,
    };
    let (full, demand, times) = open([&device], &args.backend.accepting(args.force), both_ways)?;
    if args.card {
        write!(out, "{}", as_source(&full.card))?;
        // As a comment after the source.
        writeln!(out, "// GL_RDPU_CNTRL (0x52054): {:#010x}", full.rdpu)?;
        return Ok(());
    }
    let report = UpReport {
        transport: device.kind().name(),
        total_ns: full.stages.iter().map(|stage| stage.ns).sum(),
        stages: full.stages,
        lan: full.lan,
        hmc_bytes: full.backed,
        hmc_bytes_on_demand: demand.backed,
        hmc_bytes_linux: full.linux,
        hmc_objects: full.objects,
        register_read_ns: times.map(|times| times.register_read),
        interrupt_ns: times.map(|times| times.interrupt),
    };
    print(args, &report, out)
}

/// Brings a function up in both ways: with everything backed at once, and on demand.
struct BothWays<'a> {
    args: &'a UpArgs,
    simulated: Option<Simulated>,
}

impl DeviceVisitor<1> for BothWays<'_> {
    type Outcome = (Up, Up, Option<Times>);
    type Error = Error;

    /// With one function for each way.
    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        refuse_for_sim(&self.args.start, &self.args.backend)?;
        let sim = simulator(spec, 2, Mode::Real, 1, self.args.start.warm).build();
        self.simulated = Some(Simulated::new(sim.clone(), &self.args.capture)?);
        Ok(sim)
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<Self::Outcome> {
        let args = &self.args.start;
        let reset = || match self.args.reset_card {
            true => reset(&function),
            false => Ok(()),
        };
        if let Some(simulated) = self.simulated {
            let result = reset().and_then(|()| {
                let full = bring_up(function.clone(), &simulated.start(0, args)?, Backing::Full)?;
                let other = simulated.sim().function(1);
                let demand = bring_up(other, &simulated.start(1, args)?, Backing::OnDemand)?;
                // No times: they would be those of this process.
                Ok((full, demand, None))
            });
            return simulated.finish(result);
        }
        let start = start(&function, args)?;
        let result = reset().and_then(|()| times(&function)).and_then(|times| {
            let full = bring_up(function.clone(), &start, Backing::Full)?;
            let demand = bring_up(function.clone(), &start, Backing::OnDemand)?;
            Ok((full, demand, Some(times)))
        });
        watch::explain(result, &[&function])
    }
}

/// Resets the whole card.
fn reset<P: Platform>(platform: &P) -> Result<()> {
    e810::reset_card(platform).context("resetting the card")?;
    log::warn!("the card was reset: all of its functions");
    Ok(())
}

struct Up {
    stages: Vec<StageReport>,
    lan: Option<LanReport>,
    objects: Vec<ObjectReport>,
    backed: u64,
    linux: u64,
    card: FpmQuery,
    /// GL_RDPU_CNTRL, a threshold that one existing driver sets and Linux leaves alone.
    rdpu: u32,
}

fn bring_up<P: Platform>(platform: P, start: &Start, backing: Backing) -> Result<Up> {
    let platform = Counted::new(platform);
    let mut stages = Vec::new();
    let mut before = (platform.now(), platform.accesses(), 0, 0);
    let mut observe = |reached: Reached| {
        let now = (
            platform.now(),
            platform.accesses(),
            reached.commands,
            reached.admin_commands,
        );
        stages.push(StageReport {
            name: reached.stage.name(),
            ns: (now.0 - before.0).0,
            register_reads: now.1.reads - before.1.reads,
            register_writes: now.1.writes - before.1.writes,
            commands: now.2 - before.2,
            admin_commands: now.3 - before.3,
        });
        before = now;
    };
    let device = start.bring_up(
        platform.clone(),
        backing,
        LinkPolicy::Wait(LINK),
        &mut observe,
    )?;
    let (mut control, events) = device.split();
    if start.leaves_link() {
        wait_link(&mut control)?;
    }
    let memory = control.hmc();
    let linux =
        linux::linux_plan(&memory.query).context("Linux' formula on this device's limits")?;
    let up = Up {
        stages,
        lan: control.lan_side().map(|lan| lan_report(lan, control.lan())),
        objects: objects(memory, &linux),
        card: memory.query,
        rdpu: GL_RDPU_CNTRL.get(&platform),
        backed: memory.backed_bytes(),
        linux: linux_bytes(memory, &linux),
    };
    let end = control.shutdown(events);
    end.map_err(|failed| failed.error)
        .context("shutting down")?;
    Ok(up)
}

fn lan_report<P: Platform>(side: &LanSide<P>, lan: Lan) -> LanReport {
    let package = side.package();
    LanReport {
        mac: lan.mac.to_string(),
        vsi: lan.vsi.get(),
        port: side.identity().port.lport,
        package: package.version.to_string(),
        package_loaded: package.by == LoadedBy::Us,
        link_mbps: side.link_at_start().mbps,
        link_fec: side.link_at_start().fec.name(),
    }
}

/// Bytes that Linux' formula backs before its first page list: whole segments for everything except
/// PBLEs, which Linux also adds on demand.
fn linux_bytes<P: Platform>(memory: &Memory<P>, linux: &Plan) -> u64 {
    let kinds = Object::ALL.into_iter();
    let backed = kinds.filter(|object| *object != Object::Pble);
    let bytes: u64 = backed
        .map(|object| linux.footprint(&memory.query, object).bytes)
        .sum();
    bytes.next_multiple_of(SEGMENT_BYTES)
}

fn objects<P: Platform>(memory: &Memory<P>, linux: &Plan) -> Vec<ObjectReport> {
    let report = |object: Object| {
        let ours = memory.plan.footprint(&memory.query, object);
        let theirs = linux.footprint(&memory.query, object);
        ObjectReport {
            name: object.name().to_owned(),
            count: ours.count.into(),
            object_bytes: memory.query.limits(object).bytes.into(),
            bytes: ours.bytes,
            linux_count: theirs.count.into(),
            linux_bytes: theirs.bytes,
        }
    };
    Object::ALL
        .into_iter()
        .map(report)
        .filter(|object| object.count > 0 || object.linux_count > 0)
        .collect()
}

fn print(args: &UpArgs, report: &UpReport, out: &mut dyn Write) -> Result<()> {
    if args.json {
        return json::write_line(out, "up", report);
    }
    writeln!(
        out,
        "{:<8} {:>10} {:>6} {:>7} {:>6} {:>9}   ({})",
        "stage", "time", "reads", "writes", "AdminQ", "commands", report.transport
    )?;
    for stage in &report.stages {
        writeln!(
            out,
            "{:<8} {:>10} {:>6} {:>7} {:>6} {:>9}",
            stage.name,
            human_ns(stage.ns),
            stage.register_reads,
            stage.register_writes,
            stage.admin_commands,
            stage.commands
        )?;
    }
    writeln!(out, "{:<8} {:>10}", "total", human_ns(report.total_ns))?;
    if let Some(lan) = &report.lan {
        let by = if lan.package_loaded {
            "loaded"
        } else {
            "found on the card"
        };
        writeln!(
            out,
            "port {}, {}, VSI {}, link {} Gbit/s, FEC {}, package {} {by}",
            lan.port,
            lan.mac,
            lan.vsi,
            f64::from(lan.link_mbps) / 1e3,
            lan.link_fec,
            lan.package
        )?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "{:<9} {:>8} {:>6} {:>11}   {:>9} {:>11}",
        "object", "count", "size", "bytes", "Linux", "bytes"
    )?;
    for object in &report.hmc_objects {
        writeln!(
            out,
            "{:<9} {:>8} {:>6} {:>11}   {:>9} {:>11}",
            object.name,
            object.count,
            object.object_bytes,
            human_bytes(object.bytes),
            object.linux_count,
            human_bytes(object.linux_bytes)
        )?;
    }
    writeln!(
        out,
        "host memory for the device, PBLEs not counted: {} backed at once (the default), {} on demand, {} by Linux' formula",
        human_bytes(report.hmc_bytes),
        human_bytes(report.hmc_bytes_on_demand),
        human_bytes(report.hmc_bytes_linux)
    )?;
    for (what, times) in [
        ("register read, there and back", report.register_read_ns),
        ("register write to interrupt", report.interrupt_ns),
    ] {
        if let Some(times) = times {
            writeln!(
                out,
                "{what}: min {}  p50 {}  p99 {}  max {}  ({})",
                human_ns(times.min),
                human_ns(times.p50),
                human_ns(times.p99),
                human_ns(times.max),
                report.transport
            )?;
        }
    }
    Ok(())
}
