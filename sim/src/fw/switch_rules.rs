//! Switch rules: lookups, large actions, VSI lists (0x02A0 to 0x02A2; control-path 9.6).

use crate::findings::kind;
use std::collections::{BTreeMap, BTreeSet};

use e810_hal::regs as hw;

use super::descriptor::{Answer, Command};
use super::layout::{part, put_u16, u16_at, u32_at};
use super::{AqCode, Cx};

/// Bytes of a lookup rule before its header, and of other rules before their arrays.
const LOOKUP: usize = 16;
const OTHER: usize = 8;

const LOOKUP_RX: u16 = 0;
const LOOKUP_TX: u16 = 1;
const LARGE_ACTION: u16 = 2;
const LIST_SET: u16 = 3;
const LIST_CLEAR: u16 = 4;
const PRUNE_SET: u16 = 5;
const PRUNE_CLEAR: u16 = 6;
/// Action of type 0: drop.
const DROP: u32 = 1 << 18;

/// The action is valid.
const ACTION_VALID: u32 = 1 << 17;
/// Bytes of the header of a lookup by address.
const HEADER: usize = 16;

fn is_group(address: &[u8; 6]) -> bool {
    let [first, ..] = address;
    first & 1 != 0
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Lookup {
    kind: u16,
    recipe: u16,
    source: u16,
    action: u32,
    header: Vec<u8>,
}

impl Lookup {
    /// Whether the rule matches frames for `address`. VLAN and Ethertype rules alone do not forward
    /// frames.
    fn matches(&self, address: &[u8; 6]) -> bool {
        /// Recipes (`ice/ice_switch.h enum ice_sw_lkup_type`): those that match the destination,
        /// and the default recipe.
        const BY_ADDRESS: [u16; 5] = [1, 2, 3, 8, 9];
        self.is_default()
            || BY_ADDRESS.contains(&self.recipe) && self.header.starts_with(address)
            || self
                .pattern()
                .is_some_and(|group| group == is_group(address))
    }

    /// What a rule of the promiscuous recipes matches besides its address: all unicast addresses
    /// (false) or all group addresses (true) (lan-path 8).
    fn pattern(&self) -> Option<bool> {
        const PROMISCUOUS: [u16; 2] = [3, 9];
        let pattern = match self.header.first_chunk::<6>()? {
            [2, 0, 0, 0, 0, 0] => false,
            [3, 0, 0, 0, 0, 0] => true,
            _ => return None,
        };
        PROMISCUOUS.contains(&self.recipe).then_some(pattern)
    }

    /// Whether the rule matches the frame's VLAN, if it has one (recipes 2 and 9).
    fn matches_vlan(&self, vlan: u16) -> bool {
        const BY_VLAN: [u16; 2] = [2, 9];
        let id = self.header.get(14..16).and_then(<[u8]>::first_chunk);
        let id = id.map(|id| u16::from_be_bytes(*id) & 0xfff);
        !BY_VLAN.contains(&self.recipe) || id == Some(vlan)
    }

    /// The Ethertype that the rule matches, if any.
    fn ethertype(&self) -> Option<&[u8]> {
        const ETHERTYPE: u16 = 0;
        self.header.get(12..14).filter(|_| self.recipe == ETHERTYPE)
    }

    /// Whether the rule matches frames of that Ethertype in that direction.
    fn matches_type(&self, kind: u16, frame: &[u8]) -> bool {
        self.kind == kind
            && self
                .ethertype()
                .is_some_and(|own| frame.get(12..14) == Some(own))
    }

    fn drops(&self) -> bool {
        self.action & 3 == 0 && self.action & DROP != 0
    }

    /// Whether the drop takes effect as the rule says. That needs an Ethertype that packets of the
    /// engine never have, because those pass unchecked.
    fn drops_as_said(&self) -> bool {
        const OF_ENGINE: [[u8; 2]; 4] = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0xa8]];
        let ethertype = self.ethertype();
        ethertype.is_some_and(|own| OF_ENGINE.iter().all(|of_engine| own != of_engine))
    }

    fn is_default(&self) -> bool {
        const DEFAULT: u16 = 5;
        self.recipe == DEFAULT
    }

    /// LB_EN of a transmit rule.
    fn loops(&self) -> bool {
        const LB_EN: u32 = 1 << 2;
        self.kind == LOOKUP_TX && self.action & 3 == 0 && self.action & LB_EN != 0
    }

    /// LAN_EN: frames leave the card as well.
    fn lets_out(&self) -> bool {
        const LAN_EN: u32 = 1 << 3;
        self.action & LAN_EN != 0
    }

    /// The VLAN id that a rule of the VLAN recipe matches.
    fn vlan(&self) -> Option<u16> {
        const VLAN: u16 = 4;
        let id = self.header.get(14..16).and_then(<[u8]>::first_chunk)?;
        (self.recipe == VLAN).then(|| u16::from_be_bytes(*id) & 0xfff)
    }

    /// Forwards to a VSI or a list (type 0). VLAN rules are of type 2 (prune) and name one too.
    fn target(&self) -> Option<Target> {
        const LIST: u32 = 1 << 14;
        let number = (self.action >> 4 & 0x3ff) as u16;
        match self.action & 3 {
            0 if self.action & DROP != 0 => None,
            0 | 2 if self.action & LIST != 0 => Some(Target::List(number)),
            0 | 2 => Some(Target::Vsi(number)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Vsi(u16),
    List(u16),
}

/// The rules of one function.
#[derive(Debug, Default)]
pub(super) struct SwitchRules {
    lookups: BTreeMap<u16, Lookup>,
    /// VSIs of each list.
    lists: BTreeMap<u16, BTreeSet<u16>>,
}

impl SwitchRules {
    /// Removes rules that forward packets to a VSI and to no other, and removes the VSI from all
    /// lists.
    pub(super) fn forget_vsi(&mut self, vsi: u16) {
        self.lookups
            .retain(|_, rule| rule.target() != Some(Target::Vsi(vsi)));
        for members in self.lists.values_mut() {
            members.remove(&vsi);
        }
    }

    /// Whether a rule forwards frames for `address` to a VSI that accepts them. Rules of both
    /// directions count: Linux adds its addresses to the transmit side only, and receives with them
    /// (control-path 9.6).
    pub(super) fn send_to(&self, address: &[u8; 6], takes: impl Fn(u16) -> bool) -> bool {
        let mut rules = self.lookups.values();
        rules.any(|rule| rule.matches(address) && self.reaches(rule, &takes))
    }

    /// Whether a rule loops back a frame for `address`, from a VSI that may do so, to a VSI that
    /// accepts it.
    pub(super) fn loop_to(
        &self,
        address: &[u8; 6],
        may: impl Fn(u16) -> bool,
        takes: impl Fn(u16) -> bool,
    ) -> bool {
        let mut rules = self.lookups.values();
        rules.any(|rule| {
            rule.loops() && may(rule.source) && rule.matches(address) && self.reaches(rule, &takes)
        })
    }

    /// The VSIs that rules forward a received frame to; none when a rule drops it.
    pub(super) fn destinations(&self, frame: &[u8]) -> Vec<u16> {
        let Some(address) = frame.first_chunk() else {
            return Vec::new();
        };
        let vlan = super::switch::vlan_of(frame);
        let mut found = BTreeSet::new();
        for rule in self.lookups.values() {
            let by_type = rule.matches_type(LOOKUP_RX, frame);
            if by_type && rule.drops() {
                return Vec::new();
            }
            let by_address = rule.matches(address) && rule.matches_vlan(vlan);
            if !by_type && !by_address {
                continue;
            }
            match rule.target() {
                Some(Target::Vsi(vsi)) => {
                    found.insert(vsi);
                }
                Some(Target::List(list)) => {
                    found.extend(self.lists.get(&list).into_iter().flatten());
                }
                None => {}
            }
        }
        found.into_iter().collect()
    }

    /// Whether a rule drops a frame that VSI `vsi` sends.
    pub(super) fn drop_sent(&self, vsi: u16, frame: &[u8]) -> bool {
        let mut rules = self.lookups.values();
        rules.any(|rule| rule.source == vsi && rule.drops() && rule.matches_type(LOOKUP_TX, frame))
    }

    /// Whether the matching rules of VSI `vsi` keep a frame for a group in the card (LAN_EN;
    /// control-path 9.6). A frame without a matching rule leaves.
    pub(super) fn keep_sent(&self, vsi: u16, frame: &[u8]) -> bool {
        let Some(address) = frame.first_chunk().filter(|address| is_group(address)) else {
            return false;
        };
        let vlan = super::switch::vlan_of(frame);
        let rules = self.lookups.values().filter(|rule| {
            rule.kind == LOOKUP_TX
                && rule.source == vsi
                && !rule.drops()
                && rule.matches(address)
                && rule.matches_vlan(vlan)
        });
        let mut of_frame = rules.peekable();
        of_frame.peek().is_some() && !of_frame.any(Lookup::lets_out)
    }

    /// Whether a rule forwards frames for exactly `address` to VSI `vsi`, so that it is one of its
    /// addresses.
    pub(super) fn is_address_of(&self, address: &[u8; 6], vsi: u16) -> bool {
        let mut rules = self.lookups.values();
        !is_group(address)
            && rules.any(|rule| {
                rule.pattern().is_none()
                    && rule.header.starts_with(address)
                    && rule.matches(address)
                    && self.reaches(rule, &|member| member == vsi)
            })
    }

    /// Unicast addresses other than `own` that rules name, and whether a rule takes all.
    pub(super) fn unicast_but(&self, own: [u8; 6]) -> (BTreeSet<[u8; 6]>, bool) {
        let mut named = BTreeSet::new();
        let mut takes_all = false;
        for rule in self.lookups.values() {
            takes_all |= rule.pattern() == Some(false) || rule.is_default();
            let address = rule.header.first_chunk::<6>();
            let address = address.filter(|address| rule.matches(address) && !is_group(address));
            named.extend(address.filter(|address| **address != own && rule.pattern().is_none()));
        }
        (named, takes_all)
    }

    /// Whether VSI `vsi` is on the prune list of VLAN `id`. Untagged frames count as VLAN 0, so
    /// Linux adds a rule for it before it enables pruning (`ice/ice_vsi_vlan_lib.c
    /// ice_vsi_add_vlan_zero`).
    pub(super) fn has_vlan(&self, vsi: u16, id: u16) -> bool {
        let mut rules = self.lookups.values();
        rules.any(|rule| rule.vlan() == Some(id) && self.reaches(rule, &|member| member == vsi))
    }

    fn reaches(&self, rule: &Lookup, takes: &impl Fn(u16) -> bool) -> bool {
        match rule.target() {
            Some(Target::Vsi(vsi)) => takes(vsi),
            Some(Target::List(list)) => {
                let members = self.lists.get(&list);
                members.is_some_and(|members| members.iter().any(|vsi| takes(*vsi)))
            }
            None => false,
        }
    }

    fn free_index(&self) -> Option<u16> {
        (1..0x3fff).find(|index| !self.lookups.contains_key(index))
    }
}

/// Lengths of the rules in `data`, or EINVAL when they do not fit.
fn split(data: &[u8], count: u16) -> Result<Vec<(usize, usize)>, AqCode> {
    let mut rules = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let len = match u16_at(data, at) {
            LOOKUP_RX | LOOKUP_TX => LOOKUP + usize::from(u16_at(data, at + 14)),
            LARGE_ACTION => OTHER + 4 * usize::from(u16_at(data, at + 6)),
            LIST_SET..=PRUNE_CLEAR => OTHER + 2 * usize::from(u16_at(data, at + 6)),
            _ => return Err(AqCode::EINVAL),
        };
        if at + len > data.len() {
            return Err(AqCode::EINVAL);
        }
        rules.push((at, len));
        at += len;
    }
    Ok(rules)
}

fn lookup(rule: &[u8]) -> Lookup {
    Lookup {
        kind: u16_at(rule, 0),
        recipe: u16_at(rule, 4),
        source: u16_at(rule, 6),
        action: u32_at(rule, 8),
        header: part(rule, LOOKUP, rule.len()).to_vec(),
    }
}

impl Cx<'_, '_> {
    fn unknown_object(&mut self, text: String) -> AqCode {
        self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
        AqCode::ENOENT
    }

    fn wrong_rule(&mut self, text: String) -> AqCode {
        self.env.found(kind::ADMINQ_PARAMETER, text);
        AqCode::EINVAL
    }

    /// Fields that a new lookup has and an update does not.
    fn check_header(&mut self, rule: &Lookup) -> Result<(), AqCode> {
        const BY_ADDRESS_ALONE: u16 = 1;
        let length = rule.header.len();
        if rule.recipe != BY_ADDRESS_ALONE || length == HEADER {
            return Ok(());
        }
        Err(self.wrong_rule(format!(
            "the header of a switch rule has {length} bytes; {HEADER} are looked at"
        )))
    }

    /// Whether every object that a lookup names exists, and its action is valid.
    fn check_lookup(&mut self, rule: &Lookup) -> Result<(), AqCode> {
        // Drivers take the port from 0x0200, iPXE from a register.
        let in_register = self.env.state.registers.get(hw::PFGEN_PORTNUM.off()) as u16;
        let ports = [u16::from(self.port_number()), in_register];
        if rule.kind == LOOKUP_RX && !ports.contains(&rule.source) {
            let text = format!("a switch rule has port {} as its source", rule.source);
            return Err(self.wrong_rule(text));
        }
        if rule.action & 3 == 0 && rule.action & ACTION_VALID == 0 {
            let text = format!("action {:#x} of a switch rule is not VALID", rule.action);
            return Err(self.wrong_rule(text));
        }
        if rule.kind == LOOKUP_TX && !self.has_vsi(rule.source) {
            let text = format!("a switch rule has VSI {} as its source", rule.source);
            return Err(self.unknown_object(text));
        }
        // Forward to a VSI, or prune: other actions are not modelled here.
        if rule.recipe >= super::recipe::RECIPES || !matches!(rule.action & 3, 0 | 2) {
            return Err(AqCode::EINVAL);
        }
        if rule.drops() && !rule.drops_as_said() {
            return Err(AqCode::EINVAL);
        }
        match rule.target() {
            Some(Target::Vsi(vsi)) if !self.has_vsi(vsi) => {
                Err(self.unknown_object(format!("a switch rule sends packets to VSI {vsi}")))
            }
            Some(Target::List(list)) if !self.card.pool.has_list(list, self.pf()) => {
                Err(self.unknown_object(format!("a switch rule sends packets to VSI list {list}")))
            }
            _ => Ok(()),
        }
    }

    /// Adds VSIs to a list, or removes them.
    fn change_list(&mut self, rule: &[u8], set: bool) -> Result<(), AqCode> {
        let list = u16_at(rule, 4);
        if !self.card.pool.has_list(list, self.pf()) {
            return Err(self.unknown_object(format!("VSI list {list} was not given out")));
        }
        let count = usize::from(u16_at(rule, 6));
        for member in 0..count {
            let vsi = u16_at(rule, OTHER + 2 * member);
            if set && !self.has_vsi(vsi) {
                return Err(self.unknown_object(format!("VSI {vsi} is put on list {list}")));
            }
            let members = self.fw.rules.lists.entry(list).or_default();
            if set {
                members.insert(vsi);
            } else {
                members.remove(&vsi);
            }
        }
        Ok(())
    }

    /// 0x02A0.
    pub(super) fn add_rules(&mut self, command: &Command) -> Answer {
        let mut data = command.input(OTHER)?.to_vec();
        for (at, len) in split(&data, command.param16(0))? {
            let rule = part(&data, at, len).to_vec();
            match u16_at(&rule, 0) {
                LOOKUP_RX | LOOKUP_TX => {
                    let new = lookup(&rule);
                    self.check_header(&new)?;
                    self.check_lookup(&new)?;
                    let same = |old: &Lookup| {
                        (old.kind, old.recipe, old.source, &old.header)
                            == (new.kind, new.recipe, new.source, &new.header)
                    };
                    if self.fw.rules.lookups.values().any(same) {
                        return Err(AqCode::EEXIST);
                    }
                    let index = self.fw.rules.free_index().ok_or(AqCode::ENOSPC)?;
                    self.fw.rules.lookups.insert(index, new);
                    put_u16(&mut data, at + 12, index);
                }
                kind @ (LIST_SET | PRUNE_SET | LIST_CLEAR | PRUNE_CLEAR) => {
                    self.change_list(&rule, matches!(kind, LIST_SET | PRUNE_SET))?;
                }
                _ => return Err(AqCode::ENOSYS),
            }
            put_u16(&mut data, at + 2, 0);
        }
        command.answer(data)
    }

    /// 0x02A1: changes actions of lookups, or members of lists.
    pub(super) fn update_rules(&mut self, command: &Command) -> Answer {
        let data = command.input(OTHER)?.to_vec();
        for (at, len) in split(&data, command.param16(0))? {
            let rule = part(&data, at, len).to_vec();
            match u16_at(&rule, 0) {
                LOOKUP_RX | LOOKUP_TX => {
                    let new = lookup(&rule);
                    self.check_lookup(&new)?;
                    let index = u16_at(&rule, 12);
                    let old = self.fw.rules.lookups.get_mut(&index);
                    old.ok_or(AqCode::ENOENT)?.action = new.action;
                }
                kind @ (LIST_SET | PRUNE_SET | LIST_CLEAR | PRUNE_CLEAR) => {
                    self.change_list(&rule, matches!(kind, LIST_SET | PRUNE_SET))?;
                }
                _ => return Err(AqCode::ENOSYS),
            }
        }
        command.answer(data)
    }

    /// 0x02A2: only type and index count.
    pub(super) fn remove_rules(&mut self, command: &Command) -> Answer {
        let data = command.input(OTHER)?.to_vec();
        for (at, len) in split(&data, command.param16(0))? {
            let rule = part(&data, at, len);
            match u16_at(rule, 0) {
                LOOKUP_RX | LOOKUP_TX => {
                    let index = u16_at(rule, 12);
                    let old = self.fw.rules.lookups.remove(&index);
                    old.ok_or(AqCode::ENOENT)?;
                }
                LIST_SET..=PRUNE_CLEAR => {
                    self.fw.rules.lists.remove(&u16_at(rule, 4));
                }
                _ => return Err(AqCode::ENOENT),
            }
        }
        command.answer(data)
    }
}
