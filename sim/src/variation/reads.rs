//! Choices about RDMA READ.

/// What an event blames for a READ into memory that the key does not allow: the code is in the
/// sources (control-path 7.4), the source of the event is NITS (read_sink). A suite of others that
/// ran on a later chip with Linux' irdma expects LOC_PROT_ERR of the READ, which irdma tells by the
/// source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadSink {
    /// The response that came: no request is blamed, all are flushed.
    Response,
    /// The request, which completes with the cause.
    Request,
}
