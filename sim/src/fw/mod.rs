//! Firmware model: answers AdminQ commands and keeps the LAN-side configuration of a function.
//!
//! Written from control-path 9 and, where that is silent, from what Linux's ice driver (6.12) sends
//! and expects; such places name the function of that driver. Nothing here is taken from a driver
//! of this project: descriptors and buffers are decoded by offset.
//!
//! [`Card`] is the state shared by the functions of a card: package, locks, flash. [`Firmware`] is
//! the state of one function: queues, VSIs, scheduler tree, rules, link.

mod basic;
mod boot;
mod caps;
mod config;
mod dcb;
mod descriptor;
mod dispatch;
mod format;
mod hash_profiles;
mod layout;
mod link;
mod locks;
mod logging;
mod module;
mod nvm;
mod package;
mod port;
mod queue;
mod recipe;
mod recorded;
mod resource_pool;
mod rss;
mod sched;
mod sched_tree;
mod switch;
mod switch_rules;
#[cfg(test)]
mod tests;
mod topology;
mod txq;
mod vlan;
mod vsi;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::function::{CardView, EngineEnv, FunctionState};
use crate::lan::{LanVsi, Sender, packet_type, wire_len};
use crate::link::Mac;
use crate::pe::ProtocolEngine;
use crate::regs::ResetSource;
use crate::variation::AdminqRegisters;

pub use config::{AqFault, FirmwareConfig, PackageStart, PhyStart, PortLink};
pub use descriptor::AqCode;
pub(crate) use descriptor::Event;
pub(crate) use hash_profiles::HashProfiles;
pub(crate) use nvm::SHADOW_RAM_LOG2_KB;
pub use package::test_package;
pub(crate) use port::EnabledPorts;
pub(crate) use queue::{FirmwareEffect, is_queue_register};
use recorded::Changed;
pub(crate) use recorded::{Answers, RecordedAnswer};

/// State shared by the functions of a card.
#[derive(Debug)]
pub(crate) struct Card {
    package: package::Package,
    locks: locks::Locks,
    flash: nvm::Flash,
    vlan: vlan::VlanMode,
    recipes: recipe::Recipes,
    pool: resource_pool::CardPool,
    /// The card is in PXE mode until the driver of some function ends it (0x0110). A reset of a
    /// function does not restore it (control-path 9.2, field-evidence 3.2).
    pxe_mode: bool,
    /// Functions whose ports are enabled.
    pub(crate) enabled_ports: EnabledPorts,
    functions: u8,
    /// What commands have changed since the reset.
    changed: Changed,
}

impl Card {
    pub(crate) fn new(functions: u8) -> Self {
        Self {
            package: package::Package::default(),
            locks: locks::Locks::default(),
            flash: nvm::Flash::default(),
            vlan: vlan::VlanMode::default(),
            recipes: recipe::Recipes::default(),
            pool: resource_pool::CardPool::default(),
            pxe_mode: true,
            enabled_ports: [false; 8],
            functions,
            changed: Changed::default(),
        }
    }

    /// Whether frames may have two tags (0x020C).
    pub(crate) fn is_double_vlan(&self) -> bool {
        self.vlan.is_double()
    }

    /// Whether a package is active.
    pub(crate) fn has_package(&self) -> bool {
        self.package.is_active()
    }

    /// Whether a package with sections of the engine is active: without one the packet parser does
    /// not know RDMA `[inf engine_sections]` (control-path 9.9, 9.10).
    pub(crate) fn serves_engine(&self) -> bool {
        self.package.serves_engine()
    }

    /// The fields that packet hashes cover.
    pub(crate) fn hash_profiles(&self) -> &Arc<HashProfiles> {
        self.package.hash_profiles()
    }

    /// The whole card was reset: the state in the device is gone, the flash is not.
    pub(crate) fn reset(&mut self, start: &PackageStart) {
        let flash = std::mem::take(&mut self.flash);
        let enabled_ports = self.enabled_ports;
        *self = Self::new(self.functions);
        (self.flash, self.enabled_ports) = (flash, enabled_ports);
        self.package.start(start);
        if matches!(start, PackageStart::Active(_)) {
            // The driver that loaded it has done the rest too.
            self.locks.configuration_is_done();
            self.pxe_mode = false;
        }
    }
}

/// Firmware state of one function.
#[derive(Debug)]
pub(crate) struct Firmware {
    pub(crate) config: FirmwareConfig,
    queues: queue::Queues,
    boot: boot::Boot,
    /// Events that wait for descriptors from the driver.
    events: VecDeque<Event>,
    vsis: vsi::Vsis,
    /// The firmware's own VSI for the function exists.
    own_vsi: bool,
    tree: sched_tree::SchedTree,
    rules: switch_rules::SwitchRules,
    port: port::Port,
    txqs: txq::TxQueues,
    rss: rss::Rss,
    agent: dcb::Agent,
    log: logging::FirmwareLog,
    /// What commands have changed since the reset.
    changed: Changed,
    /// Commands that were refused so far: opcode and code.
    refused: BTreeMap<(u16, u8), u64>,
}

impl Firmware {
    pub(crate) fn new(config: FirmwareConfig, state: &mut FunctionState) -> Self {
        let pf = state.identity.pf;
        let mut this = Self {
            queues: queue::Queues::default(),
            boot: boot::Boot::default(),
            events: VecDeque::new(),
            vsis: vsi::Vsis::default(),
            own_vsi: true,
            tree: sched_tree::SchedTree::new(pf, &config, state.variation.default_branch),
            rules: switch_rules::SwitchRules::default(),
            port: port::Port::powered(&config, state.variation.frame_at_start),
            txqs: txq::TxQueues::default(),
            rss: rss::Rss::default(),
            agent: dcb::Agent::default(),
            log: logging::FirmwareLog::default(),
            changed: Changed::default(),
            refused: BTreeMap::new(),
            config,
        };
        this.boot.start_loading(&this.config, 0, state);
        this
    }

    /// The function, or the whole card, was reset.
    ///
    /// The AdminQ's registers survive all resets except an EMPR. The firmware serves a queue again
    /// only after its length was written again; this is `[inf adminq_served_again]`: otherwise it
    /// would use the memory of a driver that has ended.
    pub(crate) fn reset(
        &mut self,
        source: ResetSource,
        card: &mut Card,
        state: &mut FunctionState,
    ) {
        let pf = state.identity.pf;
        self.queues = queue::Queues::default();
        if state.variation.adminq_registers == AdminqRegisters::Cleared {
            queue::clear_registers(state);
        }
        self.events.clear();
        self.vsis.close_all(state);
        self.vsis = vsi::Vsis::default();
        self.own_vsi = true;
        self.tree = sched_tree::SchedTree::new(pf, &self.config, state.variation.default_branch);
        self.rules = switch_rules::SwitchRules::default();
        self.txqs = txq::TxQueues::default();
        self.rss = rss::Rss::default();
        self.log = logging::FirmwareLog::default();
        self.changed.reset(source);
        card.locks.release_all(pf);
        card.pool.release_all(pf);
        card.package.forget_hashes_of(pf);
        if source != ResetSource::Pfr {
            self.boot = boot::Boot::default();
        }
        let frame = state.variation.frame_at_start;
        self.port.reset(source, &self.config, frame);
        if source == ResetSource::Pfr {
            self.agent.forget_driver();
        } else {
            self.agent = dcb::Agent::default();
        }
    }

    /// The reset is over, or the card has power: from now on the link may come up.
    pub(crate) fn started(&mut self, source: ResetSource, now: u64, state: &mut FunctionState) {
        if source != ResetSource::Pfr {
            self.port.start(&self.config, now);
            self.boot.start_loading(&self.config, now, state);
            self.boot.start_engine(now, state);
        }
    }

    /// A recorded card's own registers say what has started.
    pub(crate) fn started_as_recorded(&mut self) {
        self.boot.engine_is_recorded();
    }

    /// Changes the choices; the kind of link may change with them.
    pub(crate) fn configure(&mut self, configure: impl FnOnce(&mut FirmwareConfig)) {
        configure(&mut self.config);
        self.port.recheck_link();
    }

    /// Whether the port is enabled, that is, visible to the other end.
    pub(crate) fn is_port_on(&self) -> bool {
        self.port.enabled && self.config.link != PortLink::NoMedia
    }

    /// Whether the MAC loops back what the function sends (0x0620).
    pub(crate) fn is_looped(&self) -> bool {
        self.port.loopback
    }

    /// Whether frames pass the port: it is enabled and has a link. `enabled_ports` has the
    /// functions whose ports are enabled.
    pub(crate) fn has_link(&self, now: u64, enabled_ports: EnabledPorts) -> bool {
        self.port.is_up(&self.config, now, enabled_ports)
    }

    /// The link partner may have changed.
    pub(crate) fn recheck_link(&mut self) {
        self.port.recheck_link();
    }

    /// Whether no driver has added a VSI.
    pub(crate) fn has_no_vsi(&self) -> bool {
        self.vsis.is_empty()
    }

    /// Whether the switch forwards `frame`, which came from the wire, to one of the VSIs in `open`.
    pub(crate) fn accepts_frame(&self, frame: &[u8], open: &BTreeSet<u16>) -> bool {
        let takes = |vsi| {
            open.contains(&vsi)
                && (!self.vsis.prunes_vlans(vsi)
                    || self.rules.has_vlan(vsi, switch::vlan_of(frame)))
        };
        self.port.receives()
            && frame
                .first_chunk::<6>()
                .is_some_and(|address| self.rules.send_to(address, takes))
    }

    /// Whether the switch loops back a frame from this function to itself, to one of the VSIs in
    /// `open`. By the names of the bits, both the sending VSI has to allow it (ALLOW_LB) and the
    /// rule has to do it (LB_EN) `[inf loopback_bits]`; existing drivers set both (control-path
    /// 9.6).
    pub(crate) fn loops_back(&self, frame: &[u8], open: &BTreeSet<u16>) -> bool {
        frame.first_chunk::<6>().is_some_and(|address| {
            self.rules.loop_to(
                address,
                |from| self.vsis.may_loop(from),
                |to| open.contains(&to),
            )
        })
    }

    /// The VSIs that the switch forwards a frame from the wire to, whatever they do with it.
    pub(crate) fn destinations(&self, frame: &[u8]) -> Vec<u16> {
        let Some(source) = frame.get(6..12).and_then(<[u8]>::first_chunk) else {
            return Vec::new();
        };
        if !self.port.receives() {
            return Vec::new();
        }
        let mut vsis = self.rules.destinations(frame);
        let vlan = switch::vlan_of(frame);
        vsis.retain(|vsi| {
            let pruned = self.vsis.prunes_vlans(*vsi) && !self.rules.has_vlan(*vsi, vlan);
            let own = self.vsis.prunes_sources(*vsi) && self.rules.is_address_of(source, *vsi);
            !pruned && !own
        });
        vsis
    }

    /// What VSI `number` does with a LAN frame that arrives.
    pub(crate) fn lan_vsi(&self, number: u16, card: &CardView, frame: &[u8]) -> LanVsi {
        let fields = card.hash_profiles.fields(packet_type(frame), number);
        let options = self.vsis.rss_options(number);
        let spread = self.rss.spread(number, options, fields);
        let found = spread.and_then(|spread| spread.queue(frame));
        let queue = found.map_or(0, |(_, queue)| queue);
        LanVsi {
            hash: found.map(|(hash, _)| hash),
            ..self.vsis.lan_vsi(number, card.is_double_vlan, queue)
        }
    }

    /// Properties with which frames of VSI `number` are sent.
    pub(crate) fn sender(&self, number: u16) -> Sender<'_> {
        Sender {
            firmware: self,
            vsi: self.vsis.lan_vsi(number, false, 0),
            number,
            max_frame: self.port.max_frame.into(),
        }
    }

    /// Whether a rule keeps a frame of VSI `number` from being sent.
    pub(crate) fn drops_sent(&self, number: u16, frame: &[u8]) -> bool {
        self.rules.drop_sent(number, frame)
    }

    /// Whether context descriptors of VSI `number` may choose the destination of its frames
    /// (lan-path 4.2).
    pub(crate) fn may_name_destination(&self, number: u16) -> bool {
        self.vsis.may_name_destination(number)
    }

    /// Whether the switch lets a frame of VSI `number` out of the card (control-path 9.6).
    pub(crate) fn lets_out(&self, number: u16, frame: &[u8]) -> bool {
        self.vsis.may_leave(number) && !self.rules.keep_sent(number, frame)
    }

    /// Whether the card sends a frame of the engine, which has the VSIs in `vsis`. The frame must
    /// not be longer than the port takes, and one of the VSIs must let it out, unless it is for the
    /// function itself.
    pub(crate) fn sends(&self, frame: &[u8], to_itself: bool, vsis: &BTreeSet<u16>) -> bool {
        let lets_out = |vsi: &u16| self.lets_out(*vsi, frame);
        wire_len(frame) <= self.max_frame()
            && (to_itself || vsis.is_empty() || vsis.iter().any(lets_out))
    }

    /// Longest frame of the port, FCS included.
    pub(crate) fn max_frame(&self) -> usize {
        self.port.max_frame.into()
    }

    /// Unicast addresses besides `own` whose frames rules bring in, and whether a rule brings in
    /// frames for any address.
    pub(crate) fn other_addresses(&self, own: Mac) -> (BTreeSet<Mac>, bool) {
        self.rules.unicast_but(own)
    }

    pub(crate) fn refused_commands(&self) -> Vec<(u16, AqCode, u64)> {
        self.refused
            .iter()
            .map(|(&(opcode, code), &count)| (opcode, AqCode(code), count))
            .collect()
    }

    /// What the engine depends on.
    pub(crate) fn lan_side(&self) -> LanSide {
        LanSide {
            vsis: self.vsis.numbers(),
            open: self.vsis.open_ones(),
            queue_sets: self.txqs.queue_sets(),
        }
    }
}

/// Results of the LAN side's set-up that the RDMA engine depends on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LanSide {
    pub(crate) vsis: BTreeSet<u16>,
    /// VSIs that let packets into the engine.
    pub(crate) open: BTreeSet<u16>,
    pub(crate) queue_sets: BTreeSet<u16>,
}

/// Context of a command handler.
pub(crate) struct Cx<'a, 'b> {
    pub(crate) fw: &'a mut Firmware,
    pub(crate) card: &'a mut Card,
    pub(crate) engine: &'a ProtocolEngine,
    pub(crate) env: &'a mut EngineEnv<'b>,
}

impl Cx<'_, '_> {
    pub(super) fn pf(&self) -> u8 {
        self.env.state.identity.pf
    }

    pub(super) fn now(&self) -> u64 {
        self.env.now
    }

    /// Whether the port has link now.
    pub(super) fn has_link(&self) -> bool {
        let enabled_ports = self.card.enabled_ports;
        self.fw
            .port
            .is_up(&self.fw.config, self.env.now, enabled_ports)
    }
}

/// The longest buffer of a command (`ice/ice_controlq.h ICE_AQ_MAX_BUF_LEN`).
const MAX_BUFFER: usize = 4096;
