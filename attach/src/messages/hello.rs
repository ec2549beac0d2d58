//! What is said before a program is a program: who has connected, and why it is not let in.

use serde::{Deserialize, Serialize};

/// What somebody who connects to an owner's socket says first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Hello {
    /// A program comes. It is welcomed ([`Told::Welcome`](super::Told::Welcome)), or refused.
    Attach,
    /// Somebody asks about the programs with numbers above `after`, and becomes none. The answer is
    /// [`Told::Programs`](super::Told::Programs); more questions may follow.
    Programs { after: u64 },
}
