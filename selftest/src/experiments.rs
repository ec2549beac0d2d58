//! The experiments, by the part of the card that they ask.

mod card;
mod commands;
mod completions;
mod events;
mod firmware;
mod vectors;

use e810_hal::Ns;

use crate::experiment::Experiment;

/// Time in which the device stops a queue pair and reports it.
const STOPS: Ns = Ns::from_ms(50);

/// All experiments. Those that reset the card come last: the others find the card as it was.
pub const EXPERIMENTS: &[Experiment] = &[
    firmware::SWITCH_PAGES,
    firmware::OWN_VSI,
    firmware::DEFAULT_BRANCH,
    firmware::PXE_CLEARED_AGAIN,
    commands::DERIVED_MAXIMA,
    commands::QUEUE_SET_HANDLES,
    commands::OP_ERR,
    commands::NOTHING_TO_FLUSH,
    commands::ERROR_REFUSED,
    completions::FLUSH,
    completions::FLUSH_QP_ID,
    events::QP_EVENT_CONTEXT,
    events::CQ_EVENT_CONTEXT,
    events::READ_SINK,
    vectors::CLEAR_PBA,
    card::SWITCH_INPUT,
    card::FRAME_AT_START,
    card::LOCK_RUNS_OUT,
];
