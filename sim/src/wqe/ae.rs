//! Asynchronous event codes and sources that queue processing can raise.

use core::fmt;

/// A 12-bit AE code (AEQE `AECODE`). Any value is allowed; those used here have names.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct AeCode(pub u16);

macro_rules! codes {
    ($($name:ident = $value:literal, $doc:literal;)*) => {
        impl AeCode {
            $(#[doc = $doc] pub const $name: Self = Self($value);)*

            /// The name of a code listed here.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Every code listed here.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

// Values and names: control-path 7.5. The meanings there are taken from the names.
codes! {
    AMP_UNALLOCATED_STAG = 0x0102, "STag index valid but not allocated.";
    AMP_INVALID_STAG = 0x0103, "STag in an invalid state.";
    AMP_BAD_QP = 0x0104, "STag not usable by this QP.";
    AMP_BAD_PD = 0x0105, "STag and QP are in different protection domains.";
    AMP_BAD_STAG_KEY = 0x0106, "The 8-bit consumer key does not match.";
    AMP_BAD_STAG_INDEX = 0x0107, "STag index out of range.";
    AMP_BOUNDS_VIOLATION = 0x0108, "Access outside the region.";
    AMP_RIGHTS_VIOLATION = 0x0109, "An access right is missing.";
    AMP_TO_WRAP = 0x010A, "Tagged offset plus length wraps 64 bits.";
    AMP_FASTREG_VALID_STAG = 0x010C, "Fast register of an STag that is already valid.";
    AMP_FASTREG_MW_STAG = 0x010D, "Fast register of a window STag.";
    AMP_FASTREG_INVALID_RIGHTS = 0x010E, "Fast register with bad rights.";
    AMP_FASTREG_INVALID_LENGTH = 0x0110, "Fast register with a bad length.";
    AMP_INVALIDATE_SHARED = 0x0111, "Invalidate of a shared STag.";
    AMP_INVALIDATE_NO_REMOTE_ACCESS_RIGHTS = 0x0112, "Remote invalidate without remote rights.";
    AMP_INVALIDATE_MR_WITH_BOUND_WINDOWS = 0x0113, "Invalidate of a region with bound windows.";
    AMP_MWBIND_BIND_DISABLED = 0x011B, "Bind is disabled for this parent or QP.";
    PRIV_OPERATION_DENIED = 0x011C, "Privileged operation on an unprivileged QP.";
    RDMA_READ_WHILE_ORD_ZERO = 0x0205, "RDMA READ posted while ORD is 0.";
    STAG_ZERO_INVALID = 0x0206, "STag 0 used without privilege.";
    IB_RREQ_AND_Q1_FULL = 0x0207, "Inbound read queue (Q1) full.";
    IB_INVALID_REQUEST = 0x0208, "Invalid-request NAK received.";
    WQE_UNEXPECTED_OPCODE = 0x020A, "WQE opcode not allowed.";
    WQE_INVALID_PARAMETER = 0x020B, "WQE parameter invalid.";
    WQE_INVALID_FRAG_DATA = 0x020C, "WQE fragment invalid.";
    IB_REMOTE_ACCESS_ERROR = 0x020D, "Remote-access NAK received.";
    IB_REMOTE_OP_ERROR = 0x020E, "Remote-operational NAK received.";
    DDP_MESSAGE_TOO_LONG_FOR_AVAILABLE_BUFFER = 0x0303, "Message too long for the receive.";
    RDMAP_UNEXPECTED_OPCODE = 0x0312, "Unexpected packet opcode.";
    INVALID_RDMA_READ_REQUEST = 0x0313, "Bad inbound READ request.";
    INVALID_RDMA_WRITE_OR_READ_RESP = 0x0314, "Bad inbound WRITE or READ response.";
    ROCE_RSP_LENGTH_ERROR = 0x0316, "Response of the wrong length.";
    LLP_TOO_MANY_RETRIES = 0x050A, "Transport retries exhausted.";
    LLP_TOO_MANY_RNRS = 0x050F, "RNR retries exhausted.";
    LOCAL_QP_CATASTROPHIC = 0x0704, "Local QP fatal.";
}

impl fmt::Debug for AeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x} {}", self.0, self.name().unwrap_or("unknown"))
    }
}

impl fmt::Display for AeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Source of an AE (AEQE `AESRC`, control-path 7.4).
///
/// Where the table gives two values for one meaning, the lower one is used: the sources do not tell
/// the difference between them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AeSource {
    /// Not related to a queue.
    None = 0x0,
    /// The receive queue; the WQE index of the event is valid.
    ReceiveQueue = 0x1,
    SendQueue = 0x5,
    /// An inbound write or read response.
    InboundData = 0x9,
    OutboundReadResponse = 0xD,
}
