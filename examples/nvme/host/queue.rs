//! A queue: commands under way, and their responses.

use super::{Happened, Link, Memory, Wrong};
use crate::nvme::bytes::put;
use crate::nvme::capsule::{Command, RESPONSE, Refused, Response, Sgl};
use crate::nvme::fabrics::{ADMIN_DEPTH, Connect, Reply, Request};

/// Entries of a queue. One stays free.
pub const DEPTH: u16 = ADMIN_DEPTH;
const SLOTS: usize = DEPTH as usize - 1;
/// Result of Connect: bits that ask for authentication.
const AUTHENTICATION: u64 = 3 << 17;

/// Who connects, and to what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host<'a> {
    pub id: [u8; 16],
    /// Its name (NQN).
    pub name: &'a str,
    /// The subsystem's name.
    pub subsystem: &'a str,
}

/// A command that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    is_used: bool,
    is_sent: bool,
    outcome: Option<Result<u64, Refused>>,
}

/// A queue. A command's id is the number of its slot.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    id: u16,
    size: u16,
    slots: [Slot; SLOTS],
}

impl Queue {
    /// 0 is the admin queue.
    pub const fn new(id: u16) -> Self {
        let free = Slot { is_used: false, is_sent: false, outcome: None };
        Self { id, size: DEPTH, slots: [free; SLOTS] }
    }

    /// Private data of the connection request.
    pub fn request(&self) -> [u8; Request::BYTES] {
        Request { id: self.id, receives: DEPTH, sends: DEPTH - 1 }.bytes()
    }

    /// Takes note of the private data of the answer.
    ///
    /// # Errors
    /// [`Wrong::Reply`], [`Wrong::Room`].
    pub fn accepted(&mut self, private_data: &[u8]) -> Result<(), Wrong> {
        let Reply { receives } = Reply::of(private_data).ok_or(Wrong::Reply)?;
        if receives < 2 {
            return Err(Wrong::Room(receives));
        }
        self.size = self.size.min(receives);
        Ok(())
    }

    /// Commands that can be under way at once.
    pub(super) fn window(&self) -> u16 {
        self.size - 1
    }

    /// Connects it to a controller, or to any; the controller's id. `memory` has room for a page.
    ///
    /// # Errors
    /// Of the link, or [`Wrong`].
    pub fn connect<L: Link>(
        &mut self,
        link: &mut L,
        memory: &Memory,
        host: &Host<'_>,
        controller: u16,
    ) -> Result<u16, L::Error> {
        let connect = Connect {
            format: 0,
            queue: self.id,
            size: self.size - 1,
            no_flow: false,
            // A host that is gone is noticed by its connections.
            keep_alive: 0,
            host_id: host.id,
            controller,
            subsystem: host.subsystem.as_bytes(),
            host: host.name.as_bytes(),
        };
        let data = connect.data();
        memory.bytes.write(0, &data).map_err(Wrong::from)?;
        let memory = memory.keyed(data.len() as u32);
        let mut command = connect.command();
        Sgl::Keyed { memory, invalidate: false }.put(&mut command);
        let result = self.execute(link, "Connect", command)?;
        match result & AUTHENTICATION {
            0 => Ok(result as u16),
            _ => Err(Wrong::Authentication.into()),
        }
    }

    /// Sends a command and waits for its response.
    pub(super) fn execute<L: Link>(
        &mut self,
        link: &mut L,
        what: &'static str,
        command: Command,
    ) -> Result<u64, L::Error> {
        self.submit(link, 0, command)?;
        self.wait(link, what, 0)
    }

    /// Sends a command, whose id nothing under way has.
    pub(super) fn submit<L: Link>(
        &mut self,
        link: &mut L,
        id: u16,
        mut command: Command,
    ) -> Result<(), L::Error> {
        let slot = self.slots.get_mut(usize::from(id)).filter(|slot| !slot.is_used);
        let slot = slot.ok_or(Wrong::Twice(id))?;
        *slot = Slot { is_used: true, ..Slot::default() };
        put(&mut command, 2, &id.to_le_bytes());
        link.send(id, &command)
    }

    /// Waits for the response to a command; its result.
    pub(super) fn wait<L: Link>(
        &mut self,
        link: &mut L,
        what: &'static str,
        id: u16,
    ) -> Result<u64, L::Error> {
        loop {
            let slot = self.slot(id)?;
            // The response may be there first: then the command still has its place in the send queue.
            if let (true, Some(outcome)) = (slot.is_sent, slot.outcome) {
                *slot = Slot::default();
                return Ok(outcome.map_err(|refused| Wrong::Refused(what, refused))?);
            }
            let happened = link.next()?;
            self.hear(happened)?;
        }
    }

    /// Takes note of what has happened.
    pub(super) fn hear(&mut self, happened: Happened) -> Result<(), Wrong> {
        match happened {
            Happened::Sent(id) => self.slot(id)?.is_sent = true,
            Happened::Response { length, .. } if length as usize != RESPONSE => {
                return Err(Wrong::Length(length));
            }
            Happened::Response { invalidated: Some(key), .. } => {
                return Err(Wrong::Invalidated(key));
            }
            Happened::Response { bytes, .. } => {
                let response = Response::of(&bytes);
                let slot = self.slot(response.command)?;
                if slot.outcome.is_some() {
                    return Err(Wrong::Unasked(response.command));
                }
                slot.outcome = Some(response.outcome);
            }
        }
        Ok(())
    }

    fn slot(&mut self, id: u16) -> Result<&mut Slot, Wrong> {
        let slot = self.slots.get_mut(usize::from(id)).filter(|slot| slot.is_used);
        slot.ok_or(Wrong::Unasked(id))
    }
}
