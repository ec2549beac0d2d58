//! `e810 report` of a function that another process serves.

use std::fs;

use e810_report::config_space::ConfigSpace;
use e810_report::{Document, Record};

use super::processes::{E810, Served, ServerProcess, folder, until};

fn report(device: &std::path::Path, file: &std::path::Path) -> E810 {
    E810::start(&[
        "report".to_owned(),
        "--reset=pfr,corer,globr,empr".to_owned(),
        format!("--device=vfio-user:{}", device.display()),
        format!("--out={}", file.display()),
    ])
}

#[test]
fn a_served_function_is_reported_with_its_configuration_space() {
    let served = Served::start();
    let folder = folder();
    let file = folder.as_path().join("report");
    let end = report(&served.paths[0], &file).end();
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

#[test]
fn a_server_that_dies_ends_the_report_in_order() {
    let mut server = ServerProcess::start();
    let folder = folder();
    let file = folder.as_path().join("report");
    let running = report(&server.paths[0], &file);
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
