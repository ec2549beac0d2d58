//! Cards from files: a simulated card that answers as a report of `e810 report` says.

use std::collections::BTreeMap;
use std::sync::Arc;

use e810_card::config_space::ConfigSpace;
use e810_card::record::{Run, from_hex, words_from_hex};
use e810_card::{Document, Record, State};
use e810_hal::pci_ids;
use e810_hal::regs::{ALL, PF_FUNC_RID, RegInfo, Space};

use crate::fw::{Answers, RecordedAnswer};
use crate::pe::{FpmProfile, NoProfile, QUERY_BYTES};
use crate::regs::RecordedRegisters;

/// Maximum bytes of an answer to a CQP command.
const REPLY_BYTES: usize = 4096;
/// Maximum bytes of an answer to an AdminQ command.
const ANSWER_BYTES: usize = 4096;
/// Maximum answers kept: a report has some hundred.
const MOST_ANSWERS: usize = 4096;

/// A card as its report describes it. Where the report is silent, the simulator's own model
/// applies.
///
/// [`Builder::card`](crate::Builder::card) makes functions of that card.
#[derive(Clone, Debug)]
pub struct RecordedCard {
    pub(crate) registers: Arc<RecordedRegisters>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) fpm: Option<(FpmProfile, Arc<[u64]>)>,
    pub(crate) features: Option<Arc<[u64]>>,
    config: Option<ConfigSpace>,
}

/// Why a report cannot be a simulated card.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoCard {
    /// Invalid digits, or too many.
    #[error("{what}: not hexadecimal, or more than {most} bytes")]
    Bytes {
        /// The record.
        what: String,
        /// Bytes that it can have.
        most: usize,
    },
    /// The report is of another device.
    #[error("configuration space is that of device {vendor:04x}:{device:04x}, which is no E810")]
    OtherDevice {
        /// Vendor id.
        vendor: u16,
        /// Device id.
        device: u16,
    },
    /// A register is elsewhere, or larger, than the one of that name here.
    #[error("register {name}: {why}")]
    Register {
        name: String,
        /// What is wrong.
        why: String,
    },
    /// An answer that no card can give.
    #[error("AdminQ {opcode:#06x}: {why}")]
    Answer {
        /// The command.
        opcode: u16,
        /// What is wrong.
        why: String,
    },
    /// Too many answers.
    #[error("more than {MOST_ANSWERS} answers of the AdminQ")]
    TooMany,
    /// Limits that no card can have.
    #[error("QUERY_FPM_VAL: {0}")]
    Limits(#[from] NoProfile),
}

fn bytes(what: impl Into<String>, text: &str, most: usize) -> Result<Vec<u8>, NoCard> {
    let bytes = from_hex(text).filter(|bytes| bytes.len() <= most);
    bytes.ok_or_else(|| NoCard::Bytes {
        what: what.into(),
        most,
    })
}

/// The words that the device has written, at least `least` of them: the buffer had zeros behind
/// them.
fn words(what: &str, text: &str, least: usize) -> Result<Arc<[u64]>, NoCard> {
    let words = words_from_hex(text).filter(|words| words.len() <= REPLY_BYTES / 8);
    let mut words = words.ok_or_else(|| NoCard::Bytes {
        what: what.to_owned(),
        most: REPLY_BYTES,
    })?;
    let written = words.iter().rposition(|word| *word != 0);
    words.truncate(written.map_or(0, |last| last + 1).max(least));
    Ok(words.into())
}

/// Entries that a reply of QUERY_RDMA_FEATURES says it has (control-path 6.8).
fn features_in(text: &str) -> usize {
    let words = words_from_hex(text).unwrap_or_default();
    let count = words.first().map_or(0, |first| first >> 32 & 0xFFFF);
    usize::try_from(count).unwrap_or(0)
}

/// The values of a register, if this program knows one of that name.
fn values(name: &str, offset: u32, values: &[Run]) -> Result<Vec<(u32, u32)>, NoCard> {
    let of_bar0 = |info: &&RegInfo| info.space == Space::Bar0 && info.name == name;
    let Some(info) = ALL.iter().find(of_bar0) else {
        // From a program that knew more registers.
        return Ok(Vec::new());
    };
    let wrong = |why: String| NoCard::Register {
        name: name.to_owned(),
        why,
    };
    if info.offset != offset {
        let at = info.offset;
        return Err(wrong(format!(
            "said to be at {offset:#x}, it is at {at:#x}"
        )));
    }
    let mut elements = info.elements();
    let mut found = Vec::new();
    for run in values {
        for _ in 0..run.count {
            let element = elements.next();
            let element = element.ok_or_else(|| wrong("it has fewer elements".to_owned()))?;
            if let Some(value) = run.value {
                found.push((element.offset(), value));
            }
        }
    }
    Ok(found)
}

impl RecordedCard {
    /// The card that a report describes.
    ///
    /// # Errors
    /// [`NoCard`].
    pub fn from_document(document: &Document) -> Result<Self, NoCard> {
        let mut states: BTreeMap<State, Vec<(u32, u32)>> = BTreeMap::new();
        let mut state = State::AsFound;
        let mut answers = Answers::default();
        let (mut fpm, mut features, mut config) = (None, None, None);
        for record in &document.records {
            match record {
                Record::State { state: next } => state = *next,
                Record::Register {
                    name,
                    offset,
                    values: found,
                } => states
                    .entry(state)
                    .or_default()
                    .extend(values(name, *offset, found)?),
                Record::AdminQ {
                    opcode,
                    params,
                    code,
                    reply,
                    data,
                    ..
                } => {
                    let what = format!("AdminQ {opcode:#06x}");
                    answers.all.push(RecordedAnswer {
                        opcode: *opcode,
                        params: bytes(&what, params, 16)?,
                        // The firmware's code is the low byte (control-path 9.1).
                        code: *code as u8,
                        reply: bytes(&what, reply, 16)?,
                        data: bytes(&what, data, ANSWER_BYTES)?,
                    });
                    if answers.all.len() > MOST_ANSWERS {
                        return Err(NoCard::TooMany);
                    }
                }
                Record::Cqp { name, data } if name == "QUERY_FPM_VAL" => {
                    let reply = words(name, data, QUERY_BYTES / 8)?;
                    fpm = Some((FpmProfile::from_reply(&reply)?, reply));
                }
                Record::Cqp { name, data } if name == "QUERY_RDMA_FEATURES" => {
                    features = Some(words(name, data, features_in(data))?);
                }
                Record::Module { bytes: text } => {
                    answers.module = Some(bytes("module", text, 256)?);
                }
                Record::Config { bytes: text } => {
                    config = Some(space(&bytes("configuration space", text, 4096)?)?);
                }
                _ => {}
            }
        }
        // Registers read next to another driver show what that driver has set.
        states.remove(&State::AsFound);
        let registers = RecordedRegisters::new(states);
        let number = |value| PF_FUNC_RID::FUNCTION_NUMBER.read(value) as u8;
        answers.pf = registers.first(PF_FUNC_RID.off()).map_or(0, number);
        answers
            .check()
            .map_err(|(opcode, why)| NoCard::Answer { opcode, why })?;
        Ok(Self {
            registers: Arc::new(registers),
            answers: Arc::new(answers),
            fpm,
            features,
            config,
        })
    }

    /// Configuration space of the function, as the report has it.
    #[must_use]
    pub fn config_space(&self) -> Option<&[u8]> {
        self.config.as_ref().map(|space| space.0.as_slice())
    }

    /// Number of the function that was recorded. PF 0 of a simulated card answers as PF 0 did. The
    /// others answer with their own numbers in place of PF 0's.
    #[must_use]
    pub fn function(&self) -> u8 {
        self.answers.pf
    }

    /// MSI-X vectors of the function: from the firmware's capability, otherwise from configuration
    /// space.
    #[must_use]
    pub fn vectors(&self) -> Option<u16> {
        const MSIX: u16 = 0x0043;
        const FUNCTION: u16 = 0x000a;
        let said = self.answers.capability(FUNCTION, MSIX);
        let said = said.and_then(|[number, ..]| u16::try_from(number).ok());
        let config = || self.config.as_ref()?.msix_vectors();
        said.or_else(config).filter(|vectors| *vectors > 0)
    }
}

/// Configuration space of an E810.
fn space(bytes: &[u8]) -> Result<ConfigSpace, NoCard> {
    let space = ConfigSpace(bytes.to_vec());
    let (vendor, device) = (space.u16(0).unwrap_or(0), space.u16(2).unwrap_or(0));
    match pci_ids::name(vendor, device) {
        Some(_) => Ok(space),
        None => Err(NoCard::OtherDevice { vendor, device }),
    }
}
