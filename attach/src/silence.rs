//! An owner that is there and answers nothing, such as one that is stopped.

use std::time::Duration;

/// How long an owner may say nothing while a command waits for its answer. Each command of a device
/// has a limit of its own, which is far shorter.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the owner has said nothing. Counted in turns of the thread that listens, so that time
/// in which this process or the machine was stopped does not count.
#[derive(Debug, Default)]
pub(crate) struct Silence(Duration);

impl Silence {
    /// The thread has listened for `turn`. Whether that is too long, once too much of it came
    /// together.
    pub(crate) fn is_too_long(&mut self, heard: bool, is_asked: bool, turn: Duration) -> bool {
        match heard || !is_asked {
            true => self.0 = Duration::ZERO,
            false => self.0 += turn,
        }
        self.0 >= LIMIT
    }

    /// What is said then.
    pub(crate) fn what() -> String {
        format!(
            "the server of the function has answered no command for {} s (is it stopped?): the function counts as gone",
            LIMIT.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_secs(20);

    #[test]
    fn only_silence_while_a_command_waits_counts() {
        let mut silence = Silence::default();
        let mut too_long = |turns: [(bool, bool); 4]| {
            turns.map(|(heard, is_asked)| silence.is_too_long(heard, is_asked, TURN))
        };
        let (asked, quiet, heard) = ((false, true), (false, false), (true, true));
        assert_eq!(too_long([quiet; 4]), [false; 4]);
        assert_eq!(too_long([asked, asked, heard, asked]), [false; 4]);
        assert_eq!(too_long([asked, quiet, asked, asked]), [false; 4]);
        assert_eq!(
            too_long([asked, quiet, asked, asked]),
            [true, false, false, false]
        );
        assert_eq!(
            too_long([asked, heard, asked, asked]),
            [true, false, false, false]
        );
    }
}
