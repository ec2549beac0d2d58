//! Fragments: SGEs as the device reads them (data-path 1.6).

use e810_hal::DmaWord;

use crate::sizing::MAX_MESSAGE;
use crate::wqe::header::HDR;
use crate::wr::Sge;

/// Bits of q1 of a fragment: the key in the low half, the length above it, the
/// valid bit on top (the same place as the header's).
const LEN_SHIFT: u32 = 32;
/// Where a length beyond [`MAX_MESSAGE`] has its top bit.
const TOO_LONG: u64 = 1 << 63;

const _: () = assert!((MAX_MESSAGE as u64 + 1) << LEN_SHIFT == TOO_LONG);

/// q1 of the only fragment of a WQE, without its valid bit; `None` for an SGE
/// that is too long.
#[inline(always)]
pub(crate) fn only(sge: &Sge) -> Option<u64> {
    // The length is looked at in the word, so that the SGE is read once.
    let word = word(sge);
    (word & TOO_LONG == 0).then_some(word)
}

/// Bytes of such a fragment.
#[inline(always)]
pub(crate) fn bytes(word: u64) -> u64 {
    word >> LEN_SHIFT
}

#[inline(always)]
fn word(sge: &Sge) -> u64 {
    u64::from(sge.length) << LEN_SHIFT | u64::from(sge.lkey)
}

/// ADDFRAGCNT for `count` fragments: one less, and the null fragment that
/// follows an even number of them (data-path 1.6).
#[inline(always)]
pub(crate) fn count_field(count: usize) -> u64 {
    HDR::ADDFRAGCNT.val(count as u64 & !1).value
}

/// Writes q0 and q1 of a WQE whose first fragment is `sge`, or the null
/// fragment.
#[inline(always)]
pub(crate) fn write_first<C: DmaWord>(q0: &C, q1: &C, sge: Option<&Sge>, valid: u64) {
    match sge {
        Some(sge) => {
            q0.set(sge.addr);
            q1.set(word(sge) | valid);
        }
        None => {
            q0.set(0);
            q1.set(valid);
        }
    }
}

/// Writes `sges` from byte 32 of a WQE on, and the null fragment that an even
/// number of `fragments` needs so that valid bits cover the last quantum.
/// `rest` are the words from byte 32 on; what does not fit is not written.
#[inline(always)]
pub(crate) fn write_rest<C: DmaWord>(rest: &[C], sges: &[Sge], fragments: usize, valid: u64) {
    let (pairs, _) = rest.as_chunks::<2>();
    let mut pairs = pairs.iter();
    for sge in sges {
        let Some([q0, q1]) = pairs.next() else {
            return;
        };
        q0.set(sge.addr);
        q1.set(word(sge) | valid);
    }
    let pad = fragments != 0 && fragments.is_multiple_of(2);
    if pad && let Some([q0, q1]) = pairs.next() {
        q0.set(0);
        q1.set(valid);
    }
}
