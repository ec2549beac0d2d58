//! A wire as the simulator sees it.

use std::sync::{Arc, Mutex};

use e810_sim::link::Uplink;

use crate::rings::{Incoming, locked};
use crate::sender::Sender;

/// Where the simulator sends frames, and takes those from that come in rings. Datagrams come to the
/// wire's thread, which passes them on.
#[derive(Debug)]
pub(crate) struct WireUplink {
    pub(crate) sender: Arc<Mutex<Sender>>,
    pub(crate) incoming: Option<Arc<Mutex<Incoming>>>,
}

impl Uplink for WireUplink {
    fn send(&self, frames: &[Vec<u8>]) {
        let mut sender = locked(&self.sender);
        for frame in frames {
            sender.send(frame);
        }
        sender.publish();
    }

    fn take(&self, most: usize, each: &mut dyn FnMut(&[u8]) -> bool) {
        // Who has it looks at rings too, or makes one; it is asked again.
        if let Some(Ok(mut incoming)) = self.incoming.as_ref().map(|one| one.try_lock()) {
            incoming.take(most, each);
        }
    }
}
