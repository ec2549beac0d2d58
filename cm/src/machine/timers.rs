//! What happens when no message comes.

use e810_types::Ns;

use super::slot::{due, news};
use super::{Machine, State};

impl Machine<'_> {
    /// When [`poll`](Self::poll) has something to do; `None` if never.
    #[must_use]
    pub fn deadline(&self) -> Option<Ns> {
        let slot = self.slot(self.timers.first()?)?;
        Some(slot.timer.at)
    }

    /// Repeats what was not answered in time, gives up what was repeated often enough, and ends
    /// what has waited. True while there is more to do: one call does a bounded amount.
    pub fn poll(&mut self, now: Ns) -> bool {
        for _ in 0..32 {
            let first = self.timers.first();
            let Some(index) =
                first.filter(|index| self.slot(*index).is_some_and(|slot| slot.timer.at <= now))
            else {
                return false;
            };
            self.clear_timer(index);
            self.expire(index, now);
        }
        true
    }

    fn expire(&mut self, index: u32, now: Ns) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        let again = slot.retries_left > 0;
        match slot.state {
            State::TimeWait => {
                self.end(index);
                self.tell(index, news::OVER);
                self.free_if_unused(index);
            }
            State::ReqSent
            | State::MraReqReceived
            | State::RepSent
            | State::MraRepReceived
            | State::DreqSent
            | State::SidrReqSent
                if again =>
            {
                slot.retries_left = slot.retries_left.saturating_sub(1);
                // The peer's time for an answer is over.
                slot.state = match slot.state {
                    State::MraReqReceived => State::ReqSent,
                    State::MraRepReceived => State::RepSent,
                    other => other,
                };
                self.counters.repeated = self.counters.repeated.wrapping_add(1);
                self.send(index, due::KEPT);
            }
            State::DreqSent => {
                self.wait(index, now);
                self.tell_last(index, news::DISCONNECTED);
            }
            State::ReqSent
            | State::MraReqReceived
            | State::RepSent
            | State::MraRepReceived
            | State::SidrReqSent => {
                // What still waits to be sent would find a peer whom nobody hears.
                slot.due = 0;
                self.end(index);
                self.tell(index, news::UNREACHABLE);
                self.free_if_unused(index);
            }
            State::Idle
            | State::ReqReceived
            | State::RepReceived
            | State::Established
            | State::DreqReceived
            | State::SidrReqReceived => {}
        }
    }
}
