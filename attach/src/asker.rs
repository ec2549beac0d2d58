//! Who asks an owner about its programs or its function, and wants no queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::conversation::Conversation;
use crate::link::{Ended, Link};
use crate::messages::{
    Asked, GidTable, Held, Hello, Malformed, Operation, QueryGids, Refused, Row, Told, decode,
    encode,
};

/// How long an owner may take for its answer to one who asks.
const ANSWER: Duration = Duration::from_secs(10);
/// More programs than any owner has.
const MOST: usize = 1 << 16;

/// The programs of an owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    /// What all programs have.
    pub total: Held,
    /// How many there are.
    pub programs: u64,
    /// The server ends, and takes no new programs.
    pub is_closing: bool,
    /// Those that the asker may see.
    pub rows: Vec<Row>,
}

/// The GID table of the function as it is now. Whoever asks is one of the owner's programs meanwhile,
/// and counts in its limits.
///
/// # Errors
/// The owner takes no program now, does not answer, or is of another version.
pub fn gids(link: Arc<dyn Link>) -> Result<GidTable, Refused> {
    /// 0 wants no answer.
    const OWN: u64 = 1;
    let gone = |Ended| Refused::gone("the server has ended");
    link.send(encode(&Hello::Attach).into()).map_err(gone)?;
    // Of the files that come with it none is needed.
    Conversation::new(link.clone()).welcome(ANSWER)?;
    let asked = Asked {
        number: OWN,
        command: QueryGids {}.command(),
    };
    link.send(encode(&asked).into()).map_err(gone)?;
    let until = Instant::now() + ANSWER;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let message = link.receive(left).map_err(gone)?;
        let message = message.ok_or_else(|| Refused::silent("the server", ANSWER))?;
        match decode(&message.bytes) {
            Ok(Told::Answer(OWN, answer)) => {
                return QueryGids::answer(answer?).map_err(Refused::unexpected);
            }
            // Something has happened to the function.
            Ok(_) => {}
            Err(said) => return Err(Refused::unintelligible("the server", said)),
        }
    }
}

/// Asks for the programs of the owner at the other end.
///
/// # Errors
/// It refuses, does not answer, or is of another version.
pub fn programs(link: &dyn Link) -> Result<Census, Refused> {
    let gone = |Ended| Refused::gone("the server has ended");
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let after = rows.last().map_or(0, |row| row.id);
        let hello = encode(&Hello::Programs { after });
        link.send(hello.into()).map_err(gone)?;
        let message = link.receive(ANSWER).map_err(gone)?;
        let message = message.ok_or_else(|| Refused::silent("the server", ANSWER))?;
        let told: Result<Told, Malformed> = decode(&message.bytes);
        let page = match told {
            Ok(Told::Programs(page)) => page,
            Ok(Told::Refused(refused)) => return Err(refused),
            Ok(_) => return Err(Refused::unexpected("something else")),
            Err(said) => return Err(Refused::unintelligible("the server", said)),
        };
        rows.extend(page.rows.into_iter().filter(|row| row.id > after));
        let has_more = rows.last().is_some_and(|row| row.id > after);
        if !(page.has_more && has_more && rows.len() < MOST) {
            return Ok(Census {
                total: page.total,
                programs: page.programs,
                is_closing: page.is_closing,
                rows,
            });
        }
    }
}
