//! Allocation of numbered resources: VSI lists, recipes, profiles, flow director (0x0208 to
//! 0x020B).

use std::collections::{BTreeMap, BTreeSet};

use super::descriptor::{Answer, Command};
use super::layout::{put_u16, u16_at};
use super::{AqCode, Cx};

/// Type of the resource, without the flag bits above it.
const TYPE: u16 = 0x7f;
const IGNORE_INDEX: u16 = 1 << 13;

const VSI_LIST_REPLICATION: u16 = 0x03;
const VSI_LIST_PRUNE: u16 = 0x04;
const RECIPE: u16 = 0x05;
const SWITCH_ID: u16 = 0x07;
const FD_COUNTERS: u16 = 0x21;
const FD_GUARANTEED: u16 = 0x22;
const FD_SHARED: u16 = 0x23;
const FD_PROFILE: u16 = 0x58;
const FD_TCAM: u16 = 0x59;
const HASH_PROFILE: u16 = 0x60;
const HASH_TCAM: u16 = 0x61;

/// First number and count. Not in the sources; large enough for a driver.
fn range(kind: u16) -> Option<(u16, u16)> {
    Some(match kind {
        VSI_LIST_REPLICATION | VSI_LIST_PRUNE => (0, 1024),
        // Only those of the firmware itself.
        RECIPE => (super::recipe::RECIPES, 0),
        SWITCH_ID => (1, 255),
        FD_COUNTERS => (0, 16),
        FD_PROFILE | HASH_PROFILE => (1, 127),
        FD_TCAM | HASH_TCAM => (0, 512),
        _ => return None,
    })
}

/// Allocated resources of the card: type and number, and the function that holds each.
#[derive(Debug, Default)]
pub(super) struct CardPool {
    taken: BTreeMap<(u16, u16), u8>,
    /// Flow director entries that functions took: type and function.
    filters: BTreeSet<(u16, u8)>,
}

impl CardPool {
    /// Frees the resources of a function, except its counters. Linux allocates a block of counters
    /// once and keeps using it after a reset of the function (`ice/ice_main.c ice_rebuild`), which
    /// leaves no time to allocate it again.
    pub(super) fn release_all(&mut self, pf: u8) {
        self.taken
            .retain(|(kind, _), owner| *owner != pf || *kind == FD_COUNTERS);
        self.filters.retain(|(_, owner)| *owner != pf);
    }

    /// Whether the VSI list is allocated to `pf`.
    pub(super) fn has_list(&self, list: u16, pf: u8) -> bool {
        [VSI_LIST_REPLICATION, VSI_LIST_PRUNE]
            .into_iter()
            .any(|kind| self.taken.get(&(kind, list)) == Some(&pf))
    }

    fn take(&mut self, kind: u16, pf: u8) -> Option<u16> {
        let (first, count) = range(kind)?;
        // VSI lists of both kinds share one table.
        let is_free = |number: u16| match kind {
            VSI_LIST_REPLICATION | VSI_LIST_PRUNE => [VSI_LIST_REPLICATION, VSI_LIST_PRUNE]
                .into_iter()
                .all(|kind| !self.taken.contains_key(&(kind, number))),
            _ => !self.taken.contains_key(&(kind, number)),
        };
        let number = (first..first + count).find(|number| is_free(*number))?;
        self.taken.insert((kind, number), pf);
        Some(number)
    }
}

/// Type word and numbers of a buffer: res_type, num_elems, then the numbers.
fn entries(data: &[u8]) -> (u16, u16) {
    (u16_at(data, 0), u16_at(data, 2))
}

impl Cx<'_, '_> {
    /// 0x0208.
    pub(super) fn allocate_resources(&mut self, command: &Command) -> Answer {
        let mut data = command.input(6)?.to_vec();
        let (kind, count) = entries(&data);
        let pf = self.pf();
        match kind & TYPE {
            kind @ (FD_GUARANTEED | FD_SHARED) => {
                // The count is a number of filters; the reply has one element (`ice/ice_fdir.c
                // ice_alloc_fd_res_item`).
                self.card.pool.filters.insert((kind, pf));
                put_u16(&mut data, 4, 0);
            }
            kind => {
                range(kind).ok_or(AqCode::EINVAL)?;
                if data.len() < 4 + 2 * usize::from(count) {
                    return Err(AqCode::EINVAL);
                }
                for element in 0..usize::from(count) {
                    let number = self.card.pool.take(kind, pf).ok_or(AqCode::ENOSPC)?;
                    put_u16(&mut data, 4 + 2 * element, number);
                }
            }
        }
        command.answer(data)
    }

    /// 0x0209.
    pub(super) fn free_resources(&mut self, command: &Command) -> Answer {
        let data = command.input(6)?.to_vec();
        let (kind, count) = entries(&data);
        let pf = self.pf();
        let base = kind & TYPE;
        if matches!(base, FD_GUARANTEED | FD_SHARED) {
            self.card.pool.filters.remove(&(base, pf));
            return command.answer(data);
        }
        range(base).ok_or(AqCode::EINVAL)?;
        if kind & IGNORE_INDEX != 0 {
            self.card
                .pool
                .taken
                .retain(|(taken, _), owner| *taken != base || *owner != pf);
            return command.answer(data);
        }
        for element in 0..usize::from(count) {
            let number = u16_at(&data, 4 + 2 * element);
            match self.card.pool.taken.get(&(base, number)) {
                Some(owner) if *owner == pf => {
                    self.card.pool.taken.remove(&(base, number));
                }
                Some(_) => return Err(AqCode::EPERM),
                None => return Err(AqCode::ENOENT),
            }
        }
        command.answer(data)
    }

    /// 0x020A: the numbers of a type that the function holds, from the first one requested on; then
    /// the start of the next reply, or 0 (lan-path 18).
    pub(super) fn allocated_resources(&mut self, command: &Command) -> Answer {
        let (asked, first) = (command.param16(0), command.param16(2));
        let kind = asked & TYPE;
        range(kind).ok_or(AqCode::EINVAL)?;
        let pf = self.pf();
        let taken = self.card.pool.taken.iter();
        let own = taken.filter(|((taken, _), owner)| *taken == kind && **owner == pf);
        // Descriptors are counted from 1.
        let mut rest = own
            .map(|((_, number), _)| *number)
            .skip(usize::from(first).saturating_sub(1));
        let fit = command.room / 2;
        let numbers: Vec<u16> = rest.by_ref().take(fit).collect();
        let next = rest
            .next()
            .map_or(0, |_| first.max(1) + numbers.len() as u16);
        let mut data = vec![0; command.room];
        for (index, number) in numbers.iter().enumerate() {
            put_u16(&mut data, 2 * index, *number);
        }
        let reply = command.answer(data)?;
        Ok(reply
            .put16(0, asked)
            .put16(2, next)
            .put16(4, numbers.len() as u16))
    }

    /// 0x020B.
    pub(super) fn share_resource(&mut self, command: &Command) -> Answer {
        let data = command.input(6)?.to_vec();
        command.answer(data)
    }
}
