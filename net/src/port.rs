//! What takes and gives Ethernet frames.

use core::fmt;

/// A port: frames without preamble and frame check sequence, at least from the destination
/// address on. A frame shorter than 60 bytes is padded by the port.
pub trait Port {
    /// The next frame that has come in, copied to the start of `into`; its length, which is more
    /// than that of `into` if the frame was longer, and then only its start was copied.
    fn receive(&mut self, into: &mut [u8]) -> Option<usize>;

    /// Takes a frame to be sent.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room now; the frame was not taken.
    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full>;
}

impl<P: Port + ?Sized> Port for &mut P {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        (**self).receive(into)
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        (**self).transmit(frame)
    }
}

/// A port has no room for one more frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for one more frame")
    }
}

impl core::error::Error for Full {}
