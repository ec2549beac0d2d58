//! Locks that the functions of a card share (control-path 9.4).

use e810_hal::{Ns, Platform, WaitError, log_error, log_warn, poll_until};

use crate::error::{Error, Result};
use crate::limits::LOCK_PAUSE;
use crate::op::{Command, Grant, ReleaseResource, RequestResource, Resource};
use crate::queue::AdminQ;

/// Does `work` while `resource` is held, and releases it afterwards, whether the work succeeded
/// or not. `None`: another function has done the work already, and the lock was not granted.
///
/// `limit_ms` is both the time for which the lock is requested and the limit of the wait for it.
///
/// A lock whose time ran out is only logged: existing drivers do not check this, and the work was
/// done.
///
/// # Errors
/// [`Error::Locked`]; the work's own error; the error of the release, because the firmware does
/// little else while it counts the lock as held.
pub fn with_lock<P: Platform, T>(
    queue: &mut AdminQ<P>,
    resource: Resource,
    limit_ms: u32,
    work: impl FnOnce(&mut AdminQ<P>) -> Result<T>,
) -> Result<Option<T>> {
    let Some(granted_ms) = acquire(queue, resource, limit_ms)? else {
        return Ok(None);
    };
    let start = queue.platform().now();
    let done = work(queue);
    let held = queue.platform().now() - start;
    let released = match &done {
        // No command can follow.
        Err(error) if error.leaves_command_open() => Ok(()),
        _ => queue.execute(&ReleaseResource { resource }),
    };
    if let Err(error) = &released {
        log_error!("{} was not given back: {}", resource.name(), error);
    }
    let done = done?;
    let late = granted_ms > 0 && held > Ns::from_ms(granted_ms.into());
    if late {
        log_warn!(
            "{} was granted for {} ms, the work under it took longer",
            resource.name(),
            granted_ms
        );
    }
    match released {
        // There was nothing left to give back.
        Err(error) if late && error.refusal().is_some() => Ok(Some(done)),
        released => released.map(|()| Some(done)),
    }
}

/// Asks until the lock is ours; returns the time for which it is granted, in ms.
fn acquire<P: Platform>(
    queue: &mut AdminQ<P>,
    resource: Resource,
    limit_ms: u32,
) -> Result<Option<u32>> {
    let platform = queue.platform().clone();
    let request = RequestResource::write(resource, limit_ms);
    let limit = Ns::from_ms(limit_ms.into());
    let label = resource.name();
    let asked = poll_until(&platform, label, limit, LOCK_PAUSE, || {
        let answer = queue.exchange(request.opcode(), request.params(), request.data())?;
        match request.grant(&answer) {
            Grant::Granted { ms } => Ok(Some(Some(ms))),
            Grant::Done => Ok(Some(None)),
            Grant::Busy { .. } => Ok(None),
            Grant::Refused(status) => {
                crate::queue::refused(&answer)?;
                Err(answer.bad("status of a resource request", status.into()))
            }
        }
    });
    asked.map_err(|error| match error {
        Error::Wait(WaitError::Timeout { label: what, .. }) if what == label => {
            Error::Locked { what, limit_ms }
        }
        other => other,
    })
}
