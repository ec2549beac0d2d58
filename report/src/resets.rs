//! Level 4: registers after each kind of reset.

use e810_adminq::reset::{
    GlobalReset, check_recovery, reset_card, reset_function, wait_for_card, wait_for_firmware,
};
use e810_hal::regs::GLGEN_RTRIG;
use e810_hal::{Ns, Platform};

use crate::journal::{Journal, JournalError, Medium};
use crate::record::State;
use crate::registers::sweep;

/// What level 4 does, said before it begins.
pub const DOES: &str = "resets the function or the whole card, all of its functions, as --reset \
    says, and reads the registers after each reset";

/// A reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Of the function (PFGEN_CTRL).
    Pfr,
    /// Of the card's core (GLGEN_RTRIG bit 0).
    Corer,
    /// Of the card with its ports (GLGEN_RTRIG bit 1).
    Globr,
    /// Of the card's firmware, too (GLGEN_RTRIG bit 2).
    Empr,
}

impl Kind {
    /// Whether other functions of the card are reset with this one.
    #[must_use]
    pub const fn is_of_the_card(self) -> bool {
        !matches!(self, Self::Pfr)
    }

    /// The state that it leads to.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Pfr => State::Pfr,
            Self::Corer => State::Corer,
            Self::Globr => State::Globr,
            Self::Empr => State::Empr,
        }
    }
}

/// Why level 4 ends early.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// The report, or a function that is gone.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The reset did not end.
    #[error("{what}: {source}")]
    Reset {
        what: &'static str,
        /// What was wrong.
        source: e810_adminq::Error,
    },
}

/// Time after the request in which the state need not show the reset yet
/// (control-path 10, as for a core reset).
const PAUSE: Ns = Ns::from_ms(100);

/// Resets a function that was opened, and reads its registers after each reset. That
/// nobody uses the card's other functions is for the caller to see to.
pub fn reset_all<M: Medium, P: Platform>(
    journal: &mut Journal<M>,
    platform: &P,
    kinds: &[Kind],
) -> Result<(), ResetError> {
    for kind in kinds {
        let what = kind.state().name();
        let Some(done) = journal.access(what, || reset(platform, *kind))? else {
            continue;
        };
        done.map_err(|source| ResetError::Reset { what, source })?;
        sweep(journal, kind.state(), &|off| platform.read32(off))?;
    }
    Ok(())
}

fn reset<P: Platform>(platform: &P, kind: Kind) -> e810_adminq::Result<()> {
    check_recovery(platform)?;
    match kind {
        Kind::Pfr => return reset_function(platform, false).map(drop),
        Kind::Corer => reset_card(platform, GlobalReset::Core, false)?,
        Kind::Globr => reset_card(platform, GlobalReset::Global, false)?,
        Kind::Empr => {
            GLGEN_RTRIG.write(platform, GLGEN_RTRIG::EMPFWR::SET);
            platform.delay(PAUSE);
            wait_for_card(platform, false)?;
        }
    }
    wait_for_firmware(platform)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Cursor;

    use e810_sim::Sim;

    use super::*;
    use crate::document::Document;
    use crate::record::{Header, Record};

    #[test]
    fn registers_are_read_after_each_reset() {
        let sim = Sim::builder().cold().functions(2).build();
        let header = Record::Report(Header {
            version: 1,
            program: "test".to_owned(),
            device: "sim".to_owned(),
            transport: "simulated".to_owned(),
            level: 4,
            identities: false,
        });
        let medium = Cursor::new(Vec::new());
        let mut journal = Journal::new(medium, BTreeSet::new(), header).unwrap();
        let kinds = [Kind::Pfr, Kind::Corer, Kind::Globr, Kind::Empr];
        reset_all(&mut journal, &sim.function(0), &kinds).unwrap();
        let medium = journal.finish(None).unwrap();
        let document = Document::parse(medium.get_ref()).unwrap();
        let states: Vec<State> = document
            .records
            .iter()
            .filter_map(|record| match record {
                Record::State { state } => Some(*state),
                _ => None,
            })
            .collect();
        assert_eq!(states, kinds.map(Kind::state));
        let counts = sim.reset_counts(0);
        assert_eq!(
            (counts.pfr, counts.corer, counts.globr, counts.empr),
            (1, 1, 1, 1)
        );
        assert_eq!(sim.findings(), []);
    }
}
