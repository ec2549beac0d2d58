//! Who asks an owner about its programs, and is none of them.

use std::time::Duration;

use crate::link::{Ended, Link};
use crate::messages::{Held, Hello, Malformed, Refused, Row, Told, decode, encode};

/// How long an owner may take to answer.
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
