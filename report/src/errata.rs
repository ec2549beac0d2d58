//! Known peculiarities of cards (`docs/errata.md`), and which of them fit a report.

use e810_adminq::Opcode;
use e810_adminq::op::{GetPackageInfo, ListCaps, Owner};
use e810_adminq::package::Version;
use e810_hal::pci_ids;

use crate::answer::Copied;
use crate::config_space::ConfigSpace;
use crate::document::Document;
use crate::record::Record;

/// A row of `docs/errata.md`.
#[derive(Clone, Copy, Debug)]
pub struct Erratum {
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
    /// Any with a package of this version active.
    Package([u8; 3]),
    /// Those with more ports in use than the firmware offers RDMA with.
    MorePorts,
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
    row("E12", "no link once package 1.3.41 is loaded", Scope::Package([1, 3, 41]), &[]),
    row("E13", "SR4, AOC and ACC modules do not autonegotiate", Scope::All, &[]),
    row("E14", "no RDMA with more than 4 ports", Scope::MorePorts, &["RDMA functionality is not available with the current device config"]),
    row("E15", "NCCL and a LID other than 0", Scope::Surroundings, &[]),
    row("E16", "HMC Error without RDMA in use", Scope::All, &["HMC Error"]),
    row("E17", "MODIFY_QP 0xffff/0x8003, then a critical error", Scope::All, &["min_err_code = 0x8003", "GLPE_CRITERR=0x00011424"]),
    row("E18", "event 0x401 of a datagram without an ARP entry", Scope::All, &["ae_id = 0x401"]),
    row("E19", "read resources are short", Scope::All, &["GLPE_CRITERR=0x0001024"]),
    row("E20", "window without flow control", Scope::Surroundings, &[]),
    row("E21", "READ from other vendors' adapters under loss", Scope::Surroundings, &[]),
];

/// What is known of a card, for the choice of rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Card<'a> {
    /// The name of the adapter; without one no row fits.
    pub adapter: Option<&'static str>,
    /// Version of the active package.
    pub package: Option<[u8; 4]>,
    /// Ports that are in use.
    pub ports: Option<u32>,
    /// Lines of the kernel's log.
    pub log: Vec<&'a str>,
}

impl<'a> Card<'a> {
    /// The card of a report.
    #[must_use]
    pub fn of(document: &'a Document) -> Self {
        let mut card = Self::default();
        for record in &document.records {
            match record {
                Record::Config { bytes } => {
                    let space = ConfigSpace::from_hex(bytes);
                    let ids = space
                        .ok()
                        .and_then(|space| Some((space.u16(0)?, space.u16(2)?)));
                    card.adapter = ids.and_then(|(vendor, device)| pci_ids::name(vendor, device));
                }
                Record::Log { line } => card.log.push(line),
                Record::AdminQ {
                    opcode,
                    code,
                    reply,
                    data,
                    ..
                } => {
                    let Some(answer) = Copied::of_record(*code, reply, data) else {
                        continue;
                    };
                    match Opcode(*opcode) {
                        Opcode::DEVICE_CAPS => card.ports = ports(&answer).or(card.ports),
                        Opcode::PACKAGE_INFO => card.package = package(&answer).or(card.package),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        card.package = card.package.or_else(|| package_in(&card.log));
        card
    }

    /// A function of this machine, by the kernel's log.
    #[must_use]
    pub fn of_log(adapter: Option<&'static str>, log: Vec<&'a str>) -> Self {
        Self {
            adapter,
            package: package_in(&log),
            ports: None,
            log,
        }
    }

    /// The rows that fit the card, whatever its log says. A row of certain versions fits
    /// while the card's are not known.
    pub fn rows(&self) -> impl Iterator<Item = &'static Erratum> + '_ {
        ERRATA.iter().filter(|erratum| {
            let Some(adapter) = self.adapter else {
                return false;
            };
            match erratum.scope {
                Scope::All => true,
                Scope::Named(part) => adapter.contains(part),
                Scope::Package(version) => self
                    .package
                    .is_none_or(|package| package.starts_with(&version)),
                Scope::MorePorts => self.ports.is_none_or(|ports| ports > RDMA_PORTS),
                Scope::Surroundings => false,
            }
        })
    }

    /// The rows whose symptom stands in the log, each with the first such line.
    pub fn symptoms(&self) -> impl Iterator<Item = (&'static Erratum, &'a str)> + '_ {
        ERRATA.iter().filter_map(|erratum| {
            let shows = |line: &&&str| erratum.log.iter().any(|part| line.contains(part));
            let line = self.log.iter().find(shows)?;
            Some((erratum, *line))
        })
    }
}

/// Ports up to which the firmware offers RDMA (field-evidence 4).
const RDMA_PORTS: u32 = 4;

/// Functions that are in use, of the device's capabilities (control-path 9.4).
fn ports(answer: &Copied) -> Option<u32> {
    let capabilities = answer.decode(&ListCaps(Owner::Device))?;
    let functions = capabilities.functions.count_ones();
    (functions > 0).then_some(functions)
}

/// Version of the active package (control-path 9.10).
fn package(answer: &Copied) -> Option<[u8; 4]> {
    let packages = answer.decode(&GetPackageInfo)?;
    let active = packages.iter().find(|package| package.active)?;
    let Version {
        major,
        minor,
        update,
        draft,
    } = active.version;
    Some([major, minor, update, draft])
}

/// The same as Linux' ice writes it into the log, the newest line.
fn package_in(log: &[&str]) -> Option<[u8; 4]> {
    const LOADED: &str = "DDP package was successfully loaded";
    const VERSION: &str = "version ";
    let line = log.iter().rev().find(|line| line.contains(LOADED))?;
    let (_, version) = line.split_once(VERSION)?;
    let mut numbers = [0; 4];
    let parts = version.trim().split('.');
    for (number, part) in numbers.iter_mut().zip(parts) {
        *number = part.parse().ok()?;
    }
    Some(numbers)
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
        let card = Card::of(&document);
        let ids: Vec<&str> = card.rows().map(|erratum| erratum.id).collect();
        assert!(
            ids.contains(&"E01") && !ids.contains(&"E06") && !ids.contains(&"E15"),
            "{ids:?}"
        );
        let seen: Vec<&str> = card.symptoms().map(|(erratum, _)| erratum.id).collect();
        assert_eq!(seen, ["E16"]);
        let text = page(&document);
        assert!(text.contains("E16 HMC Error without RDMA in use"), "{text}");
        assert!(text.contains("errata      "), "{text}");
        assert_eq!(Card::of(&of("")).rows().count(), 0);
    }

    #[test]
    fn rows_of_versions_fit_where_these_are_there_or_unknown() {
        let has = |card: &Card<'_>, id| card.rows().any(|erratum| erratum.id == id);
        let line = |version| {
            format!(
                "[ 1.0] ice 0000:3b:00.0: The DDP package was successfully loaded: ICE OS Default Package version {version}"
            )
        };
        let of_log = |line: &str| {
            let card = Card::of_log(Some("E810-C for QSFP"), vec![line]);
            (has(&card, "E12"), card.package)
        };
        assert_eq!(of_log("nothing"), (true, None));
        assert_eq!(of_log(&line("1.3.41.0")), (true, Some([1, 3, 41, 0])));
        assert_eq!(of_log(&line("1.3.35.0")), (false, Some([1, 3, 35, 0])));
        assert_eq!(of_log(&line("x")), (true, None));
        // The answers of the firmware: 2 functions, an active package 1.3.30.
        let capability = format!("0500{}{}", "0000", "03000000") + &"00".repeat(24);
        let list = format!("01000000{}{}00010000", "01031e00", "00".repeat(32));
        let answer = |opcode: u16, data: &str| {
            let reply = "0000000001000000";
            format!(
                "{{\"kind\":\"adminq\",\"name\":\"\",\"opcode\":{opcode},\"params\":\"\",\"code\":0,\"reply\":\"{reply}\",\"data\":\"{data}\"}}\n"
            )
        };
        let document = of(&format!(
            "{{\"kind\":\"config\",\"bytes\":\"86809215\"}}\n{}{}",
            answer(0x000B, &capability),
            answer(0x0C43, &list)
        ));
        let card = Card::of(&document);
        assert_eq!((card.ports, card.package), (Some(2), Some([1, 3, 30, 0])));
        assert!(!has(&card, "E12") && !has(&card, "E14") && has(&card, "E01"));
        let more = Card {
            ports: Some(8),
            ..card
        };
        assert!(has(&more, "E14"));
    }
}
