//! Limits that programs run into and that an error number does not name: one line on standard error
//! the first time in a process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::control::{Limit, Refused};
use crate::device::complain::complain;

/// Says what was `refused` because of a limit of the system or of the server, which limit, and what
/// to do.
pub(crate) fn complain_of(what: &'static str, refused: &Refused) {
    static SAID: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let limit = match &refused.limit {
        Some(Limit::OfSystem(limit)) => limit.clone(),
        Some(Limit::OfServer(share)) => share.to_string(),
        Some(Limit::Table(..)) | None => return,
    };
    if let Ok(mut said) = SAID.lock()
        && !said.contains(&what)
    {
        said.push(what);
        complain(&format!("{what}: {limit}"));
    }
}

/// Says which table of peers is full.
pub(crate) fn complain_of_table(refused: &Refused) {
    static SAID: AtomicU8 = AtomicU8::new(0);
    if let Some(Limit::Table(table, line)) = &refused.limit
        && SAID.fetch_or(*table, Ordering::Relaxed) & table == 0
    {
        complain(line);
    }
}
