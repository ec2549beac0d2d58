//! Constants of `verbs.h`, as far as this device uses them.

/// `enum ibv_qp_type`: the kinds of service that the device supports.
pub mod qp_type {
    use core::ffi::c_int;

    pub const RC: c_int = 2;
    pub const UD: c_int = 4;
}

/// `enum ibv_wr_opcode`.
pub mod opcode {
    use core::ffi::c_int;

    pub const RDMA_WRITE: c_int = 0;
    pub const RDMA_WRITE_WITH_IMM: c_int = 1;
    pub const SEND: c_int = 2;
    pub const SEND_WITH_IMM: c_int = 3;
    pub const RDMA_READ: c_int = 4;
    pub const LOCAL_INV: c_int = 7;
    pub const BIND_MW: c_int = 8;
    pub const SEND_WITH_INV: c_int = 9;
}

/// `enum ibv_send_flags`.
pub mod send_flag {
    use core::ffi::c_uint;

    pub const FENCE: c_uint = 1;
    pub const SIGNALED: c_uint = 1 << 1;
    pub const SOLICITED: c_uint = 1 << 2;
    pub const INLINE: c_uint = 1 << 3;
}

/// `enum ibv_access_flags`.
pub mod access {
    use core::ffi::c_uint;

    pub const LOCAL_WRITE: c_uint = 1;
    pub const REMOTE_WRITE: c_uint = 1 << 1;
    pub const REMOTE_READ: c_uint = 1 << 2;
    pub const REMOTE_ATOMIC: c_uint = 1 << 3;
    pub const MW_BIND: c_uint = 1 << 4;
    pub const ZERO_BASED: c_uint = 1 << 5;
    pub const ON_DEMAND: c_uint = 1 << 6;
    pub const HUGETLB: c_uint = 1 << 7;
    pub const FLUSH_GLOBAL: c_uint = 1 << 8;
    pub const FLUSH_PERSISTENT: c_uint = 1 << 9;
    /// `IBV_ACCESS_OPTIONAL_RANGE`: flags that a device may ignore.
    pub const OPTIONAL: c_uint = 0x3FF0_0000;
}

/// `enum ibv_event_type`.
pub mod event {
    use core::ffi::c_int;

    pub const CQ_ERR: c_int = 0;
    pub const QP_FATAL: c_int = 1;
    pub const QP_REQ_ERR: c_int = 2;
    pub const QP_ACCESS_ERR: c_int = 3;
    pub const SQ_DRAINED: c_int = 5;
    pub const DEVICE_FATAL: c_int = 8;
    pub const PORT_ACTIVE: c_int = 9;
    pub const PORT_ERR: c_int = 10;
    pub const GID_CHANGE: c_int = 18;
}
