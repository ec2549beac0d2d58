//! Memory of the program, to be registered with a device.

use std::sync::{Mutex, PoisonError};

use e810_hal::SharedBytes;

const PAGE: usize = 4096;
const WORDS_OF_A_PAGE: usize = PAGE / 8;

/// All payload of the process. It is never given back: windows on it may be
/// anywhere, and a test may end before its regions are deregistered. Listed here,
/// it is no leak to a tool that looks for some.
static ALL: Mutex<Vec<SharedBytes>> = Mutex::new(Vec::new());

/// Enters memory that stays for good.
pub(crate) fn keep(memory: SharedBytes) -> SharedBytes {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(memory);
    memory
}

/// Zeroed pages.
#[derive(Debug)]
pub struct Payload {
    bytes: SharedBytes,
}

impl Payload {
    /// `pages` pages of 4 KiB, not aligned to a page.
    #[must_use]
    pub fn pages(pages: usize) -> Self {
        let words = vec![0; pages.max(1) * WORDS_OF_A_PAGE].leak();
        Self {
            bytes: keep(SharedBytes::from_static(words)),
        }
    }

    /// A window on all of them.
    #[must_use]
    pub const fn bytes(&self) -> SharedBytes {
        self.bytes
    }
}
