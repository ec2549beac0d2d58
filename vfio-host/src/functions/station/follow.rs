//! Paths of queue pairs, and the neighbours that they go to.

use std::net::IpAddr;

use anyhow::Result;
use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;

use super::{Station, StationEvent, Unresolved};

/// A path that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Followed {
    destination: IpAddr,
    /// Its next hop.
    via: IpAddr,
    /// Where the queue pairs' packets go.
    mac: MacAddr,
}

/// A station, and the paths that follow its neighbours.
#[derive(Debug)]
pub(crate) struct NeighbourTracker<P: HostPlatform> {
    station: Station<P>,
    followed: Vec<Followed>,
}

impl<P: HostPlatform> NeighbourTracker<P> {
    pub(crate) const fn new(station: Station<P>) -> Self {
        Self {
            station,
            followed: Vec::new(),
        }
    }

    /// The station.
    pub(crate) const fn station(&self) -> &Station<P> {
        &self.station
    }

    /// Where packets to a destination go, found out now; paths to there are followed.
    ///
    /// # Errors
    /// As [`Station::resolve`].
    pub(crate) fn resolve(
        &mut self,
        destination: IpAddr,
        idle: &dyn Fn() -> Result<()>,
    ) -> Result<MacAddr> {
        let neighbour = self.station.resolve(destination, idle)?;
        self.follow(Followed {
            destination,
            via: neighbour.via,
            mac: neighbour.mac,
        });
        Ok(neighbour.mac)
    }

    /// Takes a destination on the link to be at `mac`, as its own side says; paths to there are
    /// followed.
    pub(crate) fn follow_on_link(&mut self, destination: IpAddr, mac: MacAddr) {
        self.station.watch(destination);
        self.follow(Followed {
            destination,
            via: destination,
            mac,
        });
    }

    fn follow(&mut self, path: Followed) {
        self.followed
            .retain(|known| known.destination != path.destination);
        self.followed.push(path);
    }

    /// Has paths go to where their neighbours are now.
    ///
    /// # Errors
    /// A device that only a reset helps. Other refusals are logged: the queue pairs
    /// notice by themselves that nothing answers.
    #[inline]
    pub(crate) fn progress(&mut self, control: &mut Control<P>) -> Result<(), e810::Error> {
        match self.station.has_events() {
            true => self.follow_all(control),
            false => Ok(()),
        }
    }

    fn follow_all(&mut self, control: &mut Control<P>) -> Result<(), e810::Error> {
        while let Some(event) = self.station.next_event() {
            let StationEvent::Neighbour { ip, mac } = event else {
                continue;
            };
            let moved = self.followed.iter_mut();
            for path in moved.filter(|path| path.via == ip && path.mac != mac) {
                match control.move_neighbour(path.destination, path.mac, mac) {
                    Ok(paths) => {
                        log::info!("{paths} paths to {} go to {ip} now", path.destination);
                        path.mac = mac;
                    }
                    Err(error) if error.needs_reset() => return Err(error),
                    Err(error) => log::warn!("paths to {} stay: {error}", path.destination),
                }
            }
        }
        Ok(())
    }

    /// As [`Station::close`].
    pub(crate) fn close(self, control: &mut Control<P>) -> Result<()> {
        self.station.close(control)
    }
}

/// Why a function has no station.
pub(crate) fn without_station(destination: IpAddr) -> Unresolved {
    Unresolved::NoStation {
        destination,
        why: "its LAN queues are not ours, or could not be opened",
    }
}
