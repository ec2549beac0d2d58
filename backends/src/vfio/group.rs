//! IOMMU groups that this process has open.
//!
//! The kernel lets only one opener have a group, and an IOMMU does not isolate the functions of a
//! group from each other: they have one container and one set of I/O addresses. So the first
//! function of a group that this process opens creates both, the others share them, and the last
//! one to be closed destroys them.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::error::BackendError;
use crate::iova::IovaSpace;
use crate::spec::Bdf;
use crate::transport::SharedAddresses;

/// How long closing the last function of a group may take. After that, whoever opens the group gets
/// the kernel's refusal.
const CLOSING: Duration = Duration::from_secs(10);

/// The open groups of a process, by number. `C` is the container of a group.
#[derive(Debug)]
pub(super) struct Groups<C>(Mutex<BTreeMap<String, Entered<C>>>);

#[derive(Debug)]
struct Entered<C> {
    group: Weak<Group<C>>,
    closed: Arc<Closed>,
}

#[derive(Debug)]
struct Group<C> {
    container: C,
    inside: Mutex<Inside>,
    /// Dropped last: it signals that the container is closed.
    _closing: Closing,
}

/// Whether a group was closed. From the moment when its last function lets go of it until then, the
/// kernel still has it open, and refuses it to others.
#[derive(Debug, Default)]
struct Closed {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Closed {
    fn wait(&self) {
        let open = lock(&self.is_closed);
        // If the wait is too long, the kernel answers.
        drop(
            self.changed
                .wait_timeout_while(open, CLOSING, |is_closed| !*is_closed),
        );
    }
}

#[derive(Debug)]
struct Closing(Arc<Closed>);

impl Drop for Closing {
    fn drop(&mut self) {
        *lock(&self.0.is_closed) = true;
        self.0.changed.notify_all();
    }
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

    /// A function's place in its group. The group is opened with `make`, unless another function of
    /// it is open.
    ///
    /// # Errors
    /// Errors of `make`; [`BackendError::Unfit`] if this process already has the same function
    /// open.
    pub(super) fn enter(
        &self,
        name: &str,
        group: &str,
        bdf: Bdf,
        make: impl FnOnce() -> Result<C, BackendError>,
    ) -> Result<Member<C>, BackendError> {
        let mut open = lock(&self.0);
        open.retain(|_, entered| !*lock(&entered.closed.is_closed));
        let entered = open.get(group);
        let shared = match entered.and_then(|entered| entered.group.upgrade()) {
            Some(shared) => shared,
            None => {
                if let Some(entered) = entered {
                    entered.closed.wait();
                }
                let closed = Arc::new(Closed::default());
                let made = Arc::new(Group {
                    container: make()?,
                    inside: Mutex::default(),
                    _closing: Closing(Arc::clone(&closed)),
                });
                let entered = Entered {
                    group: Arc::downgrade(&made),
                    closed,
                };
                open.insert(group.to_owned(), entered);
                made
            }
        };
        {
            // The kernel would let it be opened a second time.
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

    /// The I/O addresses of the group; for the first function, `make` returns them.
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
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;

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
        // Another group has another container.
        let apart = enter("18", "5e:00.0").unwrap();
        assert_eq!(*apart.container(), 2);
        // The same function cannot be opened twice.
        let twice = enter("17", "3b:00.1").unwrap_err().to_string();
        assert!(twice.contains("open already"), "{twice}");
        // The group stays open for the other, and can be entered again.
        drop(first);
        let first = enter("17", "3b:00.0").unwrap();
        assert_eq!(*first.container(), 1);
        drop((first, second));
        assert_eq!(*enter("17", "3b:00.0").unwrap().container(), 3);
    }

    /// A container that exists once, and takes a while to be closed.
    struct Slow<'a>(&'a Files);

    #[derive(Default)]
    struct Files {
        is_open: AtomicBool,
        is_closing: AtomicBool,
    }

    impl Drop for Slow<'_> {
        fn drop(&mut self) {
            self.0.is_closing.store(true, SeqCst);
            thread::sleep(Duration::from_millis(50));
            self.0.is_open.store(false, SeqCst);
        }
    }

    #[test]
    fn who_opens_a_group_waits_for_who_closes_it() {
        let (groups, files) = (Groups::new(), Files::default());
        let enter = |function: &str| {
            groups.enter("vfio:test", "17", bdf(function), || {
                // The kernel would return EBUSY here.
                assert!(!files.is_open.swap(true, SeqCst), "open still");
                Ok(Slow(&files))
            })
        };
        for _ in 0..10 {
            files.is_closing.store(false, SeqCst);
            let last = enter("3b:00.0").unwrap();
            thread::scope(|scope| {
                scope.spawn(|| drop(last));
                while !files.is_closing.load(SeqCst) {
                    thread::yield_now();
                }
                drop(enter("3b:00.1").unwrap());
            });
        }
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
