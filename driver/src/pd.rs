//! Protection domains.

/// User handle to a protection domain: a queue pair can use only the regions of its own domain.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a protection domain is deallocated with Control::dealloc_pd"]
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
