//! What an end of a segment learns from the frames of others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use e810_sim::link::{Mac, mac_option};

use crate::announcement;
use crate::counts::Counts;
use crate::ends::Ends;
use crate::frame::{self, Reject};

/// What an end knows of its segment.
#[derive(Debug)]
pub(crate) struct Hearing {
    pub(crate) known: Arc<Ends>,
    /// Addresses of the functions here.
    pub(crate) macs: Vec<Mac>,
    /// Programs that send from the group's port share it, so that no answer reaches one alone.
    pub(crate) shared_port: u16,
    pub(crate) counts: Arc<Counts>,
}

/// Whether bytes can be a frame; others are counted.
pub(crate) fn is_frame(bytes: &[u8], counts: &Counts) -> bool {
    let rejected = match frame::check(bytes) {
        Ok(()) => return true,
        Err(Reject::NoFrame) => &counts.no_frame,
        Err(Reject::TooLong) => &counts.too_long,
        Err(Reject::Truncated) => &counts.truncated,
    };
    rejected.one();
    false
}

fn source(frame: &[u8]) -> Option<Mac> {
    frame.get(6..)?.first_chunk().copied()
}

impl Hearing {
    /// Learns from a frame of the end at `from`; false if it is for the ends themselves.
    pub(crate) fn hear(&self, frame: &[u8], from: SocketAddr, now: Instant) -> bool {
        let Some(source) = source(frame) else {
            return false;
        };
        if self.macs.contains(&source) {
            if self.counts.own_addresses.one() == 0 {
                log::warn!(
                    "a frame from {from} has the source address {} of a function here: two ends of the wire have one Ethernet address (give one of them another, with --mac or mac=), or something returns frames; further ones are only counted",
                    mac_option(source)
                );
            }
        } else if from.port() != self.shared_port {
            self.known.learn(source, from, now);
        }
        !announcement::is(frame)
    }

    /// Learns from what was in a ring; false if it is no frame for functions. `heard` is the source
    /// of the frame before and when it was learned: most frames come from the same one. Without it,
    /// nothing is learned.
    pub(crate) fn hear_by_ring(
        &self,
        frame: &[u8],
        from: SocketAddr,
        heard: Option<&mut Option<(Mac, u64)>>,
    ) -> bool {
        if !is_frame(frame, &self.counts) {
            return false;
        }
        let Some(heard) = heard else {
            return !announcement::is(frame);
        };
        let source = source(frame);
        let same = heard.is_some_and(|(mac, generation)| {
            Some(mac) == source && generation == self.known.generation()
        });
        if same {
            return !announcement::is(frame);
        }
        let is_for_functions = self.hear(frame, from, Instant::now());
        *heard = source
            .filter(|mac| !self.macs.contains(mac))
            .map(|mac| (mac, self.known.generation()));
        is_for_functions
    }

    /// A frame of a ring was taken.
    pub(crate) fn count_by_ring(&self, frame: &[u8]) {
        let is_ours = frame
            .first_chunk()
            .is_some_and(|to: &Mac| to[0] & 1 != 0 || self.macs.contains(to));
        if is_ours {
            self.counts.received.one();
            self.counts.received_by_ring.one();
        } else {
            self.counts.not_ours.one();
        }
    }
}
