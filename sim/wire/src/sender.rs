//! Frames that leave for a wire.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use e810_sim::link::Mac;

use crate::announcement;
use crate::counts::Counts;
use crate::ends::Ends;
use crate::rings::{Outcome, Outgoing};
use crate::socket::take_refused;

/// Where frames go.
#[derive(Debug)]
pub(crate) enum Target {
    /// To the other end of a pair.
    Peer(SocketAddr),
    /// To the end of a segment that has the destination address, else to all.
    Ends { known: Arc<Ends>, group: SocketAddr },
}

/// The sending side of a wire. It does not block.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) target: Target,
    pub(crate) counts: Arc<Counts>,
    /// An error was logged.
    pub(crate) warned: bool,
    /// Rings to ends of a segment.
    pub(crate) outgoing: Option<Outgoing>,
    /// The address from which this end tells numbers of rings.
    pub(crate) mac: Mac,
}

impl Sender {
    /// Sends a frame. One for a ring is there after [`Self::publish`].
    pub(crate) fn send(&mut self, frame: &[u8]) {
        match self.outgoing.as_mut().and_then(|rings| rings.write(frame)) {
            Some(Outcome::Written) => {
                self.counts.sent.one();
                self.counts.sent_by_ring.one();
                return;
            }
            Some(Outcome::Full) => {
                self.counts.not_sent.one();
                self.counts.rings_full.one();
                return;
            }
            None => {}
        }
        let mut result = self.send_once(frame);
        // That was an earlier frame, to an end that has ended, and this one was not sent.
        if is_refused(&result) {
            self.forget_refused();
            result = self.send_once(frame);
        }
        match result {
            Ok(()) => drop(self.counts.sent.one()),
            Err(error) => {
                self.counts.not_sent.one();
                if !std::mem::replace(&mut self.warned, true) {
                    log::warn!(
                        "a frame of {} bytes was not sent: {error}; further ones are only counted",
                        frame.len()
                    );
                }
            }
        }
    }

    fn send_once(&mut self, frame: &[u8]) -> io::Result<()> {
        let (known, group) = match &self.target {
            Target::Peer(peer) => return self.socket.send_to(frame, peer).map(drop),
            Target::Ends { known, group } => (known, group),
        };
        let now = Instant::now();
        let Some(end) = known.of(frame, now) else {
            self.socket.send_to(frame, group)?;
            self.counts.sent_to_all.one();
            return Ok(());
        };
        self.socket.send_to(frame, end)?;
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.want(end, now);
        }
        Ok(())
    }

    /// Lets ends know of what is in rings.
    pub(crate) fn publish(&mut self) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.publish();
        }
    }

    /// Tells the end at `at` the number of a ring, behind all datagrams that were sent there.
    pub(crate) fn tell(&self, at: SocketAddr, number: u64) {
        // It is told again until it answers.
        let _ = self
            .socket
            .send_to(&announcement::of_ring(self.mac, number), at);
    }

    fn forget_refused(&self) {
        if let Target::Ends { known, .. } = &self.target {
            forget_refused(&self.socket, known);
        }
    }
}

/// Whether the kernel says that a datagram was refused.
pub(crate) fn is_refused<T>(result: &io::Result<T>) -> bool {
    let error = result.as_ref().err();
    error.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Forgets the ends that refused what was sent to them.
pub(crate) fn forget_refused(socket: &UdpSocket, known: &Ends) {
    while let Some(end) = take_refused(socket) {
        log::debug!("an end of the wire, {end}, has ended");
        known.forget(end.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::remember_refused;

    fn loopback() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    fn sender(target: Target) -> Sender {
        let socket = loopback();
        remember_refused(&socket).unwrap();
        Sender {
            socket: Arc::new(socket),
            target,
            counts: Arc::default(),
            warned: false,
            outgoing: None,
            mac: [2; 6],
        }
    }

    #[test]
    fn what_the_socket_does_not_take_is_lost_and_counted() {
        let there = loopback();
        let mut sender = sender(Target::Peer(there.local_addr().unwrap()));
        // No datagram is that long.
        sender.send(&[0; 70_000]);
        assert!(sender.warned);
        sender.send(&[0; 70_000]);
        sender.send(&[7; 60]);
        let counts = &sender.counts;
        assert_eq!((counts.not_sent.get(), counts.sent.get()), (2, 1));
        let mut buffer = [0; 100];
        assert_eq!(there.recv(&mut buffer).unwrap(), 60);
        assert_eq!(buffer[..60], [7; 60]);
    }

    /// Of the frames to an end that has ended only those are lost that were on the way.
    #[test]
    fn an_end_that_has_ended_is_forgotten_with_its_first_refusal() {
        let all = loopback();
        let gone = loopback();
        let known = Arc::new(Ends::default());
        let mut sender = sender(Target::Ends {
            known: Arc::clone(&known),
            group: all.local_addr().unwrap(),
        });
        let mac = [2; 6];
        let frame = |tag: u8| [&mac[..], &[tag; 54]].concat();
        sender.send(&frame(0));
        let now = Instant::now();
        known.learn(mac, gone.local_addr().unwrap(), now);
        sender.send(&frame(1));
        let mut buffer = [0; 100];
        assert_eq!(gone.recv(&mut buffer).unwrap(), 60);
        drop(gone);
        // This one is lost.
        sender.send(&frame(2));
        sender.send(&frame(3));
        assert_eq!(known.of(&mac, now), None);
        sender.send(&frame(4));
        for tag in [0, 3, 4] {
            assert_eq!(all.recv(&mut buffer).unwrap(), 60);
            assert_eq!(buffer[6], tag);
        }
        let counts = &sender.counts;
        assert_eq!((counts.sent.get(), counts.sent_to_all.get()), (5, 3));
        assert_eq!(counts.not_sent.get(), 0);
    }
}
