//! Limits of the device: the reply of QUERY_FPM_VAL (control-path 6.3).

use e810_hal::{Platform, log_debug};
use tock_registers::register_bitfields;

use super::buffer::{Exchange, words};
use super::object::{Object, PerObject};
use crate::cqp::Cqp;
use crate::error::{Error, Result};
use crate::op::{QUERY_BYTES, QueryFpm};

register_bitfields![u64,
    Q0 [
        FIRST_PE_SD_INDEX OFFSET(0) NUMBITS(14) [],
        MAX_PE_SDS OFFSET(32) NUMBITS(13) []
    ],
    // An object's maximum, with log2 of its size or the block size of its list.
    Limit [
        MAX OFFSET(0) NUMBITS(32) [],
        HIGH OFFSET(32) NUMBITS(32) []
    ],
    Q120 [
        MAX_CEQS OFFSET(0) NUMBITS(10) [],
        HTMULTIPLIER OFFSET(16) NUMBITS(4) [],
        TIMERBUCKET OFFSET(32) NUMBITS(16) []
    ]
];

/// Words of the reply.
const WORDS: usize = QUERY_BYTES / 8;
/// Byte offset of the word with MAX_CEQS.
const LIMITS_OFFSET: usize = 120;
/// The greatest log2 of an object size: OBJSZ registers have 4 bits
/// (control-path 2.8).
const MAX_SIZE_LOG2: u64 = 15;

/// One kind of object, as the device has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ObjectLimits {
    /// Greatest count. A kind whose count follows from the number of queue pairs may be committed
    /// beyond it ([`Plan::new`](super::Plan::new)).
    pub max: u32,
    /// Bytes of one object; 0 for a kind whose word is not read.
    pub bytes: u32,
}

/// The device's HMC limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FpmQuery {
    /// FIRST_PE_SD_INDEX; SD indexes in commands do not count from it.
    pub first_sd: u32,
    /// Segments of 2 MiB this function may have.
    pub max_sds: u32,
    /// Completion event queues.
    pub max_ceqs: u32,
    /// HTMULTIPLIER.
    pub hash_multiplier: u32,
    /// TIMERBUCKET.
    pub timer_bucket: u32,
    /// Entries of an XF block.
    pub xf_block: u32,
    /// Entries of a Q1 block.
    pub q1_block: u32,
    /// Entries of an RRF block.
    pub rrf_block: u32,
    /// Each kind of object.
    pub objects: PerObject<ObjectLimits>,
}

impl FpmQuery {
    /// A device that has nothing. A constant starts from it, sets its fields and gives its
    /// objects with [`FpmQuery::with`]. `e810 up --card` prints one.
    pub const NOTHING: Self = Self {
        first_sd: 0,
        max_sds: 0,
        max_ceqs: 0,
        hash_multiplier: 0,
        timer_bucket: 0,
        xf_block: 0,
        q1_block: 0,
        rrf_block: 0,
        objects: PerObject::all(ObjectLimits { max: 0, bytes: 0 }),
    };

    /// The same with other limits for a kind of object.
    #[must_use]
    pub const fn with(mut self, object: Object, limits: ObjectLimits) -> Self {
        self.objects.set(object, limits);
        self
    }

    /// Reads the reply.
    ///
    /// # Errors
    /// [`Error::Reply`] for sizes and block sizes that make no sense.
    pub fn parse(reply: &[u64; WORDS]) -> Result<Self> {
        let at = |offset: usize| reply.get(offset / 8).copied().unwrap_or(0);
        let mut objects = PerObject::default();
        for &object in &Object::ALL {
            objects.set(object, limits(object, object.query_offset().map_or(0, at))?);
        }
        let block = |object: Object| {
            let word = object.query_offset().map_or(0, at);
            Limit::HIGH.read(word) as u32
        };
        let (q0, q120) = (at(0), at(LIMITS_OFFSET));
        // Each field is as wide as the type it goes to, or narrower.
        let query = Self {
            first_sd: Q0::FIRST_PE_SD_INDEX.read(q0) as u32,
            max_sds: Q0::MAX_PE_SDS.read(q0) as u32,
            max_ceqs: Q120::MAX_CEQS.read(q120) as u32,
            hash_multiplier: Q120::HTMULTIPLIER.read(q120) as u32,
            timer_bucket: Q120::TIMERBUCKET.read(q120) as u32,
            xf_block: block(Object::XfFl),
            q1_block: block(Object::Q1Fl),
            rrf_block: block(Object::RrfFl),
            objects,
        };
        query.check_blocks()
    }

    /// Checks that the blocks that counts are divided by are not empty, where existing drivers
    /// insist on it (control-path 6.3).
    fn check_blocks(self) -> Result<Self> {
        let rules = [
            ("XFBLOCKSIZE", self.xf_block, Object::Xf),
            ("Q1BLOCKSIZE", self.q1_block, Object::Q1),
            ("RRFBLOCKSIZE", self.rrf_block, Object::RrfFl),
        ];
        for (what, block, object) in rules {
            if block == 0 && self.limits(object).max != 0 {
                return Err(Error::Reply { what, value: 0 });
            }
        }
        Ok(self)
    }

    /// Maximum and size of a kind of object.
    #[must_use]
    pub const fn limits(&self, object: Object) -> ObjectLimits {
        self.objects.get(object)
    }

    /// Asks the device.
    ///
    /// # Errors
    /// [`Error::Dma`], what [`Cqp::execute`] says, and [`Error::Reply`].
    pub fn ask<P: Platform>(cqp: &mut Cqp<P>) -> Result<Self> {
        let exchange = Exchange::new(cqp, QUERY_BYTES, 8)?;
        let command = QueryFpm {
            function: cqp.function(),
            buffer: exchange.iova(),
        };
        let query = exchange.run(cqp, &command, |reply| Self::parse(&words(reply)))?;
        log_debug!(
            "FPM: {} SDs, {} CEQs, {} QPs",
            query.max_sds,
            query.max_ceqs,
            query.limits(Object::Qp).max
        );
        Ok(query)
    }
}

fn limits(object: Object, word: u64) -> Result<ObjectLimits> {
    // 32 bits.
    let max = Limit::MAX.read(word) as u32;
    match (object, object.fixed_bytes()) {
        (Object::Apbvt, Some(bytes)) => Ok(ObjectLimits { max: 1, bytes }),
        _ if object.query_offset().is_none() => Ok(ObjectLimits::default()),
        (_, Some(bytes)) => Ok(ObjectLimits { max, bytes }),
        // The size counts with a maximum of 0, too: some objects of a derived kind are committed
        // all the same.
        (_, None) => match Limit::HIGH.read(word) {
            log2 @ 0..=MAX_SIZE_LOG2 => Ok(ObjectLimits {
                max,
                bytes: 1 << log2,
            }),
            _ if max == 0 => Ok(ObjectLimits::default()),
            value => Err(Error::Reply {
                what: "log2 of an object's size",
                value,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> [u64; WORDS] {
        let mut reply = [0; WORDS];
        reply[0] = 0x55 | 64 << 32;
        reply[1] = 1024 | 10 << 32;
        reply[7] = 65536 | 6 << 32;
        reply[8] = 8192 | 8 << 32;
        reply[9] = 1 << 18 | 6 << 32;
        reply[10] = 1 << 15 | 8 << 32;
        reply[14] = 1 << 20;
        reply[15] = 32 | 3 << 16 | 512 << 32;
        reply
    }

    #[test]
    fn fields_are_where_the_table_says() {
        let query = FpmQuery::parse(&reply()).unwrap();
        assert_eq!((query.first_sd, query.max_sds), (0x55, 64));
        assert_eq!(query.max_ceqs, 32);
        assert_eq!((query.hash_multiplier, query.timer_bucket), (3, 512));
        assert_eq!((query.xf_block, query.q1_block, query.rrf_block), (8, 8, 0));
        let limits = |max, bytes| ObjectLimits { max, bytes };
        assert_eq!(query.limits(Object::Qp), limits(1024, 1024));
        assert_eq!(query.limits(Object::Apbvt), limits(1, 8192));
        assert_eq!(query.limits(Object::Pble), limits(1 << 20, 8));
        assert_eq!(query.limits(Object::Q1Fl), limits(1 << 15, 4));
        assert_eq!(query.limits(Object::Rrf), limits(0, 1));
        assert_eq!(query.limits(Object::Srq), limits(0, 0));
    }

    /// SRQ, and what only iWARP has: no driver of this generation reads them.
    #[test]
    fn words_that_nobody_reads_may_hold_anything() {
        let plain = FpmQuery::parse(&reply()).unwrap();
        for offset in [24, 160, 168, 176, 184, 192] {
            for garbage in [0x2000_0000_0001, u64::MAX, 0xA5A5_A5A5_0000_0000] {
                let mut words = reply();
                words[offset / 8] = garbage;
                assert_eq!(FpmQuery::parse(&words), Ok(plain), "{offset}");
            }
        }
        let mut none = reply();
        none[18] = 0x2000_0000_0000;
        let query = FpmQuery::parse(&none).unwrap();
        assert_eq!(query.limits(Object::Hdr), ObjectLimits::default());
    }

    #[test]
    fn senseless_replies_are_refused() {
        let mut size = reply();
        size[1] = 1024 | 16 << 32;
        assert!(FpmQuery::parse(&size).is_err());
        let mut block = reply();
        block[10] = 1 << 15;
        assert!(FpmQuery::parse(&block).is_err());
        let mut rrf = reply();
        rrf[17] = 8;
        assert!(FpmQuery::parse(&rrf).is_err(), "RRF without a block size");
        assert!(FpmQuery::parse(&[u64::MAX; WORDS]).is_err());
        assert!(FpmQuery::parse(&[0; WORDS]).is_ok());
    }
}
