//! Processes of the machine.

use super::Host;
use crate::printable::printable;

/// Characters of a process's name that are shown; kernel threads have the longest names.
const SHOWN: usize = 64;

/// The name of process `pid`, to be shown in brackets in a line. A process chooses its name, so
/// characters that would control a terminal or end the brackets are shown as `?`. `None` if there
/// is no such process.
#[must_use]
pub fn name(host: &Host, pid: &str) -> Option<String> {
    let name = host.text(&format!("/proc/{pid}/comm"))?;
    Some(printable(&name, SHOWN).replace(['(', ')'], "?"))
}
