//! Taking entries out of vectors: `heapless` panics at an index that is not there.

use core::mem;

use heapless::Vec;

/// The entry at a place; those behind it move up.
pub(crate) fn take<T, const N: usize>(from: &mut Vec<T, N>, place: usize) -> Option<T> {
    if place >= from.len() {
        return None;
    }
    let mut moving = from.pop()?;
    for slot in from.iter_mut().skip(place).rev() {
        mem::swap(slot, &mut moving);
    }
    Some(moving)
}

/// The entry at a place, which the last one takes.
pub(crate) fn swap_take<T, const N: usize>(from: &mut Vec<T, N>, place: usize) -> Option<T> {
    if place >= from.len() {
        return None;
    }
    let last = from.pop()?;
    match from.get_mut(place) {
        Some(slot) => Some(mem::replace(slot, last)),
        None => Some(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_out() {
        let letters = || Vec::<char, 4>::from_slice(&['a', 'b', 'c', 'd']).unwrap();
        for (place, letter, after, swapped) in [
            (0, Some('a'), &['b', 'c', 'd'][..], &['d', 'b', 'c'][..]),
            (1, Some('b'), &['a', 'c', 'd'], &['a', 'd', 'c']),
            (3, Some('d'), &['a', 'b', 'c'], &['a', 'b', 'c']),
            (4, None, &['a', 'b', 'c', 'd'], &['a', 'b', 'c', 'd']),
        ] {
            let mut left = letters();
            assert_eq!(take(&mut left, place), letter);
            assert_eq!(left, after);
            let mut left = letters();
            assert_eq!(swap_take(&mut left, place), letter);
            assert_eq!(left, swapped);
        }
    }
}
