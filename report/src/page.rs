//! A report as a page of text for a person.

mod connections;

use std::collections::BTreeMap;
use std::fmt::Write;

use e810_adminq::code::Code;

use crate::config_space::ConfigSpace;
use crate::document::Document;
use crate::engine;
use crate::errata;
use crate::record::{Record, Run, State, from_hex};

/// Registers by name, each with the values of its elements.
type Registers<'a> = BTreeMap<&'a str, &'a [Run]>;

/// The page. Each question that a first card is to answer has a line, with what the
/// report says of it or which level would.
#[must_use]
pub fn page(document: &Document) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut page, document);
    page
}

fn write_page(out: &mut String, document: &Document) -> std::fmt::Result {
    let facts = facts(document);
    let fact = |name: &str| facts.get(name).copied();
    if let Some(Record::Report(header)) = document.records.first() {
        writeln!(
            out,
            "function    {} ({}), level {}",
            header.device, header.transport, header.level
        )?;
    }
    writeln!(out, "ended       {}", ending(document))?;
    if let Some(driver) = fact("driver") {
        writeln!(out, "driver      {driver}")?;
    }
    if let (Some(vendor), Some(device)) = (fact("vendor"), fact("device")) {
        let of = |name| fact(name).unwrap_or("?");
        writeln!(
            out,
            "PCI         {vendor}:{device}, subsystem {}:{}, revision {}",
            of("subsystem_vendor"),
            of("subsystem_device"),
            of("revision")
        )?;
    }
    if let Some(width) = fact("current_link_width") {
        let of = |name| fact(name).unwrap_or("?");
        writeln!(
            out,
            "PCIe link   x{width} at {} (possible: x{} at {})",
            of("current_link_speed"),
            of("max_link_width"),
            of("max_link_speed")
        )?;
    }
    write_config(out, document)?;
    write_aer(out, &facts)?;
    write_firmware(out, document)?;
    write_engine(out, document)?;
    let lines = document
        .records
        .iter()
        .filter(|record| matches!(record, Record::Log { .. }));
    let lines = lines.count();
    if lines > 0 {
        writeln!(
            out,
            "kernel log  {lines} lines about the function, ice, irdma, vfio or AER"
        )?;
    }
    connections::write_connections(out, document)?;
    write_errata(out, document)?;
    for record in &document.records {
        match record {
            Record::Absent { what, why }
                if !facts.contains_key(what.as_str()) && why != "not there" =>
            {
                writeln!(out, "not read    {what}: {why}")?;
            }
            Record::Skipped { what, why } => writeln!(out, "left out    {what}: {why}")?,
            _ => {}
        }
    }
    write_registers(out, document)
}

/// Texts of facts by name.
fn facts(document: &Document) -> BTreeMap<&str, &str> {
    let facts = document.records.iter().filter_map(|record| match record {
        Record::Fact { name, text } => Some((name.as_str(), text.as_str())),
        _ => None,
    });
    facts.collect()
}

fn ending(document: &Document) -> String {
    match document.records.last() {
        Some(Record::End { complete: true, .. }) => "complete".to_owned(),
        Some(Record::End { why, .. }) => {
            format!("early: {}", why.as_deref().unwrap_or("no reason given"))
        }
        Some(Record::Next { what }) => {
            format!("by a machine that died at: {what} (leave it out with --skip-after-crash)")
        }
        _ => "the file is cut".to_owned(),
    }
}

fn write_config(out: &mut String, document: &Document) -> std::fmt::Result {
    let spaces = document.records.iter().filter_map(|record| match record {
        Record::Config { bytes } => Some(ConfigSpace::from_hex(bytes)),
        _ => None,
    });
    for space in spaces {
        let space = match space {
            Ok(space) => space,
            Err(why) => {
                writeln!(out, "config      {why}")?;
                continue;
            }
        };
        if let Some([payload, request, most]) = space.sizes() {
            writeln!(
                out,
                "PCIe sizes  payload {payload} of {most}, read request {request}"
            )?;
        }
        if let Some(has_flr) = space.has_flr() {
            writeln!(out, "FLR         {}", if has_flr { "yes" } else { "no" })?;
        }
        let names: Vec<String> = space
            .capabilities()
            .iter()
            .map(|capability| format!("{:#x} {}", capability.at, capability.name()))
            .collect();
        writeln!(
            out,
            "config      {} bytes; {}",
            space.0.len(),
            names.join(", ")
        )?;
    }
    Ok(())
}

/// What the firmware answered, and which commands it refused.
fn write_firmware(out: &mut String, document: &Document) -> std::fmt::Result {
    let mut answered = 0;
    let mut refused = Vec::new();
    for record in &document.records {
        match record {
            Record::AdminQ {
                code: 0,
                name,
                reply,
                ..
            } => {
                answered += 1;
                let reply = from_hex(reply).unwrap_or_default();
                if name == "Get Version" {
                    // Branch, major, minor, patch: of the firmware, then of the interface.
                    let at = |place: usize| reply.get(place).copied().unwrap_or(0);
                    writeln!(
                        out,
                        "firmware    {}.{}.{} (branch {}), interface {}.{}.{}",
                        at(9),
                        at(10),
                        at(11),
                        at(8),
                        at(13),
                        at(14),
                        at(15)
                    )?;
                }
            }
            Record::AdminQ { code, name, .. } => {
                let code = Code(*code as u8);
                refused.push(format!("{name}: {code}"));
            }
            Record::Module { bytes } => write_module(out, &from_hex(bytes).unwrap_or_default())?,
            _ => {}
        }
    }
    if answered + refused.len() == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "AdminQ      {answered} commands answered, {} refused",
        refused.len()
    )?;
    for refusal in refused {
        writeln!(out, "  refused   {refusal}")?;
    }
    Ok(())
}

/// Rows of `docs/errata.md` that fit the card, and those whose symptom is in the log.
fn write_errata(out: &mut String, document: &Document) -> std::fmt::Result {
    let card = errata::Card::of(document);
    let of_card: Vec<&str> = card.rows().map(|erratum| erratum.id).collect();
    if !of_card.is_empty() {
        writeln!(out, "errata      {} (docs/errata.md)", of_card.join(" "))?;
    }
    for (erratum, line) in card.symptoms() {
        writeln!(out, "  in log    {} {}: {line}", erratum.id, erratum.title)?;
    }
    Ok(())
}

/// Limits and version of the RDMA engine.
fn write_engine(out: &mut String, document: &Document) -> std::fmt::Result {
    for record in &document.records {
        let Record::Cqp { name, data } = record else {
            continue;
        };
        if name == "QUERY_RDMA_FEATURES"
            && let Some(features) = engine::features(data)
        {
            let (major, minor) = features.firmware();
            writeln!(
                out,
                "RDMA        firmware {major}.{minor}, {} features",
                features.count
            )?;
        }
        if name == "QUERY_FPM_VAL"
            && let Some(query) = engine::limits(data)
        {
            let most = engine::COUNTED.map(|object| {
                let limits = query.limits(object);
                format!("{} {} of {} B", object.name(), limits.max, limits.bytes)
            });
            writeln!(
                out,
                "RDMA        at most {}; {} segments, {} CEQs",
                most.join(", "),
                query.max_sds,
                query.max_ceqs
            )?;
        }
    }
    Ok(())
}

/// Kind and maker of a module (SFF-8472 for SFP, SFF-8636 for QSFP).
fn write_module(out: &mut String, memory: &[u8]) -> std::fmt::Result {
    let text = |from: usize| {
        let bytes = memory.get(from..from + 16).unwrap_or_default();
        let text = bytes.iter().filter(|byte| (0x20..0x7F).contains(*byte));
        let text: String = text.map(|byte| *byte as char).collect();
        text.trim().to_owned()
    };
    let (kind, maker, part) = match memory.first() {
        Some(0x03) => ("SFP", 20, 40),
        Some(0x0C) => ("QSFP", 148, 168),
        Some(0x0D) => ("QSFP+", 148, 168),
        Some(0x11) => ("QSFP28", 148, 168),
        _ => ("unknown kind", 148, 168),
    };
    writeln!(out, "module      {kind}, {} {}", text(maker), text(part))
}

/// Error counters that are not 0.
fn write_aer(out: &mut String, facts: &BTreeMap<&str, &str>) -> std::fmt::Result {
    for name in ["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"] {
        let Some(text) = facts.get(name) else {
            continue;
        };
        let counted: Vec<&str> = text
            .lines()
            .filter(|line| line.rsplit(' ').next().is_some_and(|count| count != "0"))
            .collect();
        let counted = match counted.is_empty() {
            true => "none".to_owned(),
            false => counted.join(", "),
        };
        writeln!(out, "{name}: {counted}")?;
    }
    Ok(())
}

fn by_state(document: &Document) -> BTreeMap<State, Registers<'_>> {
    let mut all: BTreeMap<State, Registers<'_>> = BTreeMap::new();
    let mut state = None;
    for record in &document.records {
        match record {
            Record::State { state: next } => state = Some(*next),
            Record::Register { name, values, .. } => {
                if let Some(state) = state {
                    all.entry(state).or_default().insert(name, values);
                }
            }
            _ => {}
        }
    }
    all
}

fn first(registers: &Registers<'_>, name: &str) -> Option<u32> {
    registers.get(name)?.first()?.value
}

fn write_registers(out: &mut String, document: &Document) -> std::fmt::Result {
    let states = by_state(document);
    for (state, registers) in &states {
        writeln!(out, "registers   {} {}", registers.len(), state.name())?;
    }
    writeln!(out, "\nQuestions that a first card is to answer:")?;
    for (question, name) in [
        (
            "does the firmware set GL_RDPU_CNTRL[15:10] = 3, as one existing driver does?",
            "GL_RDPU_CNTRL",
        ),
        (
            "the map of user priorities to traffic classes, before any driver",
            "PRTDCB_TUP2TC",
        ),
        ("granularity of the interrupt timers", "GLINT_CTL"),
        (
            "the pause frames of the port, which irdma's pacing depends on elsewhere",
            "PRTMAC_HSEC_CTL_TX_PAUSE_QUANTA",
        ),
        ("has the firmware loaded?", "GLNVM_ULD"),
    ] {
        let values: Vec<String> = states
            .iter()
            .filter_map(|(state, registers)| {
                Some(format!(
                    "{:#010x} {}",
                    first(registers, name)?,
                    state.name()
                ))
            })
            .collect();
        let values = match values.is_empty() {
            true => "not read (level 0 or 1)".to_owned(),
            false => values.join(", "),
        };
        writeln!(out, "  {question}\n    {name}: {values}")?;
    }
    let (Some(before), Some(after)) = (states.get(&State::AsFound), states.get(&State::Opened))
    else {
        return writeln!(
            out,
            "  which registers does the reset at open leave?\n    needs both level 0 and level 1 in one report"
        );
    };
    let not_zero = |runs: &&[Run]| runs.iter().any(|run| run.value != Some(0));
    let same: Vec<&str> = before
        .iter()
        .filter(|(name, runs)| not_zero(runs) && after.get(*name) == Some(runs))
        .map(|(name, _)| *name)
        .collect();
    let changed: Vec<&str> = before
        .iter()
        .filter(|(name, runs)| after.get(*name).is_some_and(|other| other != *runs))
        .map(|(name, _)| *name)
        .collect();
    writeln!(
        out,
        "  which registers does the reset at open leave?\n    {} kept a value that is not 0: {}\n    {} changed: {}",
        same.len(),
        same.join(" "),
        changed.len(),
        changed.join(" ")
    )
}

#[cfg(test)]
mod tests;
