//! Codes that nothing here can raise.

use e810_ceq::ae::AeCode;

use crate::async_events::table::{How, Row, Why};

macro_rules! never {
    ($($why:ident { $($code:literal $name:ident,)+ })+) => {
        /// The rows.
        pub(crate) const NEVER: &[Row] = &[$($(
            Row { code: AeCode($code), name: stringify!($name), how: How::Never(Why::$why) }
        ),+),+];
    };
}

never! {
    Iwarp {
        0x0201 BAD_CLOSE,
        0x0202 RDMAP_ROE_BAD_LLP_CLOSE,
        0x0220 WQE_LSMM_TOO_LONG,
        0x0301 DDP_INVALID_MSN_GAP_IN_MSN,
        0x0304 DDP_UBE_INVALID_DDP_VERSION,
        0x0305 DDP_UBE_INVALID_MO,
        0x0306 DDP_UBE_INVALID_MSN_NO_BUFFER_AVAILABLE,
        0x0307 DDP_UBE_INVALID_QN,
        0x0308 DDP_NO_L_BIT,
        0x0311 RDMAP_ROE_INVALID_RDMAP_VERSION,
        0x0402 INVALID_TCP_OPTION_RCVD,
        0x0501 LLP_CLOSE_COMPLETE,
        0x0502 LLP_CONNECTION_RESET,
        0x0503 LLP_FIN_RECEIVED,
        0x0504 LLP_RECEIVED_MARKER_AND_LENGTH_FIELDS_DONT_MATCH,
        0x0505 LLP_RECEIVED_MPA_CRC_ERROR,
        0x0507 LLP_SEGMENT_TOO_SMALL,
        0x0508 LLP_SYN_RECEIVED,
        0x0509 LLP_TERMINATE_RECEIVED,
        0x050B LLP_TOO_MANY_KEEPALIVE_RETRIES,
        0x050E LLP_CONNECTION_ESTABLISHED,
        0x0601 RESET_SENT,
        0x0602 TERMINATE_SENT,
        0x0603 RESET_NOT_SENT,
    }
    Gen3 {
        0x0209 SRQ_LIMIT,
        0x020F SRQ_CATASTROPHIC_ERROR,
        0x0221 ATOMIC_ALIGNMENT,
        0x0222 ATOMIC_MASK,
        0x0223 INVALID_REQUEST,
        0x0224 PCIE_ATOMIC_DISABLE,
        0x0901 CQP_DEFERRED_COMPLETE,
    }
    RawDatagrams {
        0x0134 UDA_XMIT_DGRAM_TOO_SHORT,
    }
    SharedRegions {
        0x0111 AMP_INVALIDATE_SHARED,
    }
}
