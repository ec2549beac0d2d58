//! Whether the process may have as many descriptors as a function takes. Where they run out in the
//! middle of a bring-up, memory or interrupts are missing, and no error says why.

use std::fs;

use crate::BackendError;
use crate::host::{Host, cpus, limits};
use crate::spec::DeviceSpec;

/// Of a function behind VFIO or vfio-user, beside its vectors: its own files, and those of the
/// memory that a bring-up takes with all objects.
const BASE: u64 = 32;
/// Sockets and events of a wire.
const WIRE: u64 = 3;

/// Descriptors that a function takes from its opening to the end of its bring-up: for each
/// processor an event, and one for asynchronous events.
fn needed(spec: &DeviceSpec, host: &Host) -> u64 {
    match spec {
        #[cfg(feature = "sim")]
        DeviceSpec::Sim(sim) => sim.wire.as_ref().map_or(0, |_| WIRE),
        DeviceSpec::VfioUser(_) | DeviceSpec::Vfio(..) => BASE + u64::from(cpus::online(host)) + 1,
    }
}

/// Fails if the process may not have what all of `specs` take together.
///
/// # Errors
/// [`BackendError::Descriptors`].
pub(crate) fn check(specs: &[&DeviceSpec]) -> Result<(), BackendError> {
    let host = Host::default();
    let needed = specs.iter().map(|spec| needed(spec, &host)).sum();
    let (Some(first), Some(limit)) = (specs.first(), limits::open_files(&host)) else {
        return Ok(());
    };
    let refused = |open, errno| {
        Err(BackendError::Descriptors {
            device: first.to_string(),
            needed,
            open,
            limit,
            errno,
        })
    };
    // Another descriptor shows the others.
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
