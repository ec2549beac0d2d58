//! [`Builder`]: configures and creates a simulator.

use std::fmt;
use std::sync::Arc;

use crate::bring_up::Tally;
use crate::bus_master::BusMastering;
use crate::driver_memory::{DmaSegmentation, DriverMemory};
use crate::function::{Function, FunctionState};
use crate::fw::{Firmware, FirmwareConfig, LanSide};
use crate::interrupt_lines::InterruptLines;
use crate::irq::Interrupts;
use crate::lan::LanQueues;
use crate::link::{Link, Mac, Quality};
use crate::machine::Machine;
use crate::msix::Msix;
use crate::pe::{Config, FpmProfile, ProtocolEngine};
use crate::platform::HostVector;
use crate::recorded::RecordedCard;
use crate::regs::{Identity, RegisterFile, Start};
use crate::rng::Rng;
use crate::runtime::{Mode, Runtime, RuntimeOwner};
use crate::sim::Sim;
use crate::stats::{ResetCounts, Stats};
use crate::variation::Variation;

/// PFs that a card can have.
const MOST_FUNCTIONS: u8 = 8;
/// Vectors of the card: its functions share them.
const CARD_VECTORS: u16 = 2048;
/// Maximum vectors of a PF: cards with two ports were seen with this many.
const MOST_VECTORS: u16 = 1024;

/// Changes the [`Config`] of one engine; called with the PF number.
type Configure = Box<dyn Fn(u8, &mut Config)>;
/// Changes the [`FirmwareConfig`] of one function; called with the PF number.
type ConfigureFirmware = Box<dyn Fn(u8, &mut FirmwareConfig)>;

/// Configuration of a simulator. Every setting has a default.
pub struct Builder {
    functions: u8,
    seed: u64,
    mode: Mode,
    vectors: u16,
    segments: DmaSegmentation,
    checked_access: bool,
    variation: Variation,
    quality: Option<Quality>,
    first_mac: Mac,
    configure: Vec<Configure>,
    cold: bool,
    firmware: Vec<ConfigureFirmware>,
    card: Option<RecordedCard>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            functions: 1,
            seed: 0,
            mode: Mode::default(),
            vectors: 9,
            segments: DmaSegmentation::default(),
            checked_access: false,
            variation: Variation::default(),
            quality: None,
            first_mac: FIRST_MAC,
            configure: Vec::new(),
            cold: false,
            firmware: Vec::new(),
            card: None,
        }
    }
}

impl Builder {
    /// Number of functions, 1 to 8: PF 0, PF 1, ... of one card, each with a port of its own.
    #[must_use]
    pub fn functions(mut self, functions: u8) -> Self {
        self.functions = functions.clamp(1, MOST_FUNCTIONS);
        self
    }

    /// Seed of every choice that the hardware leaves open.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How time passes.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// MSI-X vectors of each function, 1 to 1024; the default is 9. The functions share the card's
    /// 2048 vectors: each of eight functions can have 256, each of up to four 512, each of up to
    /// two 1024.
    #[must_use]
    pub fn vectors(mut self, vectors: u16) -> Self {
        self.vectors = vectors.clamp(1, MOST_VECTORS);
        self
    }

    /// How mapped memory is split into DMA segments.
    #[must_use]
    pub fn segmentation(mut self, segments: DmaSegmentation) -> Self {
        self.segments = segments;
        self
    }

    /// Does not trust that memory mapped by a program stays there. For programs in this process
    /// that unmap memory they registered, or register memory they may not write. Off by default,
    /// for programs that keep the promise of [`SharedBytes::new`](e810_hal::SharedBytes::new).
    ///
    /// [`DmaMap::dma_map`](e810_hal::DmaMap::dma_map) then refuses memory that is not there, or
    /// that is not writable where the device is to write ([`DmaError::NotAccessible`]). Each access
    /// of the device becomes a system call. A failed access ends the queue pair, as a refused I/O
    /// address does. It is counted ([`Stats::program_faults`](crate::Stats::program_faults)) and is
    /// no finding. Pages are not pinned: if the program maps something else at an address later,
    /// the device reaches that. Memory of [`DmaAlloc`](e810_hal::DmaAlloc) is not affected.
    ///
    /// If [`can_check_access`](crate::can_check_access) returns false, every access fails.
    ///
    /// [`DmaError::NotAccessible`]: e810_hal::DmaError::NotAccessible
    #[must_use]
    pub fn checked_access(mut self, on: bool) -> Self {
        self.checked_access = on;
        self
    }

    /// Choices for unknown behaviour of the card.
    #[must_use]
    pub fn variation(mut self, variation: Variation) -> Self {
        self.variation = variation;
        self
    }

    /// Ethernet address of PF 0, by default 02:e8:10:00:00:00. The other PFs add their number to
    /// the last byte.
    #[must_use]
    pub fn first_mac(mut self, mac: Mac) -> Self {
        self.first_mac = mac;
        self
    }

    /// Latency, rate and impairments of the link, by default [`Quality::default_in`] the mode.
    #[must_use]
    pub fn quality(mut self, quality: Quality) -> Self {
        self.quality = Some(quality);
        self
    }

    /// The object limits that the engines report.
    #[must_use]
    pub fn profile(self, profile: FpmProfile) -> Self {
        self.engine(move |_, config| {
            config.profile = profile;
            config.fpm_reply = None;
        })
    }

    /// Changes the engines' configuration: `configure` is called for each PF.
    #[must_use]
    pub fn engine(mut self, configure: impl Fn(u8, &mut Config) + 'static) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Functions begin as after power-up: a driver has to set up their LAN side through the AdminQ.
    /// Without this they start *warm*, with the LAN side set up, and their AdminQ does not
    /// answer.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// Changes the firmware's configuration of cold functions: `configure` is called for each PF.
    #[must_use]
    pub fn firmware(mut self, configure: impl Fn(u8, &mut FirmwareConfig) + 'static) -> Self {
        self.firmware.push(Box::new(configure));
        self
    }

    /// Functions answer as the card of a report did: registers after each reset, firmware replies,
    /// limits and features of the engine. They start cold. They have that card's number of vectors,
    /// as far as that many functions can have it. Other settings take precedence.
    #[must_use]
    pub fn card(mut self, card: &RecordedCard) -> Self {
        if let Some(vectors) = card.vectors() {
            self = self.vectors(vectors);
        }
        self.card = Some(card.clone());
        self.cold()
    }

    /// Creates the simulator.
    ///
    /// # Panics
    /// If the operating system cannot create the thread of [`Mode::Real`].
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a simulator without its thread is of no use to anybody who could handle the error"
    )]
    pub fn build(mut self) -> Sim {
        let share = CARD_VECTORS / u16::from(self.functions.next_power_of_two());
        self.vectors = self.vectors.min(share);
        let root = Rng::new(self.seed);
        let functions: Vec<Box<Function>> = (0..self.functions)
            .map(|pf| Box::new(self.function(pf, &root)))
            .collect();
        let lines = functions
            .iter()
            .map(|function| Arc::clone(&function.state.lines))
            .collect();
        let macs = functions
            .iter()
            .map(|function| function.state.mac)
            .collect();
        let virtual_time = self.mode == Mode::Virtual;
        let quality = self.quality.unwrap_or(Quality::default_in(self.mode));
        let link = Link::new(macs, quality, root.fork("wire"));
        let machine = Machine::new(functions, link, virtual_time, root.fork("schedule"));
        let owner = RuntimeOwner::new(Runtime::new(self.mode, machine, lines));
        Sim::new(Arc::new(owner.expect("a thread for the device")), self.card)
    }

    fn function(&self, pf: u8, root: &Rng) -> Function {
        let mut rng = root.fork(&format!("function {pf}"));
        let identity = Identity {
            pf,
            vectors: self.vectors,
            // Differs from the PF number, so that mixing up the two shows.
            vsi: 8 + u16::from(pf),
            pe_db_size: 1 + rng.below(2) as u32,
        };
        let mut config = Config {
            pf,
            variation: self.variation,
            ..Config::default()
        };
        if let Some(card) = &self.card {
            if let Some((profile, reply)) = &card.fpm {
                config.profile = *profile;
                config.fpm_reply = Some(Arc::clone(reply));
            }
            config.feature_reply.clone_from(&card.features);
        }
        for configure in &self.configure {
            configure(pf, &mut config);
        }
        let mut firmware = FirmwareConfig::default();
        if let Some(card) = &self.card {
            firmware.record(Arc::clone(&card.answers));
        }
        for configure in &self.firmware {
            configure(pf, &mut firmware);
        }
        let start = if self.cold {
            Start::cold(&firmware, &self.variation)
        } else {
            Start::Warm
        };
        let mut memory = DriverMemory::new(self.segments, &rng);
        memory.check_access(self.checked_access);
        let mut state = FunctionState {
            identity,
            mac: mac(self.first_mac, pf),
            variation: self.variation,
            registers: RegisterFile::new(identity, start),
            irq: Interrupts::new(self.vectors, self.variation),
            msix: Msix::new(self.vectors),
            memory,
            host_vectors: vec![HostVector::default(); usize::from(self.vectors)],
            stats: Stats::default(),
            tally: Tally::default(),
            resets: ResetCounts::default(),
            reset: None,
            engine_ready_at: 0,
            announced: None,
            lan: self.cold.then(LanSide::default),
            lan_queues: LanQueues::default(),
            bus_mastering: BusMastering::default(),
            sent_here: false,
            outbox: Vec::new(),
            lan_outbox: Vec::new(),
            port_ready_at: 0,
            spare_frames: Vec::new(),
            lines: Arc::new(InterruptLines::new(self.vectors)),
            rng: rng.fork("engine"),
        };
        if let Some(card) = &self.card {
            let own = card.function() == pf;
            state.registers.record(Arc::clone(&card.registers), own);
        }
        let fw = self.cold.then(|| Firmware::new(firmware, &mut state));
        Function {
            engine: ProtocolEngine::new(config),
            state,
            fw,
            runnable: false,
            busy_until: 0,
        }
    }
}

/// Default Ethernet address of the first function: a locally administered one.
pub const FIRST_MAC: Mac = [0x02, 0xe8, 0x10, 0x00, 0x00, 0x00];

pub(crate) const fn mac([a, b, c, d, e, last]: Mac, pf: u8) -> Mac {
    [a, b, c, d, e, last.wrapping_add(pf)]
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("functions", &self.functions)
            .field("seed", &self.seed)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
