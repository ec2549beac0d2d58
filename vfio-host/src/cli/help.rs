//! What the command line's parser says, in lines that fit.

use std::process::ExitCode;

use clap::error::Error;

use crate::output::terminal;
use crate::output::wrap::wrap;

/// Characters of a line of help, at most.
pub const WIDEST: usize = 100;

/// Prints help, the version, or why the command line was not understood; gives the
/// exit code.
#[must_use]
pub fn tell(said: &Error) -> ExitCode {
    let columns = terminal::size().map_or(WIDEST, |size| size.columns.min(WIDEST));
    let text = said.render();
    let is_error = said.use_stderr();
    let text = match terminal::has_colours() && !is_error {
        true => wrap(&text.ansi().to_string(), columns),
        false => wrap(&text.to_string(), columns),
    };
    match is_error {
        true => eprint!("{text}"),
        false => {
            use std::io::Write;
            // Who does not read help to its end has read enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
    }
    ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;
    use crate::output::wrap::length;

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
