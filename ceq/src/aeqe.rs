//! One AEQ entry: what happened, and to which queue pair or completion queue.
//!
//! An entry has an id, a completion context, a code and a source; which of them count depends on
//! the code's class and on the source (control-path 7.3 to 7.5). [`Aeqe::decode`] resolves this
//! once: [`Aeqe::about`] says everything that the entry names, [`Aeqe::object`] the one object it
//! happened to.
//!
//! ```
//! use e810_ceq::aeqe::{Aeqe, Object};
//! use e810_types::WorkQueue;
//!
//! // Bounds violation (0x0108), source send queue (5), QP 9, WQE index 3.
//! let word = 1 << 63 | 5 << 50 | 0x108 << 34 | 3 << 18 | 9;
//! let event = Aeqe::decode([0xABCD, word]);
//! assert_eq!(event.object(), Object::Qp(9));
//! assert_eq!(event.blamed(), Some(WorkQueue::Send));
//! assert_eq!(event.code.to_string(), "AMP_BOUNDS_VIOLATION (0x0108)");
//! ```

use core::fmt;

use e810_types::{HwQpState, WorkQueue};
use tock_registers::register_bitfields;

use crate::ae::{AeCode, Class};
use crate::ceqe::CqRef;

register_bitfields! { u64,
    // Control-path 7.3, the word at byte 8.
    AEQE [
        QPCQID_LOW OFFSET(0) NUMBITS(18) [],
        WQDESCIDX OFFSET(18) NUMBITS(15) [],
        OVERFLOW OFFSET(33) NUMBITS(1) [],
        AECODE OFFSET(34) NUMBITS(12) [],
        QPCQID_HI OFFSET(46) NUMBITS(1) [],
        AESRC OFFSET(50) NUMBITS(4) [],
        IWSTATE OFFSET(54) NUMBITS(3) [],
        TCPSTATE OFFSET(57) NUMBITS(4) [],
        Q2DATA OFFSET(61) NUMBITS(2) [],
        VALID OFFSET(63) NUMBITS(1) []
    ]
}

/// Whether the entry with this word at byte 8 is valid in a lap of this
/// polarity.
#[inline(always)]
pub(crate) fn is_valid(word: u64, polarity: bool) -> bool {
    AEQE::VALID.is_set(word) == polarity
}

bitflags::bitflags! {
    /// What an entry names.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct About: u8 {
        /// The id is a QP's.
        const QP = 1 << 0;
        /// The context is a CQ's, and so is the id unless [`About::QP`] is set.
        const CQ = 1 << 1;
        /// A shared receive queue; only later hardware has them.
        const SRQ = 1 << 2;
        /// The send queue is to blame.
        const SQ = 1 << 3;
        /// The receive queue is to blame.
        const RQ = 1 << 4;
        /// An inbound read response or write.
        const INBOUND = 1 << 5;
        /// An outbound read response.
        const OUTBOUND = 1 << 6;
        /// The WQE index is that of the receive at fault.
        const RQ_INDEX = 1 << 7;
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for About {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "About({=u8:#010b})", self.bits());
    }
}

/// AESRC: where the event comes from, according to the device (control-path 7.4). The sources do
/// not say how two values with the same meaning differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Source(pub u8);

impl Source {
    /// What the source alone names.
    #[must_use]
    pub const fn about(self) -> About {
        match self.0 {
            0x1 | 0x3 => About::QP.union(About::RQ).union(About::RQ_INDEX),
            0x2 | 0x6 | 0xA | 0xE => About::CQ,
            0x5 | 0x7 => About::QP.union(About::SQ),
            0x9 | 0xB => About::QP.union(About::INBOUND),
            0xD | 0xF => About::QP.union(About::OUTBOUND),
            // 0 is "none"; 4, 8 and C are not defined.
            _ => About::empty(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0x0 => "no queue",
            0x1 | 0x3 => "receive queue",
            0x2 | 0x6 | 0xA | 0xE => "completion queue",
            0x5 | 0x7 => "send queue",
            0x9 | 0xB => "inbound read response or write",
            0xD | 0xF => "outbound read response",
            _ => "undefined source",
        })
    }
}

/// What an event happened to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Object {
    /// The queue pair with this id.
    Qp(u32),
    /// The completion queue with this id.
    Cq(u32),
    /// A shared receive queue: none exist on this device.
    Srq(u32),
    /// No queue in particular: the function.
    Function,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qp(id) => write!(f, "QP {id}"),
            Self::Cq(id) => write!(f, "CQ {id}"),
            Self::Srq(id) => write!(f, "SRQ {id}"),
            Self::Function => f.write_str("the function"),
        }
    }
}

/// An AEQ entry, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Aeqe {
    /// What happened.
    pub code: AeCode,
    /// Where it happened, according to the device; some classes ignore it.
    pub source: Source,
    /// What the entry names, by class and source.
    pub about: About,
    /// QPCQID: 19 bits; [`Aeqe::object`] tells whose id it is.
    pub id: u32,
    /// WQDESCIDX: 15 bits; the receive at fault when [`About::RQ_INDEX`] is
    /// set.
    pub wqe_index: u16,
    /// QP state at the time; `None` for 7, which is not in the sources.
    pub iw_state: Option<HwQpState>,
    /// TCP state (iWARP), control-path 5.4.
    pub tcp_state: u8,
    /// Q2DATA: what was written to the QP's Q2 area (iWARP), 2 bits.
    pub q2_data: u8,
    /// The queue overflowed: events are lost.
    pub overflow: bool,
    /// COMPCTX as it stands in the entry: the QP's completion context, or the
    /// CQ's (see [`Aeqe::generation`]).
    pub context: u64,
}

impl Aeqe {
    /// Decodes the entry's two words; any bits give an entry. The consumer checks the valid bit.
    #[must_use]
    pub fn decode([context, word]: [u64; 2]) -> Self {
        let code = AeCode(AEQE::AECODE.read(word) as u16);
        let source = Source(AEQE::AESRC.read(word) as u8);
        Self {
            code,
            source,
            about: about(code.class(), source),
            id: (AEQE::QPCQID_HI.read(word) << 18 | AEQE::QPCQID_LOW.read(word)) as u32,
            wqe_index: AEQE::WQDESCIDX.read(word) as u16,
            iw_state: HwQpState::from_code(AEQE::IWSTATE.read(word) as u8),
            tcp_state: AEQE::TCPSTATE.read(word) as u8,
            q2_data: AEQE::Q2DATA.read(word) as u8,
            overflow: AEQE::OVERFLOW.is_set(word),
            context,
        }
    }

    /// The object of the event. An entry that names a QP and a CQ belongs to the QP, because its
    /// id is the QP's (control-path 7.5).
    #[must_use]
    pub const fn object(&self) -> Object {
        if self.about.contains(About::QP) {
            Object::Qp(self.id)
        } else if self.about.contains(About::CQ) {
            Object::Cq(self.id)
        } else if self.about.contains(About::SRQ) {
            Object::Srq(self.id)
        } else {
            Object::Function
        }
    }

    /// The queue of the QP that is to blame. Its flush carries the code of
    /// [`AeInfo::flush`](crate::AeInfo), the flush of the other queue the general one
    /// (control-path 7.6).
    #[must_use]
    pub const fn blamed(&self) -> Option<WorkQueue> {
        if self.about.contains(About::SQ) {
            Some(WorkQueue::Send)
        } else if self.about.contains(About::RQ) {
            Some(WorkQueue::Recv)
        } else {
            None
        }
    }

    /// The generation of the object's id, if COMPCTX has one. It has one in contexts as
    /// [`CqRef::context`] makes them, with the generation above the id (those of QPs alike).
    /// `None` if the context has another form or another id, or is empty. No driver has relied on
    /// COMPCTX to find a QP or CQ on this card: they use the id, and so must a caller that gets
    /// `None`.
    ///
    /// A CQ's context may be shifted right by one (control-path 7.3). Whether the device does
    /// this, or drivers that gave CREATE_CQ a pointer shifted right, is not in the sources. The
    /// id in the low bits tells which form it is; for id 0, the CCQ, nothing does, and `None` is
    /// returned.
    #[must_use]
    pub const fn generation(&self) -> Option<u32> {
        match self.object() {
            Object::Qp(id) => generation_of(self.context, id),
            Object::Cq(0) | Object::Srq(_) | Object::Function => None,
            Object::Cq(id) => match generation_of(self.context, id) {
                // A shifted context has 62 bits left, and the lowest bit is lost.
                None if self.context >> 62 == 0 => {
                    generation_of(self.context << 1 | (id & 1) as u64, id)
                }
                generation => generation,
            },
        }
    }
}

/// The generation in a context of ours for `id`: 1 to 2^31 - 1.
const fn generation_of(context: u64, id: u32) -> Option<u32> {
    if context >> 63 != 0 || context as u32 != id || context >> 32 == 0 {
        return None;
    }
    Some(CqRef::from_context(context).generation())
}

/// What an entry names, by the class of its code (control-path 7.5).
const fn about(class: Class, source: Source) -> About {
    match class {
        Class::Qp => source.about().union(About::QP),
        Class::QpOnly => About::QP,
        Class::Cq => About::CQ,
        Class::Srq => About::SRQ,
        Class::Source => source.about(),
        Class::Nothing => About::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn event(code: u64, source: u64) -> Aeqe {
        Aeqe::decode([0x11, source << 50 | code << 34 | 1 << 46 | 5])
    }

    #[test]
    fn every_field_has_its_bits() {
        let word = 1 << 63
            | 2 << 61
            | 5 << 57
            | 6 << 54
            | 1 << 50
            | 1 << 46
            | 0x102 << 34
            | 23_228 << 18
            | 179_422;
        let got = Aeqe::decode([7, word]);
        assert_eq!(got.code, AeCode(0x102));
        assert_eq!((got.id, got.wqe_index), (441_566, 23_228));
        assert_eq!((got.tcp_state, got.q2_data), (5, 2));
        assert_eq!(got.iw_state, Some(HwQpState::Error));
        assert_eq!((got.overflow, got.context), (false, 7));
        assert!(Aeqe::decode([0, 1 << 33]).overflow);
        let ones = Aeqe::decode([u64::MAX; 2]);
        assert_eq!((ones.id, ones.wqe_index), (0x7_FFFF, 0x7FFF));
        assert_eq!(ones.iw_state, None);
    }

    #[test]
    fn a_source_decides_for_a_code_that_leaves_it_to_it() {
        let bounds = |source| event(0x108, source);
        assert_eq!(bounds(0).object(), Object::Function);
        assert_eq!(bounds(4).object(), Object::Function);
        assert_eq!(bounds(1).object(), Object::Qp(1 << 18 | 5));
        assert_eq!(bounds(1).blamed(), Some(WorkQueue::Recv));
        assert_eq!(bounds(7).blamed(), Some(WorkQueue::Send));
        assert_eq!(bounds(9).blamed(), None);
        assert_eq!(bounds(0xE).object(), Object::Cq(1 << 18 | 5));
    }

    #[test]
    fn a_qp_event_is_the_qps_whatever_the_source() {
        let retries = event(0x50A, 2);
        assert_eq!(retries.about, About::QP | About::CQ);
        assert_eq!(retries.object(), Object::Qp(1 << 18 | 5));
        let closed = event(0x503, 2);
        assert_eq!(closed.about, About::QP);
        assert_eq!(closed.object(), Object::Qp(1 << 18 | 5));
    }

    #[test]
    fn a_cq_event_names_id_and_generation() {
        let context = CqRef::new(9, 3).context();
        for context in [context, context >> 1] {
            let broken = Aeqe::decode([context, 0x702 << 34 | 9]);
            assert_eq!(broken.generation(), Some(3));
            assert_eq!(broken.object().to_string(), "CQ 9");
        }
    }

    /// The source of a QP's event says nothing of how its context stands.
    #[test]
    fn a_qps_context_stands_as_it_was_given() {
        let context = CqRef::new(1 << 18 | 5, 6).context();
        for source in 0..16 {
            let mut fatal = event(0x700, source);
            assert_eq!(fatal.generation(), None, "a context that is none");
            fatal.context = context;
            assert_eq!(fatal.generation(), Some(6));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Also with generations of which one is the other's half.
        #[test]
        fn both_forms_of_a_cqs_context_are_distinguished(
            id in 1u32..1 << 19, generation in 1u32..CqRef::GENERATIONS, other: u64,
        ) {
            let word = 2 << 50 | 0x203 << 34 | u64::from(id >> 18) << 46 | u64::from(id & 0x3_FFFF);
            let named = |context| Aeqe::decode([context, word]).generation();
            let context = CqRef::new(id, generation).context();
            prop_assert_eq!(named(context), Some(generation));
            prop_assert_eq!(named(context >> 1), Some(generation));
            prop_assert_eq!(named(u64::from(id)), None);
            prop_assert_eq!(named(0), None);
            if let Some(found) = named(other) {
                let context = CqRef::new(id, found).context();
                prop_assert!(other == context || other == context >> 1);
            }
        }

        #[test]
        fn any_words_decode(context: u64, word: u64) {
            let got = Aeqe::decode([context, word]);
            prop_assert!(got.id < crate::limits::MAX_IDS);
            prop_assert!(got.code.0 < 1 << 12 && got.source.0 < 16);
            prop_assert!(!got.source.to_string().is_empty());
            prop_assert_eq!(got.blamed().is_some(), got.about.intersects(About::SQ | About::RQ));
        }
    }
}
