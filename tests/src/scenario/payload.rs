//! Memory of the program, to be registered with a device.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use e810_hal::SharedBytes;

const PAGE: usize = 4096;
const WORDS_OF_A_PAGE: usize = PAGE / 8;

/// Zeroed pages. Deregister what is on them before they are dropped.
#[derive(Debug)]
pub struct Payload {
    words: Box<[AtomicU64]>,
}

impl Payload {
    /// `pages` pages of 4 KiB, not aligned to a page.
    #[must_use]
    pub fn pages(pages: usize) -> Self {
        let words = pages.max(1) * WORDS_OF_A_PAGE;
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A window on all of them.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes {
        let start = NonNull::from(&*self.words).cast();
        // SAFETY: the words are atomic, so they may change while they are
        // borrowed; they live as long as this value, whose documentation says
        // that windows end before it.
        unsafe { SharedBytes::new(start, self.words.len() * 8) }
    }
}
