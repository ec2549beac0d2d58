//! Completion queues that several users share.

use e810_hal::Platform;
use heapless::Vec;

use super::{CqPoller, PollMode};
use crate::channel::Channel;
use crate::control::Control;
use crate::cq::Cq;
use crate::error::{Error, Object, Result};
use crate::ids::next_tag;
use crate::moderation::CqModeration;

/// A queue of the pool.
#[derive(Debug)]
struct Shared<P: Platform> {
    poller: CqPoller<P>,
    vector: u16,
    /// Places promised to users.
    used: u32,
}

/// Places in a queue of a pool; return them with [`CqPool::put`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "places in a pool are returned with CqPool::put"]
pub struct CqLease {
    pool: u64,
    index: usize,
    entries: u32,
}

impl CqLease {
    /// Completions that may be outstanding at once.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }
}

/// A pool of at most `N` completion queues, all with one mode and on one channel. A user gets
/// places in the queue of its vector that has the most left, or in a new queue.
#[derive(Debug)]
#[doc(alias("ib_cq_pool_get", "ib_cq_pool_put"))]
pub struct CqPool<P: Platform, const N: usize> {
    /// In its leases.
    tag: u64,
    channel: Channel<P>,
    mode: PollMode,
    /// A new queue has at least this many entries.
    size: u32,
    /// Of each of its queues.
    moderation: CqModeration,
    cqs: Vec<Shared<P>, N>,
    /// The vector for the next user that names none.
    next: u16,
}

impl<P: Platform, const N: usize> CqPool<P, N> {
    /// A pool whose queues are taken as `mode` says and have `size` entries, or more if a user
    /// asks for more.
    ///
    /// # Errors
    /// [`Error::Invalid`] for [`PollMode::Direct`]: a direct poller would take the completions of
    /// others.
    pub fn new(channel: Channel<P>, size: u32, mode: PollMode) -> Result<Self> {
        if mode == PollMode::Direct {
            return Err(Error::Invalid {
                what: "queues that are polled directly are not shared: make one of your own",
            });
        }
        Ok(Self {
            tag: next_tag(),
            channel,
            mode,
            size,
            moderation: CqModeration::Off,
            cqs: Vec::new(),
            next: 0,
        })
    }

    /// Sets how long events of the pool's queues may wait, for existing queues and for queues
    /// that are made later. It is [`CqModeration::Off`] until this is called. With
    /// [`Adaptive::Dim`](crate::Adaptive::Dim) each queue follows the rules of the kernel's pool,
    /// which are those of `rdma_dim`: a turn of its poller is one event of the rule, whether it
    /// ends with the queue empty or with its budget used up.
    ///
    /// # Errors
    /// Those of [`Control::modify_cq`]. The pool's setting is then unchanged; queues before the
    /// one that was refused have the new setting.
    pub fn set_moderation(
        &mut self,
        control: &mut Control<P>,
        moderation: CqModeration,
    ) -> Result<()> {
        moderation.check()?;
        for shared in &mut self.cqs {
            control.modify_cq(shared.poller.cq_mut(), moderation)?;
        }
        self.moderation = moderation;
        Ok(())
    }

    /// Gives `entries` places in the least-used queue that has them, on completion vector
    /// `vector` or, for `None`, on the next vector in turn; makes a queue if none has them.
    ///
    /// # Errors
    /// [`Error::NoSuch`] for a vector that does not exist, [`Error::Exhausted`] when
    /// the pool is full, and those of [`Control::create_cq_on`].
    pub fn get(
        &mut self,
        control: &mut Control<P>,
        entries: u32,
        vector: Option<u16>,
    ) -> Result<CqLease> {
        let vector = vector.unwrap_or_else(|| self.in_turn(control));
        if control.interrupt_vector(vector).is_none() {
            return Err(Error::NoSuch {
                object: Object::CompletionVector,
                id: vector.into(),
            });
        }
        let index = match self.least_used(entries, vector) {
            Some(index) => index,
            None => self.grow(control, entries, vector)?,
        };
        if let Some(shared) = self.cqs.get_mut(index) {
            shared.used = shared.used.saturating_add(entries);
        }
        let pool = self.tag;
        Ok(CqLease {
            pool,
            index,
            entries,
        })
    }

    /// Takes places back. Their user has no outstanding requests, and its queue pairs are
    /// destroyed.
    ///
    /// # Errors
    /// The lease, if it belongs to another pool.
    pub fn put(&mut self, lease: CqLease) -> Result<(), CqLease> {
        if lease.pool != self.tag {
            return Err(lease);
        }
        if let Some(shared) = self.cqs.get_mut(lease.index) {
            shared.used = shared.used.saturating_sub(lease.entries);
        }
        Ok(())
    }

    /// The queue of the lease's places, to make queue pairs on. `None` for a lease of another
    /// pool.
    #[must_use]
    pub fn cq(&self, lease: &CqLease) -> Option<&Cq<P>> {
        let shared = self.cqs.get(lease.index);
        let shared = shared.filter(|_| lease.pool == self.tag)?;
        Some(shared.poller.cq())
    }

    /// All queues with their vectors, to process the ones that an event of the channel names and
    /// the ones that are to be processed again.
    pub fn pollers(&mut self) -> impl Iterator<Item = (u16, &mut CqPoller<P>)> {
        let all = self.cqs.iter_mut();
        all.map(|shared| (shared.vector, &mut shared.poller))
    }

    /// Queues so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cqs.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cqs.is_empty()
    }

    /// Destroys all queues.
    ///
    /// # Errors
    /// [`Error::InUse`] and others of [`Control::destroy_cq`]; the pool is
    /// returned with the queues that are left.
    pub fn drain(mut self, control: &mut Control<P>) -> Result<(), (Self, Error)> {
        while let Some(shared) = self.cqs.pop() {
            let Shared {
                poller,
                vector,
                used,
            } = shared;
            let mode = poller.mode();
            if let Err((cq, error)) = control.destroy_cq(poller.into_cq()) {
                let poller = CqPoller::new(cq, mode);
                // There is room: it was just taken out.
                let _ = self.cqs.push(Shared {
                    poller,
                    vector,
                    used,
                });
                return Err((self, error));
            }
        }
        Ok(())
    }

    /// The next completion vector that exists. Number 0 always does.
    fn in_turn(&mut self, control: &Control<P>) -> u16 {
        let vectors = control.completion_vectors();
        for _ in 0..vectors {
            let number = self.next.checked_rem(vectors).unwrap_or(0);
            self.next = self.next.wrapping_add(1);
            if control.interrupt_vector(number).is_some() {
                return number;
            }
        }
        0
    }

    fn least_used(&self, entries: u32, vector: u16) -> Option<usize> {
        let fits = self.cqs.iter().enumerate().filter(|(_, shared)| {
            let left = shared.poller.cq().entries().saturating_sub(shared.used);
            shared.vector == vector && left >= entries
        });
        fits.min_by_key(|(_, shared)| shared.used)
            .map(|(index, _)| index)
    }

    fn grow(&mut self, control: &mut Control<P>, entries: u32, vector: u16) -> Result<usize> {
        if self.cqs.is_full() {
            return Err(Error::Exhausted {
                object: Object::Cq,
                limit: N as u32,
            });
        }
        let mut cq = control.create_cq_on(&self.channel, entries.max(self.size), vector)?;
        if self.moderation != CqModeration::Off {
            // The queue is of this device and the setting was checked: it is not refused.
            control.modify_cq(&mut cq, self.moderation)?;
        }
        let shared = Shared {
            poller: CqPoller::new(cq, self.mode),
            vector,
            used: 0,
        };
        // There is room, as just asked.
        let _ = self.cqs.push(shared);
        Ok(self.cqs.len().wrapping_sub(1))
    }
}
