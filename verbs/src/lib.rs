//! libibverbs on the e810 driver.

pub mod abi;
