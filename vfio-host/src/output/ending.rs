//! How a failed command ends: its message and its exit code.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IsTerminal, stderr};
use std::process::ExitCode;

use anyhow::Error;
use serde_json::json;

use crate::output::json::VERSION;
use crate::output::standard::NOBODY_READS;
use crate::output::terminal;
use crate::output::wrap::wrap;
use crate::stop::Interrupted;
use crate::usage::Usage;

/// Exit code of a command that failed.
const FAILED: u8 = 1;
/// Exit code for wrong options; also that of the parser.
const USAGE: u8 = 2;

/// Exit codes of shells for a program that does not exist, and for one that cannot be executed.
pub(crate) const NOT_FOUND: u8 = 127;
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// Why a program cannot be executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotExecute(String, u8);

impl CannotExecute {
    /// An error with this reason and exit code.
    pub(crate) const fn new(why: String, code: u8) -> Self {
        Self(why, code)
    }

    /// From an error of the system.
    pub(crate) fn because(name: &OsStr, error: &io::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        Self(format!("{}: {error}", name.display()), code)
    }

    /// The exit code that shells use.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        self.1
    }
}

/// The results of the last steps of a command, which are all carried out even if one fails.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    first: Option<Error>,
}

impl Steps {
    /// Adds the result of a step. The first error becomes the command's error; others are logged,
    /// except the same error again and a closed output.
    pub(crate) fn note<T>(&mut self, done: Result<T, impl Into<Error>>) {
        match (done.map_err(Into::into), &self.first) {
            (Ok(_), _) => {}
            (Err(error), None) => self.first = Some(error),
            (Err(error), Some(_)) if is_of_a_closed_pipe(&error) => {}
            (Err(error), Some(first)) if format!("{error:#}") == format!("{first:#}") => {}
            (Err(error), Some(_)) => log::warn!("{error:#}"),
        }
    }

    /// The result of all steps.
    ///
    /// # Errors
    /// The error of the first step that failed.
    pub(crate) fn end(self) -> Result<(), Error> {
        self.first.map_or(Ok(()), Err)
    }
}

/// Returns `error`, and logs the error of the shutdown that followed, if any.
pub(crate) fn after_failure(error: Error, closed: Result<(), Error>) -> Error {
    if let Err(end) = closed {
        log::warn!("not shut down cleanly: {end:#}");
    }
    error
}

/// Prints on standard error why a command failed, as a line of text or JSON, and returns the exit
/// code. If the user ended it, nothing is printed.
pub fn tell(error: &Error, nobody_reads: bool, in_json: bool) -> ExitCode {
    let code = code(error, nobody_reads);
    if code < 128 {
        let line = line(error, code, in_json);
        match terminal::size().filter(|_| !in_json && stderr().is_terminal()) {
            Some(size) => terminal::say(&wrap(&line, size.columns)),
            None => terminal::say(&line),
        }
    }
    ExitCode::from(code)
}

/// Whether the reader of the output is gone.
fn is_of_a_closed_pipe(error: &Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let of_json = cause
            .downcast_ref()
            .and_then(serde_json::Error::io_error_kind);
        of_json.or_else(|| cause.downcast_ref().map(io::Error::kind))
    };
    let is_closed = |kind| kind == ErrorKind::BrokenPipe;
    error.chain().filter_map(kind).any(is_closed)
}

fn code(error: &Error, nobody_reads: bool) -> u8 {
    // An earlier failure is still reported.
    if nobody_reads && is_of_a_closed_pipe(error) {
        return NOBODY_READS;
    }
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        return interrupted.exit_code();
    }
    if let Some(program) = error.downcast_ref::<CannotExecute>() {
        return program.exit_code();
    }
    match error.is::<Usage>() {
        true => USAGE,
        false => FAILED,
    }
}

fn line(error: &Error, code: u8, in_json: bool) -> String {
    match in_json {
        true => in_one_object(&format!("{error:#}"), code),
        false => format!("e810: {error:#}"),
    }
}

/// A failure as JSON.
pub(crate) fn in_one_object(error: &str, code: u8) -> String {
    json!({"version": VERSION, "report": "error", "error": error, "exit_code": code}).to_string()
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, Result, anyhow};

    use super::*;

    #[test]
    fn causes_have_codes_also_below_what_was_tried() {
        let tried = |error: Error| Result::<()>::Err(error).context("tried").unwrap_err();
        let usage = || Usage("--x: no".to_owned());
        for (error, expected) in [
            (anyhow!("it failed"), FAILED),
            (usage().into(), USAGE),
            (tried(usage().into()), USAGE),
            (Interrupted(libc::SIGINT).into(), 130),
            (tried(tried(Interrupted(libc::SIGTERM).into())), 143),
        ] {
            assert_eq!(code(&error, false), expected, "{error:#}");
            assert_eq!(code(&error, true), expected, "{error:#}");
        }
        let closed = || io::Error::from(ErrorKind::BrokenPipe);
        for error in [
            closed().into(),
            serde_json::Error::io(closed()).into(),
            tried(closed().into()),
        ] {
            assert_eq!(
                (code(&error, false), code(&error, true)),
                (FAILED, NOBODY_READS)
            );
        }
    }

    #[test]
    fn all_steps_are_done_and_the_first_error_is_kept() {
        let mut steps = Steps::default();
        steps.note(Ok::<_, Error>(7));
        assert!(Steps::default().end().is_ok());
        steps.note(Err::<(), _>(anyhow!("first")));
        steps.note(Ok::<_, Error>(()));
        steps.note(Err::<(), _>(anyhow!("second")));
        assert_eq!(steps.end().unwrap_err().to_string(), "first");
    }

    #[test]
    fn a_failure_is_one_line_of_text_or_of_json() {
        let error = anyhow!("a \"name\"").context("reading");
        assert_eq!(line(&error, 1, false), "e810: reading: a \"name\"");
        let parsed: serde_json::Value = serde_json::from_str(&line(&error, 1, true)).unwrap();
        assert_eq!(
            parsed,
            json!({"version": 1, "report": "error", "error": "reading: a \"name\"", "exit_code": 1})
        );
    }
}
