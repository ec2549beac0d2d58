//! Unknown hardware behaviour, as named choices in one table.
//!
//! Known behaviour of the card is not here: the simulator implements it. Behaviour that is unknown,
//! or only inferred, is a choice, and a driver has to work with each of its values. The first value
//! of a choice is the default of the simulator: the likelier one by the sources, or the harder one
//! where they are silent.
//!
//! [`Variation::drawn`] draws all of them from a seed, [`Variation::each_alone`] gives the default
//! card with one choice changed, [`Variation::CHOICES`] is the table. The values of the choices are
//! in a file for each part of the card.

mod counters;
mod engine;
mod events;
mod firmware;
mod multicast;
mod packets;
mod qp_errors;
mod reads;
mod table;
mod vectors;

pub use counters::{CountedFcs, CountedSends, Octets, OwnCounters};
pub use engine::{
    AckThreshold, AckTime, ArpAgain, CqFull, DerivedMaxima, EngineAlone, EngineStatus,
    FilterRegister, FlushedBoth, LastCeq, OpErr, PackedObjects, QueueSetHandles, UnknownVsi,
    UnreadWords, Windows,
};
pub use events::{ClearPba, CqEventContext, FlushQpId, FlushStyle, QpEventContext};
pub use firmware::{
    AdminqRegisters, DefaultBranch, FrameAtStart, LockReleased, LockRunsOut, OthersInDownload,
    OwnVsi, PxeClearedAgain, RefusedInDownload, RulesOfVsi, SwitchInput, SwitchMask, SwitchPages,
};
pub use multicast::{GroupEcho, GroupQueueSet};
pub use packets::{AckCredits, SendCredits};
pub use qp_errors::{ErrorRefused, NothingToFlush};
pub use reads::ReadSink;
pub use table::{Choice, NoSuchChoice};
pub use vectors::{
    AutoMask, ChangedTimer, ItrReads, ItrUnit, OtherTimers, RateLimits, RateUnit, SameInterval,
    SharedVector,
};

use crate::rng::Rng;
use table::variations;

variations! {
    // Events and completions.

    /// How FLUSH_WQES reports the flushed requests.
    flush: FlushStyle [Mixed, PerQueue, PerWqe];
    /// What QPID of a flush CQE holds.
    flush_qp_id: FlushQpId [Present, Zero];
    /// What CLEARPBA does to an event that waits.
    clear_pba: ClearPba [Keeps, Drops];
    /// How a CQ's context stands in an asynchronous event.
    cq_event_context: CqEventContext [Shifted, Whole];
    /// What context a QP's asynchronous event has.
    qp_event_context: QpEventContext [Whole, Zero];

    // Vectors.

    /// What a vector does with INTENA when it fires.
    auto_mask: AutoMask [Clears, Leaves];
    /// Whether LAN queues may share a vector with asynchronous events.
    shared_vector: SharedVector [Works, Silent];
    /// What becomes of a running timer whose interval is changed.
    changed_timer: ChangedTimer [Expires, RunsOn];
    /// What a write of the interval that a timer has does.
    same_interval: SameInterval [Kept, Expires];
    /// What becomes of the other timers of a vector that fires.
    other_timers: OtherTimers [RunAgain, Stay];
    /// Which events the rate limit of a vector holds back.
    rate_limits: RateLimits [All, Timed];
    /// What GLINT_ITR reads as.
    itr_reads: ItrReads [InForce, Written];
    /// The unit of timers.
    itr_unit: ItrUnit [Field, Double];
    /// The unit of rate limits.
    rate_unit: RateUnit [BySpeed, Double];

    // Counters.

    /// Whether packets of a queue pair with own counters count for its function, too.
    own_counters: OwnCounters [Apart, Both];
    /// What octets of the engine's counters are.
    octets: Octets [Datagrams, Frames];
    /// What its counters of sends and writes count.
    counted_sends: CountedSends [Messages, Packets];
    /// Whether byte counters of ports and VSIs include the FCS.
    counted_fcs: CountedFcs [Included, LeftOut];

    // The wire.

    /// What acknowledges say of the credits for sends.
    ack_credits: AckCredits [OfContext, Unlimited];
    /// Whether the peer's credits hold sends back.
    send_credits: SendCredits [Obeyed, Ignored];

    /// How the acknowledge time follows from RTOMIN.
    ack_time: AckTime [Proportional, Fixed];

    /// What an event blames for a READ into memory that it may not write.
    read_sink: ReadSink [Response, Request];

    // Firmware.

    /// What 0x0110 is answered with when the card has left PXE mode.
    pxe_cleared_again: PxeClearedAgain [Exists, Done];
    /// What the switch block sees of a frame after a reset of the card.
    switch_input: SwitchInput [Closed, Open];
    /// What the switch block sees of a frame while its input mask is 0.
    switch_mask_hides: SwitchMask [Hides, Passes];
    /// What 0x02A4 does to the VSI that the firmware has for a function.
    own_vsi: OwnVsi [Stays, Goes];
    /// Longest frame of a port until 0x0603.
    frame_at_start: FrameAtStart [Small, Largest];
    /// What becomes of the rules of a VSI that is freed.
    rules_of_vsi: RulesOfVsi [Go, Stay];
    /// How many elements a reply to 0x0200 has.
    switch_pages: SwitchPages [Full, OneElement];
    /// What the default branch of the transmit scheduler ends in.
    default_branch: DefaultBranch [Group, Leaf];
    /// Whether other functions are refused commands while one downloads a package.
    others_in_download: OthersInDownload [Refused, Served];
    /// What commands are refused with then.
    refused_in_download: RefusedInDownload [Ebusy, Eagain];
    /// What the global configuration lock is when it was released.
    lock_released: LockReleased [Done, Free];
    /// What the registers of the AdminQ are after a reset of the function.
    adminq_registers: AdminqRegisters [Stay, Cleared];
    /// What the global configuration lock is when its time is over.
    lock_runs_out: LockRunsOut [Done, Free];

    // The engine's commands and its host memory.

    /// What QUERY_FPM_VAL has in words that no driver reads.
    unread_words: UnreadWords [Anything, Limits];
    /// What it has for maxima that no driver compares.
    derived_maxima: DerivedMaxima [Said, Zero];
    /// What becomes of CQP_OP_ERR with the next good command.
    op_err: OpErr [Cleared, Stays];
    /// Which queue-set handle a new leaf of the work scheduler gets.
    queue_set_handles: QueueSetHandles [Next, Lowest];

    /// Which code says that both queues were flushed.
    flushed_both: FlushedBoth [Another, Zero];
    /// How objects of the host memory cache follow each other.
    packed_objects: PackedObjects [Packed, Spread];
    /// Whether a register shows the filter in front of the engine.
    filter_register: FilterRegister [Shows, Hides];
    /// Whether the Control QP needs a LAN side.
    engine_alone: EngineAlone [Answers, Silent];
    /// Whether the engine's processors are ready right after a reset of the function.
    engine_status: EngineStatus [Ready, Starts];
    /// Whether the completion event queue with the highest number can be used.
    last_ceq: LastCeq [Usable, Missing];
    /// How many entries of a completion queue can be outstanding.
    cq_full: CqFull [OneFree, NoneFree];
    /// Whether an entry of the ARP table can be written over.
    arp_again: ArpAgain [Replaced, Refused];
    /// Whether the work scheduler takes a VSI that the switch does not have.
    unknown_vsi: UnknownVsi [Refused, Taken];
    /// Whether there are memory windows.
    windows: Windows [Work, Refused];
    /// A threshold of GL_RDPU_CNTRL after a reset of the card.
    ack_threshold: AckThreshold [Zero, Three];

    // Datagrams.

    /// Who gets what a member sends to its group.
    group_echo: GroupEcho [Others, Sender];
    /// What the queue set is for that commands on a multicast group name.
    group_queue_set: GroupQueueSet [Needed, Ignored];

    // Queue pairs that end.

    /// What FLUSH_WQES answers where nothing is outstanding.
    nothing_to_flush: NothingToFlush [Refused, Done];
    /// Which queue pairs refuse MODIFY_QP to ERROR.
    error_refused: ErrorRefused [Again, Known, Always, Never];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nothing_said_is_the_first_value_of_each_choice() {
        let usual = Variation::default();
        for choice in Variation::CHOICES {
            assert_eq!(usual.value_of(choice.name), choice.values.first().copied());
        }
    }

    #[test]
    fn every_value_of_every_choice_is_drawn_by_64_seeds() {
        let drawn: BTreeSet<_> = (0..64)
            .flat_map(|seed| Variation::drawn(seed).values().collect::<Vec<_>>())
            .collect();
        for choice in Variation::CHOICES {
            for value in choice.values {
                assert!(
                    drawn.contains(&(choice.name, *value)),
                    "{choice:?}: {value}"
                );
            }
        }
    }

    #[test]
    fn each_alone_differs_in_one_choice() {
        let usual: Vec<_> = Variation::default().values().collect();
        let all = Variation::each_alone();
        let others: usize = Variation::CHOICES.iter().map(|c| c.values.len() - 1).sum();
        assert_eq!(all.len(), others);
        for (name, variation) in all {
            let differ: Vec<_> = variation
                .values()
                .zip(&usual)
                .filter(|(now, usual)| now != *usual)
                .map(|(now, _)| format!("{}={}", now.0, now.1))
                .collect();
            assert_eq!(differ, [name]);
        }
    }

    #[test]
    fn a_choice_is_made_by_name() {
        let mut variation = Variation::default();
        assert_eq!(variation.choose("flush", "PerWqe"), Ok(()));
        assert_eq!(variation.flush, FlushStyle::PerWqe);
        let unknown = variation.choose("flush", "Never").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "flush is one of Mixed, PerQueue, PerWqe, not Never"
        );
        assert!(
            variation
                .choose("colour", "red")
                .unwrap_err()
                .to_string()
                .contains("clear_pba")
        );
    }

    #[test]
    fn choices_are_read_from_text() {
        let read = |text: &str| text.parse::<Variation>();
        let mut wanted = Variation::drawn(9);
        wanted.clear_pba = ClearPba::Drops;
        assert_eq!(read("seed=9,clear_pba=Drops"), Ok(wanted));
        for wrong in ["", "flush", "seed=x", "flush=PerWqe,"] {
            assert!(matches!(read(wrong), Err(NoSuchChoice::Text(_))), "{wrong}");
        }
        // The last would win.
        for wrong in [
            "flush=PerWqe,flush=Mixed",
            "seed=1,seed=2",
            "flush=PerWqe,seed=1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_notes_have_a_row_for_each() {
        let notes = include_str!("../../../docs/hardware-notes.md");
        for choice in Variation::CHOICES {
            let row = format!("| `{}` | {} |", choice.name, choice.values.join(", "));
            assert!(notes.contains(&row), "no row {row}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = Variation::CHOICES
            .iter()
            .map(|choice| choice.name)
            .collect();
        assert_eq!(names.len(), Variation::CHOICES.len());
    }
}
