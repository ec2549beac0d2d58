//! Reports: everything that an E810 says of itself, as a file.
//!
//! A report is a file of JSON lines, one [`Record`] a line (the format is described in
//! `docs/report.md`). It is written by a [`Journal`]: before each access to the card the
//! name of the access is on the disk, so that a machine that dies tells which one it was;
//! the next run can leave that one out. It is read by [`Document`], which takes files that
//! are cut, of another version, or of another program as what they are.
//!
//! Levels, each a module:
//!
//! * [`passive`], level 0: files of sysfs, configuration space, the kernel's log, and BAR 0
//!   beside whatever driver has the function. Nothing is written.
//! * [`registers`], level 1: every register, of a function that this program has opened.
//! * [`queries`], level 2: what the firmware answers, through the AdminQ.
//! * [`engine`], level 3: limits and features of the RDMA engine, through the control QP.
//! * [`resets`], level 4: registers after each kind of reset.
//!
//! [`levels`] goes through them, for the command `e810 report` and for other programs.
//! Nothing in this crate configures a card.

mod answer;
pub mod engine;
pub mod errata;
pub mod identities;
pub mod journal;
pub mod levels;
pub mod page;
pub mod passive;
pub mod queries;
pub mod registers;
pub mod resets;

pub use e810_card::{
    Document, Header, ReadError, Record, Run, State, VERSION, config_space, document, record,
};
pub use journal::{Journal, JournalError, Medium};
