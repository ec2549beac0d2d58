//! The other control plane: whatever works in the process works over a socket.

use std::env;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e810_verbs::control::over_socket::CONTROL;
use e810_verbs::device::{DEVICES, LOCKS};

/// What ends a run that hangs.
const LIMIT: Duration = Duration::from_secs(3600);

#[test]
fn all_tests_pass_over_a_socket() {
    if env::var_os(CONTROL).is_some() {
        return;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    // With devices of its own.
    for variable in [DEVICES, LOCKS] {
        command.env_remove(variable);
    }
    command.env(CONTROL, "socket").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let printed = thread::spawn(move || {
        let mut printed = String::new();
        output.read_to_string(&mut printed).map(|_| printed)
    });
    let limit = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > limit {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(20));
    };
    let printed = printed.join().unwrap().unwrap();
    assert!(status.success(), "{status}:\n{printed}");
}
