//! Codes about work requests and the peer's replies to them.

use super::{GEN3, IWARP, asynchronous_events};

asynchronous_events! {
    0x0132 UDA_XMIT_DGRAM_TOO_LONG: Qp, LOC_LEN, Flush, Roce,
        "a datagram is longer than the path MTU allows",
        "send at most one MTU a datagram on a UD QP";
    0x0133 UDA_XMIT_BAD_PD: Qp, LOC_QP_OP, Flush, Roce,
        "the address handle and the QP are in different protection domains",
        "create the address handle in the QP's protection domain";
    0x0134 UDA_XMIT_DGRAM_TOO_SHORT: Qp, LOC_LEN, Flush, Roce,
        "a datagram is shorter than its headers",
        "check the lengths of the SGEs of the send";
    0x0135 UDA_L4LEN_INVALID: Qp, LOC_LEN, Flush, Roce,
        "the length of the transport header is not valid",
        "check L4LEN of the send: it is 0 on a RoCE UD QP";
    0x0201 BAD_CLOSE: Qp, GENERAL, Close, Iwarp,
        "the connection was closed in a state that does not allow it", IWARP;
    0x0202 RDMAP_ROE_BAD_LLP_CLOSE: QpOnly, GENERAL, Close, Iwarp,
        "the peer closed the connection in the middle of a message", IWARP;
    0x0203 CQ_OPERATION_ERROR: Source, GENERAL, CqError, Roce,
        "a completion queue overflowed, or is not usable",
        "create the CQ with at least as many entries as all its QPs can have requests outstanding, and poll it";
    0x0205 RDMA_READ_WHILE_ORD_ZERO: Qp, GENERAL, Flush, Roce,
        "a read was posted on a QP that may have none outstanding",
        "set max_rd_atomic (ORD) above 0 when moving the QP to RTS";
    0x0206 STAG_ZERO_INVALID: Qp, GENERAL, Flush, Roce,
        "STag 0 was used on a QP without privilege",
        "register memory and use its lkey; lkey 0 needs a privileged QP";
    0x0207 IB_RREQ_AND_Q1_FULL: Qp, GENERAL, Flush, Roce,
        "the peer has more reads outstanding than this QP takes",
        "set max_dest_rd_atomic (IRD) here to at least max_rd_atomic of the peer";
    0x0208 IB_INVALID_REQUEST: Qp, REM_INV_REQ, Flush, Roce,
        "the peer answered that the request is invalid",
        "check that the peer's QP allows the operation, and that its receives are as long as the message";
    0x0209 SRQ_LIMIT: Srq, GENERAL, Report, Gen3,
        "a shared receive queue fell below its limit", GEN3;
    0x020A WQE_UNEXPECTED_OPCODE: Qp, LOC_QP_OP, Flush, Roce,
        "a request has an operation that the QP's type does not allow",
        "post only sends on a UD QP; atomics do not exist on this device";
    0x020B WQE_INVALID_PARAMETER: Source, GENERAL, Flush, Roce,
        "a request has a parameter that is not valid",
        "check flags, immediate data and remote address of the request at the reported index";
    0x020C WQE_INVALID_FRAG_DATA: Source, GENERAL, Flush, Roce,
        "an SGE of a request is not valid",
        "check address, length (below 2^31) and lkey of every SGE of the request at the reported index";
    0x020D IB_REMOTE_ACCESS_ERROR: Qp, REM_ACCESS, Flush, Roce,
        "the peer refused the access (NAK, remote access error)",
        "check rkey, address, length and rights of the peer's region, and the access flags of its QP";
    0x020E IB_REMOTE_OP_ERROR: Qp, REM_OP, Flush, Roce,
        "the peer could not complete the request (NAK, remote operational error)",
        "look at the peer's events and completions: its QP has failed";
    0x020F SRQ_CATASTROPHIC_ERROR: Source, GENERAL, Report, Gen3,
        "a shared receive queue failed", GEN3;
    0x0220 WQE_LSMM_TOO_LONG: Source, GENERAL, Flush, Iwarp,
        "the message that starts a connection is too long", IWARP;
    0x0221 ATOMIC_ALIGNMENT: Source, GENERAL, Flush, Gen3,
        "an atomic's address is not aligned", GEN3;
    0x0222 ATOMIC_MASK: Source, GENERAL, Flush, Gen3,
        "an atomic's mask is not valid", GEN3;
    0x0223 INVALID_REQUEST: Source, GENERAL, Flush, Gen3,
        "a request is not valid", GEN3;
    0x0224 PCIE_ATOMIC_DISABLE: Source, GENERAL, Flush, Gen3,
        "atomics are disabled on the PCI Express link", GEN3;
}
