//! Time: since any instant that the caller has chosen.

pub use e810_types::Ns;

/// The earlier of two deadlines.
pub(crate) fn earliest(one: Option<Ns>, other: Option<Ns>) -> Option<Ns> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
