//! Experiments that decide what is only assumed of a card.
//!
//! The driver and the simulator rest on facts that no source states. Each such assumption that a program
//! can see has an [`Experiment`] here: it says what is assumed and what it does, and finds which of the
//! known behaviours the card has. The name of an experiment is that of the simulator's choice
//! (`e810_sim::Variation`), so a simulated card on which the assumption is false is one with another value
//! of this choice.
//!
//! * [`run()`] performs experiments on a function that nobody else uses.
//! * [`Bench`] is what an experiment works with: the function, and a recording of what driver and device
//!   do, which has the entries that the device writes as it writes them.
//! * [`e810_card::selftest`] has the file that results are kept in.

mod bench;
mod experiment;
mod experiments;
mod results;

pub use bench::Bench;
pub use experiment::{Experiment, Risk, Seen};
pub use experiments::EXPERIMENTS;
pub use results::run;
