//! Sizes of event queues: what the device takes, and what memory they need.
//!
//! ```
//! use e810_ceq::limits::CeqEntries;
//!
//! let entries = CeqEntries::for_cqs(1024)?;
//! assert_eq!(entries.get(), 1024);
//! assert_eq!((entries.layout().bytes(), entries.layout().align()), (8192, 256));
//! # Ok::<(), e810_ceq::Error>(())
//! ```

use core::fmt;

use e810_hal::DmaLayout;
use e810_hal::ring::Consumer;

use crate::error::{Error, Result};

/// Bytes of a CEQ entry (control-path 7.7).
pub const CEQE_BYTES: usize = 8;
/// Bytes of an AEQ entry (control-path 7.7).
pub const AEQE_BYTES: usize = 16;
/// Most entries of a CEQ (control-path 7.7).
pub const MAX_CEQ_ENTRIES: u32 = 262_143;
/// Most entries of the AEQ (control-path 7.7).
pub const MAX_AEQ_ENTRIES: u32 = 524_287;
/// AEQ entries of a page of 4 KiB.
const PAGE_ENTRIES: u32 = 256;
/// Alignment of event queue memory, and what its size is rounded up to, in
/// bytes (control-path 3.5, 7.7).
pub const QUEUE_ALIGN: usize = 256;
/// QP and CQ ids are below this: an AEQ entry has 19 bits for them
/// (control-path 7.3).
pub const MAX_IDS: u32 = 1 << 19;

/// Which event queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum QueueKind {
    /// Completion event queue.
    Ceq,
    /// Asynchronous event queue.
    Aeq,
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ceq => "CEQ",
            Self::Aeq => "AEQ",
        })
    }
}

macro_rules! entry_counts {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $bytes:ident, $max:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub struct $name(u32);

        impl $name {
            /// Exactly `entries`.
            ///
            /// # Errors
            #[doc = concat!("[`Error::Entries`] unless 1 to [`", stringify!($max), "`].")]
            pub const fn new(entries: u32) -> Result<Self> {
                if entries == 0 || entries > $max {
                    return Err(Error::Entries {
                        queue: QueueKind::$kind,
                        entries,
                        max: $max,
                    });
                }
                Ok(Self(entries))
            }

            /// The number of entries, at least 1.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Bytes the device uses.
            #[must_use]
            pub const fn bytes(self) -> usize {
                // At most 524287 * 16, far below any usize.
                (self.0 as usize).wrapping_mul($bytes)
            }

            /// Memory to allocate: whole multiples of [`QUEUE_ALIGN`], aligned
            /// to it. The queue begins with all of it zero.
            #[must_use]
            pub const fn layout(self) -> DmaLayout {
                DmaLayout::new(self.bytes().next_multiple_of(QUEUE_ALIGN), QUEUE_ALIGN)
            }

            /// The reading side of such a queue in `words` 64-bit words.
            pub(crate) fn consumer(self, words: usize) -> Result<Consumer> {
                let (bytes, needed) = (words.saturating_mul(8), self.bytes());
                match Consumer::new(self.0) {
                    Some(ring) if bytes >= needed => Ok(ring),
                    _ => Err(Error::Memory {
                        queue: QueueKind::$kind,
                        bytes,
                        needed,
                    }),
                }
            }
        }
    )+ };
}

entry_counts! {
    /// Number of entries of a CEQ, 1 to [`MAX_CEQ_ENTRIES`].
    CeqEntries: Ceq, CEQE_BYTES, MAX_CEQ_ENTRIES;
    /// Number of entries of the AEQ, 1 to [`MAX_AEQ_ENTRIES`].
    AeqEntries: Aeq, AEQE_BYTES, MAX_AEQ_ENTRIES;
}

impl CeqEntries {
    /// For a device with `cqs` committed CQs: one entry each, because a CQ has
    /// at most one entry outstanding until it is acknowledged and armed again
    /// (control-path 7.1 `[inf one_ceqe_per_cq]`), capped at [`MAX_CEQ_ENTRIES`].
    ///
    /// # Errors
    /// [`Error::Entries`] when `cqs` is 0.
    pub const fn for_cqs(cqs: u32) -> Result<Self> {
        Self::new(least(cqs, MAX_CEQ_ENTRIES))
    }
}

impl AeqEntries {
    /// For `qps` committed RoCE QPs and `cqs` committed CQs: one entry each, as in existing
    /// drivers (control-path 3.1), plus the rest of the last page of 4 KiB, which is allocated
    /// anyway; capped at [`MAX_AEQ_ENTRIES`]. A full queue loses events for good, and one QP can
    /// have several events, so always read the queue.
    ///
    /// # Errors
    /// [`Error::Entries`] when both are 0.
    pub const fn for_objects(qps: u32, cqs: u32) -> Result<Self> {
        let each = qps.saturating_add(cqs);
        let pages = each.saturating_add(PAGE_ENTRIES - 1) & !(PAGE_ENTRIES - 1);
        Self::new(least(pages, MAX_AEQ_ENTRIES))
    }
}

/// `min` is not const.
const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn limits_are_those_of_the_device() {
        assert!(CeqEntries::new(0).is_err());
        assert_eq!(CeqEntries::new(262_143).map(CeqEntries::get), Ok(262_143));
        assert!(CeqEntries::new(262_144).is_err());
        assert!(AeqEntries::new(524_287).is_ok());
        let error = AeqEntries::new(524_288).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the AEQ can have 1 to 524287 entries, not 524288: ask for a count in that range"
        );
    }

    #[test]
    fn counts_follow_the_objects_and_stop_at_the_limit() {
        assert_eq!(CeqEntries::for_cqs(100).map(CeqEntries::get), Ok(100));
        assert_eq!(
            CeqEntries::for_cqs(u32::MAX).map(CeqEntries::get),
            Ok(MAX_CEQ_ENTRIES)
        );
        assert!(CeqEntries::for_cqs(0).is_err());
        let aeq = |qps, cqs| AeqEntries::for_objects(qps, cqs).map(AeqEntries::get);
        assert_eq!((aeq(3, 4), aeq(64, 128)), (Ok(256), Ok(256)), "a page");
        assert_eq!((aeq(128, 128), aeq(128, 129)), (Ok(256), Ok(512)));
        assert_eq!(aeq(65_536, 131_072), Ok(196_608), "as existing drivers");
        assert!(AeqEntries::for_objects(0, 0).is_err());
        assert_eq!(
            AeqEntries::for_objects(u32::MAX, 1).map(AeqEntries::get),
            Ok(MAX_AEQ_ENTRIES)
        );
    }

    #[test]
    fn memory_is_whole_multiples_of_256() {
        let layout = CeqEntries::new(33).unwrap().layout();
        assert_eq!((layout.bytes(), layout.align()), (512, 256));
        let layout = AeqEntries::new(16).unwrap().layout();
        assert_eq!((layout.bytes(), layout.align()), (256, 256));
    }

    #[test]
    fn memory_must_hold_the_queue() {
        let entries = CeqEntries::new(4).unwrap();
        assert_eq!(entries.consumer(4).map(|ring| ring.size()), Ok(4));
        assert_eq!(
            entries.consumer(3),
            Err(Error::Memory {
                queue: QueueKind::Ceq,
                bytes: 24,
                needed: 32
            })
        );
        assert!(AeqEntries::new(4).unwrap().consumer(8).is_ok());
        assert!(AeqEntries::new(4).unwrap().consumer(7).is_err());
    }
}
