//! NVMe over Fabrics by RDMA: formats that the examples `nvme_target` and `nvme_read` share, and the
//! host. Nothing here allocates or needs std.
//!
//! * [`bytes`]: fields of messages and pages;
//! * [`capsule`]: commands, their descriptors, and responses;
//! * [`fabrics`]: private data of connections, Connect, properties;
//! * [`identify`]: where the pages of Identify have what both sides use;
//! * [`host`]: the host's side: an admin queue, and a queue that reads blocks.

pub mod bytes;
pub mod capsule;
pub mod fabrics;
pub mod host;
pub mod identify;
