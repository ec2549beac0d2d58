//! Asynchronous events: what happened to the device or its port, for programs that read
//! `ibv_context.async_fd`.

use core::ffi::c_int;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

use vmm_sys_util::eventfd::EventFd;

use crate::abi::device::Context;
use crate::abi::work::{AsyncElement, AsyncEvent};
use crate::device::context::OpenContext;
use crate::errno::{self, fail};
use crate::panics::catch_panics;

/// Events that wait for a program; more are dropped, the oldest last.
const WAITING: usize = 256;

/// An event that concerns the device or its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// The link of the port came up.
    PortActive,
    /// The link of the port went down.
    PortError,
    /// An entry of the GID table changed.
    GidChange,
    /// The function is gone, or only a reset helps it.
    DeviceFatal,
}

impl DeviceEvent {
    /// Its number in `enum ibv_event_type`.
    const fn number(self) -> c_int {
        match self {
            Self::DeviceFatal => 8,
            Self::PortActive => 9,
            Self::PortError => 10,
            Self::GidChange => 18,
        }
    }
}

/// Events of a context: a readable unit of its descriptor for each that waits.
#[derive(Debug)]
pub struct EventQueue {
    /// A semaphore: each read takes one unit, whether it blocks or not.
    fd: EventFd,
    waiting: Mutex<VecDeque<DeviceEvent>>,
}

impl EventQueue {
    /// A queue with nothing in it.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            fd: EventFd::new(libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC)?,
            waiting: Mutex::default(),
        })
    }

    /// Its descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Puts an event in.
    pub fn put(&self, event: DeviceEvent) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING && self.fd.write(1).is_ok() {
            waiting.push_back(event);
        }
    }

    /// Takes the oldest event; waits for one unless the program has made the descriptor
    /// non-blocking.
    ///
    /// # Errors
    /// As `read`: EAGAIN, EINTR.
    fn take(&self) -> io::Result<DeviceEvent> {
        self.fd.read()?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // A program that reads the descriptor itself has taken one's unit.
        waiting
            .pop_front()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))
    }
}

/// `ibv_get_async_event`: 0, or -1 and errno.
///
/// # Safety
/// `context` is open and `event` can be written.
pub unsafe extern "C" fn get_async_event(context: *mut Context, event: *mut AsyncEvent) -> c_int {
    catch_panics(fail(libc::EIO), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let taken = match open.events().take() {
            Ok(taken) => taken,
            Err(error) => return errno::fail_io(&error),
        };
        let taken = AsyncEvent {
            element: AsyncElement {
                // The only port.
                port_num: 1,
            },
            event_type: taken.number(),
        };
        // SAFETY: the caller's.
        unsafe { event.write(taken) };
        0
    })
}

/// `ibv_ack_async_event`: events of the device and its port hold nothing.
///
/// # Safety
/// `event` came from [`get_async_event`].
pub unsafe extern "C" fn ack_async_event(event: *mut AsyncEvent) {
    let _ = event;
}
