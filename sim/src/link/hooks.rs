//! Hooks that see the frames of a link, decide about them or take them elsewhere.

use std::fmt;

use e810_hal::Ns;

/// Decision of a [`LinkHook`] about a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Deliver it subject to the configured [`Quality`](super::Quality).
    Pass,
    Drop,
    /// Deliver it twice.
    Duplicate,
    /// Deliver it this much later; later frames overtake it.
    Delay(Ns),
    /// Deliver these bytes in its place.
    Replace(Vec<u8>),
}

/// A frame on the wire, as a hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// When it was sent.
    pub time: Ns,
    /// The function that sent it; `None` for one from outside.
    pub from: Option<u8>,
    /// From the destination address on, without FCS.
    pub bytes: &'a [u8],
}

/// Decides about each frame, in the order they are sent.
///
/// It is called with the simulator locked and must not use it.
pub type LinkHook = Box<dyn FnMut(Frame<'_>) -> Verdict + Send>;

/// Receives each frame when it is sent, before any impairment, and each frame from outside that has
/// a destination here. The restriction of [`LinkHook`] applies.
pub type Capture = Box<dyn FnMut(Frame<'_>) + Send>;

/// The rest of a network, beyond the link of a simulator.
///
/// Its functions are called with the simulator, or the engine of a function, locked, by several
/// threads: they must not block, and must not use the simulator. A function that sends frames is an
/// uplink from which none come.
pub trait Uplink: Send + Sync {
    /// Sends frames that leave the simulator, each from the destination address on, without FCS,
    /// after the link's latency.
    fn send(&self, frames: &[Vec<u8>]);

    /// Gives frames that have come to `each`, in their order, until it returns false: that frame
    /// stays for the next call. At most `most` of them. A simulator in real time calls it whenever a
    /// program polls, so it has to be cheap when there are none. The frames need not be valid.
    fn take(&self, most: usize, each: &mut dyn FnMut(&[u8]) -> bool) {
        let _ = (most, each);
    }
}

impl<F: Fn(&[u8]) + Send + Sync> Uplink for F {
    fn send(&self, frames: &[Vec<u8>]) {
        for frame in frames {
            self(frame);
        }
    }
}

impl fmt::Debug for dyn Uplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Uplink")
    }
}
