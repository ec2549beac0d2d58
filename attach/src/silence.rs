//! An owner that is there and answers nothing, such as one that is stopped.

use std::time::Duration;

use e810_backends::spec::MOST_WAIT;

/// How long an owner may say nothing while a command waits for its answer. Each command of a device
/// has a limit of its own, which is far shorter.
const COMMANDS: Duration = Duration::from_secs(60);
/// The same while there are only questions for addresses of peers, which an owner may ask for as
/// long as `wait=SECONDS` says.
const QUESTIONS: Duration = Duration::from_secs(MOST_WAIT as u64 + 60);

/// What waits for answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) commands: bool,
    pub(crate) questions: bool,
}

/// How long the owner has said nothing. Counted in turns of the thread that listens, so that time
/// in which this process or the machine was stopped does not count.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    to_commands: Duration,
    to_questions: Duration,
}

impl Silence {
    /// The thread has listened for `turn`; how long the owner has been silent, if that is too long.
    pub(crate) fn too_long(
        &mut self,
        heard: bool,
        waits: Waits,
        turn: Duration,
    ) -> Option<Duration> {
        let counts = [
            (&mut self.to_commands, waits.commands, COMMANDS),
            (&mut self.to_questions, waits.questions, QUESTIONS),
        ];
        let mut too_long = None;
        for (silent, is_asked, limit) in counts {
            *silent = match heard || !is_asked {
                true => Duration::ZERO,
                false => *silent + turn,
            };
            if *silent >= limit {
                too_long = Some(*silent);
            }
        }
        too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_secs(20);
    const COMMAND: Waits = Waits {
        commands: true,
        questions: false,
    };
    const QUESTION: Waits = Waits {
        commands: false,
        questions: true,
    };
    const NOTHING: Waits = Waits {
        commands: false,
        questions: false,
    };

    #[test]
    fn only_silence_while_a_command_waits_counts() {
        let mut silence = Silence::default();
        let mut too_long = |turns: [(bool, Waits); 4]| {
            turns.map(|(heard, waits)| silence.too_long(heard, waits, TURN).is_some())
        };
        let (asked, quiet, heard) = ((false, COMMAND), (false, NOTHING), (true, COMMAND));
        let question = (false, QUESTION);
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
        assert_eq!(too_long([question, question, asked, asked]), [false; 4]);
    }

    #[test]
    fn a_peer_that_does_not_answer_is_no_owner_that_does_not() {
        let mut silence = Silence::default();
        let longest = u64::from(MOST_WAIT) / TURN.as_secs();
        for _ in 0..longest {
            assert_eq!(silence.too_long(false, QUESTION, TURN), None);
        }
        let more = [(); 3].map(|()| silence.too_long(false, QUESTION, TURN));
        assert_eq!(more, [None, None, Some(QUESTIONS)]);
    }
}
