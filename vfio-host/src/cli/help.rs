//! Prints what the command line parser says, wrapped to the terminal.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::Error;

use crate::output::ending::{self, in_one_object};
use crate::output::standard::Standard;
use crate::output::terminal;
use crate::output::wrap::wrap;

/// Maximum width of a line of help.
pub const WIDEST: usize = 100;

/// Prints help, the version, or why the command line was not understood (as JSON if it has
/// `--json`), and returns the exit code.
#[must_use]
pub fn tell(said: &Error, line: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = u8::try_from(said.exit_code()).unwrap_or(2);
    if said.use_stderr() && wants_json(line) {
        terminal::say(&in_one_object(&reason(&said.render().to_string()), code));
        return ExitCode::from(code);
    }
    let columns = terminal::size().map_or(WIDEST, |size| size.columns.min(WIDEST));
    let text = said.render();
    let is_error = said.use_stderr();
    let text = match terminal::has_colours() && !is_error {
        true => wrap(&text.ansi().to_string(), columns),
        false => wrap(&text.to_string(), columns),
    };
    match is_error {
        true => terminal::say(text.trim_end_matches('\n')),
        false => {
            let mut out = Standard::lock_unwrapped();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            if let Err(error) = written {
                return ending::tell(&error.into(), out.is_closed(), false);
            }
        }
    }
    ExitCode::from(code)
}

/// Whether a command line that was not understood has `--json` as an option of the command, not of
/// a program that `e810 run` starts.
fn wants_json(line: impl IntoIterator<Item = OsString>) -> bool {
    let mut words = line.into_iter().skip(1).take_while(|word| word != "--");
    words
        .next()
        .is_some_and(|command| command != "run" && words.any(|word| word == "--json"))
}

/// The reason alone, in one line, without its label, the usage and the hint to `--help`.
fn reason(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let words: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let reason = words.join(" ");
    reason.strip_prefix("error: ").unwrap_or(&reason).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser as _};

    use super::*;
    use crate::cli::Cli;
    use crate::output::wrap::length;

    #[test]
    fn a_command_line_with_json_gets_its_reason_as_json() {
        let of = |text: &str| wants_json(text.split(' ').map(OsString::from));
        assert!(of("e810 pingpong --json --size 0"));
        assert!(of("e810 list --josn --json"));
        for text in [
            "e810",
            "e810 --json",
            "e810 pingpong -s 0",
            "e810 run -- p --json",
            "e810 run p --json",
        ] {
            assert!(!of(text), "{text}");
        }
        let said = |line: &str| {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            reason(&error.render().to_string())
        };
        assert_eq!(
            said("e810 pingpong --size 0"),
            "invalid value '0' for '--size <BYTES>': `0` is not a size from 1 to 64M bytes: give it like 64, 64K or 1M (K = 1024)"
        );
        let unknown = said("e810 pingpong --sizes 1");
        assert!(
            unknown.starts_with("unexpected argument '--sizes' found"),
            "{unknown}"
        );
        assert!(
            unknown.contains("tip: ") && !unknown.contains("Usage"),
            "{unknown}"
        );
    }

    #[test]
    fn no_line_of_help_is_too_long() {
        let commands = Cli::command();
        let mut commands: Vec<_> = commands.get_subcommands().cloned().collect();
        commands.push(Cli::command());
        for mut command in commands {
            for text in [command.render_help(), command.render_long_help()] {
                for width in [60, 80, WIDEST] {
                    let text = wrap(&text.to_string(), width);
                    let is_long = |line: &&str| length(line) > width;
                    let long = text.lines().find(is_long);
                    assert_eq!(long, None, "{}", command.get_name());
                }
            }
        }
    }
}
