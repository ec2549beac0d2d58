//! `e810 up`: a bring-up, stage by stage, and the memory it takes.

pub mod limits;
pub mod report;

use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use e810::hmc::{Backing, FpmQuery, LinuxPlan, Object, Plan, SEGMENT_BYTES, linux_plan};
use e810::{Lan, LanReady, LinkPolicy, LoadedBy, Memory, Platform, Reached};
use e810_backends::counted::Counted;
use e810_backends::host::{Host, card};
use e810_backends::spec::{Bdf, DeviceSpec};
use e810_backends::{Function, Transport};
use e810_hal::Clock;
use e810_hal::regs::GL_RDPU_CNTRL;
use e810_sim::Mode;

use super::{refuse_for_sim, sim_start, simulator};
use crate::cli::UpArgs;
use crate::cli::capture::Recording;
use crate::cli::device::chosen;
use crate::functions::pair::wait_link;
use crate::functions::start::{LINK, Start};
use crate::functions::watch;
use crate::measure::access::{Times, times};
use crate::output::units::{human_bytes, human_ns, mac};
use limits::as_source;
use report::{LanReport, ObjectReport, StageReport, UpReport};

/// Runs the command.
///
/// # Errors
/// The stage that failed, or a finding of the simulator.
pub fn run(args: &UpArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    if device != DeviceSpec::Sim {
        args.capture.refuse(&device)?;
    }
    let (transport, full, demand, times) = match &device {
        DeviceSpec::Sim => {
            refuse_for_sim(&args.start, args.backend)?;
            let (full, demand) = simulated(args)?;
            ("simulated", full, demand, None)
        }
        DeviceSpec::VfioUser(path) => {
            let (full, demand, times) = behind(args, watch::open_user(path, args.backend)?)?;
            ("vfio-user", full, demand, Some(times))
        }
        DeviceSpec::Vfio(bdf, way) => {
            if args.reset_card && !args.force {
                refuse_reset(&Host::default(), *bdf)?;
            }
            watch::warn_of_memlock(1);
            let (full, demand, times) = behind(args, watch::open_vfio(*bdf, *way, args.backend)?)?;
            ("vfio", full, demand, Some(times))
        }
    };
    if args.card {
        write!(out, "{}", as_source(&full.card))?;
        // A comment to the source above.
        writeln!(out, "// GL_RDPU_CNTRL (0x52054): {:#010x}", full.rdpu)?;
        return Ok(());
    }
    let report = UpReport {
        transport,
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

/// Two functions of one simulator: one backs everything, one on demand.
fn simulated(args: &UpArgs) -> Result<(Up, Up)> {
    let sim = simulator(2, Mode::Real, 1, args.start.warm);
    let recording = args.capture.record(&sim)?;
    if args.reset_card {
        reset(&sim.function(0))?;
    }
    let up = |function, backing| {
        let platform = sim.function(function);
        let start = sim_start(&platform, &args.start)?;
        bring_up(Counted::new(platform), &start, backing)
    };
    let (full, demand) = (up(0, Backing::Full)?, up(1, Backing::OnDemand)?);
    recording.map(Recording::finish).transpose()?;
    let findings = sim.findings();
    if let Some(first) = findings.first() {
        bail!(
            "the simulator recorded {} findings; the first: {first}",
            findings.len()
        );
    }
    Ok((full, demand))
}

/// One function behind a backend, brought up in both ways, one after the other.
fn behind<T: Transport>(args: &UpArgs, function: Function<T>) -> Result<(Up, Up, Times)> {
    let start = watch::start(&function, &args.start)?;
    let result = if args.reset_card {
        reset(&function)
    } else {
        Ok(())
    };
    let result = result.and_then(|()| times(&function)).and_then(|times| {
        let full = bring_up(Counted::new(function.clone()), &start, Backing::Full)?;
        let demand = bring_up(Counted::new(function.clone()), &start, Backing::OnDemand)?;
        Ok((full, demand, times))
    });
    watch::explain(result, &[&function])
}

/// Resets the whole card.
fn reset<P: Platform>(platform: &P) -> Result<()> {
    e810::reset_card(platform).context("resetting the card")?;
    log::warn!("the card was reset: all of its functions");
    Ok(())
}

/// A reset of the card takes the ground from under who uses its other functions.
///
/// # Errors
/// Who does.
fn refuse_reset(host: &Host, bdf: Bdf) -> Result<()> {
    let users = card::users_beside(host, bdf);
    ensure!(
        users.is_empty(),
        "--reset-card resets all functions of the card, and there are in use: {}; end that first (`e810 unbind`, or unload the driver), or say --force",
        users.join(", ")
    );
    Ok(())
}

struct Up {
    stages: Vec<StageReport>,
    lan: Option<LanReport>,
    objects: Vec<ObjectReport>,
    backed: u64,
    linux: u64,
    card: FpmQuery,
    /// GL_RDPU_CNTRL, a threshold that one existing driver sets and Linux leaves.
    rdpu: u32,
}

fn bring_up<P: Platform>(platform: Counted<P>, start: &Start, backing: Backing) -> Result<Up> {
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
    let linux = linux_plan(&memory.query).context("Linux' formula on this device's limits")?;
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

fn lan_report<P: Platform>(side: &LanReady<P>, lan: Lan) -> LanReport {
    let package = side.package();
    LanReport {
        mac: mac(lan.mac),
        vsi: lan.vsi.get(),
        port: side.identity().port.lport,
        package: package.version.to_string(),
        package_loaded: package.by == LoadedBy::Us,
        link_mbps: side.link_at_start().mbps,
        link_fec: side.link_at_start().fec.name(),
    }
}

/// What Linux' formula backs before its first page list: whole segments for
/// everything but PBLEs, which it too adds as they are used.
fn linux_bytes<P: Platform>(memory: &Memory<P>, linux: &LinuxPlan) -> u64 {
    let all: u64 = Object::ALL
        .into_iter()
        .filter(|object| *object != Object::Pble)
        .map(|object| {
            let size = u64::from(memory.query.limits(object).bytes);
            (u64::from(linux.counts.get(object)) * size).next_multiple_of(512)
        })
        .sum();
    all.next_multiple_of(SEGMENT_BYTES)
}

fn objects<P: Platform>(memory: &Memory<P>, linux: &LinuxPlan) -> Vec<ObjectReport> {
    let plan: &Plan = &memory.plan;
    let report = |object: Object| {
        let ours = plan.footprint(&memory.query, object);
        let theirs = u64::from(linux.counts.get(object));
        let size = u64::from(memory.query.limits(object).bytes);
        ObjectReport {
            name: object.name().to_owned(),
            count: ours.count.into(),
            object_bytes: size,
            bytes: ours.bytes,
            linux_count: theirs,
            linux_bytes: (theirs * size).next_multiple_of(512),
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
        serde_json::to_writer(&mut *out, report)?;
        writeln!(out)?;
        return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;
    use e810_backends::host::fake::{Tree, bdf};

    #[test]
    fn a_card_that_others_use_is_not_reset() {
        let tree = Tree::with_card();
        let refused = refuse_reset(tree.host(), bdf("3b:00.0")).unwrap_err();
        let text = refused.to_string();
        for part in ["0000:3b:00.1 (driver ice)", "--force", "e810 unbind"] {
            assert!(text.contains(part), "{text}");
        }
        tree.bind("0000:3b:00.1", "vfio-pci");
        refuse_reset(tree.host(), bdf("3b:00.0")).unwrap();
    }
}
