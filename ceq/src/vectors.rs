//! Which interrupt vector serves which event queue.
//!
//! The map works on places in the list of vectors that the platform granted, in order; place 0
//! belongs to the AEQ. With one vector more than completion event queues each queue has its own;
//! with fewer, the AEQ and CEQ 0 share place 0 (control-path 8).
//!
//! ```
//! use e810_ceq::vectors::{Serves, VectorMap};
//! use e810_hal::CeqId;
//!
//! // Five vectors for four CEQs: the AEQ has its own.
//! let map = VectorMap::plan(5, 4, 64)?;
//! assert_eq!((map.ceqs(), map.shared()), (4, false));
//! assert_eq!(map.ceq_place(CeqId::new(3).unwrap()), Some(4));
//!
//! // Four vectors: place 0 serves the AEQ and CEQ 0.
//! let map = VectorMap::plan(4, 4, 64)?;
//! assert_eq!(map.serves(0), Some(Serves { aeq: true, ceq: CeqId::new(0) }));
//! # Ok::<(), e810_ceq::Error>(())
//! ```

use e810_hal::CeqId;
use e810_hal::bus::RegIndex;

use crate::error::{Error, Result};

/// Assignment of event queues to places in a list of vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct VectorMap {
    ceqs: u16,
    shared: bool,
}

/// What the vector at one place serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Serves {
    /// The asynchronous event queue. If a CEQ is served too, the CEQ is emptied first
    /// (control-path 8).
    pub aeq: bool,
    /// A completion event queue.
    pub ceq: Option<CeqId>,
}

impl VectorMap {
    /// Plans for `granted` vectors, `wanted` CEQs and a device that has
    /// `device_ceqs` (MAX_CEQS of the FPM query).
    ///
    /// The number of CEQs is the least of what is wanted, what the device has and what the
    /// vectors can serve. If the device's number is the limit, existing drivers use one CEQ
    /// fewer, because they compare it with a count that includes the AEQ's vector (control-path
    /// 3.1, 8); ids only have to be below it (7.7).
    ///
    /// # Errors
    /// [`Error::NoVectors`] when `granted` is 0, [`Error::NoCeqs`] when
    /// `wanted` or `device_ceqs` is.
    pub fn plan(granted: u16, wanted: u16, device_ceqs: u32) -> Result<Self> {
        if granted == 0 {
            return Err(Error::NoVectors);
        }
        let usable = u16::try_from(device_ceqs.min(CeqId::MAX.saturating_add(1)))
            .unwrap_or(u16::MAX)
            .min(wanted);
        if usable == 0 {
            return Err(Error::NoCeqs {
                wanted,
                device: device_ceqs,
            });
        }
        // Compared with the CEQs that can exist, not with those wanted: otherwise a device with
        // few of them would share a vector for nothing.
        let shared = granted <= usable;
        Ok(Self {
            ceqs: usable.min(granted),
            shared,
        })
    }

    /// Number of CEQs, 1 to 1024: ids 0 to this minus 1.
    #[must_use]
    pub const fn ceqs(self) -> u16 {
        self.ceqs
    }

    /// Whether the AEQ and CEQ 0 share a vector.
    #[must_use]
    pub const fn shared(self) -> bool {
        self.shared
    }

    /// Number of vectors in use, from place 0 on.
    #[must_use]
    pub const fn vectors(self) -> u16 {
        self.ceqs.saturating_add(self.first_ceq_place())
    }

    /// Place of the AEQ's vector.
    #[must_use]
    pub const fn aeq_place(self) -> u16 {
        0
    }

    /// Place of a CEQ's vector; `None` when there is no such CEQ.
    #[must_use]
    pub fn ceq_place(self, ceq: CeqId) -> Option<u16> {
        let id = u16::try_from(ceq.get()).ok()?;
        (id < self.ceqs).then(|| id.saturating_add(self.first_ceq_place()))
    }

    /// What the vector at `place` serves; `None` when it is not in use.
    #[must_use]
    pub fn serves(self, place: u16) -> Option<Serves> {
        if place >= self.vectors() {
            return None;
        }
        Some(Serves {
            aeq: place == self.aeq_place(),
            ceq: place
                .checked_sub(self.first_ceq_place())
                .and_then(CeqId::new),
        })
    }

    const fn first_ceq_place(self) -> u16 {
        if self.shared { 0 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors_decide_how_many_ceqs_there_are() {
        let plan = |granted, wanted, device| {
            VectorMap::plan(granted, wanted, device)
                .map(|map| (map.ceqs(), map.shared(), map.vectors()))
        };
        assert_eq!(plan(9, 8, 64), Ok((8, false, 9)));
        assert_eq!(plan(20, 8, 64), Ok((8, false, 9)), "the rest stays unused");
        assert_eq!(plan(8, 8, 64), Ok((8, true, 8)));
        assert_eq!(plan(3, 8, 64), Ok((3, true, 3)));
        assert_eq!(plan(1, 8, 64), Ok((1, true, 1)));
        assert_eq!(plan(2, 1, 64), Ok((1, false, 2)));
        assert_eq!(plan(5, 8, 3), Ok((3, false, 4)), "the device has three");
        assert_eq!(plan(2000, 2000, u32::MAX), Ok((1024, false, 1025)));
        assert_eq!(plan(0, 8, 64), Err(Error::NoVectors));
        assert_eq!(
            plan(4, 0, 64),
            Err(Error::NoCeqs {
                wanted: 0,
                device: 64
            })
        );
        assert_eq!(
            plan(4, 2, 0),
            Err(Error::NoCeqs {
                wanted: 2,
                device: 0
            })
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every place that is used serves something, and each queue is served
        /// exactly once, where its own question says.
        #[test]
        fn each_queue_has_one_place(granted in 1u16..80, wanted in 1u16..80, device in 1u32..80) {
            let map = VectorMap::plan(granted, wanted, device).unwrap();
            prop_assert!(map.vectors() <= granted);
            prop_assert!(u32::from(map.ceqs()) <= device && map.ceqs() <= wanted);
            let (mut aeqs, mut ceqs) = (0, 0);
            for place in 0..map.vectors() {
                let serves = map.serves(place).unwrap();
                if serves.aeq {
                    aeqs += 1;
                    prop_assert_eq!(serves.ceq.is_some(), map.shared());
                }
                if let Some(ceq) = serves.ceq {
                    ceqs += 1;
                    prop_assert_eq!(map.ceq_place(ceq), Some(place));
                }
                prop_assert!(serves.aeq || serves.ceq.is_some());
            }
            prop_assert_eq!((aeqs, ceqs), (1, map.ceqs()));
            prop_assert_eq!(map.serves(map.vectors()), None);
            prop_assert_eq!(map.ceq_place(CeqId::new(map.ceqs()).unwrap()), None);
        }
    }
}
