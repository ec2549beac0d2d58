//! Commands on the simulator of this process.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod json;
mod monitor;
mod packaging;
mod perf;
mod ping;
mod pingpong;
mod report;
mod run;
mod serve;
mod stat;
mod trace;
mod usage;

use clap::Parser;
use e810_host::cli::Cli;
use vmm_sys_util::tempdir::TempDir;

/// What `e810` with these words prints.
fn run(words: &str) -> anyhow::Result<String> {
    let mut out = Vec::new();
    let cli = Cli::try_parse_from(format!("e810 {words}").split_whitespace())?;
    e810_host::run(&cli, &mut out)?;
    Ok(String::from_utf8(out)?)
}

/// The same for a run that does not fail.
fn good(words: &str) -> String {
    run(words).unwrap_or_else(|error| panic!("{words}: {error:#}"))
}

fn temporary_folder() -> TempDir {
    TempDir::new_with_prefix(std::env::temp_dir().join("e810-")).unwrap()
}

/// What `run` returns with a capture, and the Ethernet frames it captured.
fn capture<T>(run: impl FnOnce(&str) -> T) -> (T, Vec<Vec<u8>>) {
    let folder = temporary_folder();
    let file = folder.as_path().join("pcap");
    let report = run(&format!("--pcap {}", file.display()));
    let bytes = std::fs::read(file).unwrap();
    // The file's header, then 16 bytes before each frame; the third word is
    // the length.
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (frame, after) = rest[16..].split_at(length);
        frames.push(frame.to_vec());
        rest = after;
    }
    (report, frames)
}
