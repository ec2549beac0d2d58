//! Codes about the transport: retries, and the ends of connections.

use super::{IWARP, asynchronous_events};

asynchronous_events! {
    0x0501 LLP_CLOSE_COMPLETE: QpOnly, GENERAL, Close, Iwarp,
        "the connection is closed", IWARP;
    0x0502 LLP_CONNECTION_RESET: QpOnly, GENERAL, Close, Iwarp,
        "the peer reset the connection", IWARP;
    0x0503 LLP_FIN_RECEIVED: QpOnly, GENERAL, Close, Iwarp,
        "the peer closed its side of the connection", IWARP;
    0x0504 LLP_RECEIVED_MARKER_AND_LENGTH_FIELDS_DONT_MATCH: Source, GENERAL, Flush, Iwarp,
        "a marker and a length in the stream disagree", IWARP;
    0x0505 LLP_RECEIVED_MPA_CRC_ERROR: Qp, REM_OP, Flush, Iwarp,
        "a segment has a wrong CRC", IWARP;
    0x0507 LLP_SEGMENT_TOO_SMALL: Qp, REM_OP, Flush, Iwarp,
        "a segment is too small", IWARP;
    0x0508 LLP_SYN_RECEIVED: QpOnly, GENERAL, Flush, Iwarp,
        "the peer opened the connection again", IWARP;
    0x0509 LLP_TERMINATE_RECEIVED: QpOnly, GENERAL, Close, Iwarp,
        "the peer terminated the connection", IWARP;
    0x050A LLP_TOO_MANY_RETRIES: Qp, RETRY_EXC, Flush, Roce,
        "the peer did not acknowledge after all retries",
        "check that the peer's QP is in RTR or RTS with this QP as its destination, that UDP port 4791 passes, that the path carries the MTU, and priority flow control on the way";
    0x050B LLP_TOO_MANY_KEEPALIVE_RETRIES: Source, GENERAL, Flush, Iwarp,
        "the peer did not answer keepalive probes", IWARP;
    0x050C LLP_DOUBT_REACHABILITY: Qp, GENERAL, Report, Roce,
        "requests are being retried, the peer may be out of reach",
        "check the link and the peer's address; the QP goes on retrying";
    0x050E LLP_CONNECTION_ESTABLISHED: Qp, GENERAL, Connected, Iwarp,
        "the connection is established", IWARP;
    0x050F LLP_TOO_MANY_RNRS: Qp, RNR_RETRY_EXC, Flush, Roce,
        "the peer had no receive posted, again and again",
        "post receives on the peer before sending, or raise rnr_retry (7 is for ever) and the peer's min_rnr_timer";
    0x0520 RESOURCE_EXHAUSTION: Source, GENERAL, Report, Roce,
        "the protocol engine ran out of a resource",
        "raise the object counts of the capacity, or use fewer QPs and outstanding reads";
    0x0601 RESET_SENT: Qp, GENERAL, Close, Iwarp,
        "a reset was sent to the peer", IWARP;
    0x0602 TERMINATE_SENT: Qp, GENERAL, Close, Iwarp,
        "a terminate message was sent to the peer", IWARP;
    0x0603 RESET_NOT_SENT: Qp, GENERAL, Report, Iwarp,
        "a reset could not be sent to the peer", IWARP;
}
