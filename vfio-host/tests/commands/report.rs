//! `e810 report` on the simulator.

use std::fs;

use e810_report::{Document, Record, State};

use super::{good, run, temporary_folder};

fn read(path: &std::path::Path) -> Document {
    Document::parse(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_report_has_every_register() {
    let folder = temporary_folder();
    let file = folder.as_path().join("report");
    let page = good(&format!("report --level 1 --out {}", file.display()));
    assert!(page.contains("ended       complete"), "{page}");
    let document = read(&file);
    let state = Record::State {
        state: State::Opened,
    };
    assert!(document.records.contains(&state));
    let registers = document
        .records
        .iter()
        .filter(|record| matches!(record, Record::Register { .. }));
    assert_eq!(
        registers.count(),
        e810_report::registers::readable().count()
    );
    let last = document.records.last();
    assert!(matches!(last, Some(Record::End { complete: true, .. })));
}

#[test]
fn level_0_opens_nothing() {
    let page = good("report --passive");
    assert!(!page.contains("level 1: "), "{page}");
    assert!(page.contains("No file was written"), "{page}");
    assert_eq!(page, good("report --level 0"));
}

#[test]
fn a_file_that_is_there_is_kept() {
    let folder = temporary_folder();
    let file = folder.as_path().join("report");
    fs::write(&file, "my notes").unwrap();
    let words = format!("report --passive --out {}", file.display());
    let error = run(&words).unwrap_err();
    assert!(error.to_string().contains("the file exists"), "{error}");
    // Nor is it taken for a report.
    let error = run(&format!("{words} --skip-after-crash")).unwrap_err();
    assert!(format!("{error:#}").contains("no report"), "{error:#}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "my notes");
}

#[test]
fn the_access_that_killed_the_machine_is_left_out() {
    let folder = temporary_folder();
    let file = folder.as_path().join("report");
    let words = format!("report --level 1 --out {}", file.display());
    let _ = good(&words);
    // What the disk holds when the machine dies while GLNVM_ULD is read.
    let text = fs::read_to_string(&file).unwrap();
    let at = text
        .find("{\"kind\":\"register\",\"name\":\"GLNVM_ULD\"")
        .unwrap();
    let what = "read GLNVM_ULD at 0x0b6008 after the reset at open";
    let next = format!("{{\"kind\":\"next\",\"what\":\"{what}\"}}\n");
    fs::write(&file, format!("{}{next}", &text[..at])).unwrap();

    let page = good(&format!("{words} --skip-after-crash"));
    assert!(page.contains(&format!("left out    {what}")), "{page}");
    let document = read(&file);
    let value = document.records.iter().find_map(|record| match record {
        Record::Register { name, values, .. } if name == "GLNVM_ULD" => Some(values[0].value),
        _ => None,
    });
    assert_eq!(value, Some(None));
    assert!(
        document
            .records
            .iter()
            .any(|record| matches!(record, Record::Skipped { .. }))
    );
}

#[test]
fn level_2_has_the_answers_of_the_firmware() {
    let folder = temporary_folder();
    let file = folder.as_path().join("report");
    let page = good(&format!("report --level 2 --out {}", file.display()));
    for line in [
        "firmware    7.0.7",
        "interface 1.7.15",
        "module      QSFP28",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    let document = read(&file);
    let states: Vec<&Record> = document
        .records
        .iter()
        .filter(|record| matches!(record, Record::State { .. }))
        .collect();
    assert_eq!(states.len(), 2);
    let answered = |wanted: u16| {
        document.records.iter().any(
            |record| matches!(record, Record::AdminQ { opcode, code: 0, .. } if *opcode == wanted),
        )
    };
    for opcode in [
        0x01, 0x0A, 0x0B, 0x200, 0x400, 0x412, 0x418, 0x600, 0x607, 0xC43,
    ] {
        assert!(answered(opcode), "{opcode:#06x}");
    }
    // Who it is, is not told.
    assert!(!answered(0x107));
    let text = fs::read_to_string(&file).unwrap();
    let module = text
        .lines()
        .find(|line| line.contains("\"module\""))
        .unwrap();
    let bytes = module.split('"').nth(7).unwrap();
    assert_eq!(
        (bytes.len(), &bytes[2 * 196..2 * 220]),
        (512, &*"0".repeat(48))
    );
}

#[test]
fn level_3_has_the_limits_of_the_engine() {
    let page = good("report");
    for line in [
        "RDMA        firmware 1.71",
        "RDMA        at most QP 262144 of",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(page.contains("level 3: creates the control QP"), "{page}");
}

#[test]
fn registers_are_read_after_each_reset_that_is_named() {
    let page = good("report --level 1 --reset pfr,corer,globr,empr");
    for line in [
        "after a PF reset",
        "after a core reset",
        "after a global reset",
        "after a firmware reset",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(page.contains(", level 4"), "{page}");
    assert!(run("report --passive --reset pfr").is_err());
    assert!(run("report --passive --force").is_err());
}
