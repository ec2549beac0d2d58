//! The context of a UDA QP (control-path 5.2, column U): the kind existing
//! drivers use for their own iWARP queues.

use tock_registers::register_bitfields;

use super::roce::queue_address;
use super::{QpContext, RqContext, SqContext, StatsInstance, queue_size_code};
use crate::error::Result;
use crate::field::{bit, fit};

register_bitfields![u64,
    W24 [
        RQSIZE OFFSET(8) NUMBITS(4) [],
        SQSIZE OFFSET(12) NUMBITS(4) []
    ],
    W48 [ SNDMSS OFFSET(16) NUMBITS(14) [] ],
    W136 [
        TXCQNUM OFFSET(0) NUMBITS(25) [],
        RXCQNUM OFFSET(32) NUMBITS(25) []
    ],
    W144 [ STAT_INDEX OFFSET(0) NUMBITS(7) [] ],
    W160 [
        PRIVEN OFFSET(25) NUMBITS(1) [],
        USESTATSINSTANCE OFFSET(26) NUMBITS(1) []
    ],
    W176 [ QSHANDLE OFFSET(16) NUMBITS(10) [] ]
];

/// Everything the host context of a UDA QP says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdaContext {
    /// Send side.
    pub sq: SqContext,
    /// Receive side; its WQE size is not part of this context.
    pub rq: RqContext,
    /// QPCOMPCTX: returned in CQEs and AEQEs.
    pub completion_context: u64,
    /// SNDMSS: size of a buffer in bytes.
    pub buffer_bytes: u16,
    /// Queue-set handle, 10 bits.
    pub qs_handle: u16,
    /// Statistics instance.
    pub stats: StatsInstance,
}

impl UdaContext {
    /// The 32 words.
    ///
    /// # Errors
    /// [`Error`](crate::Error) naming the value that does not fit.
    pub fn encode(&self) -> Result<QpContext> {
        let mut context = QpContext::default();
        let [
            _,
            w8,
            w16,
            w24,
            _,
            _,
            w48,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            w136,
            w144,
            _,
            w160,
            w168,
            w176,
            ..,
        ] = &mut context;
        *w8 = queue_address("send queue", self.sq.memory)?;
        *w16 = queue_address("receive queue", self.rq.memory)?;
        *w24 = (fit(
            "receive queue size code",
            W24::RQSIZE,
            queue_size_code(self.rq.quanta)?,
        )? + fit(
            "send queue size code",
            W24::SQSIZE,
            queue_size_code(self.sq.quanta)?,
        )?)
        .value;
        *w48 = fit("buffer size", W48::SNDMSS, self.buffer_bytes)?.value;
        *w136 = (fit("send CQ id", W136::TXCQNUM, self.sq.cq)?
            + fit("receive CQ id", W136::RXCQNUM, self.rq.cq)?)
        .value;
        *w144 = fit("statistics instance", W144::STAT_INDEX, self.stats.index)?.value;
        *w160 = (W160::PRIVEN::SET + bit(W160::USESTATSINSTANCE, self.stats.used)).value;
        *w168 = self.completion_context;
        *w176 = fit("queue-set handle", W176::QSHANDLE, self.qs_handle)?.value;
        Ok(context)
    }
}
