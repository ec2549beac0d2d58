//! `e810 sim` serves until it is told to stop, whatever becomes of what it writes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::ChildStderr;

use serde_json::Value;
use vfio_user::Client;

use super::processes::{ServerProcess, all_verified, until};
use super::served::CONFIG;

/// The lines of standard error so far, as they come.
fn errors(server: &mut ServerProcess) -> BufReader<ChildStderr> {
    BufReader::new(server.e810.0.stderr.take().unwrap())
}

fn next(errors: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_report_that_cannot_be_written_is_logged_and_the_next_one_is_written() {
    let mut server = ServerProcess::start();
    let mut errors = errors(&mut server);
    let [a, b] = &server.paths;
    // Somebody else's file, and then a folder that is gone for a moment.
    fs::remove_file(&server.report).unwrap();
    fs::write(&server.report, "notes").unwrap();
    server.e810.signal(libc::SIGUSR1);
    let line = next(&mut errors);
    assert!(
        line.starts_with("e810: error: ") && line.contains("another file was put there"),
        "{line}"
    );
    assert_eq!(fs::read_to_string(&server.report).unwrap(), "notes");
    fs::remove_file(&server.report).unwrap();
    let folder = server.folder.as_path();
    let moved = folder.with_extension("moved");
    fs::rename(folder, &moved).unwrap();
    server.e810.signal(libc::SIGUSR1);
    let line = next(&mut errors);
    fs::rename(&moved, folder).unwrap();
    assert!(line.contains("report.json: "), "{line}");
    // It serves, and reports. It sees that a user has left a moment after the user has ended.
    all_verified(a, b, "send", 10, 64);
    until("the user to be counted", || {
        (server.report()["functions"][0]["users"] == 1).then_some(())
    });
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn nobody_who_reads_ends_neither_the_server_nor_its_files() {
    let mut server = ServerProcess::start();
    let mut errors = errors(&mut server);
    drop(server.e810.0.stdout.take());
    server.e810.signal(libc::SIGUSR2);
    let line = next(&mut errors);
    assert!(
        line.starts_with("e810: warning: standard output: "),
        "{line}"
    );
    server.e810.signal(libc::SIGUSR2);
    let [a, b] = &server.paths;
    all_verified(a, b, "send", 10, 64);
    // A finding: registers are 32 bits wide.
    let mut user = Client::new(a).unwrap();
    user.region_write(CONFIG, 4, &[6, 0]).unwrap();
    user.region_read(0, 0, &mut [0; 8]).unwrap();
    drop(user);
    until("the finding", || {
        (server.report()["findings_in_all"] == 1).then_some(())
    });
    server.e810.0.stderr = Some(errors.into_inner());
    let (end, report) = server.stop(libc::SIGTERM);
    // Why it failed is not that nobody reads it.
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    assert!(
        end.err.ends_with("the simulator recorded 1 findings\n"),
        "{end:?}"
    );
    assert_eq!(report["findings"][0]["kind"], "register-width");
}

#[test]
fn what_fails_at_the_end_keeps_nothing_from_being_done() {
    let mut server = ServerProcess::start();
    let [a, b] = &server.paths;
    all_verified(a, b, "send", 10, 64);
    drop(server.e810.0.stdout.take());
    let (end, report) = server.stop(libc::SIGTERM);
    assert_eq!((end.status.code(), end.err.as_str()), (Some(141), ""));
    assert_eq!(report["functions"][0]["users"], 1);
    // The other way round: the report cannot be written, and is printed.
    let server = ServerProcess::start();
    fs::remove_file(&server.report).unwrap();
    fs::write(&server.report, "{}").unwrap();
    let (end, report) = server.stop(libc::SIGTERM);
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    assert!(end.err.contains("another file was put there"), "{end:?}");
    assert!(
        end.out.contains("findings                        0"),
        "{end:?}"
    );
    assert_eq!(report, Value::Object(serde_json::Map::new()));
}
