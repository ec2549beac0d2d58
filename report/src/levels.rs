//! Levels 1 to 4 of a function that was opened, one after the other.

use std::collections::BTreeSet;
use std::io::Cursor;

use e810_hal::Platform;

use crate::document::Document;
use crate::engine::{self, EngineError};
use crate::journal::{Journal, JournalError, Medium};
use crate::passive::Identities;
use crate::queries::{self, QueryError};
use crate::record::{Header, Record, State, VERSION};
use crate::registers::sweep;
use crate::resets::{self, Kind, ResetError};
use e810_card::ReadError;

/// What level 1 does, said before it begins.
pub const OPENS: &str = "opens the function, which resets it (FLR), and reads its registers; \
    nothing is written to them";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Levels {
    /// The highest level, 1 to 3.
    pub highest: u8,
    /// Resets of level 4, in order.
    pub resets: Vec<Kind>,
    /// Addresses and serial numbers.
    pub identities: Identities,
}

/// Why the levels end early.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// The report, or a function that is gone.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Level 2.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Level 3.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Level 4.
    #[error(transparent)]
    Reset(#[from] ResetError),
    /// What was written cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Writes down all that `levels` asks for of a function that was opened; the line of level 1
/// is there already. `begins` is called before each further level begins.
pub fn go<M: Medium, P: Platform>(
    journal: &mut Journal<M>,
    platform: &P,
    levels: &Levels,
    begins: &mut dyn FnMut(u8, &str),
) -> Result<(), LevelError> {
    let mut begin = |journal: &mut Journal<M>, level: u8, does: &str| {
        begins(level, does);
        let does = does.to_owned();
        journal.put(&Record::Level { level, does })
    };
    sweep(journal, State::Opened, &|off| platform.read32(off))?;
    if levels.highest >= 2 {
        begin(journal, 2, queries::DOES)?;
        queries::ask_all(journal, platform, levels.identities)?;
    }
    if levels.highest >= 3 {
        begin(journal, 3, engine::DOES)?;
        engine::ask_all(journal, platform)?;
    }
    if !levels.resets.is_empty() {
        begin(journal, 4, resets::DOES)?;
        resets::reset_all(journal, platform, &levels.resets)?;
    }
    Ok(())
}

/// The report of a function that was opened, in memory: for programs that are a driver
/// themselves, and for tests. `device` is what the report calls the function.
pub fn document<P: Platform>(
    platform: &P,
    device: &str,
    levels: &Levels,
) -> Result<Document, LevelError> {
    let header = Record::Report(Header {
        version: VERSION,
        program: concat!("e810-report ", env!("CARGO_PKG_VERSION")).to_owned(),
        device: device.to_owned(),
        transport: "program".to_owned(),
        level: levels.highest,
        identities: levels.identities == Identities::Kept,
    });
    let mut journal = Journal::new(Cursor::new(Vec::new()), BTreeSet::new(), header)?;
    let done = go(&mut journal, platform, levels, &mut |_, _| {});
    let why = done.as_ref().err().map(ToString::to_string);
    let medium = journal.finish(why)?;
    done?;
    Ok(Document::parse(medium.get_ref())?)
}
