//! Numbers of `verbs.h`.

/// `ibv_wr_opcode`.
pub mod opcode {
    use std::ffi::c_int;

    /// RDMA WRITE.
    pub const RDMA_WRITE: c_int = 0;
    /// RDMA WRITE with immediate data.
    pub const RDMA_WRITE_WITH_IMM: c_int = 1;
    /// SEND.
    pub const SEND: c_int = 2;
    /// SEND with immediate data.
    pub const SEND_WITH_IMM: c_int = 3;
    /// RDMA READ.
    pub const RDMA_READ: c_int = 4;
    /// Local invalidate.
    pub const LOCAL_INV: c_int = 7;
    /// Bind a memory window.
    pub const BIND_MW: c_int = 8;
    /// SEND with invalidate.
    pub const SEND_WITH_INV: c_int = 9;
}

/// `ibv_send_flags`.
pub mod send_flag {
    use std::ffi::c_uint;

    /// Wait for earlier reads.
    pub const FENCE: c_uint = 1;
    /// Complete on success, too.
    pub const SIGNALED: c_uint = 2;
    /// Wake a peer that waits for solicited completions.
    pub const SOLICITED: c_uint = 4;
    /// Copy the data at the post.
    pub const INLINE: c_uint = 8;
}

/// `ibv_access_flags`.
pub mod access {
    use std::ffi::c_int;

    /// The device may write.
    pub const LOCAL_WRITE: c_int = 1;
    /// The peer may write.
    pub const REMOTE_WRITE: c_int = 2;
    /// The peer may read.
    pub const REMOTE_READ: c_int = 4;
    /// Addresses count from 0.
    pub const ZERO_BASED: c_int = 1 << 5;
}

/// `ibv_qp_type`.
pub mod qp_type {
    use std::ffi::c_int;

    /// Reliable connection.
    pub const RC: c_int = 2;
    /// Unreliable datagram.
    pub const UD: c_int = 4;
}
