//! Opening and closing completion channels, and waiting for events before objects are destroyed.

use e810_datapath::slot::CqKey;
use e810_hal::clock::poll_until;
use e810_hal::{Ns, Platform, WaitError};

use super::Control;
use crate::channel::{CHANNELS, Channel};
use crate::error::{Error, Object, Result};
use crate::qp::QpControl;

/// Limit for acknowledgements and event handlers, which take microseconds unless one was
/// forgotten.
const LIMIT: Ns = Ns::from_ms(1_000);

impl<P: Platform> Control<P> {
    /// Opens a completion channel.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    #[doc(alias = "ibv_create_comp_channel")]
    pub fn create_channel(&mut self) -> Result<Channel<P>> {
        let key = self.registry.open_channel().ok_or(Error::Exhausted {
            object: Object::Channel,
            limit: CHANNELS,
        })?;
        Ok(Channel {
            owner: self.tag(),
            key,
            slots: self.slots(),
            wakers: self.wakers.clone(),
        })
    }

    /// Closes a completion channel, for all its clones: waiters are woken and get
    /// [`ChannelClosed`](crate::ChannelClosed).
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Datapath`] while completion queues are on it
    /// or when it is closed already.
    #[doc(alias = "ibv_destroy_comp_channel")]
    pub fn close_channel(&mut self, channel: &Channel<P>) -> Result<()> {
        self.own(channel.owner, Object::Channel, channel.key.index())?;
        let closed = self.registry.close_channel(channel.key);
        closed.map_err(e810_datapath::Error::from)?;
        self.wakers.wake(Some(channel.key.index()));
        Ok(())
    }

    /// Called before a completion queue is destroyed: hands out no more of its events, and waits
    /// until those handed out are acknowledged and no handler reports anything about it. On
    /// failure it is as before.
    pub(super) fn quiesce_cq(&mut self, key: CqKey) -> Result<()> {
        let platform = self.platform.clone();
        let mut unacknowledged = 0;
        let label = "events of a completion queue that is to be destroyed";
        let waited = poll_until(&platform, label, LIMIT, Ns(0), || {
            let left = self.registry.begin_close_cq(key);
            let left = left.map_err(|error| Error::from(e810_datapath::Error::from(error)))?;
            unacknowledged = left.unacknowledged;
            Ok::<_, Error>(left.is_nothing().then_some(()))
        });
        waited.map_err(|error| {
            self.registry.keep_cq(key);
            match (error, unacknowledged) {
                (Error::Wait(_), 1..) => Error::Unacknowledged {
                    cq: key.id(),
                    events: unacknowledged,
                },
                (error, _) => error,
            }
        })
    }

    /// Waits until no handler reports anything about a hidden queue pair.
    pub(super) fn await_handlers(&self, qp: &QpControl<P>) -> Result<(), WaitError> {
        let label = "event handlers of a queue pair that is to be destroyed";
        poll_until(&self.platform, label, LIMIT, Ns(0), || {
            let busy = self.registry.slots().is_notifying(qp.key);
            Ok((!busy).then_some(()))
        })
    }
}
