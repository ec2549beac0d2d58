//! The terminal that output goes to, if any: its size and colours.
//!
//! Only the `e810` process uses it ([`use_stdout`]). A program that calls the commands as a library
//! gets plain text of any width.

use std::env;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// The minimum width of a terminal.
const NARROWEST: u16 = 40;

/// The size of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Characters of a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Terminal {
    size: Option<Size>,
    has_colours: bool,
}

static USED: OnceLock<Terminal> = OnceLock::new();

/// From here on, text is made for the terminal of standard output.
pub fn use_stdout() {
    let is_terminal = stdout().is_terminal();
    let terminal = Terminal {
        size: is_terminal.then(ask).flatten(),
        has_colours: is_terminal && wants_colours(|name| env::var(name).ok()),
    };
    // An earlier call has set the same.
    let _ = USED.set(terminal);
}

/// The size of the terminal; `None` if output does not go to one.
#[must_use]
pub fn size() -> Option<Size> {
    USED.get()?.size
}

/// Its current size, which may have changed.
#[must_use]
pub fn size_now() -> Option<Size> {
    size().and_then(|before| ask().or(Some(before)))
}

/// Prints a line on standard error. If that fails, there is nowhere to report it.
pub(crate) fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Respects `NO_COLOR` (no-color.org) and terminals without colours.
fn wants_colours(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_refused && variable("TERM").is_none_or(|name| name != "dumb")
}

#[expect(
    unsafe_code,
    reason = "the size of a terminal is only available by an ioctl; the command's one unsafe line"
)]
fn ask() -> Option<Size> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one `winsize`, which lives during the call, and nothing else.
    let code = unsafe { libc::ioctl(stdout().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    // A terminal that does not know its size reports 0.
    if code != 0 || size.ws_col == 0 || size.ws_row == 0 {
        return None;
    }
    Some(Size {
        columns: size.ws_col.max(NARROWEST).into(),
        rows: size.ws_row.into(),
    })
}

/// How a word stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Good: green.
    Good,
    /// Needs attention: yellow.
    Odd,
    /// Needs a fix: red.
    Bad,
    /// A heading: bold.
    Head,
}

impl Paint {
    /// `text` in this colour, if there are colours.
    #[must_use]
    pub fn on(self, text: &str) -> String {
        match USED.get().is_some_and(|terminal| terminal.has_colours) {
            true => format!("{}{text}\x1b[0m", self.code()),
            false => text.to_owned(),
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Odd => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Head => "\x1b[1m",
        }
    }
}

/// Whether text for standard output has colours.
#[must_use]
pub fn has_colours() -> bool {
    USED.get().is_some_and(|terminal| terminal.has_colours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_can_be_refused() {
        let with = |pairs: &'static [(&str, &str)]| {
            wants_colours(|name| {
                let mut pairs = pairs.iter();
                pairs
                    .find(|(is, _)| *is == name)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(with(&[("TERM", "xterm")]) && with(&[]));
        assert!(with(&[("NO_COLOR", "")]));
        assert!(!with(&[("NO_COLOR", "1"), ("TERM", "xterm")]));
        assert!(!with(&[("TERM", "dumb")]));
    }

    #[test]
    fn nobody_who_did_not_ask_gets_colours() {
        assert_eq!(Paint::Bad.on("error"), "error");
        assert_eq!(size(), None);
    }
}
