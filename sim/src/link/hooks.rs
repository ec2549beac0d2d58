//! Hooks that see the frames of a link, decide about them or take them elsewhere.

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

/// Receives each frame that leaves this simulator, from the destination address on, without FCS,
/// after the link's latency.
///
/// It is called with the simulator locked: it must not block, and must not use the simulator.
pub type Uplink = Box<dyn FnMut(&[u8]) + Send>;
