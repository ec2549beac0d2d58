//! Answers of a card's own firmware, from its report.
//!
//! A recorded answer is used as long as nothing that it describes was changed since the reset after
//! which it was recorded. After a change the model answers; it started from the same numbers. The
//! model executes a command in either case, for its effects.

use std::collections::BTreeSet;

use super::descriptor::{Answer, Command, Reply};
use super::layout::{part, put, put_u16, put_u32, u16_at, u32_at};
use super::sched_tree::{ELEMENT, Layer, NO_TEID};
use super::{AqCode, Cx};
use crate::regs::ResetSource;

/// Bytes of a capability entry, of a layer, of the header of a branch, and of a branch with room
/// for nine elements.
const CAPABILITY: usize = 32;
const LAYER: usize = 32;
const BRANCH_HEADER: usize = 8;
const BRANCH: usize = BRANCH_HEADER + 9 * ELEMENT;
/// Bytes of an element of the switch.
const SWITCH_ELEMENT: usize = 6;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RecordedAnswer {
    pub(crate) opcode: u16,
    /// Parameters of the command: 8 bytes if it has a buffer, otherwise 16.
    pub(crate) params: Vec<u8>,
    pub(crate) code: u8,
    pub(crate) reply: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// Subjects of an answer. [`changes`] has what a command of each opcode changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Topic {
    /// Elements of the switch.
    Switch,
    /// Nodes of the scheduler.
    Scheduler,
    /// Configuration of the PHY, and the link.
    Port,
    /// VLAN mode of the card.
    Vlan,
    /// The card's package.
    Package,
    /// What the DCB agent knows.
    Dcb,
    /// The firmware's log.
    Log,
}

impl Topic {
    /// Whether all functions of the card share the subject.
    const fn is_of_the_card(self) -> bool {
        matches!(self, Self::Vlan | Self::Package)
    }

    /// Whether a reset of that kind restores the subject's original state.
    fn is_restored_by(self, source: ResetSource) -> bool {
        source != ResetSource::Pfr || matches!(self, Self::Switch | Self::Scheduler | Self::Log)
    }
}

/// The subject of an answer to this opcode; `None`: nothing that changes.
fn topic(opcode: u16) -> Option<Topic> {
    Some(match opcode {
        0x0200 => Topic::Switch,
        0x020d => Topic::Vlan,
        0x0302 | 0x0a00 | 0x0a07 => Topic::Dcb,
        0x0400 | 0x040e => Topic::Scheduler,
        0x0600 | 0x0607 => Topic::Port,
        0x0c43 => Topic::Package,
        0xff32 => Topic::Log,
        _ => return None,
    })
}

/// The subjects that a successful command of this opcode changes.
fn changes(opcode: u16) -> &'static [Topic] {
    match opcode {
        0x020c => &[Topic::Vlan],
        0x0210 | 0x0211 | 0x0213 => &[Topic::Switch],
        0x02a4 => &[Topic::Switch, Topic::Scheduler],
        0x0303 | 0x0a05 | 0x0a06 | 0x0a08 | 0x0a09 => &[Topic::Dcb],
        0x0401 | 0x0403 | 0x0408 | 0x0409 | 0x040a | 0x040f | 0x0c30 | 0x0c31 | 0x0c32 | 0x0c33 => {
            &[Topic::Scheduler]
        }
        0x0601 | 0x0603 | 0x0605 => &[Topic::Port],
        0x0c40 | 0x0c42 => &[Topic::Package],
        0xff30 | 0xff31 => &[Topic::Log],
        _ => &[],
    }
}

/// The part of a command's parameters that selects the answer. Drivers set the rest differently: a
/// port by its number or 0, events on or off.
fn question(opcode: u16, params: &[u8]) -> Vec<u8> {
    let byte = |at: usize| params.get(at).copied().unwrap_or(0);
    match opcode {
        // The first element.
        0x0200 => vec![byte(2), byte(3)],
        // Which PHY abilities.
        0x0600 => vec![byte(2) & 0b1110],
        0x0a00 => vec![byte(0) & 3],
        0x0302 | 0x040e => params.iter().take(8).copied().collect(),
        _ => Vec::new(),
    }
}

/// All answers of a report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answers {
    /// Number of the function that gave them.
    pub(crate) pf: u8,
    pub(crate) all: Vec<RecordedAnswer>,
    /// Memory of the module, if the card could read one.
    pub(crate) module: Option<Vec<u8>>,
}

impl Answers {
    /// Finds an answer that no card can give: the command, and why.
    pub(crate) fn check(&self) -> Result<(), (u16, String)> {
        self.layers().map_err(|why| (0x0412, why))?;
        self.branches().map_err(|why| (0x0400, why))?;
        Ok(())
    }

    fn find(&self, opcode: u16, params: &[u8]) -> Option<&RecordedAnswer> {
        let asked = question(opcode, params);
        let mut fit = self.all.iter().filter(|answer| answer.opcode == opcode);
        fit.find(|answer| question(opcode, &answer.params) == asked)
    }

    /// Data of the first answer to this opcode, if it was not refused.
    fn data(&self, opcode: u16) -> Option<&[u8]> {
        let mut fit = self.all.iter().filter(|answer| answer.opcode == opcode);
        fit.find(|answer| answer.code == 0)
            .map(|answer| answer.data.as_slice())
    }

    /// The entry of a capability in the answer to `opcode` (0x000A or 0x000B): number, logical and
    /// physical id.
    pub(crate) fn capability(&self, opcode: u16, id: u16) -> Option<[u32; 3]> {
        let (entries, _) = self.data(opcode)?.as_chunks::<CAPABILITY>();
        let entry = entries.iter().find(|entry| u16_at(*entry, 0) == id)?;
        Some([4, 8, 12].map(|at| u32_at(entry, at)))
    }

    pub(crate) fn has_capabilities(&self) -> bool {
        self.data(0x000a).is_some()
    }

    /// Elements of the switch: kind, number, switch.
    fn switch_elements(&self) -> impl Iterator<Item = (u16, u16, u16)> + '_ {
        // The answers are consecutive pages.
        let pages = self.all.iter();
        let pages = pages.filter(|answer| answer.opcode == 0x0200 && answer.code == 0);
        let elements = pages.flat_map(|page| page.data.as_chunks::<SWITCH_ELEMENT>().0);
        elements.map(|element| {
            let word = u16_at(element, 0);
            (word >> 14, word & 0x3ff, u16_at(element, 2))
        })
    }

    /// Number of function `pf`'s port.
    pub(super) fn port(&self, pf: u8) -> Option<u8> {
        let (_, number, _) = self.switch_elements().find(|(kind, ..)| *kind == 0)?;
        let number = u8::try_from(number).ok()?;
        Some(number.wrapping_add(pf).wrapping_sub(self.pf))
    }

    /// Number of function `pf`'s switch.
    pub(super) fn switch(&self, pf: u8) -> Option<u16> {
        let (_, _, switch) = self.switch_elements().find(|(kind, ..)| *kind == 0)?;
        Some(switch.wrapping_add(pf.into()).wrapping_sub(self.pf.into()))
    }

    /// The firmware's own VSI for function `pf`.
    pub(super) fn own_vsi(&self, pf: u8) -> Option<u16> {
        let (_, number, _) = self.switch_elements().find(|(kind, ..)| *kind == 2)?;
        Some(
            number
                .wrapping_add(u16::from(pf))
                .wrapping_sub(self.pf.into())
                & 0x3ff,
        )
    }

    /// Layers of the scheduler, by 0x0412.
    ///
    /// # Errors
    /// A layer that no tree can have.
    pub(super) fn layers(&self) -> Result<Option<Vec<Layer>>, String> {
        let Some(data) = self.data(0x0412) else {
            return Ok(None);
        };
        let count = usize::from(u16_at(data, 2));
        if !(3..=9).contains(&count) || data.len() < LAYER * (1 + count) {
            return Err(format!(
                "a scheduler of {count} layers in {} bytes",
                data.len()
            ));
        }
        let layer = |index: usize| Layer {
            nodes: u16_at(data, LAYER * (1 + index) + 4),
            siblings: u16_at(data, LAYER * (1 + index) + 10),
        };
        Ok(Some((0..count).map(layer).collect()))
    }

    /// Branches of the default topology, by 0x0400: elements from the root on.
    ///
    /// # Errors
    /// A branch that no tree can have.
    pub(super) fn branches(&self) -> Result<Option<Vec<Vec<[u8; ELEMENT]>>>, String> {
        let Some(data) = self.data(0x0400) else {
            return Ok(None);
        };
        let (branches, _) = data.as_chunks::<BRANCH>();
        let branches: Result<Vec<_>, String> = branches.iter().map(|bytes| branch(bytes)).collect();
        Ok(Some(branches?).filter(|branches| !branches.is_empty()))
    }

    /// Whether the port has a module, by 0x0607.
    pub(crate) fn has_module(&self) -> Option<bool> {
        const MEDIA: u8 = 1 << 6;
        self.data(0x0607)?.get(2).map(|info| info & MEDIA != 0)
    }

    /// PHY types that the port and the module support, by 0x0600.
    pub(super) fn phy_types(&self) -> Option<(u64, u64)> {
        const MEDIA: u8 = 1 << 1;
        let answer = self.find(0x0600, &[0, 0, MEDIA])?;
        let word = |at| {
            u64::from(u32_at(&answer.data, at)) | u64::from(u32_at(&answer.data, at + 4)) << 32
        };
        (answer.code == 0).then(|| (word(0), word(8)))
    }

    /// Version of the API, by 0x0001.
    pub(crate) fn api(&self) -> Option<(u8, u8, u8)> {
        let mut fit = self.all.iter().filter(|answer| answer.opcode == 0x0001);
        let reply = &fit.find(|answer| answer.code == 0)?.reply;
        Some((*reply.get(13)?, *reply.get(14)?, *reply.get(15)?))
    }

    /// Version of the active package, and whether it comes from the NVM, by 0x0C43.
    pub(crate) fn package(&self) -> Option<Option<([u8; 4], bool)>> {
        const ENTRY: usize = 40;
        let data = self.data(0x0c43)?;
        let entries = data.get(4..).unwrap_or_default();
        let (entries, _) = entries.as_chunks::<ENTRY>();
        let active = entries.iter().find(|entry| entry[37] != 0);
        Some(active.and_then(|entry| Some((*entry.first_chunk()?, entry[36] != 0))))
    }

    /// The data of an answer as function `pf` of the same card would give it.
    fn data_for(&self, answer: &RecordedAnswer, pf: u8) -> Vec<u8> {
        let mut data = answer.data.clone();
        let by = i32::from(pf) - i32::from(self.pf);
        // The buffer contents after a refusal mean nothing.
        if by == 0 || answer.code != 0 {
            return data;
        }
        match answer.opcode {
            0x000a | 0x000b => shift_capabilities(&mut data, by),
            0x0200 => shift_switch(&mut data, by),
            0x0400 => shift_branches(&mut data, by),
            _ => {}
        }
        data
    }
}

/// The elements of a branch: each one is the child of the one before it.
fn branch(bytes: &[u8]) -> Result<Vec<[u8; ELEMENT]>, String> {
    let count = usize::from(u16_at(bytes, 4));
    let (elements, _) = part(bytes, BRANCH_HEADER, bytes.len()).as_chunks::<ELEMENT>();
    if count < 2 || count > elements.len() {
        return Err(format!("a branch of the scheduler with {count} nodes"));
    }
    let mut parent = NO_TEID;
    for element in elements.iter().take(count) {
        let (above, teid) = (u32_at(element, 0), u32_at(element, 4));
        if above != parent || teid == NO_TEID {
            return Err(format!(
                "scheduler node {teid:#x} hangs from {above:#x}, not {parent:#x}"
            ));
        }
        parent = teid;
    }
    Ok(elements.iter().take(count).copied().collect())
}

/// First queues and vectors of other functions follow in equal parts `[inf other_functions]`.
fn shift_capabilities(data: &mut [u8], by: i32) {
    let (entries, _) = data.as_chunks_mut::<CAPABILITY>();
    for entry in entries {
        if (0x0041..=0x0043).contains(&u16_at(entry, 0)) {
            let part = u32_at(entry, 4).next_power_of_two();
            let first = u32_at(entry, 12).wrapping_add_signed(by.wrapping_mul(part as i32));
            put_u32(entry, 12, first);
        }
    }
}

/// Port, switch and VSI of other functions have the next numbers `[inf other_functions]`.
fn shift_switch(data: &mut [u8], by: i32) {
    let (elements, _) = data.as_chunks_mut::<SWITCH_ELEMENT>();
    for element in elements {
        for (at, mask) in [(0, 0x3ff), (2, u16::MAX), (4, 0x7)] {
            let word = u16_at(element, at);
            let moved = word.wrapping_add_signed(by as i16);
            put_u16(element, at, word & !mask | moved & mask);
        }
    }
}

/// Nodes of other functions have other numbers.
fn shift_branches(data: &mut [u8], by: i32) {
    let (branches, _) = data.as_chunks_mut::<BRANCH>();
    for branch in branches {
        for at in (BRANCH_HEADER..BRANCH).step_by(ELEMENT) {
            for at in [at, at + 4] {
                let teid = shift_teid(u32_at(branch, at), by);
                put_u32(branch, at, teid);
            }
        }
    }
}

/// The number of the node at another function. Empty elements stay empty.
pub(super) fn shift_teid(teid: u32, by: i32) -> u32 {
    match teid {
        0 | NO_TEID => teid,
        _ => teid.wrapping_add_signed(by << 16),
    }
}

/// Subjects changed since the reset.
#[derive(Debug, Default)]
pub(crate) struct Changed(BTreeSet<Topic>);

impl Changed {
    pub(super) fn reset(&mut self, source: ResetSource) {
        self.0.retain(|topic| !topic.is_restored_by(source));
    }
}

impl Cx<'_, '_> {
    /// The firmware's answer to `command`, given the model's own answer `model`.
    pub(super) fn as_recorded(&mut self, command: &Command, model: Answer) -> Answer {
        let Some(recorded) = self.fw.config.recorded.clone() else {
            return model;
        };
        if model.is_ok() {
            for topic in changes(command.opcode) {
                match topic.is_of_the_card() {
                    true => self.card.changed.0.insert(*topic),
                    false => self.fw.changed.0.insert(*topic),
                };
            }
        }
        let is_changed = |topic: &Topic| {
            self.fw.changed.0.contains(topic) || self.card.changed.0.contains(topic)
        };
        if topic(command.opcode).is_some_and(|topic| is_changed(&topic)) {
            return model;
        }
        // A module is read by address.
        if command.opcode == 0x06ee && recorded.module.is_some() {
            return model;
        }
        let Some(answer) = recorded.find(command.opcode, &command.params) else {
            return model;
        };
        let mut reply = Reply {
            code: AqCode(answer.code),
            ..command.done()
        };
        put(&mut reply.params, 0, &answer.reply);
        if command.room > 0 {
            let is_list = matches!(command.opcode, 0x000a | 0x000b);
            if is_list && answer.data.len() > command.room {
                return Ok(reply.refused(AqCode::ENOMEM));
            }
            let data = recorded.data_for(answer, self.pf());
            reply.data = Some(part(&data, 0, command.room).to_vec());
        }
        Ok(reply)
    }
}
