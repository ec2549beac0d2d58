//! Fragments: SGEs as the device reads them (data-path 1.6).

use e810_hal::Cell;

use crate::wqe::header::HDR;
use crate::wr::Sge;

/// Bits of q1 of a fragment: the key in the low half, the length above it, the
/// valid bit on top (the same place as the header's).
const LEN_SHIFT: u32 = 32;

#[inline(always)]
fn word(sge: &Sge, valid: u64) -> u64 {
    u64::from(sge.length) << LEN_SHIFT | u64::from(sge.lkey) | valid
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
pub(crate) fn write_first<C: Cell>(q0: &C, q1: &C, sge: Option<&Sge>, valid: u64) {
    match sge {
        Some(sge) => {
            q0.set(sge.addr);
            q1.set(word(sge, valid));
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
pub(crate) fn write_rest<C: Cell>(rest: &[C], sges: &[Sge], fragments: usize, valid: u64) {
    let (pairs, _) = rest.as_chunks::<2>();
    let mut pairs = pairs.iter();
    for sge in sges {
        let Some([q0, q1]) = pairs.next() else {
            return;
        };
        q0.set(sge.addr);
        q1.set(word(sge, valid));
    }
    let pad = fragments != 0 && fragments.is_multiple_of(2);
    if pad && let Some([q0, q1]) = pairs.next() {
        q0.set(0);
        q1.set(valid);
    }
}
