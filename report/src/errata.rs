//! Known peculiarities of cards (`docs/errata.md`), and which of them fit a report.

use e810_hal::pci_ids;

use crate::config_space::ConfigSpace;
use crate::document::Document;
use crate::record::Record;

/// A row of `docs/errata.md`.
#[derive(Clone, Copy, Debug)]
pub struct Erratum {
    /// Its id.
    pub id: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// Which cards have it.
    scope: Scope,
    /// Text of a line of the kernel's log that shows it.
    log: &'static [&'static str],
}

/// Which cards have an erratum, as far as a report tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// Every E810.
    All,
    /// Adapters whose names have this in them.
    Named(&'static str),
    /// Networks and programs: no card by itself.
    Surroundings,
}

const fn row(
    id: &'static str,
    title: &'static str,
    scope: Scope,
    log: &'static [&'static str],
) -> Erratum {
    Erratum {
        id,
        title,
        scope,
        log,
    }
}

/// All rows.
#[rustfmt::skip]
pub const ERRATA: &[Erratum] = &[
    row("E01", "Clear PXE Mode answers EEXIST", Scope::All, &[]),
    row("E02", "one grant of the configuration lock until a core reset", Scope::All, &[]),
    row("E03", "commands refused while another function downloads", Scope::All, &[]),
    row("E04", "\"unloading\" restores defaults on all ports", Scope::All, &[]),
    row("E05", "units are slow after a firmware reset", Scope::All, &[]),
    row("E06", "link status needs 56 bytes", Scope::Named("E835"), &[]),
    row("E07", "the firmware has a VSI of its own", Scope::All, &[]),
    row("E08", "QRX_FLXP_CNTXT survives a function-level reset", Scope::All, &[]),
    row("E09", "the firmware's LLDP agent takes LLDP frames", Scope::All, &["FW LLDP"]),
    row("E10", "link up, nothing received, without error correction", Scope::All, &["Negotiated FEC: NONE"]),
    row("E11", "no link with 25GBase-LR", Scope::Named("XXV"), &["failed to establish link"]),
    row("E12", "no link once package 1.3.41 is loaded", Scope::All, &["DDP package was successfully loaded: ICE OS Default Package version 1.3.41"]),
    row("E13", "SR4, AOC and ACC modules do not autonegotiate", Scope::All, &[]),
    row("E14", "no RDMA with more than 4 ports", Scope::All, &["RDMA functionality is not available with the current device config"]),
    row("E15", "NCCL and a LID other than 0", Scope::Surroundings, &[]),
    row("E16", "HMC Error without RDMA in use", Scope::All, &["HMC Error"]),
    row("E17", "MODIFY_QP 0xffff/0x8003, then a critical error", Scope::All, &["min_err_code = 0x8003", "GLPE_CRITERR=0x00011424"]),
    row("E18", "event 0x401 of a datagram without an ARP entry", Scope::All, &["ae_id = 0x401"]),
    row("E19", "read resources are short", Scope::All, &["GLPE_CRITERR=0x0001024"]),
    row("E20", "window without flow control", Scope::Surroundings, &[]),
    row("E21", "READ from other vendors' adapters under loss", Scope::Surroundings, &[]),
];

/// The name of the adapter that a report is of, if it is one.
#[must_use]
pub fn adapter(document: &Document) -> Option<&'static str> {
    document.records.iter().find_map(|record| match record {
        Record::Config { bytes } => {
            let space = ConfigSpace::from_hex(bytes).ok()?;
            pci_ids::name(space.u16(0)?, space.u16(2)?)
        }
        _ => None,
    })
}

/// The rows that fit the card of a report, whatever its log says.
pub fn of_card(document: &Document) -> impl Iterator<Item = &'static Erratum> {
    let adapter = adapter(document);
    ERRATA
        .iter()
        .filter(move |erratum| match (erratum.scope, adapter) {
            (Scope::All, Some(_)) => true,
            (Scope::Named(part), Some(name)) => name.contains(part),
            (Scope::Surroundings, _) | (_, None) => false,
        })
}

/// The rows whose symptom stands in a report's lines of the kernel's log, each with the
/// first such line.
pub fn in_log(document: &Document) -> impl Iterator<Item = (&'static Erratum, &str)> {
    ERRATA.iter().filter_map(|erratum| {
        let mut lines = document.records.iter().filter_map(|record| match record {
            Record::Log { line } => Some(line.as_str()),
            _ => None,
        });
        let line = lines.find(|line| erratum.log.iter().any(|part| line.contains(part)))?;
        Some((erratum, line))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::page::page;

    const HEAD: &str = r#"{"kind":"report","version":1,"program":"e810 0","device":"vfio:0000:3b:00.0","transport":"vfio","level":0,"identities":false}"#;

    fn of(lines: &str) -> Document {
        Document::parse(format!("{HEAD}\n{lines}").as_bytes()).unwrap()
    }

    #[test]
    fn the_page_has_the_same_rows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = std::fs::read_to_string(root.join("docs/errata.md")).unwrap();
        let ids: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("| E")?.get(..2))
            .collect();
        let ours: Vec<&str> = ERRATA.iter().map(|erratum| &erratum.id[1..]).collect();
        assert_eq!(ours, ids);
        assert!(
            ERRATA
                .iter()
                .all(|erratum| erratum.log.iter().all(|part| part.len() > 5))
        );
    }

    #[test]
    fn rows_fit_by_the_card_and_by_the_log() {
        // An E810-C: 8086:1592.
        let document = of("{\"kind\":\"config\",\"bytes\":\"86809215\"}\n\
             {\"kind\":\"log\",\"line\":\"ice 0000:3b:00.0: HMC Error\"}\n");
        let ids: Vec<&str> = of_card(&document).map(|erratum| erratum.id).collect();
        assert!(
            ids.contains(&"E01") && !ids.contains(&"E06") && !ids.contains(&"E15"),
            "{ids:?}"
        );
        let seen: Vec<&str> = in_log(&document).map(|(erratum, _)| erratum.id).collect();
        assert_eq!(seen, ["E16"]);
        let text = page(&document);
        assert!(text.contains("E16 HMC Error without RDMA in use"), "{text}");
        assert!(text.contains("errata      "), "{text}");
        assert_eq!(of_card(&of("")).count(), 0);
    }
}
