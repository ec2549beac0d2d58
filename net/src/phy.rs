//! A port for smoltcp: a whole TCP/IP stack on the same port, in the place of an
//! [`Interface`](crate::Interface).
//!
//! Each frame is copied once each way, between the port and a buffer here. smoltcp computes and
//! verifies all checksums itself.

use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::port::Port;

/// Bytes of an Ethernet header, which smoltcp counts as part of its MTU.
const ETHERNET_HEADER: usize = 14;

/// A port as smoltcp's device, for frames of at most `FRAME` bytes.
#[derive(Debug)]
pub struct PortDevice<P, const FRAME: usize = 1514> {
    port: P,
    received: [u8; FRAME],
    sending: [u8; FRAME],
    /// Length of a frame in `sending` that the port had no room for.
    held: usize,
    oversize: u64,
}

impl<P: Port, const FRAME: usize> PortDevice<P, FRAME> {
    /// A device on a port.
    #[must_use]
    pub const fn new(port: P) -> Self {
        Self {
            port,
            received: [0; FRAME],
            sending: [0; FRAME],
            held: 0,
            oversize: 0,
        }
    }

    /// Frames dropped because they were longer than `FRAME`.
    #[must_use]
    pub const fn oversize(&self) -> u64 {
        self.oversize
    }

    /// The port.
    pub const fn port(&mut self) -> &mut P {
        &mut self.port
    }

    /// Whether a frame may be sent: none waits for room.
    fn is_ready(&mut self) -> bool {
        if let Some(frame) = self
            .sending
            .get(..self.held)
            .filter(|held| !held.is_empty())
            && self.port.transmit(frame).is_ok()
        {
            self.held = 0;
        }
        self.held == 0
    }
}

impl<P: Port, const FRAME: usize> Device for PortDevice<P, FRAME> {
    type RxToken<'a>
        = Received<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Sending<'a, P>
    where
        Self: 'a;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sending<'_, P>)> {
        // A frame that is received may be answered at once.
        if !self.is_ready() {
            return None;
        }
        let length = loop {
            let length = self.port.receive(&mut self.received)?;
            if length <= FRAME {
                break length;
            }
            self.oversize = self.oversize.saturating_add(1);
        };
        let received = Received(self.received.get(..length)?);
        let sending = Sending {
            port: &mut self.port,
            buffer: &mut self.sending,
            held: &mut self.held,
        };
        Some((received, sending))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_, P>> {
        self.is_ready().then_some(Sending {
            port: &mut self.port,
            buffer: &mut self.sending,
            held: &mut self.held,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME.max(ETHERNET_HEADER);
        // One buffer each way.
        capabilities.max_burst_size = Some(1);
        capabilities.checksum = ChecksumCapabilities::default();
        capabilities
    }
}

/// A frame that has come in.
#[derive(Debug)]
pub struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

/// Room for a frame to be sent.
#[derive(Debug)]
pub struct Sending<'a, P> {
    port: &'a mut P,
    buffer: &'a mut [u8],
    held: &'a mut usize,
}

impl<P: Port> TxToken for Sending<'_, P> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        // smoltcp asks for no more than the MTU that the device says.
        let length = length.min(self.buffer.len());
        let frame = self.buffer.get_mut(..length).unwrap_or_default();
        let result = fill(frame);
        if self.port.transmit(frame).is_err() {
            *self.held = length;
        }
        result
    }
}
