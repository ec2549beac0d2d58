//! LAN frames of a function: which queue they go to, and what its port counts.

use super::{CardView, EngineEnv, Function};
use crate::findings::Log;
use crate::lan::{Direction, LanQueues};
use crate::regs::lan::place;

impl Function {
    pub(crate) fn count_sent(&mut self, frame: &[u8], has_link: bool) {
        if self.fw.is_none() {
            // Its port is not modelled.
            return;
        }
        let counters = &mut self.state.lan_queues.counters;
        if has_link {
            counters.port(Direction::Sent, frame);
        } else {
            counters.no_link();
        }
    }

    /// Counts a frame that arrives at the port; false when it is longer than the port takes.
    pub(super) fn receives_all(&mut self, frame: &[u8]) -> bool {
        let Some(fw) = &self.fw else {
            // Its port is not modelled.
            return true;
        };
        let counters = &mut self.state.lan_queues.counters;
        counters.port(Direction::Received, frame);
        let fits = frame.len() + 4 <= fw.max_frame();
        if !fits {
            counters.too_long();
        }
        fits
    }

    /// Delivers a frame that is not for the engine to the receive queue of each VSI that the switch
    /// forwards it to.
    pub(super) fn receive_lan(&mut self, frame: &[u8], card: &CardView, log: &mut Log, now: u64) {
        let Some(fw) = &self.fw else {
            return;
        };
        let vsis = fw.destinations(frame);
        let mut env = EngineEnv {
            state: &mut self.state,
            log,
            now,
        };
        let mut taken = false;
        for number in vsis {
            let vsi = fw.lan_vsi(number, card, frame);
            taken |= LanQueues::receive(number, &vsi, frame, &mut env);
        }
        if taken {
            self.state.stats.lan_frames_received += 1;
        } else {
            self.state.stats.frames_filtered += 1;
        }
    }

    /// Shows the receive descriptor layouts that the package describes: each described layout has
    /// flags (lan-path 2.2, 18). The sources do not say which flags; a driver tests that one is
    /// set.
    pub(super) fn show_layouts(&mut self) {
        const FLEX_NIC: u32 = 2;
        const COMMS: std::ops::RangeInclusive<u32> = 16..=25;
        const SOME_FLAG: u32 = 1;
        let registers = &mut self.state.registers;
        if registers.get(place::rxdid_flags(FLEX_NIC)) != 0 {
            return;
        }
        for rxdid in COMMS.chain([FLEX_NIC]) {
            registers.set(place::rxdid_flags(rxdid), SOME_FLAG);
        }
    }
}
