//! The library as a second encoder: the same requests give the same bytes.
//!
//! Each request is posted to two queue pairs of the library, whose rings were
//! filled with opposite patterns before: what is equal afterwards was written by
//! the library, what is not is nobody's concern. Ours must have the same bytes
//! where the library wrote, and must not write into a quantum that the library
//! left alone. Completions are played by the harness and compared, too.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod receives;
mod sends;
mod trio;
