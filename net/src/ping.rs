//! Echo requests of our own.

use core::fmt;
use core::net::IpAddr;

use heapless::Vec;

use crate::take::take;
use crate::time::Ns;

/// Echo requests that may be under way at a time.
pub const PINGS: usize = 16;
/// A reply is waited for as long as this: Linux' ping waits 10 s for the last one.
pub(crate) const PING_TIME: Ns = Ns::from_secs(10);
/// Payload of [`Interface::ping`](crate::Interface::ping): as much as other pings send.
pub(crate) const PING_LENGTH: u16 = 56;

/// An echo request to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ping {
    /// To whom.
    pub ip: IpAddr,
    /// Identifier: which program asks.
    pub ident: u16,
    /// Sequence number.
    pub seq: u16,
    /// Bytes of payload.
    pub length: u16,
}

/// Why an echo request is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PingError {
    /// As many as there may be are under way.
    Full,
    /// Not the address of one host.
    NotUnicast,
}

impl fmt::Display for PingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "too many echo requests are under way",
            Self::NotUnicast => "not the address of one host",
        })
    }
}

impl core::error::Error for PingError {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) ping: Ping,
    /// When it was sent; `None` while its neighbour is not known.
    pub(crate) sent: Option<Ns>,
    /// When it is given up.
    until: Ns,
}

/// Echo requests that wait for a neighbour or a reply.
#[derive(Clone, Debug)]
pub(crate) struct Pings(Vec<Asked, PINGS>);

impl Pings {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn ask(&mut self, ping: Ping, now: Ns) -> Result<(), PingError> {
        let asked = Asked {
            ping,
            sent: None,
            until: now + PING_TIME,
        };
        self.0.push(asked).map_err(|_| PingError::Full)
    }

    /// The request at a place.
    pub(crate) fn get(&self, place: usize) -> Option<Asked> {
        self.0.get(place).copied()
    }

    pub(crate) fn sent(&mut self, place: usize, now: Ns) {
        if let Some(asked) = self.0.get_mut(place) {
            asked.sent = Some(now);
            asked.until = now + PING_TIME;
        }
    }

    pub(crate) fn remove(&mut self, place: usize) {
        take(&mut self.0, place);
    }

    /// The request that a reply answers, and when it was sent.
    pub(crate) fn reply(&mut self, ip: IpAddr, ident: u16, seq: u16) -> Option<Ns> {
        let is_it = |asked: &Asked| {
            let ping = &asked.ping;
            (ping.ip, ping.ident, ping.seq) == (ip, ident, seq) && asked.sent.is_some()
        };
        let place = self.0.iter().position(is_it)?;
        take(&mut self.0, place)?.sent
    }

    /// A request that nobody has answered in time.
    pub(crate) fn expired(&mut self, now: Ns) -> Option<Ping> {
        let place = self.0.iter().position(|asked| asked.until <= now)?;
        take(&mut self.0, place).map(|asked| asked.ping)
    }

    pub(crate) fn deadline(&self) -> Option<Ns> {
        self.0.iter().map(|asked| asked.until).min()
    }
}
