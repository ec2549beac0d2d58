//! VSIs: add, update, get, free (control-path 9.6), and their RDMA filter (9.9).

use crate::findings::kind;
use std::collections::{BTreeMap, BTreeSet};

use e810_hal::bus::VsiId;
use e810_hal::regs as hw;

use crate::function::FunctionState;
use crate::lan::LanVsi;
use crate::regs::lan::place;
use crate::variation::{FilterRegister, RulesOfVsi};

use super::descriptor::{Answer, Command, Reply};
use super::layout::{part, put, u8_at, u16_at};
use super::{AqCode, Cx};

/// Bytes of the properties.
const PROPS: usize = 128;
const NUMBER: u16 = 0x3ff;
const VALID: u16 = 1 << 15;
const KEEP: u16 = 1;
/// Offset of the queue options' flags, and the bit that lets packets into the RDMA engine.
const Q_OPT_FLAGS: usize = 80;
const PE_FILTER: u8 = 1;

/// Sections of the properties: bit of `valid_sections`, first byte, bytes.
const SECTIONS: [(u16, usize, usize); 11] = [
    (0, 2, 4),
    (1, 6, 2),
    (2, 8, 8),
    (3, 24, 4),
    (4, 16, 4),
    (5, 20, 4),
    (6, 28, 50),
    (7, 78, 6),
    (8, 84, 4),
    (11, 90, 10),
    (12, 100, 4),
];

/// Guaranteed filters of the flow director in GLQF_FD_SIZE (lan-path 18); they have the same
/// position in VSIQF_FD_CNT.
const GUARANTEED: u32 = 0x3fff;

/// Maximum functions of a card: the distance between the VSI numbers of one function.
const STRIDE: u16 = 8;

/// Types of a VSI. The third is for VFs, which this card does not have.
const OF_VMDQ: u16 = 1;
const OF_PF: u16 = 2;

#[derive(Debug)]
struct Vsi {
    kind: u16,
    props: Vec<u8>,
}

impl Vsi {
    fn lets_rdma_in(&self) -> bool {
        self.kind == OF_PF && u8_at(&self.props, Q_OPT_FLAGS) & PE_FILTER != 0
    }

    /// Takes over the valid sections.
    fn merge(&mut self, props: &[u8]) {
        let valid = u16_at(props, 0);
        for (bit, at, len) in SECTIONS {
            if valid >> bit & 1 != 0 {
                put(&mut self.props, at, part(props, at, len));
            }
        }
    }
}

/// The VSIs of one function, by device-global number.
#[derive(Debug, Default)]
pub(super) struct Vsis {
    all: BTreeMap<u16, Vsi>,
    /// Freed, but kept for later use (`ICE_AQ_VSI_KEEP_ALLOC`).
    kept: Vec<u16>,
}

impl Vsis {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn has(&self, number: u16) -> bool {
        self.all.contains_key(&number)
    }

    pub(super) fn numbers(&self) -> BTreeSet<u16> {
        self.all.keys().copied().collect()
    }

    /// VSIs that let packets into the RDMA engine.
    pub(super) fn open_ones(&self) -> BTreeSet<u16> {
        let open = self.all.iter().filter(|(_, vsi)| vsi.lets_rdma_in());
        open.map(|(number, _)| *number).collect()
    }

    /// sw_flags: frames of this VSI may go to VSIs of the same switch.
    pub(super) fn may_loop(&self, number: u16) -> bool {
        const ALLOW_LB: u8 = 1 << 5;
        self.flag(number, 3, ALLOW_LB)
    }

    /// LAN_ENA of sw_flags2: frames of this VSI may leave the card. Frames of the firmware's own
    /// VSI may.
    pub(super) fn may_leave(&self, number: u16) -> bool {
        const LAN_ENA: u8 = 1 << 4;
        let vsi = self.all.get(&number);
        vsi.is_none_or(|vsi| u8_at(&vsi.props, 4) & LAN_ENA != 0)
    }

    /// ALLOW_DEST_OVRD of sec_flags. No source says what the firmware's own VSI may do; here it may
    /// do it.
    pub(super) fn may_name_destination(&self, number: u16) -> bool {
        const ALLOW_DEST_OVRD: u8 = 1;
        !self.all.contains_key(&number) || self.flag(number, 6, ALLOW_DEST_OVRD)
    }

    /// sw_flags2: this VSI gets only frames of VLANs that a rule names.
    pub(super) fn prunes_vlans(&self, number: u16) -> bool {
        const RX_VLAN_PRUNE_ENA: u8 = 1;
        self.flag(number, 4, RX_VLAN_PRUNE_ENA)
    }

    /// SRC_PRUNE, unless LOCAL_LB disables it (lan-path 7.2): frames from an address of this VSI do
    /// not reach it.
    pub(super) fn prunes_sources(&self, number: u16) -> bool {
        const LOCAL_LB: u8 = 1 << 6;
        const SRC_PRUNE: u8 = 1 << 7;
        self.flag(number, 3, SRC_PRUNE) && !self.flag(number, 3, LOCAL_LB)
    }

    /// Options of its receive side scaling.
    pub(super) fn rss_options(&self, number: u16) -> u8 {
        let vsi = self.all.get(&number);
        vsi.map_or(0, |vsi| u8_at(&vsi.props, 78))
    }

    /// How the VSI handles LAN frames (lan-path 7.1, 7.3); `queue` is the receive queue for them.
    /// The firmware's own VSI has queue 0 and leaves frames as they are (lan-path 19).
    pub(super) fn lan_vsi(&self, number: u16, is_double: bool, queue: u16) -> LanVsi {
        const OUTER_TYPES: [u16; 4] = [0x8100, 0x88A8, 0x8100, 0x9100];
        let Some(vsi) = self.all.get(&number) else {
            return LanVsi::default();
        };
        let outer = u8_at(&vsi.props, 26);
        let outer_type = OUTER_TYPES.get(usize::from(outer >> 2 & 3));
        let outer_type = outer_type.copied().unwrap_or_default();
        // emode: 3 leaves tags where they are.
        let strip = if is_double {
            (outer & 3 != 3).then_some(outer_type)
        } else {
            (u8_at(&vsi.props, 12) >> 3 & 3 != 3).then_some(0x8100)
        };
        // In the first traffic class, or the first queue of a scattered map.
        let offset = (u16_at(&vsi.props, 62) & 0x7ff).wrapping_add(queue);
        let is_scattered = u16_at(&vsi.props, 28) & 1 != 0;
        let queue = if is_scattered {
            u16_at(&vsi.props, 30 + 2 * usize::from(offset.min(15)))
        } else {
            u16_at(&vsi.props, 30).wrapping_add(offset)
        };
        LanVsi {
            queue,
            hash: None,
            strip,
            outer_type,
        }
    }

    fn flag(&self, number: u16, at: usize, flag: u8) -> bool {
        let vsi = self.all.get(&number);
        vsi.is_some_and(|vsi| u8_at(&vsi.props, at) & flag != 0)
    }

    pub(super) fn lets_rdma_in(&self) -> bool {
        self.all.values().any(Vsi::lets_rdma_in)
    }

    /// Closes the filters of all VSIs; they are in registers that a PF reset does not clear.
    pub(super) fn close_all(&self, state: &mut FunctionState) {
        for number in self.all.keys() {
            show_filter(state, *number, false);
        }
        state.registers.set(hw::PFQF_PE_FILTERING_ENA.off(), 0);
    }
}

/// Shows the VSI's option in VSIQF_PE_CTL1.PE_FLTENA (control-path 9.9 `[inf filter_register]`).
fn show_filter(state: &mut FunctionState, number: u16, open: bool) {
    if let Some(vsi) = VsiId::new(number) {
        let off = hw::VSIQF_PE_CTL1.at(vsi).off();
        let shows = state.variation.filter_register == FilterRegister::Shows;
        state.registers.set(off, u32::from(open && shows));
    }
}

impl Cx<'_, '_> {
    /// Shows the filter of VSI `number`, and that of the function, in their registers.
    fn show_filters(&mut self, number: u16) {
        let open = self.fw.vsis.all.get(&number).is_some_and(Vsi::lets_rdma_in);
        show_filter(self.env.state, number, open);
        let any = u32::from(self.fw.vsis.lets_rdma_in());
        let registers = &mut self.env.state.registers;
        registers.set(hw::PFQF_PE_FILTERING_ENA.off(), any);
    }

    /// Shows all flow director filters of the VSI as taken, because no filter directs frames here.
    /// Drivers then refuse a rule (`ice/ice_fdir.c ice_fdir_num_avail_fltr`) but start as on any
    /// card; DPDK would not start without the capability (lan-path 18).
    fn show_no_room(&mut self, number: u16) {
        let functions = self.valid_functions().count_ones().max(1);
        let registers = &mut self.env.state.registers;
        let all = registers.get(place::GLQF_FD_SIZE) & GUARANTEED;
        if let Some(off) = place::vsi_filters(number) {
            registers.set(off, all / functions);
        }
    }

    fn counted(&self, reply: Reply, number: u16) -> Reply {
        let used = self.fw.vsis.all.len() as u16;
        let free = (self.fw.config.room.vsis / STRIDE).saturating_sub(used);
        let reply = reply.put16(0, number).put16(2, 0);
        // The used and free counts replace the VF number and the flags.
        reply.put16(4, used).put16(6, free)
    }

    /// The VSI that the command names; ENOENT and a finding when it does not exist.
    fn named(&mut self, command: &Command) -> Result<u16, AqCode> {
        let word = command.param16(0);
        let number = word & NUMBER;
        if word & VALID != 0 && self.fw.vsis.has(number) {
            return Ok(number);
        }
        let text = format!("command {:#06x} names VSI {word:#x}", command.opcode);
        self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
        Err(AqCode::ENOENT)
    }

    /// The switch in a VSI's properties must be the function's.
    fn check_switch(&mut self, opcode: u16, props: &[u8]) -> Result<(), AqCode> {
        let named = u16::from(u8_at(props, 2));
        if named == self.swid() & 0xff {
            return Ok(());
        }
        let text = format!("command {opcode:#06x} has a VSI of switch {named}");
        self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
        Err(AqCode::ENOENT)
    }

    /// 0x0210.
    pub(super) fn add_vsi(&mut self, command: &Command) -> Answer {
        let props = command.input(PROPS)?.to_vec();
        let (of_vf, of_kind) = (command.param16(4), command.param16(6) & 3);
        if of_vf != 0 || !matches!(of_kind, OF_VMDQ | OF_PF) {
            let text = format!("command 0x0210 asks for a VSI of type {of_kind} of VF {of_vf}");
            self.env.found(kind::ADMINQ_PARAMETER, text);
            return Err(AqCode::EINVAL);
        }
        self.check_switch(command.opcode, &props)?;
        let asked = command.param16(0);
        let number = if asked & VALID != 0 {
            // A VSI that was freed and kept.
            let number = asked & NUMBER;
            let kept = &mut self.fw.vsis.kept;
            let at = kept.iter().position(|kept| *kept == number);
            kept.swap_remove(at.ok_or(AqCode::ENOENT)?)
        } else {
            let first = self.env.state.identity.vsi;
            let numbers = first..self.fw.config.room.vsis;
            let mut numbers = numbers.step_by(usize::from(STRIDE));
            let vsis = &self.fw.vsis;
            numbers
                .find(|number| !self.has_vsi(*number) && !vsis.kept.contains(number))
                .ok_or(AqCode::ENOSPC)?
        };
        // All sections count, marked or not: Linux marks security alone (control-path 9.6).
        let mut vsi = Vsi {
            kind: of_kind,
            props: vec![0; PROPS],
        };
        put(&mut vsi.props, 2, part(&props, 2, PROPS - 2));
        self.fw.vsis.all.insert(number, vsi);
        self.show_filters(number);
        self.show_no_room(number);
        let reply = command.answer(props)?;
        Ok(self.counted(reply, number))
    }

    /// 0x0211.
    pub(super) fn update_vsi(&mut self, command: &Command) -> Answer {
        const SWITCH: u16 = 1;
        let number = self.named(command)?;
        let props = command.input(PROPS)?.to_vec();
        if u16_at(&props, 0) & SWITCH != 0 {
            self.check_switch(command.opcode, &props)?;
        }
        if let Some(vsi) = self.fw.vsis.all.get_mut(&number) {
            vsi.merge(&props);
        }
        self.show_filters(number);
        let reply = command.answer(props)?;
        Ok(self.counted(reply, number))
    }

    /// 0x0212.
    pub(super) fn get_vsi(&mut self, command: &Command) -> Answer {
        let number = self.named(command)?;
        let vsi = self.fw.vsis.all.get(&number).ok_or(AqCode::ENOENT)?;
        let reply = command.answer(vsi.props.clone())?;
        Ok(self.counted(reply, number))
    }

    /// 0x0213. Rules that forward packets to the VSI are removed with it `[inf rules_of_vsi]`: DPDK
    /// frees its VSI without removing its promiscuous rules (`dpdk/ice_ethdev.c ice_release_vsi`).
    pub(super) fn free_vsi(&mut self, command: &Command) -> Answer {
        let number = self.named(command)?;
        if self.env.state.variation.rules_of_vsi == RulesOfVsi::Go {
            self.fw.rules.forget_vsi(number);
        }
        self.fw.vsis.all.remove(&number);
        if command.param16(2) & KEEP != 0 {
            self.fw.vsis.kept.push(number);
        }
        self.show_filters(number);
        let reply = command.done();
        Ok(self.counted(reply, number))
    }
}
