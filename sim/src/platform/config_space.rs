//! What the host of a function sets in its configuration space: Bus Master Enable and the control word of MSI-X.

use super::SimPlatform;

impl SimPlatform {
    /// Gives the function bus mastering or takes it away, as the Bus Master Enable bit of its command register does. A
    /// function has it from the start, for drivers that are not concerned with configuration space.
    ///
    /// Requests without it are refused. They are findings when the driver asked for work meanwhile; work that was
    /// under way when bus mastering was taken away is only counted, in [`Stats::stopped`](crate::Stats::stopped).
    /// Whether a card keeps an interrupt until it may send it is not in the sources; here it is lost.
    pub fn set_bus_master(&self, on: bool) {
        self.with(|env| env.state.bus_mastering.set(on));
    }

    /// MSI-X as after power-up: off, every entry masked, nothing pending.
    pub fn power_up_msix(&self) {
        self.with(|env| env.state.msix.reset());
    }

    /// Sets MSI-X Enable and Function Mask, as configuration space does. What became pending goes out.
    pub fn set_msix(&self, enabled: bool, masked: bool) {
        self.with(|env| {
            env.state.msix.set_control(enabled, masked);
            env.check_messages();
        });
    }
}
