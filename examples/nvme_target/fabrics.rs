//! What NVMe over Fabrics adds: the private data of connections, Connect, and the controller's
//! registers as properties.

use crate::capsule::{Call, Command, Outcome, Refused, byte, double, field, put, word};
use crate::discovery;
use crate::target::{ADMIN_DEPTH, Controller, DEPTH, QUEUES, Queue, Target};

/// Opcode of all fabrics commands; the byte at 4 says which.
pub(crate) const OPCODE: u8 = 0x7f;
const PROPERTY_SET: u8 = 0x00;
pub(crate) const CONNECT: u8 = 0x01;
const PROPERTY_GET: u8 = 0x04;
/// Private data of a rejection when there is no room for a connection.
pub(crate) const NO_RESOURCES: [u8; 4] = [0, 0, 6, 0];
/// Bytes of Connect's data.
pub(crate) const CONNECT_DATA: u32 = 1024;

/// Version 1.3. From it on Linux asks for identifiers of namespaces, from 2.0 on for more.
pub(crate) const VERSION: u32 = 0x0001_0300;
/// Queue entries less 1, contiguous queues, ready within 5 s, the NVM command set. The least page
/// (bits 51:48) is 4096 bytes: Linux refuses a larger one.
const CAP: u64 = (DEPTH as u64 - 1) | 1 << 16 | 10 << 24 | 1 << 37;

/// A name: it ends with a zero or with its field.
fn name(bytes: &[u8; 256]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

impl Target<'_> {
    /// The queue and the private data of the reply for a connection request's private data, or
    /// the private data of the rejection (whose reason is "consumer defined").
    pub(crate) fn accept(&self, request: &[u8]) -> Result<(Queue, [u8; 32]), [u8; 4]> {
        let [format, id, receives, sends] = [0, 2, 4, 6].map(|at| word(request, at));
        let limit = if id == 0 { ADMIN_DEPTH } else { DEPTH };
        // A queue has two entries at least. `sends` is one less: of Linux' admin queue it is 31.
        let right = [request.len() >= 32, format == 0, id <= QUEUES];
        let right = right.into_iter().chain([(1..limit).contains(&sends), receives != 0]);
        if let Some((_, wrong)) = right.zip(1..).find(|(right, _)| !right) {
            return Err([0, 0, wrong, 0]);
        }
        let depth = sends.saturating_add(1);
        let mut reply = [0; 32];
        put(&mut reply, 2, &depth.to_le_bytes());
        Ok((Queue { id, depth, head: 0, flow: true, made: None, since: self.now }, reply))
    }

    /// Connect: makes the controller of an admin queue, or finds that of an I/O queue. The result
    /// is its id; bits above it would ask for authentication.
    pub(crate) fn join(
        &mut self,
        queue: &mut Queue,
        command: &Command,
        data: &[u8],
    ) -> Result<u64, Refused> {
        let (format, size) = (word(command, 40), word(command, 44));
        let (host, id, subsystem) = (field(data, 0), word(data, 16), field(data, 256));
        let discovery = name(&subsystem) == discovery::SUBSYSTEM.as_bytes();
        let known = discovery || name(&subsystem) == self.config.subsystem.as_bytes();
        let checks = [
            (queue.made.is_none(), Refused::SEQUENCE),
            (data.len() == CONNECT_DATA as usize, Refused::SGL_LENGTH),
            (format == 0, Refused::CONNECT_FORMAT),
            (word(command, 42) == queue.id, Refused::connect_command(42)),
            ((1..queue.depth).contains(&size), Refused::connect_command(44)),
            (known, Refused::connect_data(256)),
            (queue.id != 0 || id == u16::MAX, Refused::connect_data(16)),
        ];
        if let Some((_, refused)) = checks.into_iter().find(|(right, _)| !right) {
            return Err(refused);
        }
        let controller = if queue.id == 0 {
            let mut places = self.controllers.iter_mut().zip(1..);
            let free = places.find(|(place, _)| place.is_none());
            let (place, id) = free.ok_or(Refused::CONNECT_BUSY)?;
            self.made = self.made.wrapping_add(1);
            let (made, keep_alive) = (self.made, double(command, 48));
            let new = Controller { id, made, discovery, host, keep_alive, ..Controller::default() };
            place.insert(Controller { seen: self.now, ..new })
        } else {
            // A stranger does not get the queue.
            let wanted = |found: &&mut Controller| (found.id, found.host) == (id, host);
            let found = self.controllers.iter_mut().flatten().find(wanted);
            let found = found.filter(|found| !discovery && !found.discovery);
            let found = found.ok_or(Refused::connect_data(16))?;
            let bit = 1 << queue.id.min(QUEUES);
            if !found.ready() || found.queues & bit != 0 {
                return Err(Refused::SEQUENCE);
            }
            found.queues |= bit;
            found
        };
        (queue.made, queue.depth) = (Some(controller.made), size.saturating_add(1));
        queue.flow = byte(command, 46) & 1 << 2 == 0;
        Ok(u64::from(controller.id))
    }
}

/// Property Get and Property Set, of the registers CAP, VS, CC and CSTS.
pub(crate) fn property<'a>(controller: &mut Controller, call: &Call<'a>) -> Outcome<'a> {
    let eight_bytes = byte(call.command, 40) & 7 == 1;
    let result = match (byte(call.command, 4), double(call.command, 44), eight_bytes) {
        (PROPERTY_GET, 0x00, true) => CAP,
        (PROPERTY_GET, 0x08, false) => u64::from(VERSION),
        (PROPERTY_GET, 0x14, false) => u64::from(controller.config),
        (PROPERTY_GET, 0x1c, false) => u64::from(controller.status()),
        (PROPERTY_SET, 0x14, false) => controller.configure(double(call.command, 48)),
        (PROPERTY_GET | PROPERTY_SET, ..) => return Err(Refused::FIELD),
        _ => return Err(Refused::OPCODE),
    };
    Ok(call.answer(Ok(result)))
}
