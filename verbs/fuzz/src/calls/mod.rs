//! What is drawn: a module a subject.

pub(crate) mod address;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod extended;
pub(crate) mod import;
pub(crate) mod memory;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod teardown;
