//! Checks that the process may open as many descriptors as a function takes. If they run out during
//! a bring-up, memory or interrupts are missing, and no error says why.

use std::fs;

use e810::MAX_CEQS;

use crate::BackendError;
use crate::host::{Host, cpus, limits};
use crate::spec::DeviceSpec;

/// For a function behind VFIO or vfio-user, beside its vectors: its own files, and those of the
/// memory that a bring-up with all objects takes.
const BASE: u64 = 32;
/// Sockets and events of a wire, and of its rings.
#[cfg(feature = "sim")]
const WIRE: u64 = 5;

/// Descriptors that a function takes from its opening to the end of its bring-up: an event for each
/// processor, up to the number of completion event queues, and one for asynchronous events.
fn needed(spec: &DeviceSpec, host: &Host) -> u64 {
    match spec {
        #[cfg(feature = "sim")]
        DeviceSpec::Sim(sim) => sim.wire.as_ref().map_or(0, |_| WIRE),
        DeviceSpec::VfioUser(_) | DeviceSpec::Vfio(..) => {
            BASE + u64::from(cpus::online(host)).min(MAX_CEQS as u64) + 1
        }
    }
}

/// Fails if the process may not open the descriptors that all of `specs` take together.
///
/// # Errors
/// [`BackendError::Descriptors`].
pub(crate) fn check(specs: &[&DeviceSpec]) -> Result<(), BackendError> {
    let host = Host::default();
    let needed = specs.iter().map(|spec| needed(spec, &host)).sum();
    let Some(first) = specs.first() else {
        return Ok(());
    };
    let limit = limits::open_files();
    let refused = |open, errno| {
        Err(BackendError::Descriptors {
            device: first.to_string(),
            needed,
            open,
            limit,
            errno,
        })
    };
    // One more descriptor, that of the folder, shows the others.
    let open = match fs::read_dir(host.path("/proc/self/fd")) {
        Ok(open) => open.flatten().filter(|file| {
            let number = file.file_name().to_str().and_then(|name| name.parse().ok());
            number.is_some_and(|number: u64| number < limit)
        }),
        Err(error) => match error.raw_os_error() {
            Some(errno @ (libc::EMFILE | libc::ENFILE)) if needed > 0 => {
                return refused(limit, errno);
            }
            _ => return Ok(()),
        },
    };
    let open = (open.count() as u64).saturating_sub(1);
    match limit.saturating_sub(open) < needed {
        true => refused(open, libc::EMFILE),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    #[test]
    fn many_processors_do_not_take_more_than_there_are_queues() {
        let tree = Tree::bare();
        let spec = "vfio-user:a".parse().unwrap();
        for (online, most) in [("0-1", BASE + 3), ("0-511", BASE + 65)] {
            tree.file("/sys/devices/system/cpu/online", online);
            assert_eq!(needed(&spec, tree.host()), most);
        }
    }
}
