//! Wrong options that are found after the command line was parsed.

/// An option that does not fit the others or the device. Exit code 2, as for a command line that
/// cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns a [`Usage`] error with a formatted text.
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err($crate::usage::Usage(format!($($text)*)).into())
    };
}

pub(crate) use refuse;
