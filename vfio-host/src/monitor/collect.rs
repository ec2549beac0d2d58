//! One look at a device, by the loop that attends to it.

use e810::{
    Control, Cq, Depth, EventSet, LoggedEvent, Moderated, PortState, Timer, Timing, VectorEvents,
};
use e810_hal::{Ns, Platform};

use super::registry::Tap;
use super::snapshot::{
    AsyncSeen, AsyncsSeen, CqSeen, DepthSeen, FunctionSeen, PortSeen, ProfileSeen, TimingSeen,
    VectorSeen,
};
use crate::cli::ModerationArg;
use crate::output::counters::by_name;
use crate::output::units::mac;

/// What a loop counts of its device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Interrupts of each part of the events.
    pub(crate) interrupts: Vec<u64>,
    /// Completions of the queue.
    pub(crate) completions: u64,
    /// Its events.
    pub(crate) events: u64,
}

/// Looks at a device with one completion queue.
pub(crate) fn look<P: Platform>(
    tap: &Tap,
    now: Ns,
    control: &mut Control<P>,
    parts: &EventSet<P>,
    cq: &Cq<P>,
    counts: &Counts,
) -> FunctionSeen {
    let interrupts = counts.interrupts.iter().copied();
    let interrupts = interrupts.chain(std::iter::repeat(0));
    let vectors = parts
        .iter()
        .zip(interrupts)
        .map(|(events, interrupts)| vector(control, events, interrupts))
        .collect();
    let counters = match control.gather_stats() {
        Ok(stats) => by_name(&stats),
        Err(error) => {
            log::warn!("the counters of {} cannot be read: {error}", tap.name());
            Default::default()
        }
    };
    FunctionSeen {
        name: tap.name().to_owned(),
        device: tap.device().to_owned(),
        port: port(control),
        vectors,
        cqs: vec![queue(cq, counts)],
        async_events: asynchronous(parts, now),
        counters: counters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

fn port<P: Platform>(control: &Control<P>) -> PortSeen {
    let (state, link_mbps) = match control.query_port(1) {
        Ok(port) if port.state == PortState::Active => ("active", port.mbps),
        Ok(port) => ("down", port.mbps),
        Err(_) => ("unknown", 0),
    };
    PortSeen {
        state: state.to_owned(),
        link_mbps,
        mac: mac(control.lan().mac),
    }
}

fn vector<P: Platform>(
    control: &Control<P>,
    events: &VectorEvents<P>,
    interrupts: u64,
) -> VectorSeen {
    let completion_vector = events.completion_vector();
    let timing = completion_vector.and_then(|number| control.interrupt_timing(number).ok());
    VectorSeen {
        vector: events.vector().get(),
        asynchronous: events.has_async(),
        completion_vector,
        interrupts,
        ceq: events.depth().map(depth),
        timing: timing.map(delay),
    }
}

fn delay(timing: Timing) -> TimingSeen {
    let timer = match timing.timer {
        Timer::Itr0 => "ITR0",
        Timer::Itr1 => "ITR1",
        Timer::Itr2 => "ITR2",
        Timer::None => "none",
    };
    TimingSeen {
        timer: timer.to_owned(),
        interval_us: timing.interval_us,
        limit_us: timing.limit_us,
    }
}

const fn depth(depth: Depth) -> DepthSeen {
    DepthSeen {
        entries: depth.entries,
        waiting: depth.waiting,
    }
}

fn queue<P: Platform>(cq: &Cq<P>, counts: &Counts) -> CqSeen {
    let Moderated {
        setting,
        wait_us,
        profile,
        ..
    } = cq.moderation();
    CqSeen {
        number: cq.number(),
        completion_vector: cq.completion_vector(),
        depth: depth(cq.depth()),
        failed: cq.has_failed(),
        completions: counts.completions,
        events: counts.events,
        moderation: ModerationArg(setting).name().to_owned(),
        wait_us,
        profile: profile.map(|(index, of)| ProfileSeen { index, of }),
    }
}

fn asynchronous<P: Platform>(parts: &EventSet<P>, now: Ns) -> AsyncsSeen {
    let mut seen = AsyncsSeen::default();
    for log in parts.iter().map(VectorEvents::log) {
        seen.total += log.total();
        seen.last.extend(log.iter().map(|entry| event(entry, now)));
    }
    seen
}

fn event(entry: &LoggedEvent, now: Ns) -> AsyncSeen {
    let event = &entry.event;
    AsyncSeen {
        ago_ns: (now - entry.at).0,
        name: event.name().to_owned(),
        object: event.object.to_string(),
        cause: event.cause().to_owned(),
        remedy: event.remedy().to_owned(),
        needs_reset: event.needs_reset(),
    }
}
