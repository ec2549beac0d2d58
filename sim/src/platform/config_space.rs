//! Host access to configuration space: Bus Master Enable and the MSI-X control word.

use super::SimPlatform;

impl SimPlatform {
    /// Sets or clears Bus Master Enable of the command register. It is set initially, for drivers
    /// that do not handle configuration space.
    ///
    /// Requests are refused while the bit is clear. They are findings if the driver requested work
    /// meanwhile. Requests of work that was in progress when the bit was cleared are only counted,
    /// in [`Stats::stopped`](crate::Stats::stopped). Whether a card holds an interrupt back until
    /// the bit is set is not in the sources; here it is lost.
    pub fn set_bus_master(&self, on: bool) {
        self.with(|env| env.state.bus_mastering.set(on));
    }

    /// MSI-X as after power-up: off, every entry masked, nothing pending.
    pub fn power_up_msix(&self) {
        self.with(|env| env.state.msix.reset());
    }

    /// Sets MSI-X Enable and Function Mask, as configuration space does. Messages that become
    /// unmasked are sent.
    pub fn set_msix(&self, enabled: bool, masked: bool) {
        self.with(|env| {
            env.state.msix.set_control(enabled, masked);
            env.check_messages();
        });
    }
}
