//! The target: its controllers, a queue for each connection, and what to do with a capsule.
//!
//! Nothing here moves data: a [`Step`] says what to read, write and send. A connection begins with
//! [`Target::accept`], has a [`Target::command`] for each receive and a [`Queue::seal`] for each
//! SEND, and ends with [`Target::closed`].

use crate::admin::Admin;
use e810_examples::nvme::bytes::byte;
use e810_examples::nvme::capsule::{Command, RESPONSE, Refused, Response};
use e810_examples::nvme::fabrics as wire;
use e810_examples::nvme::fabrics::{
    CC_ENABLE, CC_ENTRIES, CSTS_FAILED, CSTS_READY, CSTS_SHUT_DOWN,
};

use crate::capsule::{Call, Data, Outcome, Step};
use crate::{fabrics, io};

/// Controllers at a time: one for each host that is connected, and for each `nvme discover`.
const CONTROLLERS: usize = 16;
/// I/O queues of a controller.
pub(crate) const QUEUES: u16 = 8;
/// Entries of an I/O queue.
pub(crate) const DEPTH: u16 = 128;
/// Data that a capsule of an I/O queue has at most: Linux sends small writes so.
pub(crate) const INLINE: u16 = 4096;
/// How long a connection may be without a controller, in ms.
const CONNECT_TIME: u64 = 10_000;

/// What an admin queue gives at once, at most.
pub(crate) type Page = [u8; 4096];

/// What the target tells the hosts of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config<'a> {
    /// Qualified name (NQN) of the subsystem, of at most 222 bytes.
    pub(crate) subsystem: &'a str,
    /// Serial number, of at most 20 bytes.
    pub(crate) serial: &'a str,
    /// UUID of the namespace. Linux refuses a second namespace with the same.
    pub(crate) uuid: [u8; 16],
    /// Bytes of the namespace.
    pub(crate) bytes: u64,
    /// IP address and port that the target listens on, as text.
    pub(crate) address: &'a str,
    pub(crate) port: &'a str,
    /// RDMA provider: 4 is RoCE v2, 5 is iWARP.
    pub(crate) provider: u8,
}

/// A queue: one connection.
#[derive(Debug)]
pub(crate) struct Queue {
    /// 0 for an admin queue.
    pub(crate) id: u16,
    /// Entries: the host sends no more commands at a time. Post as many receives.
    pub(crate) depth: u16,
    pub(crate) head: u16,
    /// Whether the host wants the head in responses.
    pub(crate) flow: bool,
    /// `made` of its controller.
    pub(crate) made: Option<u64>,
    pub(crate) since: u64,
}

impl Queue {
    /// Bytes that a receive needs room for.
    pub(crate) fn capsule(&self) -> usize {
        size_of::<Command>() + if self.id == 0 { 0 } else { usize::from(INLINE) }
    }

    /// The bytes of a response. Call it as the response is sent: each one frees an entry.
    pub(crate) fn seal(&mut self, response: &Response) -> [u8; RESPONSE] {
        let next = self.head.saturating_add(1);
        self.head = if next < self.depth { next } else { 0 };
        response.bytes(if self.flow { self.head } else { u16::MAX })
    }
}

/// What a host has from its admin queue on.
#[derive(Debug, Default)]
pub(crate) struct Controller {
    /// From 1 on; another controller gets it later.
    pub(crate) id: u16,
    /// No other controller gets this number.
    pub(crate) made: u64,
    pub(crate) discovery: bool,
    pub(crate) host_id: [u8; 16],
    /// Register CC.
    pub(crate) config: u32,
    /// Timeout in ms; 0 is none.
    pub(crate) keep_alive: u32,
    /// When its last command came.
    pub(crate) seen: u64,
    /// Events that the host wants. None ever comes: the namespace stays as it is.
    pub(crate) notices: u32,
    /// Commands that wait for events.
    pub(crate) events: u8,
    /// I/O queues that are connected: a bit for each.
    pub(crate) queues: u32,
}

impl Controller {
    /// Register CSTS. CC alone decides, and at once.
    pub(crate) fn status(&self) -> u32 {
        // Command set, page size and arbitration 0.
        let sizes = self.discovery || self.config & 0xff << 16 == CC_ENTRIES;
        let right = self.config & 0x3ff0 == 0 && sizes;
        let started = if right { CSTS_READY } else { CSTS_FAILED };
        let shut_down = if self.config & 0xc000 == 0 { 0 } else { CSTS_SHUT_DOWN };
        ((self.config & CC_ENABLE) * started) | shut_down
    }

    /// Whether it takes commands other than those of fabrics.
    pub(crate) fn ready(&self) -> bool {
        self.status() == CSTS_READY
    }

    /// Writes CC; the result is 0. A reset forgets the commands that wait, as the host does.
    pub(crate) fn configure(&mut self, config: u32) -> u64 {
        self.config = config;
        if config & CC_ENABLE == 0 {
            (self.events, self.notices) = (0, 0);
        }
        0
    }
}

/// A target with one subsystem.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) config: Config<'a>,
    pub(crate) controllers: [Option<Controller>; CONTROLLERS],
    /// The time in ms, to be set before calls.
    pub(crate) now: u64,
    /// Controllers that were ever made.
    pub(crate) made: u64,
    /// What [`Source::Page`](crate::capsule::Source::Page) gives; the next command overwrites it.
    pub(crate) page: Page,
}

impl<'a> Target<'a> {
    /// None if a text has no room in its field.
    pub(crate) fn new(config: Config<'a>) -> Option<Self> {
        let Config { subsystem, serial, address, port, .. } = config;
        let rooms = [(subsystem, 223), (serial, 21), (address, 256), (port, 32)];
        let controllers = [const { None }; CONTROLLERS];
        let target = Self { config, controllers, now: 0, made: 0, page: [0; 4096] };
        rooms.iter().all(|(text, room)| text.len() < *room).then_some(target)
    }

    /// What to do for a capsule.
    pub(crate) fn command<'c>(&mut self, queue: &mut Queue, capsule: &'c [u8]) -> Step<'c> {
        let call = match Call::of(capsule) {
            Ok(call) => call,
            Err(step) => return step,
        };
        let outcome = self.execute(queue, &call);
        outcome.unwrap_or_else(|refused| call.answer(Err(refused)))
    }

    /// What to do for the capsule of a [`Step::Join`], with the data behind the command.
    pub(crate) fn connect<'c>(&mut self, queue: &mut Queue, capsule: &'c [u8]) -> Step<'c> {
        let data = capsule.get(size_of::<Command>()..).unwrap_or_default();
        match Call::of(capsule) {
            Ok(call) => call.answer(self.join(queue, call.command, data)),
            Err(step) => step,
        }
    }

    fn execute<'c>(&mut self, queue: &mut Queue, call: &Call<'c>) -> Outcome<'c> {
        let (opcode, of_fabrics) = (byte(call.command, 0), byte(call.command, wire::KIND));
        // An SGL names the data (fabrics have no PRPs), and the command is not fused.
        if byte(call.command, 1) & 0xc3 != 0x40 {
            return Err(Refused::FIELD);
        }
        // The two low bits say which way data goes. With 0 there is none.
        let direction = if opcode == wire::OPCODE { of_fabrics } else { opcode } & 3;
        if direction == 0 && call.data != Data::None {
            return Err(Refused::SGL_LENGTH);
        }
        let connect = (opcode, of_fabrics) == (wire::OPCODE, wire::CONNECT);
        if connect && queue.made.is_none() {
            return match call.data {
                Data::Host(host) if host.length as usize == wire::CONNECT_DATA => {
                    Ok(Step::Join { host })
                }
                // Linux connects its I/O queues so.
                Data::Capsule(data) => {
                    self.join(queue, call.command, data).map(|id| call.answer(Ok(id)))
                }
                _ => Err(Refused::SGL_LENGTH),
            };
        }
        let mut all = self.controllers.iter_mut().flatten();
        let controller = all.find(|found| Some(found.made) == queue.made);
        let controller = controller.ok_or(Refused::SEQUENCE)?;
        controller.seen = self.now;
        let (config, page) = (&self.config, &mut self.page);
        match (opcode, queue.id) {
            (wire::OPCODE, 0) => fabrics::property(controller, call),
            (wire::OPCODE, _) => Err(Refused::OPCODE),
            _ if !controller.ready() => Err(Refused::SEQUENCE),
            (_, 0) => Admin { controller, config, page, call }.execute(),
            _ => io::execute(config.bytes, call),
        }
    }

    /// Whether a connection may stay: its admin queue does, its host is not silent for too long,
    /// and it had its Connect. Ask now and then, and disconnect it if not.
    pub(crate) fn lives(&self, queue: &Queue) -> bool {
        if queue.made.is_none() {
            return self.now.saturating_sub(queue.since) <= CONNECT_TIME;
        }
        let mut all = self.controllers.iter().flatten();
        all.find(|found| Some(found.made) == queue.made).is_some_and(|found| {
            let silent = self.now.saturating_sub(found.seen);
            found.keep_alive == 0 || silent <= u64::from(found.keep_alive)
        })
    }

    /// A connection has ended. Its controller ends with the admin queue.
    pub(crate) fn closed(&mut self, queue: &Queue) {
        for place in &mut self.controllers {
            if let Some(found) = place.as_mut().filter(|found| Some(found.made) == queue.made) {
                found.queues &= !(1 << queue.id.min(QUEUES));
                *place = place.take().filter(|_| queue.id != 0);
            }
        }
    }
}
