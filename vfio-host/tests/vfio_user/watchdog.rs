//! Says what the tests and their processes wait for when nothing has begun or ended for long, and ends
//! the tests: a socket, a pipe or a thread without a limit would keep them for ever.

use std::fmt::Arguments;
use std::fs;
use std::io::{Write as _, stderr};
use std::process::abort;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::processes::LIMIT;

/// Called where tests begin and end something.
pub(super) fn alive() {
    static LAST: LazyLock<Mutex<Instant>> = LazyLock::new(|| {
        thread::spawn(watch);
        Mutex::new(Instant::now())
    });
    fn last() -> std::sync::MutexGuard<'static, Instant> {
        LAST.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn watch() {
        // A bounded wait of a test is over by then.
        let limit = 2 * LIMIT;
        while last().elapsed() < limit {
            thread::sleep(Duration::from_secs(5));
        }
        say(format_args!(
            "nothing has begun or ended for {limit:?}; what waits, and for what:"
        ));
        show(std::process::id(), "");
        abort();
    }
    *last() = Instant::now();
}

/// Not by a macro, whose output would be kept for the test that began the thread.
fn say(line: Arguments<'_>) {
    // Nothing more can be done.
    let _ = writeln!(stderr(), "{line}");
}

/// The threads of a process, which have the names of their tests, and its children.
fn show(process: u32, indent: &str) {
    let text = |path: String| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let command = text(format!("/proc/{process}/cmdline")).replace('\0', " ");
    say(format_args!("{indent}process {process}: {command}"));
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let of = |name: &str| text(format!("{}/{name}", thread.path().display()));
        say(format_args!(
            "{indent}  waits {} in {} ({})",
            of("comm"),
            of("wchan"),
            of("syscall")
        ));
        children.extend(
            of("children")
                .split_ascii_whitespace()
                .filter_map(|id| id.parse::<u32>().ok()),
        );
    }
    for child in children {
        show(child, &format!("{indent}    "));
    }
}
