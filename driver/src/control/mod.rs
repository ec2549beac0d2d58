//! [`Control`]: the control path, the one owner of the CQP, the HMC and all id tables.

use core::fmt;

use e810_ceq::AeqEntries;
use e810_ceq::event::EventLog;
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::{RESERVED_CQS, RESERVED_PDS, RESERVED_QPS};
use e810_cqp::op::Command;
use e810_cqp::{Completion, Cqp};
use e810_datapath::slot::{Layout, Registry, Slots};
use e810_hal::{DmaBuf, DmaLayout, HostBox, HostBuf, HostShared, Platform};

use crate::addr::GidTable;
use crate::channel::{CHANNELS, Wakers};
use crate::config::{Config, CpuHints, Lan, MAX_CEQS, Quirks};
use crate::error::{Error, Object, Result};
use crate::events::{EventSet, LOGGED};
use crate::ids::{Ids, next_tag};
use crate::lan::{LanOwnership, LanSide};
use crate::limits::{RESERVED_AHS, RESERVED_MRS};
use crate::moderation::Shared;
use crate::pd::Pd;
use crate::ref_counts::RefCounts;
use crate::rings::Rings;
use crate::tuning::Tuning;

mod ah;
mod arp;
mod ceq;
mod channels;
mod consumers;
mod cq;
mod engine;
mod engine_errors;
mod fast_reg;
mod hmc;
mod lan_port;
mod moderation;
mod modify_qp;
mod mr;
mod multicast;
mod orphans;
mod page_list;
mod progress;
mod qp;
mod qp_context;
mod qp_recovery;
mod qp_stop;
mod qp_stop_states;
mod query;
mod reset_qp;
mod resize_cq;
mod routes;
mod scheduler;
mod shutdown;
mod stats;
mod vectors;
mod wiring;

use arp::Neighbours;
use multicast::Groups;
use orphans::Orphans;
use qp_recovery::Failures;
use qp_stop_states::Stops;
use resize_cq::UnansweredResizes;
use scheduler::Scheduler;
use stats::UnansweredCounters;
use vectors::{CompletionVectors, UnansweredCeqs};

pub(crate) use arp::ARP_WORDS;
pub(crate) use ceq::{CEQ_0, CeqList, CeqUp, NewCeq, destroy_ceqs, hint};
pub(crate) use engine::{Engine, undo_ccq, undo_ceqs, undo_hmc};
pub use hmc::Memory;
pub use progress::Progress;
pub(crate) use qp_stop_states::stop_words;
pub use query::{QueriedInit, QueriedQp};
pub use shutdown::{Remaining, ShutdownError};
pub(crate) use wiring::Wiring;

/// Bytes of the shared pool for each QP number: its host context and its shadow area, each
/// aligned as the device needs (control-path 5.1).
pub(crate) const PAIR_BYTES: usize = 512;
/// Offset of the shadow area in them.
const PAIR_SHADOW: u64 = 256;

/// The control path of a device that is up: creates, changes and destroys objects.
///
/// A blocking call posts one command and polls the CCQ itself, so it never depends on an
/// interrupt thread. [`Control::progress`], which never waits, finishes the work that events
/// report.
#[doc(alias = "ibv_context")]
pub struct Control<P: Platform> {
    /// Stored in every object, part and token of this device.
    tag: u64,
    platform: P,
    lan: Lan,
    quirks: Quirks,
    tuning: Tuning,
    cqp: Cqp<P>,
    hmc: HostBox<P, Memory<P>>,
    registry: Registry<HostBuf<P>>,
    vectors: CompletionVectors,
    pds: Ids<HostBuf<P>>,
    mrs: Ids<HostBuf<P>>,
    cqs: Ids<HostBuf<P>>,
    qps: Ids<HostBuf<P>>,
    /// The queue pair of management datagrams exists.
    has_gsi: bool,
    ahs: Ids<HostBuf<P>>,
    gids: GidTable,
    groups: Groups<P>,
    /// Key byte that each MR index gets next, eight to a word.
    keys: HostBuf<P>,
    pd_users: RefCounts<P>,
    cq_users: RefCounts<P>,
    wakers: Wakers<P>,
    moderation: Shared<P>,
    scheduler: Scheduler,
    neighbours: Neighbours<P>,
    /// Host contexts and shadow areas of all QPs, by number.
    pool: DmaBuf<P>,
    failures: Failures,
    stops: Stops<HostBuf<P>>,
    unanswered: HostBox<P, Unanswered<P>>,
    /// Which event queue is on which vector.
    wiring: Wiring<P>,
    /// Empty: the consumers of events have them.
    ceqs: CeqList<P>,
    aeq_entries: AeqEntries,
    cpu_hints: CpuHints,
    lan_side: LanOwnership<P>,
}

/// Prints what helps in a log: the owner, and the objects that are alive.
impl<P: Platform> fmt::Debug for Control<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("lan", &self.lan)
            .field("pds", &self.pds.taken())
            .field("mrs", &self.mrs.taken())
            .field("cqs", &self.cqs.taken())
            .field("qps", &self.qps.taken())
            .field("ahs", &self.ahs.taken())
            .finish_non_exhaustive()
    }
}

impl<P: Platform> Control<P> {
    /// The control path, and the consumers of events.
    pub(crate) fn new(
        platform: P,
        config: &Config,
        engine: Engine<P>,
        lan_side: LanOwnership<P>,
        tables: Tables<P>,
    ) -> (Self, EventSet<P>) {
        let Engine {
            cqp,
            hmc,
            wiring,
            ceqs,
            aeq_entries,
            aeq,
        } = engine;
        let mut vectors = CompletionVectors::new(hmc.query.max_ceqs);
        for ceq in &ceqs {
            vectors.open(ceq.id, ceq.vector);
        }
        let mut control = Self {
            tag: next_tag(),
            platform,
            lan: config.lan,
            quirks: config.quirks,
            tuning: config.tuning,
            cqp,
            hmc,
            registry: tables.registry,
            vectors,
            pds: tables.pds,
            mrs: tables.mrs,
            cqs: tables.cqs,
            qps: tables.qps,
            has_gsi: false,
            ahs: tables.ahs,
            gids: GidTable::new(config.lan.mac),
            groups: Groups::default(),
            keys: tables.keys,
            pd_users: tables.pd_users,
            cq_users: tables.cq_users,
            wakers: tables.wakers,
            moderation: tables.moderation,
            scheduler: Scheduler::new(config.lan.vsi),
            neighbours: tables.neighbours,
            pool: tables.pool,
            failures: Failures::default(),
            stops: tables.stops,
            unanswered: tables.unanswered,
            wiring,
            ceqs,
            aeq_entries,
            cpu_hints: config.cpu_hints,
            lan_side,
        };
        let events = control.hand_out_events(tables.parts, aeq);
        (control, events)
    }

    /// Handle on the slots that all parts share.
    // A handle is large, and many calls look something up by one.
    #[inline(never)]
    fn slots(&self) -> Slots<HostBuf<P>> {
        self.registry.slots().clone()
    }

    /// Makes rings from memory and grants, for a program that keeps them elsewhere.
    #[must_use]
    pub fn rings(&self) -> Rings<P> {
        Rings {
            platform: self.platform.clone(),
            slots: self.slots(),
            moderation: self.moderation.clone(),
        }
    }

    /// Tells the objects of this bring-up from those of all others, before and after it.
    const fn tag(&self) -> u64 {
        self.tag
    }

    /// The LAN side this device was brought up on.
    #[must_use]
    pub const fn lan(&self) -> Lan {
        self.lan
    }

    /// The LAN side, after a cold start; `None` where another driver has set the
    /// function up.
    #[must_use]
    pub fn lan_side(&self) -> Option<&LanSide<P>> {
        self.lan_side.owned()
    }

    /// CQP commands posted so far.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.cqp.counters().posted
    }

    /// Posts a command of the Control QP as it is and waits for its end: for experiments, which ask the
    /// card what it does with commands that no driver sends. The tables of this type do not learn what a
    /// command makes, changes or ends.
    ///
    /// # Errors
    /// As [`Cqp::execute`].
    pub fn execute(&mut self, command: &dyn Command) -> Result<Completion> {
        Ok(self.cqp.execute(command)?)
    }

    /// Failures of commands that were ignored, because existing drivers ignore them as well:
    /// those of FLUSH_WQES, and of MODIFY_QP to ERROR, for queue pairs that have nothing to flush
    /// or are about to be destroyed.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.cqp.counters().passed_over
    }

    /// The host memory cache: what was planned and what is backed.
    #[must_use]
    pub fn hmc(&self) -> &Memory<P> {
        &self.hmc
    }

    /// Allocates a protection domain. No command: the device learns its number from
    /// the objects in it.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    #[doc(alias = "ibv_alloc_pd")]
    pub fn alloc_pd(&mut self) -> Result<Pd> {
        let id = self.pds.take().ok_or(Error::Exhausted {
            object: Object::Pd,
            limit: self.pds.capacity(),
        })?;
        Ok(Pd {
            id,
            owner: self.tag(),
        })
    }

    /// Deallocates a protection domain.
    ///
    /// # Errors
    /// [`Error::InUse`] while regions or queue pairs are in it,
    /// [`Error::Foreign`]; the protection domain is returned.
    #[doc(alias = "ibv_dealloc_pd")]
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), (Pd, Error)> {
        if let Err(error) = self.own(pd.owner, Object::Pd, pd.id) {
            return Err((pd, error));
        }
        if let Err(error) = self.end_orphans_of(|orphan| orphan.pd == pd.id) {
            return Err((pd, error));
        }
        let users = self.pd_users.get(pd.id);
        if users > 0 {
            let error = Error::InUse {
                object: Object::Pd,
                id: pd.id,
                users,
            };
            return Err((pd, error));
        }
        self.pds.give(pd.id);
        Ok(())
    }

    /// Makes sure that an object of the device has memory before a command names it.
    #[inline(never)]
    fn ensure(&mut self, object: HmcObject, id: u32) -> Result<()> {
        Ok(self.hmc.hmc.ensure(&mut self.cqp, object, id)?)
    }

    fn own(&self, owner: u64, object: Object, id: u32) -> Result<()> {
        if owner == self.tag() {
            Ok(())
        } else {
            Err(Error::Foreign { object, id })
        }
    }
}

/// Runs a command whose completion says only that it worked.
fn run<P: Platform>(cqp: &mut Cqp<P>, command: &dyn Command) -> Result<()> {
    Ok(cqp.execute(command).map(drop)?)
}

/// The same for a command that makes or ends the object `subject`, and is tried again after an
/// error: an earlier command that was answered late counts.
fn run_again<P: Platform>(cqp: &mut Cqp<P>, command: &dyn Command, subject: u64) -> Result<()> {
    Ok(cqp.execute_again(command, subject).map(drop)?)
}

/// What the consumers of events are made of.
#[derive(Debug)]
struct Parts<P: Platform> {
    /// Where they go: empty.
    set: EventSet<P>,
    /// Where asynchronous events are remembered.
    log: HostShared<P, EventLog<LOGGED>>,
}

/// Everything [`Control`] allocates, so that a failure half-way frees it all.
pub(crate) struct Tables<P: Platform> {
    registry: Registry<HostBuf<P>>,
    pds: Ids<HostBuf<P>>,
    mrs: Ids<HostBuf<P>>,
    cqs: Ids<HostBuf<P>>,
    qps: Ids<HostBuf<P>>,
    ahs: Ids<HostBuf<P>>,
    keys: HostBuf<P>,
    pd_users: RefCounts<P>,
    cq_users: RefCounts<P>,
    wakers: Wakers<P>,
    parts: Parts<P>,
    moderation: Shared<P>,
    neighbours: Neighbours<P>,
    stops: Stops<HostBuf<P>>,
    unanswered: HostBox<P, Unanswered<P>>,
    pool: DmaBuf<P>,
}

/// Objects that the device may or may not have, because it did not answer. In host memory,
/// because [`Control`] is moved about.
#[derive(Debug)]
pub(crate) struct Unanswered<P: Platform> {
    orphans: Orphans<P>,
    resizes: UnansweredResizes,
    counters: UnansweredCounters<P>,
    ceqs: UnansweredCeqs<P>,
}

impl<P: Platform> Default for Unanswered<P> {
    fn default() -> Self {
        Self {
            orphans: Orphans::new(),
            resizes: UnansweredResizes::new(),
            counters: UnansweredCounters::default(),
            ceqs: UnansweredCeqs::new(),
        }
    }
}

impl<P: Platform> Tables<P> {
    /// For what the HMC committed.
    pub(crate) fn new(platform: &P, config: &Config, hmc: &Memory<P>) -> Result<Self> {
        config.tuning.check()?;
        let count = |object| hmc.count(object);
        let (qps, cqs, mrs) = (
            count(HmcObject::Qp),
            count(HmcObject::Cq),
            count(HmcObject::Mr),
        );
        let layout = Layout {
            cqs,
            qps,
            channels: CHANNELS,
            tracker_words: qps.saturating_mul(config.tracker_words_per_qp),
        };
        let host = |words| HostBuf::new(platform.clone(), words);
        let registry =
            Registry::new(host(layout.words())?, layout).map_err(e810_datapath::Error::from)?;
        let pds = config.pds();
        Ok(Self {
            registry,
            pds: Ids::new(platform.clone(), pds, RESERVED_PDS)?,
            mrs: Ids::new(platform.clone(), mrs, RESERVED_MRS)?,
            cqs: Ids::new(platform.clone(), cqs, RESERVED_CQS)?,
            qps: Ids::new(platform.clone(), qps, RESERVED_QPS)?,
            ahs: Ids::new(platform.clone(), count(HmcObject::FsiAv), RESERVED_AHS)?,
            keys: host(mrs.div_ceil(8) as usize)?,
            pd_users: RefCounts::new(platform.clone(), pds)?,
            cq_users: RefCounts::new(platform.clone(), cqs)?,
            wakers: Wakers::new(platform.clone())?,
            parts: Parts {
                set: EventSet::new(platform.clone(), MAX_CEQS.saturating_add(1))?,
                log: HostShared::new(platform.clone(), EventLog::new())?,
            },
            moderation: Shared::new(platform.clone(), cqs)?,
            neighbours: Neighbours::new(platform.clone(), count(HmcObject::Arp))?,
            stops: Stops::new(platform.clone(), qps)?,
            unanswered: HostBox::new(platform.clone(), Unanswered::default())?,
            // Last: DMA memory is not freed by a drop.
            pool: DmaBuf::new(
                platform.clone(),
                DmaLayout::new((qps as usize).saturating_mul(PAIR_BYTES), PAIR_BYTES),
            )?,
        })
    }
}
