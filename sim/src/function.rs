//! One PCI function: its engine, its firmware, and the state that the engine reaches through
//! [`Env`].

mod env;
mod interrupts;
mod lan;
mod resets;

use crate::findings::{Kind, Log};
use std::sync::Arc;

use e810_hal::{Ns, RegOffset};

use crate::bring_up::Tally;
use crate::bus_master::BusMastering;
use crate::driver_memory::DriverMemory;
use crate::fw::{Card, Cx, EnabledPorts, Firmware, FirmwareEffect, HashProfiles, LanSide};
use crate::interrupt_lines::InterruptLines;
use crate::iommu::{NoAccess, Refused};
use crate::irq::Interrupts;
use crate::lan::{LanQueues, is_roce};
use crate::link::Mac;
use crate::msix::Msix;
use crate::pe::{DmaFault, ProtocolEngine};
use crate::platform::HostVector;
use crate::regs::{Identity, RegisterFile, switch_input_open};
use crate::rng::Rng;
use crate::stats::{ResetCounts, Stats};
use crate::variation::{SwitchMask, Variation};

use resets::ResetInProgress;

/// What a function depends on in the card and the other functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct CardView {
    /// A package with sections for the engine is loaded.
    pub(crate) serves_engine: bool,
    pub(crate) enabled_ports: EnabledPorts,
    /// A driver of any function has opened the switch block's input.
    pub(crate) switch_open: bool,
    /// The card is in double VLAN mode.
    pub(crate) is_double_vlan: bool,
    pub(crate) hash_profiles: Arc<HashProfiles>,
}

/// One PF.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) engine: ProtocolEngine,
    pub(crate) state: FunctionState,
    /// The firmware that answers on the AdminQ; `None` on a warm function.
    pub(crate) fw: Option<Firmware>,
    /// The engine has work to do, apart from its deadlines.
    pub(crate) runnable: bool,
    /// The engine is busy with its last step until then (virtual time only).
    pub(crate) busy_until: u64,
}

/// The function except its engine.
#[derive(Debug)]
pub(crate) struct FunctionState {
    pub(crate) identity: Identity,
    pub(crate) mac: Mac,
    /// Choices for unknown behaviour of the card.
    pub(crate) variation: Variation,
    pub(crate) registers: RegisterFile,
    pub(crate) irq: Interrupts,
    pub(crate) msix: Msix,
    pub(crate) memory: DriverMemory,
    /// Interrupt vectors as the host allocates them.
    pub(crate) host_vectors: Vec<HostVector>,
    pub(crate) stats: Stats,
    pub(crate) tally: Tally,
    pub(crate) resets: ResetCounts,
    pub(crate) reset: Option<ResetInProgress>,
    /// When the engine's processors are ready.
    pub(crate) engine_ready_at: u64,
    /// An announced reset of the card: its kind, and when it begins.
    pub(crate) announced: Option<ResetInProgress>,
    pub(crate) bus_mastering: BusMastering,
    /// What the LAN side has set up for the engine; `None` on a warm function: everything.
    pub(crate) lan: Option<LanSide>,
    pub(crate) lan_queues: LanQueues,
    /// The frame being received was sent by the engine of a function of this simulator.
    pub(crate) sent_here: bool,
    /// Frames that the engine has sent and that are not yet on the wire.
    pub(crate) outbox: Vec<Vec<u8>>,
    /// The same for the LAN queues, whose frames are made by software.
    pub(crate) lan_outbox: Vec<Vec<u8>>,
    /// Time at which the port has few enough frames queued for the engine to continue.
    pub(crate) port_ready_at: u64,
    /// Empty frame buffers.
    pub(crate) spare_frames: Vec<Vec<u8>>,
    pub(crate) lines: Arc<InterruptLines>,
    pub(crate) rng: Rng,
}

/// The engine's [`Env`] for the duration of one call.
pub(crate) struct EngineEnv<'a> {
    pub(crate) state: &'a mut FunctionState,
    pub(crate) log: &'a mut Log,
    pub(crate) now: u64,
}

impl Function {
    /// The engine's environment now.
    pub(crate) fn engine_env<'a>(&'a mut self, log: &'a mut Log, now: u64) -> EngineEnv<'a> {
        EngineEnv {
            state: &mut self.state,
            log,
            now,
        }
    }

    /// Calls the engine with its environment.
    pub(crate) fn with_engine<R>(
        &mut self,
        log: &mut Log,
        now: u64,
        call: impl FnOnce(&mut ProtocolEngine, &mut EngineEnv<'_>) -> R,
    ) -> R {
        let mut engine_env = EngineEnv {
            state: &mut self.state,
            log,
            now,
        };
        call(&mut self.engine, &mut engine_env)
    }

    /// When the engine has something to do; `None` while there is nothing, and during a reset.
    pub(crate) fn engine_due(&self) -> Option<u64> {
        if self.state.reset.is_some() {
            return None;
        }
        let wanted = if self.runnable {
            0
        } else {
            self.engine.next_deadline()?
        };
        Some(wanted.max(self.state.port_ready_at))
    }

    /// The engine does what is due.
    pub(crate) fn step_engine(&mut self, log: &mut Log, now: u64) {
        self.runnable = self.with_engine(log, now, |engine, env| engine.step(env));
        self.check_ready(now);
    }

    /// The vectors that fired since the last call.
    pub(crate) fn take_fired(&mut self) -> Vec<u16> {
        let fired = self.state.msix.take_sent();
        self.state.stats.interrupts += fired.len() as u64;
        fired
    }

    /// Ends the counting of a bring-up when the engine is ready.
    pub(crate) fn check_ready(&mut self, now: u64) {
        let lan = &self.state.lan;
        let opened = || lan.as_ref().is_none_or(|lan| !lan.open.is_empty());
        if self.state.tally.counts() && opened() && self.engine.has_aeq() {
            self.state.tally.finish(now, self.engine.hmc_bytes());
        }
    }

    /// Whether frames that the function sends come back in its MAC.
    pub(crate) fn is_looped(&self) -> bool {
        self.fw.as_ref().is_some_and(Firmware::is_looped)
    }

    /// Whether frames pass the port. A function without firmware always has a link.
    pub(crate) fn has_link(&self, enabled_ports: EnabledPorts, now: u64) -> bool {
        self.fw
            .as_ref()
            .is_none_or(|fw| fw.has_link(now, enabled_ports))
    }

    /// Whether the switch forwards the frame to the engine.
    fn accepts_frame(&self, frame: &[u8], card: &CardView) -> bool {
        let (Some(fw), Some(lan)) = (&self.fw, &self.state.lan) else {
            return true;
        };
        card.switch_open && card.serves_engine && fw.accepts_frame(frame, &lan.open)
    }

    /// A frame arrives at the port. The engine gets it if the port and the switch let it pass.
    pub(crate) fn receive_frame(
        &mut self,
        frame: &[u8],
        sent_here: bool,
        card: &CardView,
        log: &mut Log,
        now: u64,
    ) {
        if self.state.reset.is_some() {
            return;
        }
        if !self.has_link(card.enabled_ports, now) && !self.is_looped() {
            self.state.stats.frames_filtered += 1;
            return;
        }
        if !self.receives_all(frame) {
            return;
        }
        let is_for_engine = self.accepts_frame(frame, card);
        if self.state.lan_queues.receives() && !(is_for_engine && is_roce(frame)) {
            self.receive_lan(frame, card, log, now);
            return;
        }
        if !is_for_engine {
            self.state.stats.frames_filtered += 1;
            return;
        }
        self.state.stats.frames_received += 1;
        self.state.sent_here = sent_here;
        self.with_engine(log, now, |engine, env| engine.receive(frame, env));
        self.runnable = true;
    }

    /// Whether the card sends a frame of the engine. LAN queues check their own frames.
    pub(crate) fn sends(&self, frame: &[u8]) -> bool {
        let (Some(fw), Some(lan)) = (&self.fw, &self.state.lan) else {
            return true;
        };
        let to_itself = frame.first_chunk() == Some(&self.state.mac);
        fw.sends(frame, to_itself, &lan.vsis)
    }

    /// Whether the switch loops back a frame that this function sends to its own address.
    pub(crate) fn loops_back(&self, frame: &[u8]) -> bool {
        let (Some(fw), Some(lan)) = (&self.fw, &self.state.lan) else {
            return true;
        };
        fw.loops_back(frame, &lan.open)
    }

    /// Whether a driver of this function has opened the switch block's input, or a reset has left
    /// it open. The registers belong to the card.
    pub(crate) fn has_opened_switch(&self) -> bool {
        let is_open = |(off, open)| {
            RegOffset::try_new(off).is_some_and(|off| self.state.registers.get(off) == open)
        };
        let sees_all = self.state.variation.switch_mask_hides == SwitchMask::Passes;
        self.fw.is_some() && (sees_all || switch_input_open().into_iter().all(is_open))
    }

    /// The firmware does what is due.
    pub(crate) fn step_firmware(
        &mut self,
        card: &mut Card,
        log: &mut Log,
        now: u64,
    ) -> FirmwareEffect {
        let Some(fw) = &mut self.fw else {
            return FirmwareEffect::None;
        };
        let mut env = EngineEnv {
            state: &mut self.state,
            log,
            now,
        };
        let effect = Cx {
            fw,
            card,
            engine: &self.engine,
            env: &mut env,
        }
        .step();
        self.state.lan = Some(fw.lan_side());
        if card.has_package() {
            self.show_layouts();
        }
        effect
    }
}

impl FunctionState {
    pub(crate) fn index(&self) -> u8 {
        self.identity.pf
    }
}

impl EngineEnv<'_> {
    /// Records a finding about this function.
    pub(crate) fn found(&mut self, kind: Kind, text: String) {
        self.log.add(Ns(self.now), self.state.index(), kind, text);
    }

    pub(crate) fn refused(&mut self, refused: Refused) -> DmaFault {
        self.state.stats.dma_faults += 1;
        let fault = DmaFault::from(refused);
        self.found(refused.refusal.kind(), fault.to_string());
        fault
    }

    /// Records an access that failed, for the engine to react to.
    ///
    /// Memory that the program took away causes no finding: a driver cannot know of it, and no card
    /// meets it, because with existing drivers the kernel pins the pages of a region. The access is
    /// only counted; the queue pair ends as with any address that the IOMMU refuses.
    pub(crate) fn no_access(&mut self, no: NoAccess) -> DmaFault {
        match no {
            NoAccess::Refused(refused) => self.refused(refused),
            NoAccess::NotThere(fault) => {
                self.state.stats.program_faults += 1;
                fault
            }
        }
    }

    fn did_read(&mut self, bytes: usize) {
        self.state.stats.dma_reads += 1;
        self.state.stats.dma_read_bytes += bytes as u64;
    }

    fn did_write(&mut self, bytes: usize) {
        self.state.stats.dma_writes += 1;
        self.state.stats.dma_write_bytes += bytes as u64;
    }
}

#[cfg(test)]
mod tests;
