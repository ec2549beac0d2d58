//! Limits the number of lines in the log, whatever users do.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most lines in a [`SPAN`].
const LINES: u32 = 8;
const SPAN: Duration = Duration::from_secs(10);

/// How many more lines may be logged: 8 in 10 s.
#[derive(Debug)]
pub struct Quota(Mutex<State>);

#[derive(Debug)]
struct State {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self(Mutex::new(State {
            since: Instant::now(),
            lines: 0,
            left_out: 0,
        }))
    }
}

impl Quota {
    /// Calls `write` for a line, unless there were too many. The first line after a pause also gets
    /// the number of those that were left out.
    pub fn line(&self, write: impl FnOnce(&str)) {
        self.line_at(Instant::now(), write);
    }

    fn line_at(&self, now: Instant, write: impl FnOnce(&str)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.since) >= SPAN {
            state.since = now;
            state.lines = 0;
        }
        if state.lines == LINES {
            state.left_out += 1;
            return;
        }
        state.lines += 1;
        let left_out = std::mem::take(&mut state.left_out);
        drop(state);
        if left_out == 0 {
            write("");
        } else {
            write(&format!(" ({left_out} lines like this were left out)"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_what_was_left_out_is_reported() {
        let quota = Quota::default();
        let start = Instant::now();
        let mut lines = Vec::new();
        for _ in 0..1000 {
            quota.line_at(start, |more| lines.push(more.to_owned()));
        }
        assert_eq!(lines, vec![String::new(); LINES as usize]);
        quota.line_at(start + SPAN, |more| lines.push(more.to_owned()));
        assert_eq!(lines[8], " (992 lines like this were left out)");
        quota.line_at(start + SPAN, |more| lines.push(more.to_owned()));
        assert_eq!(lines[9], "");
    }
}
