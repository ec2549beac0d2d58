//! Of a machine made of files: what is reported of which function.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use e810_backends::host::fake::Tree;
use e810_hal::bus::BAR0_LEN;

use super::*;
use crate::cli::{Cli, Command};

const AT: &str = "/sys/bus/pci/devices";

/// A machine whose functions all have a BAR 0 that can be read.
fn machine() -> Tree {
    let tree = Tree::with_others();
    tree.function("0000:3b:01.0", "0x8086", "0x1889");
    tree.bind("0000:3b:01.0", "vfio-pci");
    for address in tree.host().names(AT) {
        let config = tree.host().path(&format!("{AT}/{address}/config"));
        let mut space = fs::read(&config).unwrap();
        space[4] = 2;
        fs::write(config, space).unwrap();
        let bar = tree.host().path(&format!("{AT}/{address}/resource0"));
        let bar = File::create(bar).unwrap();
        bar.set_len(u64::from(BAR0_LEN)).unwrap();
    }
    tree
}

/// What `e810 report` with these words ends with, and where its file is.
fn report(tree: &Tree, words: &str) -> (Result<()>, PathBuf) {
    let file = tree.host().path("/report");
    let words = format!("e810 report {words} --out {}", file.display());
    let cli = Cli::try_parse_from(words.split(' ')).unwrap();
    let Command::Report(args) = cli.command else {
        panic!("{words}");
    };
    (run_on(tree.host(), &args, &mut Vec::new()), file)
}

#[test]
fn a_card_is_reported_beside_its_driver() {
    let tree = machine();
    let (result, file) = report(&tree, "--passive --device 3b:00.0");
    result.unwrap();
    let document = Document::parse(&fs::read(file).unwrap()).unwrap();
    let registers = document.records.iter();
    let registers = registers.filter(|record| matches!(record, Record::Register { .. }));
    assert!(registers.count() > 100);
}

#[test]
fn nothing_of_another_device_is_read() {
    let tree = machine();
    for words in ["--passive", "--level 0 --force", "--level 1", "--reset pfr"] {
        for (address, id) in [
            ("64:00.0", "8086:2030"),
            ("65:00.0", "8086:0a54"),
            ("66:00.0", "10de:2204"),
            ("67:00.0", "8086:15fc"),
            ("68:00.0", "8086:1572"),
            ("3b:01.0", "8086:1889"),
        ] {
            let (result, file) = report(&tree, &format!("{words} --device {address}"));
            let error = result.unwrap_err().to_string();
            assert!(error.contains(id), "{words} {address}: {error}");
            assert!(!file.exists(), "{words} {address}");
        }
    }
    // With --force only what may be an E810 of an unknown id.
    for address in ["64:00.0", "65:00.0", "66:00.0", "3b:01.0"] {
        let (result, file) = report(&tree, &format!("--force --device {address}"));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("is not a physical function"), "{error}");
        assert!(!file.exists(), "{address}");
    }
}

#[test]
fn an_address_without_a_function_makes_no_file() {
    let tree = machine();
    for words in ["--passive", "--level 0", "--level 1", "--force"] {
        let (result, file) = report(&tree, &format!("{words} --device 3c:00.0"));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("no PCI function at this address"), "{error}");
        assert!(!file.exists());
    }
}

#[test]
fn registers_of_an_unknown_id_are_not_read_beside_its_driver() {
    let tree = machine();
    let (result, file) = report(&tree, "--level 1 --force --device 68:00.0");
    // This machine has no such function that could be opened.
    result.unwrap_err();
    let document = Document::parse(&fs::read(file).unwrap()).unwrap();
    let why = document.records.iter().find_map(|record| match record {
        Record::Absent { what, why } if what == "registers as found" => Some(why),
        _ => None,
    });
    assert!(why.unwrap().contains("8086:1572"), "{why:?}");
    let is_read = |record: &Record| matches!(record, Record::Register { .. });
    assert!(!document.records.iter().any(is_read));
}
