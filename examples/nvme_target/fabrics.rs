//! What NVMe over Fabrics adds: connections, Connect, and the controller's registers as properties.

use e810_examples::nvme::capsule::{Command, Refused};
use e810_examples::nvme::fabrics::{
    ADMIN_DEPTH, ANY, CAP, CC, CSTS, Connect, Property, Rejection, Reply, Request, VS,
};

use crate::capsule::{Call, Outcome};
use crate::discovery;
use crate::target::{Controller, DEPTH, QUEUES, Queue, Target};

/// Version 1.3. From it on Linux asks for identifiers of namespaces, from 2.0 on for more.
pub(crate) const VERSION: u32 = 0x0001_0300;
/// Queue entries less 1, contiguous queues, ready within 5 s, the NVM command set. The least page
/// (bits 51:48) is 4096 bytes: Linux refuses a larger one.
const CAPABILITIES: u64 = (DEPTH as u64 - 1) | 1 << 16 | 10 << 24 | 1 << 37;

impl Target<'_> {
    /// The queue and the answer for a connection request's private data, or the rejection.
    pub(crate) fn accept(&self, request: &[u8]) -> Result<(Queue, Reply), Rejection> {
        let Request { id, receives, sends } = Request::of(request)?;
        let limit = if id == 0 { ADMIN_DEPTH } else { DEPTH };
        // A queue has two entries at least. `sends` is one less: of Linux' admin queue it is 31.
        match (id <= QUEUES, (1..limit).contains(&sends), receives) {
            (false, ..) => Err(Rejection::QUEUE),
            (_, false, _) => Err(Rejection::SENDS),
            (.., 0) => Err(Rejection::RECEIVES),
            _ => {
                let depth = sends.saturating_add(1);
                let queue = Queue { id, depth, head: 0, flow: true, made: None, since: self.now };
                Ok((queue, Reply { receives: depth }))
            }
        }
    }

    /// Connect: makes the controller of an admin queue, or finds that of an I/O queue. The result
    /// is its id; bits above it would ask for authentication.
    pub(crate) fn join(
        &mut self,
        queue: &mut Queue,
        command: &Command,
        data: &[u8],
    ) -> Result<u64, Refused> {
        let asked = Connect::of(command, data).ok_or(Refused::SGL_LENGTH)?;
        let Connect { size, host_id, controller: id, subsystem, keep_alive, .. } = asked;
        let discovery = subsystem == discovery::SUBSYSTEM.as_bytes();
        let known = discovery || subsystem == self.config.subsystem.as_bytes();
        let no_queue = Refused::connect_command(Connect::QUEUE_AT);
        let no_size = Refused::connect_command(Connect::SIZE_AT);
        let no_subsystem = Refused::connect_data(Connect::SUBSYSTEM_AT);
        let no_controller = Refused::connect_data(Connect::CONTROLLER_AT);
        let checks = [
            (queue.made.is_none(), Refused::SEQUENCE),
            (asked.format == 0, Refused::CONNECT_FORMAT),
            (asked.queue == queue.id, no_queue),
            ((1..queue.depth).contains(&size), no_size),
            (known, no_subsystem),
            (queue.id != 0 || id == ANY, no_controller),
        ];
        if let Some((_, refused)) = checks.into_iter().find(|(right, _)| !right) {
            return Err(refused);
        }
        let controller = if queue.id == 0 {
            let mut places = self.controllers.iter_mut().zip(1..);
            let free = places.find(|(place, _)| place.is_none());
            let (place, id) = free.ok_or(Refused::CONNECT_BUSY)?;
            self.made = self.made.wrapping_add(1);
            let (made, seen) = (self.made, self.now);
            let new = Controller {
                id,
                made,
                discovery,
                host_id,
                keep_alive,
                seen,
                ..Controller::default()
            };
            place.insert(new)
        } else {
            // A stranger does not get the queue.
            let wanted = |found: &&mut Controller| (found.id, found.host_id) == (id, host_id);
            let found = self.controllers.iter_mut().flatten().find(wanted);
            let found = found.filter(|found| !discovery && !found.discovery);
            let found = found.ok_or(no_controller)?;
            let bit = 1 << queue.id.min(QUEUES);
            if !found.ready() || found.queues & bit != 0 {
                return Err(Refused::SEQUENCE);
            }
            found.queues |= bit;
            found
        };
        (queue.made, queue.depth) = (Some(controller.made), size.saturating_add(1));
        queue.flow = !asked.no_flow;
        Ok(u64::from(controller.id))
    }
}

/// Property Get and Property Set, of the registers CAP, VS, CC and CSTS.
pub(crate) fn property<'a>(controller: &mut Controller, call: &Call<'a>) -> Outcome<'a> {
    let Property { register, is_long, value } =
        Property::of(call.command).ok_or(Refused::OPCODE)?;
    let result = match (register, value, is_long) {
        (CAP, None, true) => CAPABILITIES,
        (VS, None, false) => u64::from(VERSION),
        (CC, None, false) => u64::from(controller.config),
        (CSTS, None, false) => u64::from(controller.status()),
        (CC, Some(value), false) => controller.configure(value),
        _ => return Err(Refused::FIELD),
    };
    Ok(call.answer(Ok(result)))
}
