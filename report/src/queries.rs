//! Level 2: what the firmware answers, through the AdminQ.
//!
//! Every command here asks and changes nothing; a test holds that. A refusal is an answer:
//! it is written down, and the next command is sent.

use e810_adminq::op::{
    Command, Data, GetDefaultTopology, GetLinkStatus, GetPackageInfo, GetPhyCaps, GetSwitchConfig,
    GetVlanMode, ListCaps, Owner, PhyReport, QueryResources, ReadMac,
};
use e810_adminq::reset::{check_recovery, reset_function, wait_for_firmware};
use e810_adminq::{AdminQ, Answer, Error, Opcode};
use e810_hal::Platform;

use crate::answer::exchange;
use crate::journal::{Journal, JournalError, Medium};
use crate::passive::Identities;
use crate::record::{Record, State, hex};
use crate::registers::sweep;

/// What level 2 does, said before it begins.
pub const DOES: &str = "resets the function (PFR), reads its registers again, starts the \
    AdminQ, asks the firmware, ends the AdminQ and resets the function; it configures nothing";

/// Port of a function that has said none: the first.
const FIRST_PORT: u8 = 0;
/// Pages of the switch's elements, at most.
const PAGES: usize = 32;
/// Bytes of a module's memory that one command reads (Linux, `ice_get_module_eeprom`).
const BLOCK: u16 = 8;
/// Bytes of a module's lower and first upper page.
const MODULE: u16 = 256;
/// Two-wire address of a module (SFF-8472 and SFF-8636: A0h, in 7 bits).
const MODULE_ADDRESS: u16 = 0x50;

/// Why level 2 ends early.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The report, or a function that is gone.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The firmware does not answer.
    #[error("{what}: {source}")]
    Firmware {
        /// The step.
        what: String,
        /// What was wrong.
        source: Error,
    },
}

/// A command by its bytes: those that the driver itself has no use for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Raw {
    opcode: u16,
    params: [u8; 16],
    /// Bytes of the buffer for the reply; 0 for none.
    room: u16,
}

impl Command for Raw {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode(self.opcode)
    }

    fn params(&self) -> [u8; 16] {
        self.params
    }

    fn data(&self) -> Data<'_> {
        match self.room {
            0 => Data::None,
            room => Data::Receive(room),
        }
    }

    fn decode(&self, _: &Answer<'_>) -> e810_adminq::Result<()> {
        Ok(())
    }
}

/// Queries of the port and the card beyond those of the driver: name, command
/// (`ice/ice_adminq_cmd.h`).
fn others(lport: u8) -> [(&'static str, Raw); 6] {
    let port_params = |report: u8| {
        let mut params = [0; 16];
        (params[0], params[2]) = (lport, report);
        params
    };
    let raw = |opcode, params, room| Raw {
        opcode,
        params,
        room,
    };
    [
        (
            "Get PHY Capabilities, without media",
            raw(0x0600, port_params(0), 560),
        ),
        ("Get Transmit Topology", raw(0x0418, get_topology(), 4096)),
        ("Get Port Options", raw(0x06EA, valid_port(lport), 512)),
        ("Get CEE DCBX Configuration", raw(0x0A07, [0; 16], 64)),
        ("Query Firmware Log", raw(0xFF32, get_log(), 4096)),
        (
            "Get Supported Health Status Codes",
            raw(0xFF21, [0; 16], 4096),
        ),
    ]
}

/// 0x0418: get (0), by the number of the section.
const fn get_topology() -> [u8; 16] {
    let mut params = [0; 16];
    params[1] = 2;
    params
}

const fn valid_port(lport: u8) -> [u8; 16] {
    let mut params = [0; 16];
    (params[0], params[1]) = (lport, 1);
    params
}

/// 0xFF32: query, do not change (bit 2, `ICE_AQC_FW_LOG_AQ_QUERY`).
const fn get_log() -> [u8; 16] {
    let mut params = [0; 16];
    params[0] = 1 << 2;
    params
}

/// 0x06EE: a block of a module's memory, without a change of its page. Bit 15 of the
/// second word would make it a write, bits 12 and 11 would change the page.
fn module_block(lport: u8, at: u16) -> Raw {
    let mut params = [0; 16];
    (params[0], params[1]) = (lport, 1);
    let [low, high] = MODULE_ADDRESS.to_le_bytes();
    (params[2], params[3]) = (low, high);
    let [low, high] = at.to_le_bytes();
    (params[4], params[5]) = (low, high);
    Raw {
        opcode: 0x06EE,
        params,
        room: BLOCK,
    }
}

/// Bytes of a module's memory that name the single piece: serial number and date (SFF-8472
/// for SFP; SFF-8636 for QSFP, whose first upper page begins at 128).
fn is_serial(identifier: u8, at: u16) -> bool {
    match identifier {
        0x03 => (68..92).contains(&at),
        _ => (196..220).contains(&at),
    }
}

/// Asks the firmware of a function that was opened.
pub fn ask_all<M: Medium, P: Platform>(
    journal: &mut Journal<M>,
    platform: &P,
    identities: Identities,
) -> Result<(), QueryError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| QueryError::Firmware { what, source }
    };
    let reset = || {
        check_recovery(platform)?;
        wait_for_firmware(platform)?;
        reset_function(platform, false)
    };
    if let Some(done) = journal.access("resetting the function", reset)? {
        done.map_err(failed("resetting the function"))?;
    }
    sweep(journal, State::Pfr, &|off| platform.read32(off))?;
    let start = journal.access("starting the AdminQ", || AdminQ::start(platform.clone()))?;
    let Some(adminq) = start.transpose().map_err(failed("starting the AdminQ"))? else {
        return Ok(());
    };
    let mut firmware = Firmware { journal, adminq };
    let asked = firmware.questions(identities);
    let Firmware { journal, adminq } = firmware;
    // Also after a failure: the firmware would go on using memory of this process.
    let end = || {
        let end = adminq.shutdown();
        reset_function(platform, false).and(end)
    };
    let ended = journal.access("ending the AdminQ", end)?;
    asked?;
    let ended = ended.transpose();
    ended.map(drop).map_err(failed("ending the AdminQ"))
}

/// The firmware, and where its answers go.
struct Firmware<'a, M, P: Platform> {
    journal: &'a mut Journal<M>,
    adminq: AdminQ<P>,
}

impl<M: Medium, P: Platform> Firmware<'_, M, P> {
    fn questions(&mut self, identities: Identities) -> Result<(), QueryError> {
        let version = Raw {
            opcode: 0x0001,
            params: [0; 16],
            room: 0,
        };
        self.ask("Get Version", &version)?;
        for owner in [Owner::Function, Owner::Device] {
            self.ask("", &ListCaps(owner))?;
        }
        let lport = self.switch()?;
        self.ask("", &GetVlanMode)?;
        self.ask("", &QueryResources)?;
        self.ask("", &GetDefaultTopology { lport })?;
        self.ask("", &GetPackageInfo)?;
        self.ask(
            "",
            &GetLinkStatus {
                lport,
                events: None,
            },
        )?;
        for (name, report) in [
            (
                "Get PHY Capabilities, with media",
                PhyReport::TopologyWithMedia,
            ),
            ("Get PHY Capabilities, as configured", PhyReport::Active),
            ("Get PHY Capabilities, default", PhyReport::Default),
        ] {
            self.ask(name, &GetPhyCaps { lport, report })?;
        }
        for (name, query) in others(lport) {
            self.ask(name, &query)?;
        }
        if identities == Identities::Kept {
            self.ask("", &ReadMac)?;
        }
        self.module(lport, identities)
    }

    /// The elements of the switch, page by page; gives the port.
    fn switch(&mut self) -> Result<u8, QueryError> {
        let (mut first, mut lport) = (0, FIRST_PORT);
        for _ in 0..PAGES {
            let Some(page) = self.ask("", &GetSwitchConfig { first })? else {
                break;
            };
            lport = page.port.map_or(lport, |port| port.lport);
            match page.next {
                Some(next) => first = next,
                None => break,
            }
        }
        Ok(lport)
    }

    /// The memory of the module in the port's cage, if there is one.
    fn module(&mut self, lport: u8, identities: Identities) -> Result<(), QueryError> {
        let mut memory: Vec<u8> = Vec::new();
        for at in (0..MODULE).step_by(BLOCK.into()) {
            let what = format!(
                "AdminQ 0x06ee module memory, bytes {at} to {}",
                at + BLOCK - 1
            );
            let query = module_block(lport, at);
            let adminq = &mut self.adminq;
            let answer = self.journal.access(&what, || exchange(adminq, &query))?;
            let answer = match answer {
                None => break,
                Some(answer) => answer.map_err(|source| QueryError::Firmware { what, source })?,
            };
            if answer.code != 0 {
                // The first refusal says why: usually that there is no module.
                self.journal
                    .put(&answer.record("Read Module Memory", &query))?;
                break;
            }
            memory.extend(answer.data.iter().take(BLOCK.into()));
        }
        if memory.is_empty() {
            return Ok(());
        }
        if identities == Identities::Removed {
            let identifier = memory.first().copied().unwrap_or(0);
            for (at, byte) in (0..).zip(&mut memory) {
                if is_serial(identifier, at) {
                    *byte = 0;
                }
            }
        }
        Ok(self.journal.put(&Record::Module {
            bytes: hex(&memory),
        })?)
    }

    /// Sends a command and writes its answer down; the decoded reply, if there is one.
    fn ask<C: Command>(&mut self, name: &str, command: &C) -> Result<Option<C::Reply>, QueryError> {
        let opcode = command.opcode();
        let name = if name.is_empty() { opcode.name() } else { name };
        let what = format!("AdminQ {:#06x} {name}", opcode.0);
        let adminq = &mut self.adminq;
        let mut decoded = None;
        let exchanged = self.journal.access(&what, || {
            let answer = exchange(adminq, command)?;
            decoded = answer.decode(command);
            Ok(answer)
        })?;
        let Some(answer) = exchanged else {
            return Ok(None);
        };
        let answer = answer.map_err(|source| QueryError::Firmware { what, source })?;
        self.journal.put(&answer.record(name, command))?;
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests;
