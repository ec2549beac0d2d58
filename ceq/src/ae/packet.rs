//! Codes about received packets and the addresses they go to.

use super::{IWARP, asynchronous_events};

asynchronous_events! {
    0x0301 DDP_INVALID_MSN_GAP_IN_MSN: Source, GENERAL, Flush, Iwarp,
        "message sequence numbers have a gap", IWARP;
    0x0303 DDP_UBE_DDP_MESSAGE_TOO_LONG_FOR_AVAILABLE_BUFFER: Source, LOC_LEN, Flush, Roce,
        "a message is longer than the receive posted for it",
        "post receives at least as long as the longest message the peer sends";
    0x0304 DDP_UBE_INVALID_DDP_VERSION: Qp, GENERAL, Flush, Iwarp,
        "a segment has a wrong DDP version", IWARP;
    0x0305 DDP_UBE_INVALID_MO: Qp, LOC_LEN, Flush, Iwarp,
        "a segment has a wrong message offset", IWARP;
    0x0306 DDP_UBE_INVALID_MSN_NO_BUFFER_AVAILABLE: Source, GENERAL, Flush, Iwarp,
        "a message came and no receive was posted", IWARP;
    0x0307 DDP_UBE_INVALID_QN: Qp, GENERAL, Flush, Iwarp,
        "a segment has a wrong DDP queue number", IWARP;
    0x0308 DDP_NO_L_BIT: Qp, GENERAL, Flush, Iwarp,
        "a message's last segment is not marked as such", IWARP;
    0x0311 RDMAP_ROE_INVALID_RDMAP_VERSION: Qp, GENERAL, Flush, Iwarp,
        "a message has a wrong RDMAP version", IWARP;
    0x0312 RDMAP_ROE_UNEXPECTED_OPCODE: Qp, GENERAL, Flush, Roce,
        "a packet has an opcode that the QP does not expect",
        "check that both QPs are of the same type and connected to each other, and that their starting PSNs agree";
    0x0313 ROE_INVALID_RDMA_READ_REQUEST: Qp, GENERAL, Flush, Roce,
        "the peer sent a read request that is not valid",
        "check that this QP grants remote reads, and address and length of the peer's read";
    0x0314 ROE_INVALID_RDMA_WRITE_OR_READ_RESP: Qp, GENERAL, Flush, Roce,
        "the peer sent a write, or an answer to a read, that is not valid",
        "check that this QP grants remote writes, and address and length of the peer's write";
    0x0316 ROCE_RSP_LENGTH_ERROR: Qp, REM_OP, Flush, Roce,
        "a response has another length than was asked for",
        "set the same path MTU on both QPs";
    0x0380 ROCE_EMPTY_MCG: QpOnly, GENERAL, Flush, Roce,
        "a packet came for a multicast group without members",
        "attach a UD QP to the group, or leave the group in the network";
    0x0381 ROCE_BAD_MC_IP_ADDR: QpOnly, GENERAL, Flush, Roce,
        "a packet has a multicast address that is not its group's",
        "check the group's GID and the MAC address made from it";
    0x0382 ROCE_BAD_MC_QPID: QpOnly, GENERAL, Flush, Roce,
        "a multicast group names a QP that does not exist",
        "detach QPs from their groups before destroying them";
    0x0383 MCG_QP_PROTOCOL_MISMATCH: QpOnly, GENERAL, Flush, Roce,
        "a multicast group names a QP of another protocol",
        "attach only RoCE UD QPs";
    0x0401 INVALID_ARP_ENTRY: Qp, GENERAL, Flush, Roce,
        "the QP's address table entry does not exist",
        "resolve the peer's MAC address and add the entry before moving the QP to RTR";
    0x0402 INVALID_TCP_OPTION_RCVD: Qp, GENERAL, Flush, Iwarp,
        "a TCP segment has an option that is not valid", IWARP;
    0x0403 STALE_ARP_ENTRY: Qp, GENERAL, Flush, Roce,
        "the QP's address table entry is out of date",
        "check that the peer still answers ARP or neighbour discovery, and add the entry again";
    0x0406 INVALID_AH_ENTRY: Qp, GENERAL, Flush, Roce,
        "a send used an address handle that does not exist",
        "keep the address handle until every send that uses it has completed";
}
