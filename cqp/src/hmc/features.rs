//! The feature list of QUERY_RDMA_FEATURES (control-path 6.8).

use e810_hal::{DmaWord, DmaWords, Platform, log_info};
use tock_registers::register_bitfields;

use super::buffer::Exchange;
use super::object::Object;
use crate::cqp::Cqp;
use crate::error::{Error, Result};
use crate::op::QueryFeatures;

register_bitfields![u64,
    Entry [
        INFO OFFSET(0) NUMBITS(48) [],
        TYPE OFFSET(48) NUMBITS(16) []
    ],
    First [
        MINOR OFFSET(0) NUMBITS(16) [],
        MAJOR OFFSET(16) NUMBITS(16) [],
        FEATURE_CNT OFFSET(32) NUMBITS(16) []
    ]
];

/// Feature types with a name; also the entries of the first buffer.
const TYPES: usize = 34;
/// Alignment of the buffer.
const ALIGN: usize = 16;
/// HW version.
const HW_VERSION: u16 = 1;
/// Feature flags.
const FTN_FLAGS: u16 = 32;

/// What the device says it can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Features {
    /// Entries of the list, known or not.
    pub count: u16,
    /// INFO by type, for the types the list has.
    info: [Option<u64>; TYPES],
}

impl Features {
    /// Reads the list from its words.
    ///
    /// # Errors
    /// [`Error::Reply`] for a list of fewer than two entries.
    pub fn parse(words: impl Iterator<Item = u64>) -> Result<Self> {
        let mut info = [None; TYPES];
        let mut count = 0;
        for (n, word) in words.enumerate() {
            if n == 0 {
                count = count_of(word)?;
            }
            if n >= usize::from(count) {
                break;
            }
            let kind = Entry::TYPE.read(word) as usize;
            // Unknown types are skipped; a type that comes twice keeps its
            // first entry, so that word 0 stays the firmware's.
            if let Some(place) = info.get_mut(kind)
                && place.is_none()
            {
                *place = Some(Entry::INFO.read(word));
            }
        }
        if count == 0 {
            return Err(Error::Reply {
                what: "feature count",
                value: 0,
            });
        }
        Ok(Self { count, info })
    }

    /// INFO of feature `kind`, if the list has it.
    #[must_use]
    pub fn info(&self, kind: u16) -> Option<u64> {
        self.info.get(usize::from(kind)).copied().flatten()
    }

    /// Firmware version: major, minor.
    #[must_use]
    pub fn firmware(&self) -> (u16, u16) {
        // Type 0; each field has 16 bits.
        let word = self.info(0).unwrap_or(0);
        (
            First::MAJOR.read(word) as u16,
            First::MINOR.read(word) as u16,
        )
    }

    /// Hardware version.
    #[must_use]
    pub fn hardware(&self) -> Option<u64> {
        self.info(HW_VERSION)
    }

    /// Whether remote atomics may be switched on (FTN_FLAGS bit 0).
    #[must_use]
    pub fn atomics(&self) -> bool {
        self.info(FTN_FLAGS).is_some_and(|flags| flags & 1 != 0)
    }

    /// Greatest step by which a count may grow, where the list has it
    /// ("max increment", types 2 to 13).
    #[must_use]
    pub fn max_increment(&self, object: Object) -> Option<u64> {
        self.info(match object {
            Object::Qp => 2,
            Object::Cq => 3,
            Object::Mr => 6,
            Object::Q1 => 7,
            Object::FsiAv => 8,
            Object::Srq => 9,
            Object::Timer => 10,
            Object::Xf => 11,
            Object::Rrf => 12,
            Object::Pble => 13,
            _ => return None,
        })
    }
}

/// FEATURE_CNT in the first word of the list.
fn count_of(first: u64) -> Result<u16> {
    match First::FEATURE_CNT.read(first) {
        count @ 0..=1 => Err(Error::Reply {
            what: "feature count",
            value: count,
        }),
        // 16 bits.
        count => Ok(count as u16),
    }
}

/// Asks the device for its feature list.
///
/// # Errors
/// [`Error::Dma`], what [`Cqp::execute`] says, and [`Error::Reply`] for a list
/// of fewer than two entries.
pub fn query_features<P: Platform>(cqp: &mut Cqp<P>) -> Result<Features> {
    let (count, features) = query(cqp, TYPES)?;
    let features = if count > TYPES {
        // The list is longer than the buffer: ask once more with room for all.
        query(cqp, count)?.1
    } else {
        features
    };
    let (major, minor) = features.firmware();
    log_info!("firmware {}.{}, {} features", major, minor, features.count);
    Ok(features)
}

/// One query with room for `entries`; returns their number, and those that fit.
fn query<P: Platform>(cqp: &mut Cqp<P>, entries: usize) -> Result<(usize, Features)> {
    let bytes = entries.saturating_mul(8);
    let exchange = Exchange::new(cqp, bytes, ALIGN)?;
    let command = QueryFeatures {
        buffer: exchange.iova(),
        // At most 8 × 65535.
        bytes: bytes as u32,
    };
    exchange.run(cqp, &command, |reply| {
        let cells = reply.words();
        let features = Features::parse(cells.iter().take(entries).map(DmaWord::get))?;
        Ok((usize::from(features.count), features))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u64, info: u64) -> u64 {
        kind << 48 | info
    }

    #[test]
    fn known_types_are_kept_and_unknown_ones_skipped() {
        let words = [
            4 << 32 | 0x0001_0032,
            entry(1, 7),
            entry(32, 5),
            entry(0x7FFF, 9),
            entry(2, 1),
        ];
        let features = Features::parse(words.into_iter()).unwrap();
        assert_eq!(features.count, 4);
        assert_eq!(features.firmware(), (1, 0x32));
        assert_eq!(features.hardware(), Some(7));
        assert!(features.atomics());
        // The fifth word is past the count.
        assert_eq!(features.max_increment(Object::Qp), None);
        assert_eq!(features.max_increment(Object::Hdr), None);
    }

    #[test]
    fn a_short_list_is_refused() {
        for first in [0, 1 << 32, !(0xFFFF << 32)] {
            assert!(matches!(
                Features::parse([first, 0].into_iter()),
                Err(Error::Reply { .. })
            ));
        }
        assert!(Features::parse([].into_iter()).is_err());
    }

    #[test]
    fn any_words_are_handled() {
        let features = Features::parse([u64::MAX; 40].into_iter()).unwrap();
        assert_eq!(features.count, 0xFFFF);
        assert_eq!(features.firmware(), (0, 0), "type 0xFFFF is unknown");
    }
}
