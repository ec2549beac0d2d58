//! Standard output of a command that serves others: it continues when nobody reads its output.

use std::io::Write;

use anyhow::Result;

/// Standard output of such a command.
pub(crate) struct Lasting<'a> {
    out: &'a mut dyn Write,
    /// The last line could not be written.
    has_failed: bool,
}

impl<'a> Lasting<'a> {
    /// Writes to `out`.
    pub(crate) const fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            has_failed: false,
        }
    }

    /// Writes and flushes a line. Of consecutive failures, only the first is logged.
    pub(crate) fn say(&mut self, write: impl FnOnce(&mut dyn Write) -> Result<()>) {
        let said = write(self.out).and_then(|()| Ok(self.out.flush()?));
        let had_failed = std::mem::replace(&mut self.has_failed, said.is_err());
        if let (Err(error), false) = (said, had_failed) {
            log::warn!("{error:#}; the command continues without it");
        }
    }

    /// For what must be written, at the beginning or the end.
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_now_may_be_later() {
        let mut small = [0; 3];
        let mut out = &mut small[..];
        let mut lasting = Lasting::new(&mut out);
        for word in ["longer than that", "x", ""] {
            lasting.say(|out| Ok(out.write_all(word.as_bytes())?));
            assert_eq!(lasting.has_failed, !word.is_empty(), "{word}");
        }
        assert_eq!(&small, b"lon");
    }
}
