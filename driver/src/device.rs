//! The stages of a bring-up, each undone in order.
//!
//! A stage's transition consumes the device and gives the next stage, or the
//! same stage back with the error: what it had made is undone by then. What
//! the device may still use stays allocated, and the error says so.

use e810_ceq::aeq::Ids as AeqIds;
use e810_ceq::event::EventLog;
use e810_ceq::{Aeq, AeqEntries, Ceq, CeqEntries, Itr, VectorMap, irq};
use e810_cqp::hmc::{Features, FpmQuery, Hmc, Object as HmcObject, Plan, query_features};
use e810_cqp::limits::CCQ_ID;
use e810_cqp::op::{CreateAeq, CreateCeq, DestroyAeq, DestroyCeq, QueueMemory};
use e810_cqp::{CcqConfig, Config as CqpConfig, Cqp};
use e810_hal::bus::{PfId, RegIndex};
use e810_hal::clock::live;
use e810_hal::regs::{
    CPU_READY, GLPCI_LBARCTRL, GLPE_CPUSTATUS0, GLPE_CPUSTATUS1, GLPE_CPUSTATUS2, PF_FUNC_RID,
};
use e810_hal::{CeqId, DmaBuf, Ns, Platform, Vector, poll_until};
use heapless::Vec;

use crate::config::{Config, MAX_CEQS};
use crate::control::{Control, run};
use crate::error::{Error, Result, StageError};
use crate::events::{EventSet, Events};
use crate::stage::Stage;

/// A device in stage `S`. See the [module documentation](self).
#[derive(Debug)]
#[must_use = "dropping a device that was brought up leaks its memory: call shutdown()"]
pub struct Device<P: Platform, S> {
    platform: P,
    config: Config,
    stage: S,
}

/// A transition that failed: the stage before, and why.
pub type Failed<P, S> = (Device<P, S>, Error);

/// Nothing is known of the device, nothing was written to it.
#[derive(Debug)]
pub struct Attached(());

/// The engine answers.
#[derive(Debug)]
pub struct EngineReady {
    pf: PfId,
}

/// The CQP exists; commands end by registers.
#[derive(Debug)]
pub struct CqpUp<P: Platform> {
    cqp: Cqp<P>,
}

/// The host memory cache is backed.
#[derive(Debug)]
pub struct HmcUp<P: Platform> {
    cqp: Cqp<P>,
    hmc: Memory<P>,
}

/// The host memory cache, and what it was planned from.
#[derive(Debug)]
pub struct Memory<P: Platform> {
    /// What the device says it can do.
    pub features: Features,
    /// The device's limits.
    pub query: FpmQuery,
    /// The counts that were committed.
    pub plan: Plan,
    pub(crate) hmc: Hmc<P>,
}

impl<P: Platform> Memory<P> {
    fn create(cqp: &mut Cqp<P>, config: &Config) -> Result<Self> {
        let features = query_features(cqp)?;
        let query = FpmQuery::ask(cqp)?;
        let plan = Plan::new(&query, &config.capacity, config.backing)?;
        let hmc = Hmc::create(cqp, &query, &plan)?;
        Ok(Self {
            features,
            query,
            plan,
            hmc,
        })
    }

    /// Objects committed of a kind.
    #[must_use]
    pub fn count(&self, object: HmcObject) -> u32 {
        self.hmc.layout().area(object).count
    }

    /// Bytes of host memory the device has been given.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        self.hmc.backed_bytes()
    }
}

/// Commands end on the CCQ.
#[derive(Debug)]
pub struct CcqUp<P: Platform> {
    below: HmcUp<P>,
}

/// A completion event queue and what it was created with.
#[derive(Debug)]
struct CeqUp<P: Platform> {
    id: CeqId,
    vector: Vector,
    queue: Ceq<DmaBuf<P>>,
}

/// The completion event queues interrupt.
#[derive(Debug)]
pub struct CeqsUp<P: Platform> {
    below: HmcUp<P>,
    wiring: Wiring,
    ceqs: Vec<CeqUp<P>, MAX_CEQS>,
}

/// Which queue is on which vector, and how large.
#[derive(Debug)]
pub(crate) struct Wiring {
    map: VectorMap,
    vectors: Vec<Vector, { MAX_CEQS + 1 }>,
    ceq_entries: CeqEntries,
}

/// The asynchronous event queue interrupts.
#[derive(Debug)]
pub struct AeqUp<P: Platform> {
    below: CeqsUp<P>,
    entries: AeqEntries,
    aeq: Aeq<DmaBuf<P>>,
}

/// Ready for use.
#[derive(Debug)]
pub struct Ready<P: Platform> {
    control: Control<P>,
    events: EventSet<P>,
}

/// Between two looks at the engine's processors, and how long in all
/// (control-path 10: 1 s, 15 reads).
const ENGINE_PAUSE: Ns = Ns::from_ms(1_000);
const ENGINE_LIMIT: Ns = Ns::from_ms(14_000);

/// The CEQ of the CCQ.
pub(crate) const CEQ_0: CeqId = CeqId::ZERO;

impl<P: Platform> Device<P, Attached> {
    /// Takes a function whose LAN side is ready. Touches nothing yet.
    pub const fn attach(platform: P, config: Config) -> Self {
        Self {
            platform,
            config,
            stage: Attached(()),
        }
    }

    /// Waits until the engine's three processors report ready, then checks that
    /// its doorbells are exposed (control-path 3.1, steps 5 and 6).
    ///
    /// # Errors
    /// A time-out after 14 s, a device that is gone, [`Error::NoDoorbells`].
    pub fn wait_ready(self) -> Result<Device<P, EngineReady>, Failed<P, Attached>> {
        match engine_ready(&self.platform) {
            Ok(pf) => Ok(self.map(|Attached(())| EngineReady { pf })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, Attached> {
    /// Nothing to undo.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(self) -> Result<()> {
        Ok(())
    }
}

impl<P: Platform> Device<P, EngineReady> {
    /// Nothing to undo: the engine was only looked at.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(self) -> Result<()> {
        Ok(())
    }
}

fn engine_ready<P: Platform>(platform: &P) -> Result<PfId> {
    let label = "engine processors (GLPE_CPUSTATUS0..2)";
    poll_until(platform, label, ENGINE_LIMIT, ENGINE_PAUSE, || {
        let status = [
            GLPE_CPUSTATUS0.get(platform),
            GLPE_CPUSTATUS1.get(platform),
            GLPE_CPUSTATUS2.get(platform),
        ];
        for word in status {
            live(label, word)?;
        }
        Ok::<_, Error>(status.iter().all(|word| *word == CPU_READY).then_some(()))
    })?;
    let control = live("GLPCI_LBARCTRL", GLPCI_LBARCTRL.get(platform))?;
    let size = GLPCI_LBARCTRL::PE_DB_SIZE.read(control);
    if size != 1 && size != 2 {
        return Err(Error::NoDoorbells { size });
    }
    let rid = live("PF_FUNC_RID", PF_FUNC_RID.get(platform))?;
    // Three bits, and PfId has as many values.
    let pf = PF_FUNC_RID::FUNCTION_NUMBER.read(rid);
    PfId::from_u32(pf).ok_or(Error::OutOfRange {
        what: "function number (PF_FUNC_RID)",
        value: pf.into(),
        min: 0,
        max: PfId::MAX.into(),
    })
}

impl<P: Platform> Device<P, EngineReady> {
    /// Creates the control QP (steps 7 to 9).
    ///
    /// # Errors
    /// No memory, the device's refusal, or its silence.
    pub fn create_cqp(self) -> Result<Device<P, CqpUp<P>>, Failed<P, EngineReady>> {
        let config = CqpConfig {
            entries: self.config.cqp_entries,
            function: self.stage.pf,
        };
        match Cqp::create(self.platform.clone(), config) {
            Ok(cqp) => Ok(self.map(|_| CqpUp { cqp })),
            Err(error) => Err((self, error.into())),
        }
    }
}

impl<P: Platform> Device<P, CqpUp<P>> {
    /// Plans, commits and backs the host memory cache (steps 10 to 13).
    ///
    /// # Errors
    /// A capacity the device does not have, no memory, a failed command.
    pub fn create_hmc(mut self) -> Result<Device<P, HmcUp<P>>, Failed<P, CqpUp<P>>> {
        match Memory::create(&mut self.stage.cqp, &self.config) {
            Ok(hmc) => Ok(self.map(|CqpUp { cqp }| HmcUp { cqp, hmc })),
            Err(error) => Err((self, error)),
        }
    }

    /// Destroys the control QP; the device is as it was found.
    ///
    /// # Errors
    /// The device did not let go: its memory is leaked.
    pub fn shutdown(self) -> Result<()> {
        Ok(self.stage.cqp.destroy()?)
    }
}

impl<P: Platform> Device<P, HmcUp<P>> {
    /// Creates the CQP's completion queue (step 15).
    ///
    /// # Errors
    /// No memory, a failed command.
    pub fn create_ccq(mut self) -> Result<Device<P, CcqUp<P>>, Failed<P, HmcUp<P>>> {
        let config = CcqConfig {
            ceq: CEQ_0,
            vsi: self.config.lan.vsi,
            // A CEQE with context 0 is the CCQ's (control-path 7.1).
            context: 0,
        };
        let HmcUp { cqp, hmc } = &mut self.stage;
        // The CCQ is CQ 0, an object like any other.
        let attached = hmc
            .hmc
            .ensure(cqp, HmcObject::Cq, CCQ_ID)
            .and_then(|()| cqp.attach_ccq(config));
        match attached {
            Ok(()) => Ok(self.map(|below| CcqUp { below })),
            Err(error) => Err((self, error.into())),
        }
    }

    /// The host memory cache: what was planned and what is backed.
    #[must_use]
    pub const fn hmc(&self) -> &Memory<P> {
        &self.stage.hmc
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    pub fn shutdown(self) -> Result<()> {
        let HmcUp { mut cqp, hmc } = self.stage;
        hmc.hmc.destroy(&mut cqp)?;
        Ok(cqp.destroy()?)
    }
}

impl<P: Platform> Device<P, CcqUp<P>> {
    /// Creates the completion event queues and wires them to vectors (steps 16
    /// to 18).
    ///
    /// # Errors
    /// No vector, no memory, a failed command; all queues made so far are
    /// destroyed again.
    pub fn create_ceqs(mut self) -> Result<Device<P, CeqsUp<P>>, Failed<P, CcqUp<P>>> {
        let below = &mut self.stage.below;
        let device_ceqs = below.hmc.query.max_ceqs;
        let wanted = self.config.ceqs.min(MAX_CEQS as u16);
        let mut vectors = Vec::new();
        while vectors.len() <= usize::from(wanted)
            && let Some(vector) = self.platform.vector_alloc()
        {
            // As many places as the loop has turns.
            let _ = vectors.push(vector);
        }
        let planned = VectorMap::plan(vectors.len() as u16, wanted, device_ceqs).and_then(|map| {
            let cqs = below.hmc.count(HmcObject::Cq);
            Ok((map, CeqEntries::for_cqs(cqs)?))
        });
        let (map, ceq_entries) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                give_vectors(&self.platform, &mut vectors, 0);
                return Err((self, error.into()));
            }
        };
        let mut wiring = Wiring {
            map,
            vectors,
            ceq_entries,
        };
        let mut ceqs = Vec::new();
        match fill_ceqs(&self.platform, &self.config, below, &wiring, &mut ceqs) {
            Ok(()) => {
                give_vectors(&self.platform, &mut wiring.vectors, map.vectors());
                Ok(self.map(|CcqUp { below }| CeqsUp {
                    below,
                    wiring,
                    ceqs,
                }))
            }
            Err(error) => {
                // The first error says more than one that undoing may add.
                let _ = destroy_ceqs(&self.platform, &mut below.cqp, ceqs, ceq_entries);
                give_vectors(&self.platform, &mut wiring.vectors, 0);
                Err((self, error))
            }
        }
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    pub fn shutdown(mut self) -> Result<()> {
        self.stage.below.cqp.detach_ccq()?;
        self.map(|CcqUp { below }| below).shutdown()
    }
}

/// Gives back the vectors from place `keep` on.
fn give_vectors<P: Platform>(platform: &P, vectors: &mut Vec<Vector, { MAX_CEQS + 1 }>, keep: u16) {
    while vectors.len() > usize::from(keep)
        && let Some(vector) = vectors.pop()
    {
        platform.vector_free(vector);
    }
}

fn fill_ceqs<P: Platform>(
    platform: &P,
    config: &Config,
    below: &mut HmcUp<P>,
    wiring: &Wiring,
    ceqs: &mut Vec<CeqUp<P>, MAX_CEQS>,
) -> Result<()> {
    let cqs = below.hmc.count(HmcObject::Cq);
    let entries = wiring.ceq_entries;
    for number in 0..wiring.map.ceqs() {
        let Some((id, vector)) = CeqId::new(number).and_then(|id| {
            let place = wiring.map.ceq_place(id)?;
            Some((id, *wiring.vectors.get(usize::from(place))?))
        }) else {
            break;
        };
        let memory = DmaBuf::new(platform.clone(), entries.layout())?;
        let command = CreateCeq {
            ceq: id,
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
            vsi: config.lan.vsi,
            itr_no_expire: false,
            processing_hint: None,
        };
        if let Err(error) = below.cqp.execute(&command) {
            if !error.leaves_command_open() {
                memory.release();
            }
            return Err(error.into());
        }
        irq::bind_ceq(platform, id, vector, Itr::NONE);
        platform.vector_affinity(vector, number.into());
        let queue = Ceq::new(memory, entries, cqs)?;
        // As many places as CEQs are planned at most.
        let _ = ceqs.push(CeqUp { id, vector, queue });
        if number == 0 {
            // CEQ 0 exists: the CCQ may raise events (step 17).
            below.cqp.arm_ccq()?;
        }
    }
    Ok(())
}

/// CEQs above 0 first, then CEQ 0 (control-path 3.4). Goes on after a refusal
/// and reports the first; a device that does not answer is not asked again,
/// because each wait takes seconds.
fn destroy_ceqs<P: Platform>(
    platform: &P,
    cqp: &mut Cqp<P>,
    mut ceqs: Vec<CeqUp<P>, MAX_CEQS>,
    entries: CeqEntries,
) -> Result<()> {
    let mut result: Result<()> = Ok(());
    while let Some(ceq) = ceqs.pop() {
        irq::unbind_ceq(platform, ceq.id, ceq.vector);
        if result.is_err_and(|error| error.leaves_device_working()) {
            continue;
        }
        let memory = ceq.queue.into_memory();
        let command = DestroyCeq {
            ceq: ceq.id,
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
            processing_hint: false,
        };
        match cqp.execute(&command) {
            Ok(_) => memory.release(),
            Err(error) => result = result.and(Err(error.into())),
        }
    }
    result
}

impl<P: Platform> Device<P, CeqsUp<P>> {
    /// Creates the asynchronous event queue and wires it to its vector (step
    /// 20).
    ///
    /// # Errors
    /// No memory, a failed command.
    pub fn create_aeq(mut self) -> Result<Device<P, AeqUp<P>>, Failed<P, CeqsUp<P>>> {
        match self.make_aeq() {
            Ok((entries, aeq)) => Ok(self.map(|below| AeqUp {
                below,
                entries,
                aeq,
            })),
            Err(error) => Err((self, error)),
        }
    }

    fn make_aeq(&mut self) -> Result<(AeqEntries, Aeq<DmaBuf<P>>)> {
        let HmcUp { cqp, hmc } = &mut self.stage.below;
        let (qps, cqs) = (hmc.count(HmcObject::Qp), hmc.count(HmcObject::Cq));
        let entries = AeqEntries::for_objects(qps, cqs)?;
        let memory = DmaBuf::new(self.platform.clone(), entries.layout())?;
        let command = CreateAeq {
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
        };
        if let Err(error) = cqp.execute(&command) {
            if !error.leaves_command_open() {
                memory.release();
            }
            return Err(error.into());
        }
        let wiring = &self.stage.wiring;
        if let Some(vector) = wiring.vectors.first() {
            irq::bind_aeq(&self.platform, *vector, wiring.map.shared());
        }
        let aeq = Aeq::new(memory, entries, AeqIds { qps, cqs })?;
        Ok((entries, aeq))
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    pub fn shutdown(self) -> Result<()> {
        let CeqsUp {
            mut below,
            mut wiring,
            ceqs,
        } = self.stage;
        let entries = wiring.ceq_entries;
        let destroyed = destroy_ceqs(&self.platform, &mut below.cqp, ceqs, entries);
        give_vectors(&self.platform, &mut wiring.vectors, 0);
        destroyed?;
        let device = Device {
            platform: self.platform,
            config: self.config,
            stage: CcqUp { below },
        };
        device.shutdown()
    }
}

impl<P: Platform> Device<P, AeqUp<P>> {
    /// Allocates the tables of objects: the device is ready.
    ///
    /// # Errors
    /// No memory.
    pub fn allocate_tables(self) -> Result<Device<P, Ready<P>>, Failed<P, AeqUp<P>>> {
        let Device {
            platform,
            config,
            stage:
                AeqUp {
                    below,
                    entries,
                    aeq,
                },
        } = self;
        let CeqsUp {
            below: HmcUp { cqp, hmc },
            wiring,
            ceqs,
        } = below;
        let ceq_count = wiring.map.ceqs();
        match Control::new(platform.clone(), &config, cqp, hmc, ceq_count) {
            Ok(mut control) => {
                let events = event_set(&platform, &control, &wiring, ceqs, aeq);
                control.remember(Below {
                    config,
                    wiring,
                    aeq_entries: entries,
                });
                Ok(Device {
                    platform,
                    config,
                    stage: Ready { control, events },
                })
            }
            Err((cqp, hmc, error)) => {
                let below = CeqsUp {
                    below: HmcUp { cqp, hmc },
                    wiring,
                    ceqs,
                };
                let stage = AeqUp {
                    below,
                    entries,
                    aeq,
                };
                Err((
                    Device {
                        platform,
                        config,
                        stage,
                    },
                    error,
                ))
            }
        }
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    pub fn shutdown(self) -> Result<()> {
        let Device {
            platform,
            config,
            stage:
                AeqUp {
                    mut below,
                    entries,
                    aeq,
                },
        } = self;
        if let Some(vector) = below.wiring.vectors.first() {
            irq::unbind_aeq(&platform, *vector, below.wiring.map.shared());
        }
        let memory = aeq.into_memory();
        let command = DestroyAeq {
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
        };
        if let Err(error) = run(&mut below.below.cqp, &command) {
            // The queues stay with the device; the vectors do not.
            let CeqsUp {
                mut wiring, ceqs, ..
            } = below;
            for ceq in &ceqs {
                irq::unbind_ceq(&platform, ceq.id, ceq.vector);
            }
            give_vectors(&platform, &mut wiring.vectors, 0);
            return Err(error);
        }
        memory.release();
        let device = Device {
            platform,
            config,
            stage: below,
        };
        device.shutdown()
    }
}

/// The same in the opposite order. Only `pop` is used: a by-value iterator of
/// the container has a panic path.
fn turn_round<T, const N: usize>(mut from: Vec<T, N>) -> Vec<T, N> {
    let mut to = Vec::new();
    while let Some(one) = from.pop() {
        // As much room as there was.
        let _ = to.push(one);
    }
    to
}

/// One consumer a vector, in the order of the vectors.
fn event_set<P: Platform>(
    platform: &P,
    control: &Control<P>,
    wiring: &Wiring,
    ceqs: Vec<CeqUp<P>, MAX_CEQS>,
    aeq: Aeq<DmaBuf<P>>,
) -> EventSet<P> {
    let mut set = EventSet::new();
    let mut aeq = Some(aeq);
    // Taking from the end then gives CEQ 0 first.
    let mut ceqs = turn_round(ceqs);
    for (place, vector) in wiring.vectors.iter().enumerate() {
        let Some(serves) = wiring.map.serves(place as u16) else {
            break;
        };
        let ceq = serves.ceq.and_then(|_| ceqs.pop());
        // As many places as vectors.
        let _ = set.push(Events {
            platform: platform.clone(),
            tag: control.tag(),
            vector: *vector,
            ceq: ceq.map(|ceq| (ceq.id, ceq.queue)),
            aeq: if serves.aeq { aeq.take() } else { None },
            slots: control.slots(),
            log: EventLog::new(),
            overflow_told: false,
        });
    }
    set
}

impl<P: Platform> Device<P, Ready<P>> {
    /// The parts, each for the thread that needs it.
    pub fn split(self) -> (Control<P>, EventSet<P>) {
        (self.stage.control, self.stage.events)
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    pub fn shutdown(self) -> Result<()> {
        let (control, events) = self.split();
        control.shutdown(events).map_err(|failed| failed.error)
    }
}

/// What [`Control::shutdown`] needs to go back below the tables.
#[derive(Debug)]
pub(crate) struct Below {
    config: Config,
    wiring: Wiring,
    aeq_entries: AeqEntries,
}

impl Below {
    /// Vectors in use: as many consumers of events there are.
    pub(crate) const fn vectors(&self) -> u16 {
        self.wiring.map.vectors()
    }

    /// The stage before the tables, from what [`Control`] stood on and the
    /// event queues; `None` when one of those is missing (it leaks).
    pub(crate) fn rebuild<P: Platform>(
        self,
        platform: P,
        cqp: Cqp<P>,
        hmc: Memory<P>,
        events: EventSet<P>,
    ) -> Option<Device<P, AeqUp<P>>> {
        let mut ceqs = Vec::new();
        let mut aeq = None;
        let mut events = turn_round(events);
        while let Some(part) = events.pop() {
            if let Some((id, queue)) = part.ceq {
                let vector = part.vector;
                // As many places as CEQs were made.
                let _ = ceqs.push(CeqUp { id, vector, queue });
            }
            aeq = aeq.or(part.aeq);
        }
        let below = CeqsUp {
            below: HmcUp { cqp, hmc },
            wiring: self.wiring,
            ceqs,
        };
        Some(Device {
            platform,
            config: self.config,
            stage: AeqUp {
                below,
                entries: self.aeq_entries,
                aeq: aeq?,
            },
        })
    }
}

impl<P: Platform, S> Device<P, S> {
    fn map<T>(self, next: impl FnOnce(S) -> T) -> Device<P, T> {
        Device {
            platform: self.platform,
            config: self.config,
            stage: next(self.stage),
        }
    }
}

/// A stage that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// The stage.
    pub stage: Stage,
    /// CQP commands posted since the start.
    pub commands: u64,
}

/// Commands that a stage's CQP was given.
trait Commands {
    fn commands(&self) -> u64;
}

impl Commands for EngineReady {
    fn commands(&self) -> u64 {
        0
    }
}

macro_rules! commands_below {
    ($($stage:ident: $($path:ident).+),+ $(,)?) => { $(
        impl<P: Platform> Commands for $stage<P> {
            fn commands(&self) -> u64 {
                self.$($path).+.counters().posted
            }
        }
    )+ };
}

commands_below! {
    CqpUp: cqp,
    HmcUp: cqp,
    CcqUp: below.cqp,
    CeqsUp: below.cqp,
    AeqUp: below.below.cqp,
}

impl<P: Platform> Commands for Ready<P> {
    fn commands(&self) -> u64 {
        self.control.commands()
    }
}

/// Takes a device through all stages; `observe` is told each one that was
/// reached. On failure everything done is undone.
///
/// # Errors
/// The stage that failed, and why.
pub fn bring_up<P: Platform>(
    platform: P,
    config: &Config,
    observe: &mut dyn FnMut(Reached),
) -> Result<Device<P, Ready<P>>, StageError> {
    macro_rules! enter {
        ($device:ident . $transition:ident, $stage:ident) => {
            match $device.$transition() {
                Ok(next) => {
                    observe(Reached {
                        stage: Stage::$stage,
                        commands: next.stage.commands(),
                    });
                    next
                }
                Err((before, error)) => {
                    return Err(StageError {
                        stage: Stage::$stage,
                        error,
                        undo: before.shutdown().err(),
                    });
                }
            }
        };
    }
    let device = Device::attach(platform, *config);
    let device = enter!(device.wait_ready, EngineReady);
    let device = enter!(device.create_cqp, Cqp);
    let device = enter!(device.create_hmc, Hmc);
    let device = enter!(device.create_ccq, Ccq);
    let device = enter!(device.create_ceqs, Ceqs);
    let device = enter!(device.create_aeq, Aeq);
    let device = enter!(device.allocate_tables, Ready);
    Ok(device)
}
