//! The device that the library is opened on.

// UNSAFETY: finds itself again behind a pointer that C passes on.

use std::cell::RefCell;

use e810_verbs::abi::device::Context;

use crate::abi::VERBS_DEVICE_BYTES;
use crate::kernel::{Errno, Kernel, Made, SharedKernel};

/// `verbs_device`, with our kernel behind it. The library passes the pointer on
/// and looks at none of it.
#[repr(C, align(8))]
pub(crate) struct Device {
    verbs: [u8; VERBS_DEVICE_BYTES],
    kernel: SharedKernel,
    pub(crate) made: RefCell<Made>,
}

impl Device {
    pub(crate) fn new(kernel: SharedKernel) -> Box<Self> {
        Box::new(Self {
            verbs: [0; VERBS_DEVICE_BYTES],
            kernel,
            made: RefCell::default(),
        })
    }

    /// Asks the kernel. A command inside a command is refused.
    pub(crate) fn ask<T>(
        &self,
        command: impl FnOnce(&mut dyn Kernel, &mut Made) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let busy = |_| Errno(libc::EBUSY);
        let mut made = self.made.try_borrow_mut().map_err(busy)?;
        let mut kernel = self
            .kernel
            .try_borrow_mut()
            .map_err(|_| Errno(libc::EBUSY))?;
        command(&mut *kernel, &mut made)
    }

    /// The device of a context.
    ///
    /// # Safety
    /// `context` is one that [`crate::answers`] set up, of a device that lives
    /// throughout `'a`; or null.
    pub(crate) unsafe fn of<'a>(context: *const Context) -> Option<&'a Self> {
        // SAFETY: a context that lives, or null (contract).
        let device = unsafe { context.as_ref() }?.device;
        // SAFETY: the pointer that `Opened::open` passed in is that of a `Device`
        // (contract), and only shared references to it are made.
        unsafe { device.cast::<Self>().as_ref() }
    }
}
