//! The handle that a test holds on a whole world, and how one is made.

use std::fmt;
use std::sync::Arc;

use e810_hal::{Ns, Vector};

use crate::bring_up::{BringUp, Tally};
use crate::bus_master::Mastering;
use crate::findings::Finding;
use crate::function::{Body, Function};
use crate::fw::{AqCode, Firmware, FirmwareConfig, LanSide};
use crate::irq::{ClearPba, Interrupts};
use crate::lines::{InterruptHook, Lines};
use crate::link::{Capture, Link, LinkCounts, LinkHook, Mac, Quality, Uplink};
use crate::memory::{Allocation, Memory, MemoryCounts, Runs};
use crate::pe::{Config, FpmProfile, ProtocolEngine};
use crate::platform::SimPlatform;
use crate::regs::{Identity, RegisterFile, Start};
use crate::rng::Rng;
use crate::shared::{Mode, Owner, Shared};
use crate::stats::{ResetCounts, Stats};
use crate::world::World;

/// PFs that a card can have.
const MOST_FUNCTIONS: u8 = 8;
/// Vectors that a PF can have here: an eighth of the card's.
const MOST_VECTORS: u16 = 256;

/// Changes the [`Config`] of one engine; called with the PF number.
type Configure = Box<dyn Fn(u8, &mut Config)>;
/// Changes the [`FirmwareConfig`] of one function; called with the PF number.
type ConfigureFirmware = Box<dyn Fn(u8, &mut FirmwareConfig)>;

/// Says what a world is like. Every choice has a default.
pub struct Builder {
    functions: u8,
    seed: u64,
    mode: Mode,
    vectors: u16,
    runs: Runs,
    clear_pba: ClearPba,
    quality: Quality,
    first_mac: Mac,
    configure: Vec<Configure>,
    cold: bool,
    firmware: Vec<ConfigureFirmware>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            functions: 1,
            seed: 0,
            mode: Mode::default(),
            vectors: 9,
            runs: Runs::default(),
            clear_pba: ClearPba::default(),
            quality: Quality::default(),
            first_mac: FIRST_MAC,
            configure: Vec::new(),
            cold: false,
            firmware: Vec::new(),
        }
    }
}

impl Builder {
    /// Number of functions, 1 to 8: PF 0, PF 1, ... of one card, each on a port of its own.
    #[must_use]
    pub fn functions(mut self, functions: u8) -> Self {
        self.functions = functions.clamp(1, MOST_FUNCTIONS);
        self
    }

    /// Everything that the hardware leaves open follows from this number.
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

    /// MSI-X vectors of each function, 1 to 256; 9 when not said.
    #[must_use]
    pub fn vectors(mut self, vectors: u16) -> Self {
        self.vectors = vectors.clamp(1, MOST_VECTORS);
        self
    }

    /// How mapped memory is cut into runs.
    #[must_use]
    pub fn runs(mut self, runs: Runs) -> Self {
        self.runs = runs;
        self
    }

    /// What CLEARPBA does to an event that waits.
    #[must_use]
    pub fn clear_pba(mut self, clear_pba: ClearPba) -> Self {
        self.clear_pba = clear_pba;
        self
    }

    /// Ethernet address of PF 0, 02:e8:10:00:00:00 when not said; those of the others differ in the last byte, to which
    /// the number of the PF is added.
    #[must_use]
    pub fn first_mac(mut self, mac: Mac) -> Self {
        self.first_mac = mac;
        self
    }

    /// How good the wire is.
    #[must_use]
    pub fn quality(mut self, quality: Quality) -> Self {
        self.quality = quality;
        self
    }

    /// How much the engines report that they can hold.
    #[must_use]
    pub fn profile(self, profile: FpmProfile) -> Self {
        self.engine(move |_, config| config.profile = profile)
    }

    /// Changes the engines' choices: `configure` is called for each PF.
    #[must_use]
    pub fn engine(mut self, configure: impl Fn(u8, &mut Config) + 'static) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Functions begin as after power-up: a driver has to bring their LAN side up through the AdminQ. Without this they
    /// begin *warm*, with everything done, and have no AdminQ.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// Changes the firmware's choices, of functions that begin cold: `configure` is called for each PF.
    #[must_use]
    pub fn firmware(mut self, configure: impl Fn(u8, &mut FirmwareConfig) + 'static) -> Self {
        self.firmware.push(Box::new(configure));
        self
    }

    /// Makes the world.
    ///
    /// # Panics
    /// When the operating system gives no thread for [`Mode::Real`].
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a simulator without its thread is of no use to anybody who could handle the error"
    )]
    pub fn build(self) -> Sim {
        let root = Rng::new(self.seed);
        let functions: Vec<Function> = (0..self.functions)
            .map(|pf| self.function(pf, &root))
            .collect();
        let lines = functions
            .iter()
            .map(|function| Arc::clone(&function.body.lines))
            .collect();
        let macs = functions.iter().map(|function| function.body.mac).collect();
        let link = Link::new(macs, self.quality, root.fork("wire"));
        let virtual_time = self.mode == Mode::Virtual;
        let world = World::new(functions, link, virtual_time, root.fork("schedule"));
        let owner = Owner::new(Shared::new(self.mode, world, lines));
        Sim {
            owner: Arc::new(owner.expect("a thread for the device")),
        }
    }

    fn function(&self, pf: u8, root: &Rng) -> Function {
        let mut rng = root.fork(&format!("function {pf}"));
        let identity = Identity {
            pf,
            vectors: self.vectors,
            // Not the PF number, so that the two cannot be mixed up unseen.
            vsi: 8 + u16::from(pf),
            pe_db_size: 1 + rng.below(2) as u32,
        };
        let mut config = Config {
            pf,
            ..Config::default()
        };
        for configure in &self.configure {
            configure(pf, &mut config);
        }
        let mut firmware = FirmwareConfig::default();
        for configure in &self.firmware {
            configure(pf, &mut firmware);
        }
        let start = if self.cold {
            Start::cold(&firmware)
        } else {
            Start::Warm
        };
        let mut body = Body {
            identity,
            mac: mac(self.first_mac, pf),
            registers: RegisterFile::new(identity, start),
            irq: Interrupts::new(self.vectors, self.clear_pba),
            memory: Memory::new(self.runs, &rng),
            taken: vec![false; usize::from(self.vectors)],
            stats: Stats::default(),
            tally: Tally::default(),
            resets: ResetCounts::default(),
            reset: None,
            announced: None,
            lan: self.cold.then(LanSide::default),
            mastering: Mastering::default(),
            outbox: Vec::new(),
            lines: Arc::new(Lines::new(self.vectors)),
            rng: rng.fork("engine"),
        };
        let fw = self.cold.then(|| Firmware::new(firmware, &mut body));
        Function {
            engine: ProtocolEngine::new(config),
            body,
            fw,
            runnable: false,
            busy_until: 0,
        }
    }
}

/// A locally administered address.
const FIRST_MAC: Mac = [0x02, 0xe8, 0x10, 0x00, 0x00, 0x00];

const fn mac([a, b, c, d, e, last]: Mac, pf: u8) -> Mac {
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

/// A world of E810 functions: what a test holds besides the platforms that it gives to drivers.
///
/// Handles are cheap to clone. The world ends with its last handle, platforms included; in real time its thread ends
/// then.
///
/// ```
/// use e810_hal::bus::Vector;
/// use e810_hal::regs::{DYN_CTL_ENABLE, GLINT_DYN_CTL, GLPE_CPUSTATUS0};
/// use e810_hal::{Clock, Ns};
/// use e810_sim::Sim;
///
/// let sim = Sim::builder().functions(2).seed(7).build();
/// let nic = sim.function(0);
///
/// // A platform is what a driver runs on: registers, memory, time, vectors.
/// assert_eq!(GLPE_CPUSTATUS0.get(&nic), 0x80);
/// let vector = Vector::new(1).unwrap();
/// GLINT_DYN_CTL.at(vector).set(&nic, DYN_CTL_ENABLE | 1 << 2);
/// assert_eq!(nic.take_interrupts(), [vector]);
///
/// // Time is virtual: this returns at once.
/// nic.delay(Ns::from_ms(1_000));
///
/// // Nothing was done that a card would not have stood.
/// assert_eq!(sim.findings(), []);
/// ```
#[derive(Clone, Debug)]
pub struct Sim {
    owner: Arc<Owner>,
}

impl Sim {
    /// Starts to describe a world.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Number of functions.
    #[must_use]
    pub fn functions(&self) -> u8 {
        self.owner.shared.lines.len() as u8
    }

    /// The platform of PF `function`.
    ///
    /// # Panics
    /// When the world has no such function.
    #[must_use]
    pub fn function(&self, function: u8) -> SimPlatform {
        assert!(
            function < self.functions(),
            "function {function} of a world with {}",
            self.functions()
        );
        SimPlatform::new(Arc::clone(&self.owner), function)
    }

    /// Gives frames that are for nobody here, and those for a group, to `uplink` from now on; `None`: to nobody.
    pub fn set_uplink(&self, uplink: Option<Uplink>) {
        self.with_world(|world| world.link.set_uplink(uplink));
    }

    /// Frames come from outside, as [`Uplink`] gave them to somebody else; answers with the number of those that a
    /// function here will get. Others are not sent on. They need not be sound: the receiver checks them.
    pub fn receive_frames<'a>(&self, frames: impl IntoIterator<Item = &'a [u8]>) -> usize {
        self.owner.shared.take_in(frames.into_iter())
    }

    pub(crate) fn with_world<R>(&self, use_it: impl FnOnce(&mut World) -> R) -> R {
        self.owner.shared.with_world(use_it)
    }

    fn with_body<R: Default>(&self, function: u8, use_it: impl FnOnce(&mut Body) -> R) -> R {
        self.with_world(|world| {
            let function = world.functions.get_mut(usize::from(function));
            function
                .map(|function| use_it(&mut function.body))
                .unwrap_or_default()
        })
    }

    /// What was found so far, oldest first; the first 1024 are kept. A test of a driver ends with this being empty.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.with_world(|world| {
            world.check_freed();
            world.log.kept().to_vec()
        })
    }

    /// As [`Sim::findings`], and forgets them.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.with_world(|world| {
            world.check_freed();
            world.log.take()
        })
    }

    /// How often each kind was found: function, kind, count. Also counts those that were not kept.
    #[must_use]
    pub fn finding_counts(&self) -> Vec<(u8, &'static str, u64)> {
        self.with_world(|world| {
            world.check_freed();
            world.log.counts()
        })
    }

    /// Traffic of PF `function`.
    #[must_use]
    pub fn stats(&self, function: u8) -> Stats {
        self.with_body(function, |body| body.stats)
    }

    /// What bring-ups of PF `function` cost, oldest first; the first 64 are kept.
    #[must_use]
    pub fn bring_ups(&self, function: u8) -> Vec<BringUp> {
        self.with_body(function, |body| body.tally.finished().to_vec())
    }

    /// Commands that the firmware of PF `function` refused so far: opcode, code, how often. ESRCH is an opcode that it
    /// does not know. Nothing of a warm function.
    #[must_use]
    pub fn refused_commands(&self, function: u8) -> Vec<(u16, AqCode, u64)> {
        self.with_world(|world| {
            let function = world.functions.get(usize::from(function));
            let fw = function.and_then(|function| function.fw.as_ref());
            fw.map(Firmware::refused_commands).unwrap_or_default()
        })
    }

    /// Starts the counts of [`Sim::stats`] anew.
    pub fn clear_stats(&self, function: u8) {
        self.with_body(function, |body| body.stats = Stats::default());
    }

    /// Resets of PF `function`.
    #[must_use]
    pub fn reset_counts(&self, function: u8) -> ResetCounts {
        self.with_body(function, |body| body.resets)
    }

    /// Memory that the driver of PF `function` holds.
    #[must_use]
    pub fn memory(&self, function: u8) -> MemoryCounts {
        self.with_body(function, |body| body.memory.counts())
    }

    /// Makes the `nth` request for memory from now on fail, once: the next one is 1; 0 takes an order back.
    pub fn fail_allocation(&self, function: u8, what: Allocation, nth: u64) {
        self.with_body(function, |body| body.memory.fail(what, nth));
    }

    /// Changes the choices of the engine of PF `function` from now on.
    pub fn configure_engine(&self, function: u8, configure: impl FnOnce(&mut Config)) {
        self.with_world(|world| {
            if let Some(function) = world.functions.get_mut(usize::from(function)) {
                configure(function.engine.config_mut());
            }
        });
    }

    /// Changes the choices of the firmware of PF `function` from now on, or orders faults; nothing on a warm function.
    pub fn configure_firmware(&self, function: u8, configure: impl FnOnce(&mut FirmwareConfig)) {
        self.with_world(|world| {
            let function = world.functions.get_mut(usize::from(function));
            if let Some(fw) = function.and_then(|function| function.fw.as_mut()) {
                fw.configure(configure);
            }
        });
    }

    /// What became of the frames.
    #[must_use]
    pub fn link(&self) -> LinkCounts {
        self.with_world(|world| world.link.counts())
    }

    /// Changes the wire.
    pub fn set_quality(&self, quality: Quality) {
        self.with_world(|world| world.link.set_quality(quality));
    }

    /// Asks `hook` about each frame from now on; `None`: nobody.
    pub fn set_link_hook(&self, hook: Option<LinkHook>) {
        self.with_world(|world| world.link.set_hook(hook));
    }

    /// Shows each frame that is sent to `capture`; `None`: to nobody.
    pub fn set_capture(&self, capture: Option<Capture>) {
        self.with_world(|world| world.link.set_capture(capture));
    }

    /// Calls `hook` for each interrupt of PF `function`; `None`: nobody.
    pub fn set_interrupt_hook(&self, function: u8, hook: Option<InterruptHook>) {
        if let Some(lines) = self.owner.shared.lines.get(usize::from(function)) {
            lines.set_hook(hook);
        }
    }

    /// The interrupts of PF `function` that were not taken yet.
    #[must_use]
    pub fn take_interrupts(&self, function: u8) -> Vec<Vector> {
        let lines = self.owner.shared.lines.get(usize::from(function));
        lines.map(|lines| lines.take()).unwrap_or_default()
    }

    /// Time since the world began.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.owner.shared.now()
    }

    /// Lets `time` pass, and everything in it happen.
    pub fn run(&self, time: Ns) {
        self.owner.shared.delay(time);
    }
}

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod tests;
