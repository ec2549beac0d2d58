//! The commands of an admin queue.

use e810_examples::nvme::bytes::{byte, double, put, quad};
use e810_examples::nvme::capsule::Refused;
use e810_examples::nvme::capsule::admin::{
    ABORT, EVENT, GET_FEATURES, IDENTIFY, KEEP_ALIVE, LOG, SET_FEATURES,
};
use e810_examples::nvme::identify::{self, controller as at};

use crate::capsule::{Call, Data, Outcome, Source, Step};
use crate::io::{ALL, BLOCK, MDTS, NAMESPACE};
use crate::target::{Config, Controller, DEPTH, INLINE, Page, QUEUES};
use crate::{discovery, fabrics};

/// Commands that may wait for events.
const EVENTS: u8 = 4;

/// A command of an admin queue, and all that it is about.
pub(crate) struct Admin<'a, 'c> {
    pub(crate) controller: &'a mut Controller,
    pub(crate) config: &'a Config<'a>,
    pub(crate) page: &'a mut Page,
    pub(crate) call: &'a Call<'c>,
}

impl<'c> Admin<'_, 'c> {
    pub(crate) fn execute(mut self) -> Outcome<'c> {
        let controller = &mut *self.controller;
        let result = match byte(self.call.command, 0) {
            LOG => return self.log(),
            IDENTIFY => return self.identify(),
            SET_FEATURES | GET_FEATURES => self.features()?,
            EVENT if controller.events >= EVENTS => return Err(Refused::EVENTS),
            EVENT => {
                controller.events += 1;
                return Ok(Step::Keep);
            }
            KEEP_ALIVE if controller.keep_alive == 0 => return Err(Refused::KEEP_ALIVE),
            KEEP_ALIVE => 0,
            // "Not aborted": there is nothing to stop in a command that moves data.
            ABORT if !controller.discovery => 1,
            _ => return Err(Refused::OPCODE),
        };
        match self.call.data {
            Data::None => Ok(self.call.answer(Ok(u64::from(result)))),
            _ => Err(Refused::SGL_LENGTH),
        }
    }

    /// Notices there are: the discovery log changed, or a namespace did. Linux waits for events
    /// only on a controller that has notices.
    fn notices(&self) -> u32 {
        if self.controller.discovery { 1 << 31 } else { 1 << 8 }
    }

    fn features(&mut self) -> Result<u32, Refused> {
        let (command, notices) = (self.call.command, self.notices());
        let (set, value) = (byte(command, 0) == SET_FEATURES, double(command, 44));
        let controller = &mut *self.controller;
        let feature = match (byte(command, 40), controller.discovery) {
            // Write cache.
            (0x06, false) if !set => return Ok(1),
            // Queues less 1, of both directions. Linux makes no more of them.
            (0x07, false) => return Ok((u32::from(QUEUES) - 1) * 0x1_0001),
            // Events: the low byte are warnings of health.
            (0x0b, _) if !set || value & !(notices | 0xff) == 0 => &mut controller.notices,
            (0x0f, _) => &mut controller.keep_alive,
            _ => return Err(Refused::FIELD),
        };
        let old = *feature;
        *feature = if set { value } else { old };
        Ok(if set { 0 } else { old })
    }

    fn log(&mut self) -> Outcome<'c> {
        let (command, page) = (self.call.command, &mut *self.page);
        page.fill(0);
        let length = match (byte(command, 40), self.controller.discovery) {
            (discovery::LOG, true) => discovery::log(page, self.config),
            // No errors; health and firmware slots without a word; no changes of namespaces.
            (0x01, false) => 64,
            (0x02 | 0x03, false) => 512,
            (0x04, false) => 4096,
            (0x05, false) => {
                // Commands that there are: of admin queues, and from 256 on of I/O queues.
                for opcode in [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x100, 0x101, 0x102] {
                    put(page, 4 * opcode, &[1]);
                }
                put(page, 4 * 0x101, &[3]); // A write changes blocks, too.
                4096
            }
            _ => return Err(Refused::LOG_PAGE),
        };
        let (words, offset) = (double(command, 42), quad(command, 48));
        let offset = usize::try_from(offset).ok().filter(|at| *at <= length && at % 4 == 0);
        let (Some(offset), 0..1024) = (offset, words) else {
            return Err(Refused::FIELD);
        };
        // Behind the log there are zeros.
        page.rotate_left(offset);
        page.get_mut(length - offset..).unwrap_or_default().fill(0);
        self.call.give(Source::Page, (words + 1) * 4)
    }

    fn identify(&mut self) -> Outcome<'c> {
        let (command, namespace) = (self.call.command, double(self.call.command, 4));
        self.page.fill(0);
        match byte(command, 40) {
            identify::CONTROLLER => self.identify_controller(),
            _ if self.controller.discovery => return Err(Refused::FIELD),
            identify::NAMESPACE | identify::IDENTIFIERS | 0x05 if namespace != NAMESPACE => {
                return Err(Refused::NAMESPACE);
            }
            identify::NAMESPACE => self.identify_namespace(),
            identify::NAMESPACES if namespace >= ALL - 1 => return Err(Refused::NAMESPACE),
            identify::NAMESPACES if namespace < NAMESPACE => {
                put(self.page, 0, &NAMESPACE.to_le_bytes());
            }
            identify::NAMESPACES => {}
            // A UUID, of 16 bytes.
            identify::IDENTIFIERS => {
                put(self.page, 0, &[3, 16]);
                put(self.page, 4, &self.config.uuid);
            }
            // Limits of the NVM command set: none.
            0x05 | 0x06 if byte(command, 47) == 0 => {}
            _ => return Err(Refused::FIELD),
        }
        self.call.give(Source::Page, identify::PAGE)
    }

    fn identify_controller(&mut self) {
        let (discovery, notices) = (self.controller.discovery, self.notices());
        let (page, config) = (&mut *self.page, self.config);
        // Serial number, model, firmware.
        page.get_mut(4..72).unwrap_or_default().fill(b' ');
        put(page, at::SERIAL, config.serial.as_bytes());
        put(page, at::MODEL, b"E810 NVMe target");
        put(page, 64, b"1");
        // Several controllers, or else Linux does not connect to the subsystem twice.
        put(page, 76, &[2]);
        put(page, at::MDTS, &[MDTS]);
        // Linux compares it with the result of Connect.
        put(page, at::CNTLID, &self.controller.id.to_le_bytes());
        put(page, 80, &fabrics::VERSION.to_le_bytes());
        put(page, 92, &notices.to_le_bytes());
        // Host ids have 128 bits; any command keeps the controller alive.
        put(page, 96, &[1 | 1 << 6]);
        put(page, 111, &[if discovery { 2 } else { 1 }]);
        // Aborts and EVENTS at a time, less 1; one slot of firmware, that nobody writes.
        put(page, 258, &[3, EVENTS - 1, 3]);
        // Log pages are read in parts; Linux reads the one of commands (bit 1) if it is there.
        put(page, 261, &[if discovery { 4 } else { 2 | 4 }]);
        // The keep-alive timer counts in 10 times 100 ms. Linux refuses a 0 of an I/O controller.
        put(page, 320, &[10]);
        // Commands of a queue at a time: Linux sends no more.
        put(page, at::MAXCMD, &DEPTH.to_le_bytes());
        // Linux does not connect without keyed SGLs.
        put(page, at::SGLS, &(1 | at::SGLS_KEYED | at::SGLS_CAPSULE).to_le_bytes());
        // The name that was connected to: `nvme connect` fails with another one.
        let name = if discovery { discovery::SUBSYSTEM } else { config.subsystem };
        put(page, 768, name.as_bytes());
        // A command and its data (Linux wants 4 at least), and a response, in units of 16 bytes. The
        // offset of the data, at 1800, stays 0: Linux knows no other.
        put(page, at::IOCCSZ, &(4 + INLINE / 16).to_le_bytes());
        put(page, 1796, &[1]);
        // SGL descriptors of a command.
        put(page, 1803, &[1]);
        if !discovery {
            // Entries have 2^6 and 2^4 bytes, at least and at most.
            put(page, 512, &[0x66, 0x44]);
            put(page, at::NN, &NAMESPACE.to_le_bytes());
            // Optional commands, at 520: none, so that Linux neither discards nor writes zeroes.
            // There is a write cache, so that Linux flushes; a flush may name all namespaces.
            put(page, 525, &[7]);
        }
    }

    fn identify_namespace(&mut self) {
        // Size, capacity, use. Linux takes a namespace without capacity for none.
        let blocks = (self.config.bytes >> BLOCK).to_le_bytes();
        put(self.page, identify::namespace::NSZE, [blocks; 3].as_flattened());
        // Controllers share it: Linux refuses it on a second one if not.
        put(self.page, 30, &[1]);
        // Its only format: no metadata, and blocks of 2^BLOCK.
        let format = identify::namespace::FORMATS;
        put(self.page, format + identify::namespace::LBADS, &[BLOCK]);
    }
}
