//! The 256-byte QP host context, from typed values to 32 words.
//!
//! The device reads it at CREATE_QP and MODIFY_QP; flags of those commands say which parts it
//! takes (control-path 5). The whole context is rebuilt from the caller's values each time, as in
//! existing drivers.
//!
//! ```
//! use e810_cqp::qpc::{ird_code, queue_size_code};
//!
//! assert_eq!(queue_size_code(1024), Ok(8));
//! assert!(queue_size_code(1000).is_err());
//! assert_eq!(ird_code(127), 4);
//! ```

mod roce;
mod size;
mod uda;

pub use roce::{
    CongestionControl, Peer, Privileges, RoceContext, RqContext, SqContext, StatsInstance, Timely,
};
pub use size::{cqp_size_code, ird_code, queue_size_code};
pub use uda::UdaContext;

/// A QP host context: word *n* lies at byte 8 × *n*.
pub type QpContext = [u64; 32];
