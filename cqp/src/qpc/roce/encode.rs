//! From the values of a RoCEv2 context to its words.

use e810_hal::Iova;
use tock_registers::register_bitfields;

use super::RoceContext;
use crate::error::Result;
use crate::field::{at_most, bit, fit};
use crate::limits::{MAX_IRD, MAX_PD};
use crate::op::QueueMemory;
use crate::qpc::{QpContext, ird_code, queue_size_code};

register_bitfields![u64,
    W0 [
        IPV4 OFFSET(3) NUMBITS(1) [],
        INSERTVLANTAG OFFSET(5) NUMBITS(1) [],
        ISQP1 OFFSET(6) NUMBITS(1) [],
        RQWQESIZE OFFSET(8) NUMBITS(2) [],
        ERR_RQ_IDX_VALID OFFSET(19) NUMBITS(1) [],
        PDIDXHI OFFSET(20) NUMBITS(2) [],
        DC_TCP_EN OFFSET(25) NUMBITS(1) [],
        PPIDX OFFSET(32) NUMBITS(10) [],
        PMENA OFFSET(47) NUMBITS(1) []
    ],
    W24 [
        TTL OFFSET(0) NUMBITS(8) [],
        RQSIZE OFFSET(8) NUMBITS(4) [],
        SQSIZE OFFSET(12) NUMBITS(4) [],
        TOS OFFSET(24) NUMBITS(8) [],
        SRCPORTNUM OFFSET(32) NUMBITS(16) [],
        DESTPORTNUM OFFSET(48) NUMBITS(16) []
    ],
    W48 [
        SNDMSS OFFSET(16) NUMBITS(14) [],
        VLANTAG OFFSET(32) NUMBITS(16) [],
        ARPIDX OFFSET(48) NUMBITS(16) []
    ],
    W56 [
        FLOWLABEL OFFSET(0) NUMBITS(20) [],
        ACKCREDITS OFFSET(20) NUMBITS(5) [],
        PKEY OFFSET(32) NUMBITS(16) [],
        PDIDX OFFSET(48) NUMBITS(16) []
    ],
    W64 [
        DESTQP OFFSET(0) NUMBITS(24) [],
        QKEY OFFSET(32) NUMBITS(32) []
    ],
    // Words 80, 88 and 96: two 24-bit sequence numbers each.
    Psn [
        LOW OFFSET(0) NUMBITS(24) [],
        HIGH OFFSET(32) NUMBITS(24) []
    ],
    W128 [
        ERR_RQ_IDX OFFSET(32) NUMBITS(15) [],
        REXMIT_THRESH OFFSET(48) NUMBITS(6) [],
        RNRNAK_THRESH OFFSET(54) NUMBITS(3) [],
        RTOMIN OFFSET(57) NUMBITS(7) []
    ],
    W136 [
        TXCQNUM OFFSET(0) NUMBITS(25) [],
        RXCQNUM OFFSET(32) NUMBITS(25) []
    ],
    W144 [ STAT_INDEX OFFSET(0) NUMBITS(7) [] ],
    W152 [ MACADDRESS OFFSET(16) NUMBITS(48) [] ],
    W160 [
        ORDSIZE OFFSET(0) NUMBITS(8) [],
        IRDSIZE OFFSET(16) NUMBITS(3) [],
        UDPRIVCQENABLE OFFSET(19) NUMBITS(1) [],
        WRRDRSPOK OFFSET(20) NUMBITS(1) [],
        RDOK OFFSET(21) NUMBITS(1) [],
        DCQCNENABLE OFFSET(22) NUMBITS(1) [],
        BINDEN OFFSET(23) NUMBITS(1) [],
        FASTREGEN OFFSET(24) NUMBITS(1) [],
        PRIVEN OFFSET(25) NUMBITS(1) [],
        USESTATSINSTANCE OFFSET(26) NUMBITS(1) [],
        TIMELYENABLE OFFSET(27) NUMBITS(1) [],
        FW_CC_ENABLE OFFSET(28) NUMBITS(1) [],
        RCVNOICRC OFFSET(31) NUMBITS(1) []
    ],
    W176 [
        SQTPHVAL OFFSET(0) NUMBITS(8) [],
        RQTPHVAL OFFSET(8) NUMBITS(8) [],
        QSHANDLE OFFSET(16) NUMBITS(10) []
    ],
    W200 [
        TLOW OFFSET(32) NUMBITS(8) [],
        THIGH OFFSET(52) NUMBITS(12) []
    ],
    W208 [ REMENDPOINTIDX OFFSET(0) NUMBITS(17) [] ]
];

/// ECN bits of a TOS that marks the packet as ECN capable.
const ECN_CAPABLE: u8 = 2;
/// ECN bits of a TOS.
const ECN_BITS: u8 = 3;

impl RoceContext {
    /// The 32 words.
    ///
    /// # Errors
    /// [`Error`](crate::Error) naming the value that does not fit.
    pub fn encode(&self) -> Result<QpContext> {
        let mut context = QpContext::default();
        let [
            w0,
            w8,
            w16,
            w24,
            w32,
            w40,
            w48,
            w56,
            w64,
            _,
            w80,
            w88,
            w96,
            _,
            w112,
            _,
            w128,
            w136,
            w144,
            w152,
            w160,
            w168,
            w176,
            w184,
            w192,
            w200,
            w208,
            ..,
        ] = &mut context;
        let pd = at_most("PD id", u64::from(self.pd), u64::from(MAX_PD))?;
        let peer = &self.peer;

        *w0 = self.flags(pd)?;
        *w8 = queue_address("send queue", self.sq.memory)?;
        *w16 = queue_address("receive queue", self.rq.memory)?;
        *w24 = self.sizes_and_ports()?;
        [*w32, *w40] = peer.addresses.destination_words();
        *w48 = (fit("path MTU", W48::SNDMSS, self.path_mtu)?
            + W48::VLANTAG.val(u64::from(peer.vlan.unwrap_or(0)))
            + W48::ARPIDX.val(u64::from(peer.arp_index)))
        .value;
        *w56 = (fit("flow label", W56::FLOWLABEL, peer.flow_label)?
            + fit("ACK credits", W56::ACKCREDITS, self.ack_credits)?
            + W56::PKEY.val(u64::from(self.pkey))
            + W56::PDIDX.val(pd))
        .value;
        *w64 = (fit("destination QP", W64::DESTQP, peer.qp)? + W64::QKEY.val(u64::from(self.qkey)))
            .value;
        *w80 = psns(("next PSN", self.psn_next), ("LSN", self.lsn))?;
        *w88 = psns(("expected PSN", self.psn_expected), ("", 0))?;
        *w96 = psns(
            ("greatest PSN", self.psn_max),
            ("unacknowledged PSN", self.psn_unacked),
        )?;
        *w112 = psns(("", 0), ("congestion window", self.window))?;
        *w128 = (fit(
            "RQ error index",
            W128::ERR_RQ_IDX,
            self.error_rq_index.unwrap_or(0),
        )? + fit("retry count", W128::REXMIT_THRESH, self.retries)?
            + fit("RNR retry count", W128::RNRNAK_THRESH, self.rnr_retries)?
            + fit("RTO minimum", W128::RTOMIN, self.rto_min)?)
        .value;
        *w136 = (fit("send CQ id", W136::TXCQNUM, self.sq.cq)?
            + fit("receive CQ id", W136::RXCQNUM, self.rq.cq)?)
        .value;
        *w144 = fit("statistics instance", W144::STAT_INDEX, self.stats.index)?.value;
        *w152 = W152::MACADDRESS.val(self.mac.to_u64()).value;
        *w160 = self.abilities()?;
        *w168 = self.completion_context;
        *w176 = fit("queue-set handle", W176::QSHANDLE, self.qs_handle)?.value;
        [*w184, *w192] = peer.addresses.source_words();
        let timely = self.congestion.timely.unwrap_or_default();
        *w200 = (W200::TLOW.val(u64::from(timely.low))
            + fit("TIMELY high threshold", W200::THIGH, timely.high)?)
        .value;
        *w208 = fit(
            "remote endpoint index",
            W208::REMENDPOINTIDX,
            peer.endpoint_index,
        )?
        .value;
        Ok(context)
    }

    /// Word 0.
    fn flags(&self, pd: u64) -> Result<u64> {
        let push = fit("push page", W0::PPIDX, self.push_page.unwrap_or(0))?;
        Ok((bit(W0::IPV4, self.peer.addresses.is_v4())
            + bit(W0::INSERTVLANTAG, self.peer.vlan.is_some())
            + bit(W0::ISQP1, self.gsi)
            + fit("RQ WQE size code", W0::RQWQESIZE, self.rq.wqe_shift)?
            + bit(W0::ERR_RQ_IDX_VALID, self.error_rq_index.is_some())
            + W0::PDIDXHI.val(pd >> 16)
            + bit(W0::DC_TCP_EN, self.congestion.dctcp)
            + push
            + bit(W0::PMENA, self.push_page.is_some()))
        .value)
    }

    /// Word 24.
    fn sizes_and_ports(&self) -> Result<u64> {
        let marks = self.congestion.dcqcn || self.congestion.dctcp;
        let tos = self.peer.traffic_class;
        let tos = if marks && tos & ECN_BITS == 0 {
            tos | ECN_CAPABLE
        } else {
            tos
        };
        let (sq, rq) = (
            queue_size_code(self.sq.quanta)?,
            queue_size_code(self.rq.quanta)?,
        );
        Ok((W24::TTL.val(u64::from(self.peer.hop_limit))
            + fit("receive queue size code", W24::RQSIZE, rq)?
            + fit("send queue size code", W24::SQSIZE, sq)?
            + W24::TOS.val(u64::from(tos))
            + W24::SRCPORTNUM.val(u64::from(self.peer.source_port))
            + W24::DESTPORTNUM.val(u64::from(self.peer.destination_port)))
        .value)
    }

    /// Word 160.
    fn abilities(&self) -> Result<u64> {
        let may = self.privileges;
        let control = self.congestion;
        at_most(
            "inbound reads (IRD)",
            u64::from(self.ird),
            u64::from(MAX_IRD),
        )?;
        Ok((fit("outbound reads (ORD)", W160::ORDSIZE, self.ord)?
            + W160::IRDSIZE.val(u64::from(ird_code(self.ird)))
            + bit(W160::UDPRIVCQENABLE, may.ud_private_cq)
            + bit(W160::WRRDRSPOK, may.remote_write)
            + bit(W160::RDOK, may.remote_read)
            + bit(W160::DCQCNENABLE, control.dcqcn)
            + bit(W160::BINDEN, may.bind)
            + bit(W160::FASTREGEN, may.fast_register)
            + bit(W160::PRIVEN, may.privileged)
            + bit(W160::USESTATSINSTANCE, self.stats.used)
            + bit(W160::TIMELYENABLE, control.timely.is_some())
            + bit(W160::FW_CC_ENABLE, control.firmware)
            + bit(W160::RCVNOICRC, self.ignore_icrc))
        .value)
    }
}

/// SQADDR or RQADDR: an address, or a PBLE index.
pub(in crate::qpc) fn queue_address(name: &'static str, memory: QueueMemory) -> Result<u64> {
    /// PBLE indexes have 28 bits everywhere (control-path 6.7).
    const MAX_PBLE: u64 = 0xFFF_FFFF;
    match memory {
        QueueMemory::Contiguous(Iova(address)) => Ok(address),
        QueueMemory::Pbles(first) => at_most(name, u64::from(first), MAX_PBLE),
    }
}

fn psns(low: (&'static str, u32), high: (&'static str, u32)) -> Result<u64> {
    Ok((fit(low.0, Psn::LOW, low.1)? + fit(high.0, Psn::HIGH, high.1)?).value)
}
