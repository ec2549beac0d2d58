//! IOMMU groups that this process has open.
//!
//! The kernel gives a group to one opener, and an IOMMU does not hold the
//! functions of a group apart: they have one container and one set of I/O
//! addresses. So the first function of a group that this process opens makes
//! both, the others share them, and the last one to be closed destroys them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::BackendError;
use crate::iova::IovaSpace;
use crate::spec::Bdf;
use crate::transport::SharedAddresses;

/// The open groups of a process, by number. `C` is what a group is opened by.
#[derive(Debug)]
pub(super) struct Groups<C>(Mutex<BTreeMap<String, Weak<Group<C>>>>);

#[derive(Debug)]
struct Group<C> {
    container: C,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    functions: Vec<Bdf>,
    addresses: Option<SharedAddresses>,
}

/// A function that is open in its group.
#[derive(Debug)]
pub(super) struct Member<C> {
    group: Arc<Group<C>>,
    bdf: Bdf,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one call on a map or a list.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C> Groups<C> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// A function's place in its group, which is opened with `make` unless
    /// another function of it is open.
    ///
    /// # Errors
    /// Those of `make`; [`BackendError::Unfit`] when this process has the very
    /// function open.
    pub(super) fn enter(
        &self,
        name: &str,
        group: &str,
        bdf: Bdf,
        make: impl FnOnce() -> Result<C, BackendError>,
    ) -> Result<Member<C>, BackendError> {
        let mut open = lock(&self.0);
        open.retain(|_, group| group.strong_count() > 0);
        let found = open.get(group).and_then(Weak::upgrade);
        let shared = match found {
            Some(shared) => shared,
            None => {
                let made = Arc::new(Group {
                    container: make()?,
                    inside: Mutex::default(),
                });
                open.insert(group.to_owned(), Arc::downgrade(&made));
                made
            }
        };
        {
            // The kernel would open it a second time.
            let mut inside = lock(&shared.inside);
            if inside.functions.contains(&bdf) {
                return Err(BackendError::Unfit {
                    device: name.to_owned(),
                    what: "this process has it open already".to_owned(),
                });
            }
            inside.functions.push(bdf);
        }
        Ok(Member { group: shared, bdf })
    }
}

impl<C> Member<C> {
    pub(super) fn container(&self) -> &C {
        &self.group.container
    }

    /// The I/O addresses of the group; the first function says with `make` which
    /// there are.
    pub(super) fn addresses<E>(
        &self,
        make: impl FnOnce() -> Result<IovaSpace, E>,
    ) -> Result<SharedAddresses, E> {
        let mut inside = lock(&self.group.inside);
        if let Some(addresses) = &inside.addresses {
            return Ok(Arc::clone(addresses));
        }
        let addresses = Arc::new(Mutex::new(make()?));
        inside.addresses = Some(Arc::clone(&addresses));
        Ok(addresses)
    }
}

impl<C> Drop for Member<C> {
    fn drop(&mut self) {
        let bdf = self.bdf;
        lock(&self.group.inside)
            .functions
            .retain(|other| *other != bdf);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn bdf(text: &str) -> Bdf {
        text.parse().unwrap()
    }

    #[test]
    fn a_group_is_opened_once_and_again_when_all_have_left() {
        let groups = Groups::new();
        let opened = Cell::new(0);
        let enter = |group: &str, function: &str| {
            groups.enter("vfio:test", group, bdf(function), || {
                opened.set(opened.get() + 1);
                Ok(opened.get())
            })
        };
        let first = enter("17", "3b:00.0").unwrap();
        let second = enter("17", "3b:00.1").unwrap();
        assert_eq!((*first.container(), *second.container()), (1, 1));
        // A group of its own is another container.
        let apart = enter("18", "5e:00.0").unwrap();
        assert_eq!(*apart.container(), 2);
        // The very same function is not opened twice.
        let twice = enter("17", "3b:00.1").unwrap_err().to_string();
        assert!(twice.contains("open already"), "{twice}");
        // It stays open for the other, and can be entered again.
        drop(first);
        let first = enter("17", "3b:00.0").unwrap();
        assert_eq!(*first.container(), 1);
        drop((first, second));
        assert_eq!(*enter("17", "3b:00.0").unwrap().container(), 3);
    }

    #[test]
    fn a_group_that_cannot_be_opened_is_tried_again() {
        let groups = Groups::<()>::new();
        let refused = || BackendError::Unfit {
            device: "vfio:test".to_owned(),
            what: "busy".to_owned(),
        };
        let function = bdf("3b:00.0");
        groups
            .enter("vfio:test", "17", function, || Err(refused()))
            .unwrap_err();
        groups
            .enter("vfio:test", "17", function, || Ok(()))
            .unwrap();
    }

    #[test]
    fn the_addresses_of_a_group_are_handed_out_once() {
        let groups = Groups::<()>::new();
        let enter = |function| {
            groups
                .enter("vfio:test", "17", bdf(function), || Ok(()))
                .unwrap()
        };
        let (first, second) = (enter("3b:00.0"), enter("3b:00.1"));
        let space = |member: &Member<()>| {
            member
                .addresses(|| IovaSpace::new(&[(0x1000, 0xF_FFFF)], 0x1000))
                .unwrap()
        };
        let (one, other) = (space(&first), space(&second));
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(one.lock().unwrap().alloc(0x1000, 1), Ok(0x1000));
        assert_eq!(other.lock().unwrap().alloc(0x1000, 1), Ok(0x2000));
    }
}
