//! What `e810 ping` prints at its end.

use std::io::Write;
use std::net::IpAddr;

use anyhow::Result;
use e810_net::{Ns, PingFailure};
use serde::Serialize;

use crate::measure::ended::Ending;

/// The JSON of `e810 ping`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PingReport {
    /// How the function was reached.
    pub transport: &'static str,
    /// How it ended; without a count, usually by a signal.
    #[serde(flatten)]
    pub ending: Ending,
    /// The address that was pinged.
    pub destination: IpAddr,
    /// Bytes of payload of a request.
    pub size: u16,
    /// Requests sent.
    pub transmitted: u64,
    /// Replies received.
    pub received: u64,
    /// Requests without a reply, by cause.
    pub unanswered: Unanswered,
    /// Times there and back, in nanoseconds; absent without a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<RoundTrips>,
}

/// Requests that were not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Unanswered {
    /// Sent, and no reply came.
    pub timed_out: u64,
    /// The next hop does not answer.
    pub unreachable: u64,
    /// No route leads there, or no own address can be the source.
    pub no_route: u64,
    /// Too long for a frame or the path.
    pub too_long: u64,
}

impl Unanswered {
    pub(super) fn add(&mut self, why: PingFailure) {
        let count = match why {
            PingFailure::NoRoute => &mut self.no_route,
            PingFailure::Unreachable => &mut self.unreachable,
            PingFailure::TooLong => &mut self.too_long,
            _ => &mut self.timed_out,
        };
        *count += 1;
    }
}

/// Times there and back.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RoundTrips {
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub avg: u64,
    /// The longest.
    pub max: u64,
    /// Standard deviation.
    pub mdev: u64,
}

/// Running sums of the times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    count: u64,
    least: u64,
    most: u64,
    sum: u128,
    squares: u128,
}

impl Times {
    pub(super) fn add(&mut self, Ns(time): Ns) {
        self.least = if self.count == 0 {
            time
        } else {
            self.least.min(time)
        };
        self.most = self.most.max(time);
        self.count += 1;
        self.sum += u128::from(time);
        self.squares += u128::from(time) * u128::from(time);
    }

    pub(super) fn summary(&self) -> Option<RoundTrips> {
        let count = u128::from(self.count);
        let mean = self.sum.checked_div(count)?;
        let variance = (self.squares / count).saturating_sub(mean * mean);
        Some(RoundTrips {
            min: self.least,
            avg: mean as u64,
            max: self.most,
            mdev: (variance as f64).sqrt() as u64,
        })
    }
}

/// Milliseconds, as ping prints them.
pub(super) fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

impl PingReport {
    /// Prints it as ping does.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        let lost = self.transmitted.saturating_sub(self.received);
        let percent = (lost * 100).checked_div(self.transmitted).unwrap_or(0);
        writeln!(out, "--- {} ping statistics ---", self.destination)?;
        writeln!(
            out,
            "{} requests, {} replies, {percent}% lost",
            self.transmitted, self.received
        )?;
        if let Some(times) = self.round_trip_ns {
            writeln!(
                out,
                "round trip min/avg/max/mdev = {}/{}/{}/{} ms ({})",
                ms(times.min),
                ms(times.avg),
                ms(times.max),
                ms(times.mdev),
                self.transport
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_as_ping_does() {
        let mut times = Times::default();
        assert_eq!(times.summary(), None);
        for time in [2_000, 4_000, 6_000] {
            times.add(Ns(time));
        }
        let expected = RoundTrips {
            min: 2_000,
            avg: 4_000,
            max: 6_000,
            mdev: 1_632,
        };
        assert_eq!(times.summary(), Some(expected));
    }
}
