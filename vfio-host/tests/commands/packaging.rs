//! The files for packagers, as systemd reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::temporary_folder;

/// systemd complains of programs and groups that are not installed.
const NOT_INSTALLED: &str = "/usr/bin/e810";

#[test]
fn systemd_understands_the_units() {
    let folder = temporary_folder();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd");
    let mut named = Vec::new();
    for name in ["e810.service", "e810.socket"] {
        let text = fs::read_to_string(units.join(name)).unwrap();
        let text = text.replace(NOT_INSTALLED, env!("CARGO_BIN_EXE_e810"));
        let path = folder.as_path().join(name);
        fs::write(&path, text).unwrap();
        named.push(path);
    }
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(&named);
    let output = match verify.output() {
        Ok(output) => output,
        Err(error) => return println!("NOT RUN: systemd-analyze: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// The options in the unit are options of the command.
#[test]
fn the_unit_starts_what_the_command_understands() {
    use clap::Parser as _;
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd");
    let text = fs::read_to_string(units.join("e810.service")).unwrap();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}"))
    };
    let device = value("Environment=E810_SERVE=");
    // Without braces, so that several functions are several words.
    let command = value("ExecStart=/usr/bin/");
    for functions in [device, "vfio:3b:00.0@10.8.1.1 vfio:3b:00.1@10.8.2.1"] {
        let words = command.replace(" $E810_SERVE", &format!(" {functions}"));
        assert_ne!(words, command);
        e810_host::cli::Cli::try_parse_from(words.split_whitespace()).unwrap();
    }
    // The socket is where programs look.
    let socket = fs::read_to_string(units.join("e810.socket")).unwrap();
    let line = format!("ListenSequentialPacket={}", e810_attach::places::SYSTEM);
    assert!(socket.lines().any(|one| one == line), "{socket}");
}
