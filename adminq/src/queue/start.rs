//! Starting the queues.

use e810_hal::{Platform, log_error, log_info, log_warn};

use super::memory::Memory;
use super::registers::Queue;
use super::{AdminQ, Counters};
use crate::error::{Error, Result};
use crate::limits::{ARQ_ENTRIES, ATQ_ENTRIES, START_ATTEMPTS, START_PAUSE};
use crate::op::{GetVersion, Version};

/// Major version of the AdminQ interface that this driver speaks
/// (control-path 9.1).
const API_MAJOR: u8 = 1;
/// Minor version that this driver was written for; versions further away than [`API_MINOR_RANGE`]
/// are logged.
const API_MINOR: u8 = 5;
const API_MINOR_RANGE: u8 = 2;

impl<P: Platform> AdminQ<P> {
    /// Programs both queues and asks for the firmware's version, at most eleven times 100 ms
    /// apart while the firmware does not answer properly.
    ///
    /// # Errors
    /// [`Error::ApiTooNew`], which another try would not change;
    /// [`Error::Dma`]; or the last attempt's error. The queues are then off.
    /// Memory of an attempt that timed out is leaked: the firmware may answer
    /// late.
    pub fn start(platform: P) -> Result<Self> {
        let mut left = START_ATTEMPTS;
        loop {
            left = left.saturating_sub(1);
            let error = match attempt(platform.clone()) {
                Ok(queue) => return Ok(queue),
                Err(error) => error,
            };
            let again = match error {
                Error::ApiTooNew { .. } | Error::Dma(_) => false,
                Error::Wait(e810_hal::WaitError::DeviceGone { .. }) => false,
                _ => left > 0,
            };
            if !again {
                return Err(error);
            }
            log_warn!("AdminQ not started: {}; {} attempts left", error, left);
            platform.delay(START_PAUSE);
        }
    }
}

fn attempt<P: Platform>(platform: P) -> Result<AdminQ<P>> {
    let mut queue = AdminQ {
        memory: Memory::new(platform.clone())?,
        platform,
        next: 0,
        open: None,
        busy_since: None,
        event: 0,
        event_head: 0,
        version: Version::default(),
        counters: Counters::default(),
    };
    match queue.bring_up() {
        Ok(version) => {
            queue.version = version;
            let (fw, api) = (version.firmware, version.api);
            log_info!(
                "AdminQ {}.{}, firmware {}.{}.{}",
                api.major,
                api.minor,
                fw.major,
                fw.minor,
                fw.patch
            );
            Ok(queue)
        }
        Err(error) => {
            // The first error says more than one that undoing may add.
            let off = queue.switch_off();
            if off.is_ok() && !error.leaves_command_open() {
                queue.memory.release();
            } else {
                log_error!("the memory of an AdminQ that did not start is leaked");
            }
            Err(error)
        }
    }
}

impl<P: Platform> AdminQ<P> {
    fn bring_up(&mut self) -> Result<Version> {
        for index in 0..ARQ_ENTRIES {
            self.memory.arm_arq(index);
        }
        Queue::Atq.program(&self.platform, self.memory.atq(), ATQ_ENTRIES)?;
        Queue::Arq.program(&self.platform, self.memory.arq(), ARQ_ENTRIES)?;
        // Entries must be in memory before the index is in the register.
        self.platform.to_device();
        Queue::Arq.set_tail(&self.platform, ARQ_ENTRIES.saturating_sub(1));
        let version = self.execute(&GetVersion)?;
        check(version)?;
        Ok(version)
    }
}

fn check(version: Version) -> Result<()> {
    let (major, minor) = (version.api.major, version.api.minor);
    if major > API_MAJOR {
        return Err(Error::ApiTooNew { major, minor });
    }
    if major < API_MAJOR || minor.abs_diff(API_MINOR) > API_MINOR_RANGE {
        log_warn!(
            "the firmware's AdminQ interface is {}.{}, this driver was written for {}.{}",
            major,
            minor,
            API_MAJOR,
            API_MINOR
        );
    }
    Ok(())
}
