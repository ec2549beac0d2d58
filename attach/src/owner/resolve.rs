//! Where packets to an address go: verbs programs name peers by GIDs alone.

use core::ffi::c_int;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;
use e810_node::neighbours::NeighbourTracker;
use e810_node::route::{Neighbour, Question, Route, known_mac};
use e810_node::station::{Network, Pace, PendingResolve, Station, Unresolved};
#[cfg(feature = "tap")]
use e810_node::tap::{Tap, TapPlan};

use super::bring_up::{ARPS, Opening};
use super::{Owner, ProgramId};
use crate::messages::{Refused, Resolve};
use crate::{errno, lock};

/// The longest that a program may want to wait for a neighbour, in milliseconds: one that hears nothing
/// for a minute takes its server for dead.
const LONGEST: u32 = 30_000;

/// How long after a neighbour has not answered it is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Finds out where packets go.
#[derive(Debug)]
pub(super) struct Resolver<P: HostPlatform> {
    /// The function on its link; `None` where it has no LAN queues.
    neighbours: Option<NeighbourTracker<P>>,
}

impl<P: HostPlatform> Resolver<P> {
    /// Has a function answer for its addresses and resolve others.
    ///
    /// # Errors
    /// The TAP interface that was asked for cannot be used, or the process may have no more of what
    /// it takes.
    pub(super) fn start(
        platform: &P,
        control: &mut Control<P>,
        opening: &Opening,
    ) -> anyhow::Result<Self> {
        let addresses = opening.addresses.clone();
        let (platform, limit) = (platform.clone(), opening.wait);
        let neighbours = match &opening.tap {
            // The GID table has the addresses of the interface.
            #[cfg(feature = "tap")]
            Some(name) => {
                let plan = TapPlan {
                    name: name.clone(),
                    addresses,
                    vlan: None,
                    resolve_limit: limit,
                };
                Some(Tap::tracker(platform, control, &plan)?)
            }
            #[cfg(not(feature = "tap"))]
            Some(name) => anyhow::bail!(
                "tap={name}: this library was built without TAP interfaces (feature `tap`)"
            ),
            None => {
                let network = Network {
                    addresses,
                    gateways: opening.gateways.clone(),
                    neighbours: ARPS as usize,
                    resolve_limit: limit,
                    ..Network::default()
                };
                match Station::start(platform, control, &network, Pace::Calm) {
                    Ok(station) => Some(NeighbourTracker::new(station)),
                    // A shortage now may be over when the program opens it again.
                    Err(error) if is_shortage(errno::of_any(&error)) => return Err(error),
                    // Without one, only own and link-local addresses can be reached.
                    Err(_) => None,
                }
            }
        };
        Ok(Self {
            neighbours: neighbours.map(NeighbourTracker::following_all),
        })
    }

    /// Who finds neighbours, if anybody does.
    pub(super) const fn neighbours(&self) -> Option<&NeighbourTracker<P>> {
        self.neighbours.as_ref()
    }

    /// Begins to resolve an address.
    fn begin(&self, question: Question) -> Option<PendingResolve> {
        let neighbours = self.neighbours.as_ref()?;
        Some(neighbours.begin_resolve(question))
    }

    /// Updates paths after their neighbours, and the GID table after an interface's addresses.
    /// Returns whether anything has changed.
    pub(super) fn progress(&mut self, control: &mut Control<P>) -> anyhow::Result<bool> {
        let mut has_changed = false;
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.progress_and_tell(control, &mut || has_changed = true)?;
        }
        Ok(has_changed)
    }
}

impl<P: HostPlatform> Owner<P> {
    /// Where packets to `destination` go, and which path values they use.
    pub(super) fn resolve(
        &self,
        program: ProgramId,
        Resolve {
            destination,
            vlan,
            limit,
        }: Resolve,
    ) -> Result<Neighbour, Refused> {
        let limit = limit.map(|ms| Duration::from_millis(ms.min(LONGEST).into()));
        let until = limit.map(|limit| (limit, Instant::now() + limit));
        loop {
            let found = self.ask_once(program, destination, vlan, until);
            let is_early = until.is_some_and(|(_, deadline)| Instant::now() < deadline);
            match found {
                // Some know at once that nobody has answered of late, as the host's own stack.
                Err(refused) if refused.errno == libc::ETIMEDOUT && is_early => {
                    thread::sleep(AGAIN);
                }
                found => return found,
            }
        }
    }

    /// One question, which ends after the time that the function was opened with, or at the end of a
    /// limit.
    fn ask_once(
        &self,
        program: ProgramId,
        destination: IpAddr,
        vlan: Option<u16>,
        until: Option<(Duration, Instant)>,
    ) -> Result<Neighbour, Refused> {
        let known = self.known(program, destination);
        let question = Question {
            destination,
            vlan,
            known,
        };
        let Some(pending) = lock(&self.resolver).begin(question) else {
            let why = "another driver has its LAN queues, or they could not be opened";
            let mac = known.ok_or(Unresolved::NoStation { destination, why })?;
            return Ok(Neighbour {
                via: destination,
                mac,
                route: Route::PLAIN,
            });
        };
        // Without the lock: others resolve meanwhile, and the wait ends when the device or the
        // program is gone.
        let is_there = || match self.gone.get() {
            Some(why) => Err(anyhow!("{why}")),
            None if !lock(&self.programs).contains_key(&program) => {
                Err(anyhow!("the program has left"))
            }
            None => match until {
                Some((limit, deadline)) if Instant::now() >= deadline => {
                    Err(Unresolved::NoAnswer {
                        destination,
                        via: destination,
                        limit: Ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
                    }
                    .into())
                }
                _ => Ok(()),
            },
        };
        let found = pending.wait(&is_there);
        if let Some(why) = self.gone.get() {
            return Err(Refused::gone(why));
        }
        found.map_err(|error| match error.downcast::<Unresolved>() {
            Ok(unresolved) => unresolved.into(),
            Err(other) => Refused::gone(format!("{other:#}")),
        })
    }

    /// The Ethernet address that needs no question.
    fn known(&self, program: ProgramId, destination: IpAddr) -> Option<MacAddr> {
        let state = self.turn(program);
        let gids = (0..e810::GIDS as u8).filter_map(|index| state.control.query_gid(index));
        let own: Vec<_> = gids.map(|own| own.gid.ip()).collect();
        known_mac(&own, state.control.lan().mac, destination)
    }
}

const fn is_shortage(number: c_int) -> bool {
    matches!(
        number,
        libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EAGAIN
    )
}
