//! Choices about events and completions.

/// How FLUSH_WQES reports the flushed requests. Which one the card does is not in the sources
/// (data-path 8.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushStyle {
    /// Each FLUSH_WQES does one of the others, by the engine's seed.
    Mixed,
    /// One flush CQE for a queue that had outstanding requests.
    PerQueue,
    /// One flush CQE for each outstanding request.
    PerWqe,
}

/// What the CLEARPBA bit of GLINT_DYN_CTL does to an event that came while the
/// vector was disabled there.
///
/// The sources only name the bit ("clear the pending bit", control-path 2.4), which is that of the
/// MSI-X table. Linux re-enables with INTENA and CLEARPBA in one write after its last poll of the
/// queue and does not poll again, which only works when such an event is kept `[inf clear_pba]`. A
/// driver that polls once more after enabling works with both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClearPba {
    /// The event is delivered when the same write enables the vector.
    Keeps,
    /// The event is forgotten.
    Drops,
}

/// What QPID of a flush CQE holds: NITS (flush_qp_id).
///
/// Existing drivers find the QP of every CQE by its context (data-path 4.3); only programs are
/// shown QPID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushQpId {
    /// The QP's number.
    Present,
    /// Nothing.
    Zero,
}

/// How the context of a CQ stands in COMPCTX of an asynchronous event.
///
/// Existing drivers shift COMPCTX left by one and give CREATE_CQ a context that was shifted right;
/// the tables say "(shifted)" of the field (control-path 4.8, 7.3). Which of the two shifts is the
/// card's is NITS (cq_event_context).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CqEventContext {
    /// CQCTX shifted right by one.
    Shifted,
    /// CQCTX as it was given.
    Whole,
}

/// What COMPCTX of a QP's asynchronous event holds `[inf qp_event_context]`.
///
/// The tables say QPCOMPCTX (control-path 7.3); existing drivers find the QP by its id and never
/// read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpEventContext {
    /// QPCOMPCTX.
    Whole,
    /// Nothing.
    Zero,
}
