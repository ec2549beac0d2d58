//! The error number of a function that could not be opened.

use core::ffi::c_int;
use std::io;

use e810::StageError;
use e810_backends::BackendError;

use crate::messages::Refused;

/// The number of the first cause: the system's or the driver's; no device if it has none.
#[must_use]
pub fn of_any(error: &anyhow::Error) -> c_int {
    let mut numbers = error.chain().filter_map(|cause| {
        let system = cause.downcast_ref::<io::Error>();
        let backend = cause.downcast_ref::<BackendError>();
        #[cfg(feature = "tap")]
        let tap = cause.downcast_ref::<e810_node::tap::TapError>();
        #[cfg(feature = "tap")]
        let tap = tap.and_then(e810_node::tap::TapError::errno);
        #[cfg(not(feature = "tap"))]
        let tap = None;
        let stage = cause.downcast_ref::<StageError>();
        let driver = cause.downcast_ref::<e810::Error>();
        let refused = cause.downcast_ref::<Refused>();
        system
            .and_then(io::Error::raw_os_error)
            .or_else(|| backend?.errno())
            .or(tap)
            .or_else(|| stage.map(StageError::errno))
            .or_else(|| driver.map(e810::Error::errno))
            .or_else(|| refused.map(|refused| refused.errno))
    });
    numbers.next().unwrap_or(libc::ENODEV)
}
