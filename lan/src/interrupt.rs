//! The interrupt of the queues.
//!
//! The device may keep descriptors that are done until a cache line of them is full, or until the
//! queue's interrupt comes. So a program that only polls needs a vector as well, with its cause
//! enabled and write-back at each interval (lan-path 4.3, 6, 15).

use e810_hal::bus::{ItrIndex, RxQueueId, TxQueueId};
use e810_hal::regs::{DYN_CTL_WRITE_BACK, GLINT_DYN_CTL, GLINT_ITR, QINT_RQCTL, QINT_TQCTL};
use e810_hal::{Bus, Vector};

/// Interval between write-backs, in units of the timer (2 µs): 8 µs, the initial value of
/// existing drivers (lan-path 1.2).
const INTERVAL: u32 = 4;

/// Vector and timer of a port's queues. Other causes may share the vector, with other timers of
/// it: nothing states that they may not (lan-path 6 `[inf shared_vector]`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Interrupt {
    /// The vector.
    pub vector: Vector,
    /// The timer, which no other cause of the vector uses.
    pub timer: ItrIndex,
}

impl Interrupt {
    /// Sets the interval of the timer.
    pub(crate) fn set_interval(self, bus: &impl Bus) {
        let timer = GLINT_ITR.at(self.timer, self.vector);
        timer.write(bus, GLINT_ITR::INTERVAL.val(INTERVAL));
    }

    /// Asks the device to write back what is done, whether or not the vector is
    /// masked; its mask stays as it is.
    pub(crate) fn request_write_back(self, bus: &impl Bus) {
        GLINT_DYN_CTL.at(self.vector).set(bus, DYN_CTL_WRITE_BACK);
    }

    pub(crate) fn bind_tx(self, bus: &impl Bus, queue: TxQueueId) {
        QINT_TQCTL.at(queue).write(
            bus,
            QINT_TQCTL::MSIX_INDX.val(self.vector.get())
                + QINT_TQCTL::ITR_INDX.val(self.timer.get())
                + QINT_TQCTL::CAUSE_ENA::SET,
        );
    }

    pub(crate) fn bind_rx(self, bus: &impl Bus, queue: RxQueueId) {
        QINT_RQCTL.at(queue).write(
            bus,
            QINT_RQCTL::MSIX_INDX.val(self.vector.get())
                + QINT_RQCTL::ITR_INDX.val(self.timer.get())
                + QINT_RQCTL::CAUSE_ENA::SET,
        );
    }
}
