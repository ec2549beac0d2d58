//! The admin queue: a controller and its namespaces.

use super::{Host, Link, Memory, Queue, Wrong};
use crate::nvme::bytes::put;
use crate::nvme::capsule::{Sgl, admin, command};
use crate::nvme::fabrics::{
    ANY, CAP, CC, CC_ENABLE, CC_ENTRIES, CC_SHUTDOWN, CSTS, CSTS_FAILED, CSTS_READY,
    CSTS_SHUT_DOWN, Property,
};
use crate::nvme::identify::{self, controller as at, namespace};

/// Time of a shutdown, and between two looks whether it is done, in ms.
const SHUTDOWN: u64 = 10_000;
const PAUSE: u64 = 20;
/// The feature "number of queues".
const QUEUES: u8 = 0x07;

/// What a controller says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller {
    pub id: u16,
    /// Texts with spaces behind them.
    pub serial: [u8; 20],
    pub model: [u8; 40],
    /// Bytes that a command moves, at most.
    pub most: u32,
}

/// What a controller says of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    pub number: u32,
    pub blocks: u64,
    /// log2 of a block's bytes, from 9 to 16.
    pub shift: u8,
}

/// An admin queue, and a page for what it hears.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    pub queue: Queue,
    page: Memory,
    controller: u16,
}

impl Admin {
    /// Bytes of the page.
    pub const PAGE: usize = identify::PAGE as usize;

    /// `page` has [`PAGE`](Self::PAGE) bytes.
    pub const fn new(page: Memory) -> Self {
        Self { queue: Queue::new(0), page, controller: ANY }
    }

    /// Connects the queue to a controller, and enables this; its id.
    ///
    /// # Errors
    /// Of the link, or [`Wrong`].
    pub fn connect<L: Link>(&mut self, link: &mut L, host: &Host<'_>) -> Result<u16, L::Error> {
        self.controller = self.queue.connect(link, &self.page, host, ANY)?;
        let capabilities = self.get(link, CAP, true)?;
        // The least page is 2^12 bytes and more.
        if capabilities >> 48 & 0xf != 0 {
            return Err(Wrong::Pages.into());
        }
        self.set(link, CC, CC_ENTRIES | CC_ENABLE)?;
        let limit = (capabilities >> 24 & 0xff) * 500;
        self.becomes(link, CSTS_READY, CSTS_READY, ("ready", limit))?;
        Ok(self.controller)
    }

    /// Who the controller is; and an I/O queue is asked for.
    ///
    /// # Errors
    /// Of the link, or [`Wrong`].
    pub fn identify<L: Link>(&mut self, link: &mut L) -> Result<Controller, L::Error> {
        self.page(link, identify::CONTROLLER, 0)?;
        let page = &self.page;
        let id = u16::from_le_bytes(page.field(at::CNTLID)?);
        let sgls = u32::from_le_bytes(page.field(at::SGLS)?);
        let [most] = page.field(at::MDTS)?;
        if id != self.controller {
            return Err(Wrong::OtherController(self.controller, id).into());
        }
        if sgls & at::SGLS_ANY == 0 || sgls & at::SGLS_KEYED == 0 {
            return Err(Wrong::Sgls(sgls).into());
        }
        let controller = Controller {
            id,
            serial: page.field(at::SERIAL)?,
            model: page.field(at::MODEL)?,
            // Of pages of 4096 bytes; a keyed descriptor has 24 bits of length.
            most: if most == 0 { 1 << 23 } else { 4096 << most.min(11) },
        };
        let mut command = command(admin::SET_FEATURES);
        put(&mut command, 40, &[QUEUES]);
        // Queues of both directions, less one: the value is 0.
        self.queue.execute(link, "Set Features", command)?;
        Ok(controller)
    }

    /// How large a namespace is.
    ///
    /// # Errors
    /// Of the link, or [`Wrong`].
    pub fn namespace<L: Link>(&mut self, link: &mut L, number: u32) -> Result<Namespace, L::Error> {
        self.page(link, identify::NAMESPACE, number)?;
        let page = &self.page;
        let [format] = page.field(namespace::FLBAS)?;
        let format = usize::from(format & 0xf | format >> 1 & 0x30);
        let format = namespace::FORMATS + 4 * format;
        let metadata = u16::from_le_bytes(page.field(format)?);
        let [shift] = page.field(format + namespace::LBADS)?;
        if metadata != 0 {
            return Err(Wrong::Metadata(metadata).into());
        }
        if !(9..=16).contains(&shift) {
            return Err(Wrong::Blocks(shift).into());
        }
        let blocks = u64::from_le_bytes(page.field(namespace::NSZE)?);
        Ok(Namespace { number, blocks, shift })
    }

    /// Shuts the controller down.
    ///
    /// # Errors
    /// Of the link, or [`Wrong`].
    pub fn shut_down<L: Link>(&mut self, link: &mut L) -> Result<(), L::Error> {
        self.set(link, CC, CC_ENTRIES | CC_ENABLE | CC_SHUTDOWN)?;
        self.becomes(link, 3 << 2, CSTS_SHUT_DOWN, ("a shutdown", SHUTDOWN))
    }

    /// Identify, whose page is there then.
    fn page<L: Link>(&mut self, link: &mut L, what: u8, namespace: u32) -> Result<(), L::Error> {
        self.page.bytes.write(0, &[0; Self::PAGE]).map_err(Wrong::from)?;
        let mut command = command(admin::IDENTIFY);
        let memory = self.page.keyed(identify::PAGE);
        Sgl::Keyed { memory, invalidate: false }.put(&mut command);
        put(&mut command, 4, &namespace.to_le_bytes());
        put(&mut command, 40, &[what]);
        self.queue.execute(link, "Identify", command)?;
        Ok(())
    }

    fn get<L: Link>(
        &mut self,
        link: &mut L,
        register: u32,
        is_long: bool,
    ) -> Result<u64, L::Error> {
        let get = Property { register, is_long, value: None };
        self.queue.execute(link, "Property Get", get.command())
    }

    fn set<L: Link>(&mut self, link: &mut L, register: u32, value: u32) -> Result<(), L::Error> {
        let set = Property { register, is_long: false, value: Some(value) };
        self.queue.execute(link, "Property Set", set.command())?;
        Ok(())
    }

    /// Waits until bits of CSTS are as they should be.
    fn becomes<L: Link>(
        &mut self,
        link: &mut L,
        bits: u32,
        wanted: u32,
        (what, limit): (&'static str, u64),
    ) -> Result<(), L::Error> {
        let mut waited = 0;
        loop {
            let status = self.get(link, CSTS, false)? as u32;
            if status & CSTS_FAILED != 0 {
                return Err(Wrong::Failed.into());
            }
            if status & bits == wanted {
                return Ok(());
            }
            if waited > limit {
                return Err(Wrong::Late(what).into());
            }
            link.pause(PAUSE)?;
            waited += PAUSE;
        }
    }
}
