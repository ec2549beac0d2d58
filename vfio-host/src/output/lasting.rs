//! Standard output of a command that stays: others use what it serves, so it goes on when
//! nobody reads what it says of that.

use std::io::Write;

use anyhow::Result;

/// Where such a command writes what happens.
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

    /// Writes what is to be seen now. The first of several failures is logged.
    pub(crate) fn say(&mut self, write: impl FnOnce(&mut dyn Write) -> Result<()>) {
        let said = write(self.out).and_then(|()| Ok(self.out.flush()?));
        let had_failed = std::mem::replace(&mut self.has_failed, said.is_err());
        if let (Err(error), false) = (said, had_failed) {
            log::warn!("{error:#}; the command continues without it");
        }
    }

    /// For what has to be written, at the beginning or at the end.
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
