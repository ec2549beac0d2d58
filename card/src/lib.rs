//! A card as a file: everything that an E810 says of itself.
//!
//! The file has a JSON object a line, each a [`Record`]; `docs/report.md` describes it.
//! `e810 report` writes it (the crate `e810-report`), and the simulator makes functions of
//! it that answer as that card did. [`Document`] reads files that are cut, of another
//! version, or of another program as what they are; [`differences`] says in what two cards
//! are not alike.

pub mod compare;
pub mod config_space;
pub mod document;
pub mod lines;
pub mod record;
pub mod selftest;

pub use compare::differences;
pub use config_space::ConfigSpace;
pub use document::Document;
pub use lines::ReadError;
pub use record::{Header, Record, Run, State, VERSION};
