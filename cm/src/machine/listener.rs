//! Who listens, and where.

use core::net::IpAddr;

use super::slot::news;
use super::tables::NONE;
use super::{Error, Machine, State};
use crate::ip::PortSpace;

/// A place for a listener. What is in it is the machine's.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    /// `None` while the place is free.
    pub(super) listen: Option<Listen>,
    pub(super) generation: u32,
    /// Requests that the program has not answered.
    pub(super) waiting: u32,
}

impl Listener {
    /// A free place.
    pub const EMPTY: Self = Self {
        listen: None,
        generation: 0,
        waiting: 0,
    };
}

/// What somebody listens for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Listen {
    /// Connections or datagrams.
    pub space: PortSpace,
    /// The port.
    pub port: u16,
    /// The own address; an unspecified one for all.
    #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
    pub address: IpAddr,
    /// An unspecified address is for its own family only.
    pub only_family: bool,
    /// Requests that may wait for the program.
    pub backlog: u32,
    /// The program's word.
    pub context: u64,
}

impl Listen {
    /// Takes requests to its address.
    fn takes(&self, destination: IpAddr) -> bool {
        if !self.address.is_unspecified() {
            return self.address == destination;
        }
        !self.only_family || self.address.is_ipv4() == destination.is_ipv4()
    }

    /// Some request could be for both.
    fn overlaps(&self, other: &Self) -> bool {
        let is_same_port = (self.space, self.port) == (other.space, other.port);
        let is_other_family = |any: &Self, one: &Self| {
            any.only_family && any.address.is_ipv4() != one.address.is_ipv4()
        };
        is_same_port
            && match (
                self.address.is_unspecified(),
                other.address.is_unspecified(),
            ) {
                (false, false) => self.address == other.address,
                (true, false) => !is_other_family(self, other),
                (false, true) => !is_other_family(other, self),
                (true, true) => !(is_other_family(self, other) && is_other_family(other, self)),
            }
    }
}

/// Name of a listener.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ListenerId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Machine<'_> {
    /// Takes requests from now on.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoListener`].
    pub fn listen(&mut self, listen: Listen) -> Result<ListenerId, Error> {
        let others = self.listeners.iter().filter_map(|place| place.listen);
        if others.clone().any(|other| other.overlaps(&listen)) {
            return Err(Error::InUse { port: listen.port });
        }
        let places = self.listeners.len();
        let free = self.listeners.iter_mut().enumerate();
        let (index, place) = free
            .into_iter()
            .find(|(_, place)| place.listen.is_none())
            .ok_or(Error::NoListener { places })?;
        let generation = place.generation.wrapping_add(1);
        *place = Listener {
            listen: Some(listen),
            generation,
            waiting: 0,
        };
        Ok(ListenerId {
            index: index as u32,
            generation,
        })
    }

    /// Takes no more requests. Those that the program was not told of are refused; those that it was
    /// told of stay its own.
    pub fn unlisten(&mut self, id: ListenerId) {
        let place = self.listeners.get_mut(id.index as usize);
        let Some(place) = place.filter(|place| place.generation == id.generation) else {
            return;
        };
        place.listen = None;
        for index in 0..self.slots.0.len() as u32 {
            let Some(slot) = self.slots.get_mut(index) else {
                break;
            };
            if slot.comm_id == 0 || slot.listener != id.index {
                continue;
            }
            let asks = matches!(slot.state, State::ReqReceived | State::SidrReqReceived);
            let is_told = slot.unreached == NONE && slot.news & news::REQUEST == 0;
            if asks && !is_told {
                slot.is_owned = false;
                slot.news = 0;
                self.release_slot(index);
            }
            if let Some(slot) = self.slot_mut(index) {
                // The place may be another's next.
                slot.listener = NONE;
                slot.is_in_backlog = false;
            }
        }
    }

    /// What a listener listens for; `None` when it is gone.
    #[must_use]
    pub fn listener(&self, id: ListenerId) -> Option<Listen> {
        let place = self.listeners.get(id.index as usize)?;
        place.listen.filter(|_| place.generation == id.generation)
    }

    /// Who listens on a port, at an address: `Err` with whether anybody listens on that port.
    pub(super) fn listener_for(
        &self,
        space: PortSpace,
        port: u16,
        destination: Option<IpAddr>,
    ) -> Result<u32, bool> {
        let mut is_port = false;
        for (index, place) in self.listeners.iter().enumerate() {
            let Some(listen) = place.listen else {
                continue;
            };
            if (listen.space, listen.port) != (space, port) {
                continue;
            }
            is_port = true;
            if destination.is_none_or(|destination| listen.takes(destination)) {
                return Ok(index as u32);
            }
        }
        Err(is_port)
    }
}
