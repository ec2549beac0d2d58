//! Options that cannot be what was meant, found after the command line was read.

/// An option that does not fit the others or the device: exit code 2, as for a
/// command line that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns with a [`Usage`] error of a formatted text.
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err($crate::usage::Usage(format!($($text)*)).into())
    };
}

pub(crate) use refuse;
