//! `e810 report` of a function that another process serves.

use std::fs;
use std::path::Path;

use e810_card::config_space::ConfigSpace;
use e810_card::{Document, Record, differences};
use e810_sim::{Profile, RecordedCard, Sim};

use super::processes::{E810, Served, ServerProcess, folder, until};

/// Every reset that a card has.
const ALL_RESETS: &str = "pfr,corer,globr,empr";

fn report(device: &Path, file: &Path, resets: &str) -> E810 {
    E810::start(&[
        "report".to_owned(),
        format!("--reset={resets}"),
        format!("--device=vfio-user:{}", device.display()),
        format!("--out={}", file.display()),
    ])
}

#[test]
fn a_served_function_is_reported_with_its_configuration_space() {
    let served = Served::start();
    let folder = folder();
    let file = folder.as_path().join("report");
    let end = report(&served.paths[0], &file, ALL_RESETS).end();
    assert!(end.status.success(), "{end:?}");
    let document = Document::parse(&fs::read(&file).unwrap()).unwrap();
    let config = document.records.iter().find_map(|record| match record {
        Record::Config { bytes } => Some(ConfigSpace::from_hex(bytes).unwrap()),
        _ => None,
    });
    let config = config.unwrap();
    assert_eq!(config.u32(0), Some(0x1592_8086));
    assert_eq!(config.has_flr(), Some(true));
    // The serial number is taken out.
    let serial = config.find(3, true).unwrap().at;
    assert_eq!(
        (config.u32(serial + 4), config.u32(serial + 8)),
        (Some(0), Some(0))
    );
    let answers = document.records.iter();
    let answers = answers.filter(|record| matches!(record, Record::AdminQ { code: 0, .. }));
    assert!(answers.count() > 10);
    // A card would have stood all of it.
    let _ = served.left(0, 1);
    assert_eq!(served.sim.findings(), []);
}

/// The report of the first function that `served` serves.
fn document(served: &Served, resets: &str) -> Document {
    let folder = folder();
    let file = folder.as_path().join("report");
    let end = report(&served.paths[0], &file, resets).end();
    assert!(end.status.success(), "{end:?}");
    Document::parse(&fs::read(&file).unwrap()).unwrap()
}

/// One reset: all of them are in `report/tests/cards.rs`, with the functions in this process.
#[test]
fn a_card_of_a_report_has_the_same_report() {
    let original = Sim::builder().cold().vectors(20).profile(Profile::e810c());
    let original = document(&Served::start_with(original), "corer");
    let card = RecordedCard::from_document(&original).unwrap();
    let served = Served::start_with(Sim::builder().card(&card));
    let again = document(&served, "corer");
    assert_eq!(differences(&original, &again), [""; 0]);
    assert_eq!(served.sim.findings(), []);
}

/// The file of a report, its card of another revision.
fn original_with(original: &Document, revision: u8) -> String {
    let lines = original.records.iter().cloned().map(|mut record| {
        if let Record::Config { bytes } = &mut record {
            let mut space = ConfigSpace::from_hex(bytes).unwrap();
            space.0[8] = revision;
            *bytes = space.to_hex();
        }
        serde_json::to_string(&record).unwrap() + "\n"
    });
    lines.collect()
}

/// A report as a file, with a card of another revision, is served by the command; what is no
/// report is refused.
#[test]
fn the_command_serves_the_card_of_a_file() {
    let original = document(&Served::start(), "pfr");
    let folder = folder();
    let (file, socket) = (folder.as_path().join("card"), folder.as_path().join("s"));
    fs::write(&file, original_with(&original, 7)).unwrap();
    let start = |file: &Path| {
        let (socket, file) = (socket.display(), file.display());
        E810::start(&[
            "sim".to_owned(),
            format!("--socket={socket}"),
            format!("--card={file}"),
        ])
    };
    let mut server = start(&file);
    until("the socket", || socket.exists().then_some(()));
    let compared = |with: &Path| {
        E810::start(&[
            "report".to_owned(),
            "--level=3".to_owned(),
            "--reset=pfr".to_owned(),
            format!("--device=vfio-user:{}", socket.display()),
            format!("--compare={}", with.display()),
        ])
        .end()
    };
    let end = compared(&file);
    assert!(end.status.success(), "{end:?}");
    let same = "compared    this card says what the earlier one says";
    assert!(end.out.contains(same), "{}", end.out);
    // Another card differs, and what is no report is refused before anything is done.
    let other = original_with(&original, 8);
    fs::write(&file, other).unwrap();
    let end = compared(&file);
    let one = "compared    1 difference, the earlier card first:\n  configuration space: ";
    assert!(end.out.contains(one), "{}", end.out);
    fs::write(&file, "{}\n").unwrap();
    let end = compared(&file);
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    assert!(!end.out.contains("level 0"), "{}", end.out);
    server.0.kill().unwrap();
    let _ = server.end();

    fs::write(&file, "{}\n").unwrap();
    let end = start(&file).end();
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    assert!(
        end.err.contains("this is no report of `e810 report`"),
        "{}",
        end.err
    );
}

#[test]
fn a_server_that_dies_ends_the_report_in_order() {
    let mut server = ServerProcess::start();
    let folder = folder();
    let file = folder.as_path().join("report");
    let running = report(&server.paths[0], &file, ALL_RESETS);
    until("the first registers", || {
        let text = fs::read_to_string(&file).ok()?;
        text.contains("\"register\"").then_some(())
    });
    server.e810.0.kill().unwrap();
    let end = running.end();
    let text = fs::read_to_string(&file).unwrap();
    let document = Document::parse(text.as_bytes()).unwrap();
    // It may have been done before.
    if end.status.success() {
        return;
    }
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    let last = document.records.last();
    assert!(
        matches!(
            last,
            Some(Record::End {
                complete: false,
                why: Some(_)
            })
        ),
        "{last:?}"
    );
    assert!(end.out.contains("ended       early: "), "{}", end.out);
}
