//! Which event is next, and how virtual time gets there.

use e810_hal::Ns;

use super::{Event, IDLE, Machine, events_of};

impl Machine {
    /// Time of the next event that does not belong to a function alone: of the firmware, a reset,
    /// or a frame.
    pub(crate) fn next_shared_event(&self) -> Option<u64> {
        let of_function = |index| {
            [
                Event::ResetDone(index),
                Event::Firmware(index),
                Event::ResetBegins(index),
            ]
        };
        let functions = (0..self.functions.len()).flat_map(of_function);
        functions
            .chain([Event::Frame])
            .filter_map(|event| self.due(event))
            .min()
    }

    /// Time of the next event, `now` at the earliest.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let functions = (0..self.functions.len()).flat_map(events_of);
        functions
            .chain([Event::Frame])
            .filter_map(|event| self.due(event))
            .min()
            .map(|due| due.max(self.now))
    }

    pub(super) fn due(&self, event: Event) -> Option<u64> {
        match event {
            Event::Frame => self.link.next_due(),
            Event::ResetDone(index) => Some(self.functions.get(index)?.state.reset?.until),
            Event::ResetBegins(index) => Some(self.functions.get(index)?.state.announced?.until),
            Event::Interrupt(index) => self.functions.get(index)?.state.irq.next_due(),
            Event::Firmware(index) => {
                let function = self.functions.get(index)?;
                let waits = function.state.reset.is_some();
                function.fw.as_ref().filter(|_| !waits)?.next_due()
            }
            Event::Engine(index) => {
                let function = self.functions.get(index)?;
                Some(function.engine_due()?.max(function.busy_until))
            }
        }
    }

    /// Executes one of the events that are due; false when there is none.
    ///
    /// Their order on a card is undefined, so the seed decides.
    pub(crate) fn step(&mut self) -> bool {
        let all = (0..self.functions.len())
            .flat_map(events_of)
            .chain([Event::Frame]);
        let ready = all.filter(|event| self.due(*event).is_some_and(|due| due <= self.now));
        // Reservoir sampling of one: needs no list, and one draw for each event that is due.
        let mut rng = self.rng.clone();
        let mut chosen = None;
        for (seen, event) in ready.enumerate() {
            if rng.below(seen as u64 + 1) == 0 {
                chosen = Some(event);
            }
        }
        self.rng = rng;
        if let Some(event) = chosen {
            self.dispatch(event);
        }
        chosen.is_some()
    }

    /// Virtual time: advances by `time` and executes all events in it.
    pub(crate) fn advance(&mut self, time: Ns) {
        let end = self.now.saturating_add(time.0);
        // A driver that polls lets time pass a thousand times between two events.
        while end >= self.quiet_until {
            match self.next_event() {
                Some(due) if due <= end => {
                    self.now = due;
                    self.step();
                }
                next => {
                    self.quiet_until = next.unwrap_or(u64::MAX);
                    break;
                }
            }
        }
        self.now = end;
    }

    /// Something other than time may change when an event is due.
    pub(crate) fn disturb(&mut self) {
        self.quiet_until = 0;
    }

    /// Virtual time: the driver waits, so the next event is executed, or some time passes without
    /// one.
    pub(crate) fn relax(&mut self) {
        let horizon = self.now + self.idle;
        match self.next_event().filter(|due| *due <= horizon) {
            Some(due) => {
                self.now = due;
                self.step();
                self.idle = IDLE.0;
            }
            None => {
                self.now = horizon;
                self.idle = (self.idle * 2).min(IDLE.1);
            }
        }
    }
}
