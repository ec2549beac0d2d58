//! The experiments, by the part of the card that they ask.

mod card;
mod commands;
mod completions;
mod connections;
mod counters;
mod engine;
mod events;
mod firmware;
mod groups;
mod timers;
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
    firmware::RULES_OF_VSI,
    firmware::ACK_THRESHOLD,
    firmware::ADMINQ_REGISTERS,
    engine::ENGINE_STATUS,
    engine::ENGINE_ALONE,
    engine::DERIVED_MAXIMA,
    commands::QUEUE_SET_HANDLES,
    commands::OP_ERR,
    commands::NOTHING_TO_FLUSH,
    commands::FLUSHED_BOTH,
    commands::ERROR_REFUSED,
    commands::ARP_AGAIN,
    commands::UNKNOWN_VSI,
    commands::WINDOWS,
    engine::LAST_CEQ,
    engine::FILTER_REGISTER,
    engine::PACKED_OBJECTS,
    completions::FLUSH,
    completions::FLUSH_QP_ID,
    completions::CQ_FULL,
    events::QP_EVENT_CONTEXT,
    events::CQ_EVENT_CONTEXT,
    events::READ_SINK,
    groups::GROUP_ECHO,
    groups::GROUP_QUEUE_SET,
    connections::ACK_TIME,
    counters::OWN_COUNTERS,
    counters::OCTETS,
    counters::COUNTED_SENDS,
    counters::COUNTED_FCS,
    vectors::CLEAR_PBA,
    vectors::AUTO_MASK,
    vectors::SHARED_VECTOR,
    timers::CHANGED_TIMER,
    timers::SAME_INTERVAL,
    timers::OTHER_TIMERS,
    timers::RATE_LIMITS,
    timers::ITR_READS,
    timers::ITR_UNIT,
    timers::RATE_UNIT,
    card::SWITCH_MASK_HIDES,
    card::SWITCH_INPUT,
    card::FRAME_AT_START,
    card::LOCK_RELEASED,
    card::LOCK_RUNS_OUT,
];
