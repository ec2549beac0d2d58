//! [`LanQueues`]: both queues, as a program uses them.

use e810_hal::{Ns, Platform};

use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::rx::{RxCounts, RxRing};
use crate::tx::{TxCounts, TxRing};

/// How often the device is asked again to write back while nothing comes. A write that enables
/// the vector withdraws the request. A program that waits for the vector between two requests is
/// not delayed; one that only polls is delayed by this interval at most.
const ASK_AGAIN: Ns = Ns::from_us(500);

/// The LAN queues of a function: Ethernet frames in and out.
///
/// It is `Send`; one thread owns it. No call waits, locks or allocates.
#[derive(Debug)]
#[must_use = "queues that are dropped leak their memory: disable them"]
pub struct LanQueues<P: Platform> {
    platform: P,
    tx: TxRing<P>,
    rx: RxRing<P>,
    interrupt: Interrupt,
    asked: Ns,
}

impl<P: Platform> LanQueues<P> {
    /// Two queues that are on, bound to `interrupt`.
    pub fn new(platform: P, tx: TxRing<P>, rx: RxRing<P>, interrupt: Interrupt) -> Self {
        interrupt.request_write_back(&platform);
        let asked = platform.now();
        Self {
            platform,
            tx,
            rx,
            interrupt,
            asked,
        }
    }

    /// Sends a frame that starts with the destination address, without FCS. It is copied, and
    /// padded with zeros to 60 bytes.
    ///
    /// # Errors
    /// [`Error::FrameLength`](crate::Error::FrameLength),
    /// [`Error::Full`](crate::Error::Full), [`Error::Stalled`](crate::Error::Stalled);
    /// nothing was sent.
    pub fn transmit(&mut self, frame: &[u8]) -> Result<()> {
        self.tx.transmit(frame)
    }

    /// Copies the next frame that has arrived to `into` and returns its length. Frames with
    /// errors and frames longer than `into` are dropped and counted. `None`: there is no frame
    /// now.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        let received = self.rx.receive(into);
        if received.is_none() {
            self.ask_again();
        }
        received
    }

    /// The longest frame in bytes, without FCS: a buffer of this size holds every
    /// frame.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        self.rx.max_frame()
    }

    /// Frames that were given to [`transmit`](Self::transmit) and have not left yet.
    pub fn outstanding(&mut self) -> u16 {
        self.tx.outstanding()
    }

    /// Frames sent so far.
    #[must_use]
    pub const fn tx_counts(&self) -> TxCounts {
        self.tx.counts()
    }

    /// Frames received and dropped so far.
    #[must_use]
    pub const fn rx_counts(&self) -> RxCounts {
        self.rx.counts()
    }

    /// Vector and timer of the queues.
    #[must_use]
    pub const fn interrupt(&self) -> Interrupt {
        self.interrupt
    }

    /// Gives the memory back after the function was reset.
    pub fn release_after_reset(self) {
        self.tx.stop().release();
        self.rx.stop_after_reset().release();
    }

    /// The queues, for the end.
    pub fn into_rings(self) -> (TxRing<P>, RxRing<P>) {
        (self.tx, self.rx)
    }

    fn ask_again(&mut self) {
        let now = self.platform.now();
        if now - self.asked >= ASK_AGAIN {
            self.asked = now;
            self.interrupt.request_write_back(&self.platform);
        }
    }
}
