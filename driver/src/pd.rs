//! Protection domains.

/// A protection domain: regions and queue pairs of different ones do not meet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a protection domain is given back with Control::dealloc_pd"]
#[doc(alias = "ibv_pd")]
pub struct Pd {
    pub(crate) id: u32,
    pub(crate) owner: u64,
}

impl Pd {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }
}
