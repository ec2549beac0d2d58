//! Collects the snapshot of a device, in its progress loop.

use e810::{
    Control, Cq, Depth, EventSet, LoggedEvent, Moderated, PortState, Timer, Timing, VectorEvents,
};
use e810_hal::{Ns, Platform};

use super::connections::ConnectionsSnapshot;
use super::registry::SnapshotPublisher;
use super::snapshot::{
    AsyncEventSnapshot, AsyncEventsSnapshot, CqSnapshot, DepthSnapshot, FunctionSnapshot,
    PortSnapshot, ProfileSnapshot, TimingSnapshot, VectorSnapshot,
};
use crate::output::counters::by_name;
use crate::settings::ModerationArg;

/// What a progress loop counts of its queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) completions: u64,
    pub(crate) events: u64,
}

/// Collects the snapshot of a device. `interrupts` are those of each part of its events; `queue` is
/// its completion queue, if its thread has one.
pub(crate) fn collect_snapshot<P: Platform>(
    publisher: &SnapshotPublisher,
    now: Ns,
    control: &mut Control<P>,
    parts: &EventSet<P>,
    interrupts: &[u64],
    queue: Option<(&Cq<P>, Counts)>,
    connection_manager: Option<ConnectionsSnapshot>,
) -> FunctionSnapshot {
    let interrupts = interrupts.iter().copied();
    let interrupts = interrupts.chain(std::iter::repeat(0));
    let vectors = parts
        .iter()
        .zip(interrupts)
        .map(|(events, interrupts)| vector(control, events, interrupts))
        .collect();
    let counters = match control.gather_stats() {
        Ok(stats) => by_name(&stats),
        Err(error) => {
            log::warn!(
                "the counters of {} cannot be read: {error}",
                publisher.name()
            );
            Default::default()
        }
    };
    FunctionSnapshot {
        name: publisher.name().to_owned(),
        device: publisher.device().to_owned(),
        port: port(control),
        vectors,
        cqs: queue.into_iter().map(cq_snapshot).collect(),
        async_events: asynchronous(parts, now),
        counters: counters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        connection_manager,
    }
}

fn port<P: Platform>(control: &Control<P>) -> PortSnapshot {
    let (state, link_mbps) = match control.query_port(1) {
        Ok(port) if port.state == PortState::Active => ("active", port.mbps),
        Ok(port) => ("down", port.mbps),
        Err(_) => ("unknown", 0),
    };
    PortSnapshot {
        state: state.to_owned(),
        link_mbps,
        mac: control.lan().mac.to_string(),
    }
}

fn vector<P: Platform>(
    control: &Control<P>,
    events: &VectorEvents<P>,
    interrupts: u64,
) -> VectorSnapshot {
    let completion_vector = events.completion_vector();
    let timing = completion_vector.and_then(|number| control.interrupt_timing(number).ok());
    VectorSnapshot {
        vector: events.vector().get(),
        asynchronous: events.has_async(),
        completion_vector,
        interrupts,
        ceq: events.depth().map(depth),
        timing: timing.map(delay),
    }
}

fn delay(timing: Timing) -> TimingSnapshot {
    let timer = match timing.timer {
        Timer::Itr0 => "ITR0",
        Timer::Itr1 => "ITR1",
        Timer::Itr2 => "ITR2",
        Timer::None => "none",
    };
    TimingSnapshot {
        timer: timer.to_owned(),
        interval_us: timing.interval_us,
        limit_us: timing.limit_us,
    }
}

const fn depth(depth: Depth) -> DepthSnapshot {
    DepthSnapshot {
        entries: depth.entries,
        waiting: depth.waiting,
    }
}

fn cq_snapshot<P: Platform>((cq, counts): (&Cq<P>, Counts)) -> CqSnapshot {
    let Moderated {
        setting,
        wait_us,
        profile,
        ..
    } = cq.moderation();
    CqSnapshot {
        number: cq.number(),
        completion_vector: cq.completion_vector(),
        depth: depth(cq.depth()),
        failed: cq.has_failed(),
        completions: counts.completions,
        events: counts.events,
        moderation: ModerationArg(setting).name().to_owned(),
        wait_us,
        profile: profile.map(|(index, of)| ProfileSnapshot { index, of }),
    }
}

fn asynchronous<P: Platform>(parts: &EventSet<P>, now: Ns) -> AsyncEventsSnapshot {
    let mut snapshot = AsyncEventsSnapshot::default();
    for log in parts.iter().map(VectorEvents::log) {
        snapshot.total += log.total();
        snapshot
            .last
            .extend(log.iter().map(|entry| event(entry, now)));
    }
    snapshot
}

fn event(entry: &LoggedEvent, now: Ns) -> AsyncEventSnapshot {
    let event = &entry.event;
    AsyncEventSnapshot {
        ago_ns: (now - entry.at).0,
        name: event.name().to_owned(),
        object: event.object.to_string(),
        cause: event.cause().to_owned(),
        remedy: event.remedy().to_owned(),
        needs_reset: event.needs_reset(),
    }
}
