//! The cables of served functions, taken out and put back by a signal.

use std::io::{BufRead, BufReader};

use super::apart::on;
use super::processes::ServerProcess;

#[test]
fn a_signal_takes_the_cables_out_and_puts_them_back() {
    let mut server = ServerProcess::start();
    let mut lines = BufReader::new(server.e810.0.stdout.take().unwrap());
    for state in ["down", "up", "down", "up"] {
        server.e810.signal(libc::SIGUSR2);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, format!("links {state}\n"));
    }
    server.e810.0.stdout = Some(lines.into_inner());
    // The functions are as they were.
    for path in &server.paths {
        assert_eq!(on("stat", path, "").end().json()["state"], "active");
    }
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}
