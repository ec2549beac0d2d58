//! Where the entries of the cache are: in memory that the caller gives, in the order of their
//! addresses.

use core::net::IpAddr;

use super::entry::Entry;

/// Room for one neighbour.
#[derive(Clone, Debug)]
pub struct Place(Option<Entry>);

impl Place {
    /// Room that nobody has taken.
    pub const EMPTY: Self = Self(None);
}

/// Room for neighbours: an array, or a slice in a box of a caller that has an allocator.
pub trait Places: AsRef<[Place]> + AsMut<[Place]> {}

impl<T: AsRef<[Place]> + AsMut<[Place]>> Places for T {}

/// The entries: those of the first places, none of the others.
#[derive(Clone, Debug)]
pub(super) struct Table<P> {
    places: P,
    used: usize,
}

impl<P: Places> Table<P> {
    pub(super) fn new(mut places: P) -> Self {
        places.as_mut().fill(Place::EMPTY);
        Self { places, used: 0 }
    }

    pub(super) fn room(&self) -> usize {
        self.places.as_ref().len()
    }

    pub(super) const fn len(&self) -> usize {
        self.used
    }

    pub(super) fn is_full(&self) -> bool {
        self.used >= self.room()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let places = self.places.as_ref().iter();
        places.filter_map(|place| place.0.as_ref())
    }

    /// The place of an address, or where it would be.
    pub(super) fn place(&self, ip: IpAddr) -> Result<usize, usize> {
        let used = self.places.as_ref().get(..self.used).unwrap_or_default();
        let key = Some(ip);
        used.binary_search_by_key(&key, |place| place.0.as_ref().map(|entry| entry.ip))
    }

    pub(super) fn at(&self, place: usize) -> Option<&Entry> {
        self.places.as_ref().get(place)?.0.as_ref()
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Entry> {
        self.places.as_mut().get_mut(place)?.0.as_mut()
    }

    pub(super) fn get(&self, ip: IpAddr) -> Option<&Entry> {
        self.at(self.place(ip).ok()?)
    }

    pub(super) fn get_mut(&mut self, ip: IpAddr) -> Option<&mut Entry> {
        self.at_mut(self.place(ip).ok()?)
    }

    /// Enters one whose address is not there. False: there is no room.
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        let (Ok(place) | Err(place)) = self.place(entry.ip);
        let moved = self.places.as_mut().get_mut(place..=self.used);
        if let Some(moved) = moved
            && let Some(free) = moved.last_mut()
        {
            *free = Place(Some(entry));
            moved.rotate_right(1);
            self.used += 1;
            return true;
        }
        false
    }

    pub(super) fn remove(&mut self, place: usize) {
        let moved = self.places.as_mut().get_mut(place..self.used);
        if let Some(moved) = moved
            && let Some(first) = moved.first_mut()
        {
            *first = Place::EMPTY;
            moved.rotate_left(1);
            self.used -= 1;
        }
    }
}
