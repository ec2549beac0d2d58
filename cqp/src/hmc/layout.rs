//! Where the objects are: the buffer of COMMIT_FPM_VAL (control-path 6.4).

use e810_hal::{Platform, log_info, log_warn};
use tock_registers::register_bitfields;

use super::buffer::{Exchange, words};
use super::object::{Object, PerObject};
use super::query::FpmQuery;
use crate::cqp::Cqp;
use crate::error::{Error, Result};
use crate::op::{COMMIT_BYTES, CommitFpm};

register_bitfields![u64,
    Reply [
        COUNT OFFSET(0) NUMBITS(32) [],
        QP_COUNT OFFSET(0) NUMBITS(21) [],
        CQ_COUNT OFFSET(0) NUMBITS(20) [],
        BASE OFFSET(32) NUMBITS(32) []
    ]
];

/// Words of the buffer.
const WORDS: usize = COMMIT_BYTES / 8;
/// Bases are counted in blocks of this many bytes.
pub(super) const BASE_UNIT: u64 = 512;
/// Bytes of function-private memory that one segment descriptor covers.
pub const SEGMENT_BYTES: u64 = 0x20_0000;
/// Bytes that one page descriptor covers.
pub const PAGE_BYTES: u64 = 4096;
/// Page descriptors of a segment.
pub const PAGES_PER_SEGMENT: u32 = 512;
/// Segments whose index fits PMSDIDX.
pub const MAX_SEGMENTS: u64 = 4096;

/// The objects of one kind in function-private memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Area {
    /// Address of object 0, a multiple of 512.
    pub base: u64,
    /// Objects.
    pub count: u32,
    /// Bytes of one object.
    pub bytes: u32,
}

impl Area {
    /// Bytes of all objects.
    #[must_use]
    pub const fn size(&self) -> u64 {
        // 32 and 32 bits.
        (self.count as u64).wrapping_mul(self.bytes as u64)
    }

    /// Address of the byte after the last object.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.base.saturating_add(self.size())
    }
}

/// Where everything is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layout {
    areas: PerObject<Area>,
    end: u64,
}

/// The buffer that asks for `counts`. APBVT's word stays 0, as existing
/// drivers leave it.
#[must_use]
pub fn commit_request(counts: &PerObject<u32>) -> [u64; WORDS] {
    let mut request = [0; WORDS];
    for (object, count) in counts.iter() {
        if object != Object::Apbvt
            && let Some(word) = request.get_mut(object.commit_offset() / 8)
        {
            *word = u64::from(count);
        }
    }
    request
}

impl Layout {
    /// Reads the device's reply to `counts`. Its counts replace the wanted ones, as in existing
    /// drivers: 0 leaves the kind without an area, and a count above the maximum is what the
    /// device has now. Both are logged. PBLEs beyond the wanted ones are not used.
    ///
    /// # Errors
    /// [`Error::Reply`] when another area overlaps that of the PBLEs, which the
    /// driver itself writes to; [`Error::Segments`] when they do not fit.
    pub fn decode(reply: &[u64; WORDS], counts: &PerObject<u32>, query: &FpmQuery) -> Result<Self> {
        let mut areas = PerObject::default();
        for (object, wanted) in counts.iter() {
            // Kinds not asked for (SRQ, and OOISC in RoCE mode) are not read.
            if wanted == 0 {
                continue;
            }
            let word = reply.get(object.commit_offset() / 8).copied().unwrap_or(0);
            let limits = query.limits(object);
            // Counts have at most 32 bits.
            let count = match object {
                Object::Qp => Reply::QP_COUNT.read(word) as u32,
                Object::Cq => Reply::CQ_COUNT.read(word) as u32,
                Object::Apbvt => 1,
                // The tables for them have the planned size.
                Object::Pble => (Reply::COUNT.read(word) as u32).min(wanted),
                _ => Reply::COUNT.read(word) as u32,
            };
            if count == 0 {
                log_warn!(
                    "{} {} objects wanted: none committed",
                    wanted,
                    object.name()
                );
                continue;
            }
            if count > limits.max {
                log_warn!(
                    "{} {} objects committed; the maximum was {}",
                    count,
                    object.name(),
                    limits.max
                );
            }
            let area = Area {
                base: Reply::BASE.read(word).wrapping_mul(BASE_UNIT),
                count,
                bytes: limits.bytes,
            };
            areas.set(object, area);
        }
        Self::from_areas(areas, query)
    }

    /// The layout that follows from `counts` if the device packs objects in the order of the
    /// commit buffer `[inf packed_objects]`: for footprints before a commit.
    ///
    /// # Errors
    /// [`Error::Segments`] when they do not fit.
    pub fn packed(counts: &PerObject<u32>, query: &FpmQuery) -> Result<Self> {
        let mut areas = PerObject::default();
        let mut base = 0u64;
        for (object, count) in counts.iter().filter(|(_, count)| *count > 0) {
            let area = Area {
                base,
                count,
                bytes: query.limits(object).bytes,
            };
            base = align_up(area.end(), BASE_UNIT);
            areas.set(object, area);
        }
        Self::from_areas(areas, query)
    }

    fn from_areas(areas: PerObject<Area>, query: &FpmQuery) -> Result<Self> {
        let mut end = 0;
        let pbles = areas.get(Object::Pble);
        for (object, area) in areas.iter().filter(|(_, area)| area.count > 0) {
            // The driver writes PBLEs, and must not write to other objects. How the others are
            // placed is up to the device.
            let both = area.base < pbles.end() && pbles.base < area.end();
            if object != Object::Pble && both {
                return Err(Error::Reply {
                    what: "base of an object among the PBLEs",
                    value: area.base,
                });
            }
            end = area.end().max(end);
        }
        let needed = segments_of(end);
        let max = u64::from(query.max_sds).min(MAX_SEGMENTS);
        if needed > max {
            return Err(Error::Segments { needed, max });
        }
        Ok(Self { areas, end })
    }

    /// Commits `counts` and learns where the device puts the objects.
    ///
    /// # Errors
    /// [`Error::Dma`], what [`Cqp::execute`] says, and those of
    /// [`Layout::decode`].
    pub fn commit<P: Platform>(
        cqp: &mut Cqp<P>,
        counts: &PerObject<u32>,
        query: &FpmQuery,
    ) -> Result<Self> {
        let exchange = Exchange::new(cqp, COMMIT_BYTES, 8)?;
        exchange.write(&commit_request(counts));
        let command = CommitFpm {
            function: cqp.function(),
            buffer: exchange.iova(),
        };
        let layout = exchange.run(cqp, &command, |reply| {
            Self::decode(&words(reply), counts, query)
        })?;
        log_info!(
            "HMC objects committed: {} bytes in {} segments",
            layout.end,
            layout.segments()
        );
        Ok(layout)
    }

    /// The objects of one kind.
    #[must_use]
    pub fn area(&self, object: Object) -> Area {
        self.areas.get(object)
    }

    /// All kinds.
    pub fn areas(&self) -> impl Iterator<Item = (Object, Area)> + '_ {
        self.areas.iter()
    }

    /// Bytes of function-private memory in use.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end
    }

    /// Segments in use.
    #[must_use]
    pub const fn segments(&self) -> u32 {
        // At most MAX_SEGMENTS.
        segments_of(self.end) as u32
    }

    /// The bytes of object `index`, as addresses from..to.
    ///
    /// # Errors
    /// [`Error::NoObject`].
    pub fn object(&self, object: Object, index: u32) -> Result<(u64, u64)> {
        let area = self.area(object);
        if index >= area.count {
            return Err(Error::NoObject {
                object,
                index,
                count: area.count,
            });
        }
        let bytes = u64::from(area.bytes);
        let from = area.base.wrapping_add(bytes.wrapping_mul(u64::from(index)));
        Ok((from, from.wrapping_add(bytes)))
    }
}

/// Segments that cover `bytes`.
pub(super) const fn segments_of(bytes: u64) -> u64 {
    bytes.div_ceil(SEGMENT_BYTES)
}

/// `value` rounded up to a multiple of the power of two `unit`.
pub(super) const fn align_up(value: u64, unit: u64) -> u64 {
    let mask = unit.wrapping_sub(1);
    value.saturating_add(mask) & !mask
}

#[cfg(test)]
mod tests;
