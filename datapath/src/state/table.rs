//! The table of state changes as data (data-path 8.2).

use e810_types::QpState;

use super::{AttrMask, Masks, Transition};

const fn m(bits: &[AttrMask]) -> AttrMask {
    let mut all = AttrMask::empty();
    let mut rest = bits;
    while let Some((first, others)) = rest.split_first() {
        all = all.union(*first);
        rest = others;
    }
    all
}

const PK: AttrMask = AttrMask::PKEY_INDEX;
const PO: AttrMask = AttrMask::PORT;
const AC: AttrMask = AttrMask::ACCESS_FLAGS;
const QK: AttrMask = AttrMask::QKEY;
const AV: AttrMask = AttrMask::AV;
const MTU: AttrMask = AttrMask::PATH_MTU;
const DQ: AttrMask = AttrMask::DEST_QPN;
const RP: AttrMask = AttrMask::RQ_PSN;
const SP: AttrMask = AttrMask::SQ_PSN;
const DRA: AttrMask = AttrMask::MAX_DEST_RD_ATOMIC;
const QRA: AttrMask = AttrMask::MAX_QP_RD_ATOMIC;
const RNRT: AttrMask = AttrMask::MIN_RNR_TIMER;
const TO: AttrMask = AttrMask::TIMEOUT;
const RC: AttrMask = AttrMask::RETRY_CNT;
const RR: AttrMask = AttrMask::RNR_RETRY;
const CS: AttrMask = AttrMask::CUR_STATE;
const ALT: AttrMask = AttrMask::ALT_PATH;
const MIG: AttrMask = AttrMask::PATH_MIG_STATE;
const EN: AttrMask = AttrMask::EN_SQD_ASYNC_NOTIFY;

const fn of(required: &[AttrMask], optional: &[AttrMask]) -> Masks {
    Masks {
        required: m(required),
        optional: m(optional),
    }
}

const NONE: Masks = of(&[], &[]);

const fn bare(from: QpState, to: QpState) -> Transition {
    Transition {
        from,
        to,
        masks: [NONE; 7],
    }
}

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};

// Columns: RC, UC, UD, GSI/SMI, RAW_PACKET, XRC_INI, XRC_TGT.
#[rustfmt::skip]
pub(super) const TRANSITIONS: &[Transition] = &[
    bare(Reset, Reset),
    Transition { from: Reset, to: Init, masks: [
        of(&[PK, PO, AC], &[]),
        of(&[PK, PO, AC], &[]),
        of(&[PK, PO, QK], &[]),
        of(&[PK, QK], &[]),
        of(&[PO], &[]),
        of(&[PK, PO, AC], &[]),
        of(&[PK, PO, AC], &[]),
    ] },
    bare(Init, Reset),
    bare(Init, Err),
    Transition { from: Init, to: Init, masks: [
        of(&[], &[PK, PO, AC]),
        of(&[], &[PK, PO, AC]),
        of(&[], &[PK, PO, QK]),
        of(&[], &[PK, QK]),
        NONE,
        of(&[], &[PK, PO, AC]),
        of(&[], &[PK, PO, AC]),
    ] },
    Transition { from: Init, to: Rtr, masks: [
        of(&[AV, MTU, DQ, RP, DRA, RNRT], &[ALT, AC, PK]),
        of(&[AV, MTU, DQ, RP], &[ALT, AC, PK]),
        of(&[], &[PK, QK]),
        of(&[], &[PK, QK]),
        NONE,
        of(&[AV, MTU, DQ, RP], &[ALT, AC, PK]),
        of(&[AV, MTU, DQ, RP, DRA, RNRT], &[ALT, AC, PK]),
    ] },
    bare(Rtr, Reset),
    bare(Rtr, Err),
    Transition { from: Rtr, to: Rts, masks: [
        of(&[TO, RC, RR, SP, QRA], &[CS, ALT, AC, RNRT, MIG]),
        of(&[SP], &[CS, ALT, AC, MIG]),
        of(&[SP], &[CS, QK]),
        of(&[SP], &[CS, QK]),
        NONE,
        of(&[TO, RC, RR, SP, QRA], &[CS, ALT, AC, MIG]),
        of(&[TO, SP], &[CS, ALT, AC, RNRT, MIG]),
    ] },
    bare(Rts, Reset),
    bare(Rts, Err),
    Transition { from: Rts, to: Rts, masks: [
        of(&[], &[CS, AC, ALT, MIG, RNRT]),
        of(&[], &[CS, AC, ALT, MIG]),
        of(&[], &[CS, QK]),
        of(&[], &[CS, QK]),
        NONE,
        of(&[], &[CS, AC, ALT, MIG]),
        of(&[], &[CS, AC, ALT, MIG, RNRT]),
    ] },
    Transition { from: Rts, to: Sqd, masks: [
        of(&[], &[EN]),
        of(&[], &[EN]),
        of(&[], &[EN]),
        of(&[], &[EN]),
        NONE,
        of(&[], &[EN]),
        of(&[], &[EN]),
    ] },
    bare(Sqd, Reset),
    bare(Sqd, Err),
    Transition { from: Sqd, to: Rts, masks: [
        of(&[], &[CS, ALT, AC, RNRT, MIG]),
        of(&[], &[CS, ALT, AC, MIG]),
        of(&[], &[CS, QK]),
        of(&[], &[CS, QK]),
        NONE,
        of(&[], &[CS, ALT, AC, MIG]),
        of(&[], &[CS, ALT, AC, RNRT, MIG]),
    ] },
    Transition { from: Sqd, to: Sqd, masks: [
        of(&[], &[PO, AV, TO, RC, RR, QRA, DRA, ALT, AC, PK, RNRT, MIG]),
        of(&[], &[AV, ALT, AC, PK, MIG]),
        of(&[], &[PK, QK]),
        of(&[], &[PK, QK]),
        NONE,
        of(&[], &[PO, AV, TO, RC, RR, QRA, ALT, AC, PK, MIG]),
        of(&[], &[PO, AV, TO, DRA, ALT, AC, PK, RNRT, MIG]),
    ] },
    bare(Sqe, Reset),
    bare(Sqe, Err),
    Transition { from: Sqe, to: Rts, masks: [
        NONE,
        of(&[], &[CS, AC]),
        of(&[], &[CS, QK]),
        of(&[], &[CS, QK]),
        NONE,
        NONE,
        NONE,
    ] },
    bare(Err, Reset),
    bare(Err, Err),
];
