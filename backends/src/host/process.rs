//! Processes of the machine.

use super::Host;
use crate::printable::printable;

/// Characters of a process's name that are shown; threads of the kernel have the longest.
const SHOWN: usize = 64;

/// What process `pid` calls itself, for a line where it stands in brackets: a process chooses its
/// name, so that what would control a terminal or end the brackets is shown as `?`. `None` where
/// there is no such process.
#[must_use]
pub fn name(host: &Host, pid: &str) -> Option<String> {
    let name = host.text(&format!("/proc/{pid}/comm"))?;
    Some(printable(&name, SHOWN).replace(['(', ')'], "?"))
}
