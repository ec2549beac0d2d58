//! Payload memory and interrupts of a function behind a backend of the host.

use e810_backends::interrupts::Interrupts;
use e810_backends::{Function, Transport};
use e810_hal::{Ns, Vector};

use super::buffer::{Buffer, PAGE, Room};

impl<T: Transport> Room for Function<T> {
    fn room(&self, bytes: usize) -> Buffer {
        let bytes = bytes.next_multiple_of(PAGE);
        Buffer(self.buffer(bytes).expect("payload memory").bytes())
    }

    fn fired(&self, limit: Ns) -> Vec<Vector> {
        let mut fired = Vec::new();
        let taken = self.wait_fired(limit, &mut fired);
        taken.expect("interrupts to wait for");
        fired
    }
}
