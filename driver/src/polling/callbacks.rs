//! Delivers completions to callbacks, by `wr_id`.

use e810_datapath::Wc;

/// A callback, and how often its place was given out.
struct Place<'a> {
    callback: Option<&'a mut dyn FnMut(&Wc)>,
    generation: u32,
}

/// A table of `N` callbacks. [`Callbacks::register`] returns a `wr_id`; each completion of a
/// request with that `wr_id` calls the callback.
///
/// ```
/// use e810::polling::Callbacks;
/// use e810::Wc;
///
/// let mut seen = 0;
/// let mut count = |_: &Wc| seen += 1;
/// let mut callbacks = Callbacks::<4>::new();
/// let wr_id = callbacks.register(&mut count).ok_or("no room")?;
/// // post requests with this wr_id, then, for each completion:
/// assert!(callbacks.dispatch(&Wc { wr_id, ..Wc::default() }));
/// assert_eq!(seen, 1);
/// # Ok::<(), &str>(())
/// ```
#[doc(alias = "ib_cqe")]
pub struct Callbacks<'a, const N: usize> {
    places: [Place<'a>; N],
    unknown: u64,
}

impl<'a, const N: usize> Callbacks<'a, N> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            places: [const {
                Place {
                    callback: None,
                    generation: 0,
                }
            }; N],
            unknown: 0,
        }
    }

    /// Adds a callback and returns the `wr_id` for its requests; `None` when the table is full.
    pub fn register(&mut self, callback: &'a mut dyn FnMut(&Wc)) -> Option<u64> {
        let mut places = (0u64..).zip(&mut self.places);
        let (index, place) = places.find(|(_, place)| place.callback.is_none())?;
        place.callback = Some(callback);
        place.generation = place.generation.wrapping_add(1);
        Some(u64::from(place.generation) << 32 | index)
    }

    /// Removes a callback. Completions that still come with its `wr_id` count as unknown, even if
    /// its place is given out again. Returns false if it was not there.
    pub fn remove(&mut self, wr_id: u64) -> bool {
        self.place(wr_id)
            .is_some_and(|place| place.callback.take().is_some())
    }

    /// Calls the callback of a completion. Without one, counts the completion and returns false.
    pub fn dispatch(&mut self, wc: &Wc) -> bool {
        if let Some(callback) = self
            .place(wc.wr_id)
            .and_then(|place| place.callback.as_mut())
        {
            callback(wc);
            return true;
        }
        self.unknown = self.unknown.wrapping_add(1);
        false
    }

    /// Completions without a callback.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    fn place(&mut self, wr_id: u64) -> Option<&mut Place<'a>> {
        let place = self.places.get_mut(wr_id as u32 as usize)?;
        (u64::from(place.generation) == wr_id >> 32).then_some(place)
    }
}

impl<const N: usize> Default for Callbacks<'_, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> core::fmt::Debug for Callbacks<'_, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let there = self.places.iter().filter(|place| place.callback.is_some());
        f.debug_struct("Callbacks")
            .field("registered", &there.count())
            .field("unknown", &self.unknown)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wc(wr_id: u64) -> Wc {
        Wc {
            wr_id,
            ..Wc::default()
        }
    }

    #[test]
    fn each_completion_goes_to_its_callback_or_to_nobody() {
        let (mut first, mut second) = (0, 0);
        let mut of_first = |_: &Wc| first += 1;
        let mut of_second = |_: &Wc| second += 1;
        let mut unused = |_: &Wc| {};
        let mut callbacks = Callbacks::<2>::new();
        let a = callbacks.register(&mut of_first).unwrap();
        let b = callbacks.register(&mut of_second).unwrap();
        assert_eq!(callbacks.register(&mut unused), None, "full");
        assert!(callbacks.dispatch(&wc(b)) && callbacks.dispatch(&wc(a)));
        assert!(callbacks.dispatch(&wc(b)));
        assert!(callbacks.remove(a) && !callbacks.remove(a));
        for stray in [a, 0, u64::MAX, b + 1, b ^ 1 << 32] {
            assert!(!callbacks.dispatch(&wc(stray)), "{stray:#x}");
        }
        assert_eq!(callbacks.unknown(), 5);
        assert_eq!((first, second), (1, 2));
    }

    #[test]
    fn a_place_that_is_given_out_again_has_another_name() {
        let (mut old, mut new) = (|_: &Wc| panic!("gone"), |_: &Wc| {});
        let mut callbacks = Callbacks::<1>::new();
        let first = callbacks.register(&mut old).unwrap();
        assert!(callbacks.remove(first));
        let second = callbacks.register(&mut new).unwrap();
        assert_ne!(first, second);
        assert!(!callbacks.dispatch(&wc(first)) && callbacks.dispatch(&wc(second)));
    }
}
