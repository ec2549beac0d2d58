//! Sizes and maxima of HMC objects.
//!
//! Those of the E810 are **not in the sources** (control-path 12): a driver reads them with QUERY_FPM_VAL at run
//! time. All numbers here are this model's own, chosen independently of any driver's planner.
//!
//! Unless the profile says otherwise, a size is at least what the engine itself stores in the object (see
//! `contexts`).

use super::{KINDS, Kind};

/// Which sizes and maxima QUERY_FPM_VAL reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FpmProfile {
    /// As much as a card may have: maxima at which Linux's formula (control-path 6.5) gives 256 Ki queue pairs and 5 to
    /// 6 GiB of static objects, and about 55 MB when it is held to 128 queue pairs.
    Card,
    /// 1024 queue pairs: fits a machine with 1 GiB.
    #[default]
    Small,
    /// An E810-C as published numbers show it (field-evidence 4): Linux's formula gives the 65,536 queue pairs, 131,072
    /// completion queues and 2,097,152 regions that in-tree drivers report, and about the memory that Intel's README
    /// says of its own counts: 210 MB at 4096 queue pairs and 4,194,304 regions, 55 MB at 512 and 524,288.
    ///
    /// How each number follows is beside the table of this profile. All of it is `[inf]`.
    E810c,
}

/// log2 of the size in bytes, and the largest count.
type Limits = (u32, u64);

/// By number of the object type.
#[rustfmt::skip]
const CARD: [Limits; KINDS] = [
    /* QP */    (10, 262_144), /* CQ */       (7, 524_288),   /* SRQ */    (6, 0),
    /* HTE */   (6, 524_288),  /* ARP */      (6, 4_096),     /* APBVT */  (13, 1),
    /* MR */    (6, 524_288),  /* XF */       (6, 1 << 23),   /* XFFL */   (2, 1 << 20),
    /* Q1 */    (6, 1 << 26),  /* Q1FL */     (2, 1 << 23),   /* TIMER */  (6, 1 << 19),
    /* FSIMC */ (8, 4_096),    /* FSIAV */    (6, 131_072),   /* PBLE */   (3, 1 << 28),
    /* RRF */   (6, 1 << 23),  /* RRFFL */    (2, 1 << 20),   /* HDR */    (6, 262_144),
    /* MD */    (6, 65_536),   /* OOISC */    (6, 1 << 23),   /* OOISCFFL */ (2, 1 << 20),
];

#[rustfmt::skip]
const SMALL: [Limits; KINDS] = [
    /* QP */    (10, 1_024),   /* CQ */       (7, 2_048),     /* SRQ */    (6, 0),
    /* HTE */   (6, 4_096),    /* ARP */      (6, 256),       /* APBVT */  (13, 1),
    /* MR */    (6, 16_384),   /* XF */       (6, 65_536),    /* XFFL */   (2, 8_192),
    /* Q1 */    (6, 1 << 18),  /* Q1FL */     (2, 1 << 15),   /* TIMER */  (6, 8_192),
    /* FSIMC */ (8, 512),      /* FSIAV */    (6, 1_024),     /* PBLE */   (3, 1 << 20),
    /* RRF */   (6, 32_768),   /* RRFFL */    (2, 4_096),     /* HDR */    (6, 1_024),
    /* MD */    (6, 4_096),    /* OOISC */    (6, 32_768),    /* OOISCFFL */ (2, 4_096),
];

/// Where the numbers come from (each `[inf]`):
///
/// * QP: Intel's largest setting gives 131,068 queue pairs. Linux's loop halves regions in its first pass and queue
///   pairs in its second, so that 65,536 and 2,097,152 come from 131,072 and 4,194,304 in exactly these two.
/// * MR: 4,194,304 regions in 210 MB leave at most 50 bytes to each, so 32; with 64 they alone take 268 MB.
/// * Q1, XF, RRF: what queue pairs take between 512 and 4096 of them, (210 - 55) MB less the regions' share. Q1 has 256
///   entries a queue pair and is most of it; 64 bytes for its entries leave 16 for the others'.
/// * What is left, 22 MB at any count: 131,072 address vectors (as reported), MD.
/// * SDs: more than what the third pass needs and 129 fewer than the second, so 1,022 to 1,616 with these sizes.
/// * FSIMC: the 65,536 groups that Linux reports are its number of queue pairs (control-path 3.2); indexes are below
///   4096, and the register has 14 bits.
#[rustfmt::skip]
const E810C: [Limits; KINDS] = [
    /* QP */    (10, 131_072), /* CQ */       (7, 262_144),   /* SRQ */    (6, 0),
    /* HTE */   (6, 262_144),  /* ARP */      (6, 4_096),     /* APBVT */  (13, 1),
    /* MR */    (5, 1 << 22),  /* XF */       (4, 1 << 22),   /* XFFL */   (2, 1 << 19),
    /* Q1 */    (6, 1 << 25),  /* Q1FL */     (2, 1 << 22),   /* TIMER */  (6, 1 << 17),
    /* FSIMC */ (8, 4_096),    /* FSIAV */    (7, 131_072),   /* PBLE */   (3, 1 << 28),
    /* RRF */   (4, 1 << 22),  /* RRFFL */    (2, 1 << 19),   /* HDR */    (5, 131_072),
    /* MD */    (6, 65_536),   /* OOISC */    (4, 1 << 18),   /* OOISCFFL */ (2, 1 << 15),
];

impl FpmProfile {
    fn limits(self, kind: Kind) -> Limits {
        let table = match self {
            Self::Card => &CARD,
            Self::Small => &SMALL,
            Self::E810c => &E810C,
        };
        table.get(kind as usize).copied().unwrap_or_default()
    }

    /// log2 of the size of one object in bytes.
    pub(super) fn log2(self, kind: Kind) -> u32 {
        self.limits(kind).0
    }

    /// Size of one object in bytes.
    pub(crate) fn bytes(self, kind: Kind) -> u64 {
        1 << self.log2(kind)
    }

    /// The largest count a commit may ask for.
    pub(crate) fn maximum(self, kind: Kind) -> u64 {
        self.limits(kind).1
    }

    /// SDs this function has (MAX_PE_SDS).
    pub(crate) fn max_sds(self) -> u32 {
        match self {
            // A little less than everything at its maximum, so that Linux's shrink loop has work.
            Self::Card => 3_776,
            Self::Small => 64,
            Self::E810c => 1_536,
        }
    }

    /// CEQs this function has (MAX_CEQS).
    pub(crate) fn max_ceqs(self) -> u32 {
        match self {
            Self::Card | Self::E810c => 512,
            Self::Small => 32,
        }
    }

    /// HTMULTIPLIER.
    pub(crate) fn hash_multiplier(self) -> u32 {
        1
    }

    /// TIMERBUCKET.
    pub(crate) fn timer_bucket(self) -> u32 {
        match self {
            Self::Card => 512,
            Self::Small | Self::E810c => 256,
        }
    }
}
