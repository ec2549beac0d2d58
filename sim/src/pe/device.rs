//! Engine state that commands and queue pairs share.

use std::collections::{BTreeMap, BTreeSet};

use super::aeq::Aeq;
use super::ah::AddressHandle;
use super::arp::Arp;
use super::ceq::Ceq;
use super::config::Config;
use super::contexts::Cache;
use super::cq::Cq;
use super::env::{DmaFault, Env};
use super::grants::Grants;
use super::hmc::{Hmc, HmcFault};
use super::mr::Mr;
use super::multicast_group::MulticastGroup;
use super::pools::Pools;
use super::qp::Qp;
use super::schedule::Schedule;
use super::stats::Statistics;
use super::tables::{LeftBehind, Tables};
use crate::variation::{OwnCounters, Variation};
use crate::wire::KnownHeads;

/// Something could not be accessed. The finding is recorded, and the card's own report (HMC error)
/// is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unreachable;

impl From<DmaFault> for Unreachable {
    fn from(_: DmaFault) -> Self {
        // The implementation of `Env` has recorded the finding.
        Self
    }
}

/// Everything on the chip except the CQP itself.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) config: Config,
    pub(crate) hmc: Hmc,
    pub(crate) qps: Cache<Box<Qp>>,
    /// Numbers of QPs that were destroyed and not created again.
    pub(crate) destroyed_qps: BTreeSet<u32>,
    pub(crate) cqs: Cache<Cq>,
    /// The same for CQs.
    pub(crate) destroyed_cqs: BTreeSet<u32>,
    pub(crate) mrs: Cache<Mr>,
    /// Recently granted accesses.
    pub(super) grants: Grants,
    pub(crate) arps: Cache<Arp>,
    pub(crate) ahs: Cache<AddressHandle>,
    pub(crate) groups: Cache<MulticastGroup>,
    /// Indexes of the existing groups.
    pub(crate) joined: BTreeSet<u64>,
    pub(crate) ceqs: BTreeMap<u16, Ceq>,
    pub(crate) aeq: Option<Aeq>,
    pub(crate) pools: Pools,
    pub(crate) schedule: Schedule,
    pub(crate) tables: Tables,
    /// What the driver left when it last destroyed the CQP.
    pub(crate) left_behind: LeftBehind,
    /// Heads of packets that arrived.
    pub(super) known_heads: KnownHeads,
    pub(crate) statistics: Statistics,
    /// Counters of QPs that have their own, by statistics instance.
    pub(crate) instances: BTreeMap<u8, Statistics>,
}

impl Device {
    /// A device with no object, at power-up or for a new life of the CQP named by `epoch`.
    pub(crate) fn new(config: Config, epoch: u32) -> Self {
        Self {
            config,
            hmc: Hmc::default(),
            qps: Cache::new(epoch),
            destroyed_qps: BTreeSet::new(),
            cqs: Cache::new(epoch),
            destroyed_cqs: BTreeSet::new(),
            mrs: Cache::new(epoch),
            grants: Grants::default(),
            arps: Cache::new(epoch),
            ahs: Cache::new(epoch),
            groups: Cache::new(epoch),
            joined: BTreeSet::new(),
            ceqs: BTreeMap::new(),
            aeq: None,
            pools: Pools::default(),
            schedule: Schedule::default(),
            tables: Tables::default(),
            left_behind: LeftBehind::default(),
            known_heads: KnownHeads::default(),
            statistics: Statistics::default(),
            instances: BTreeMap::new(),
        }
    }

    /// Clears everything that ends with a PF reset or with the CQP; statistics stay.
    pub(crate) fn restart(&mut self, epoch: u32) {
        let statistics = std::mem::take(&mut self.statistics);
        *self = Self {
            statistics,
            left_behind: self.left_behind,
            ..Self::new(self.config.clone(), epoch)
        };
    }

    /// The counters for a QP's packets: those of its statistics instance if it names one that is
    /// allocated, otherwise the function's \[inf own_counters\]: the context has the fields
    /// (control-path 5.2), and no driver sets them.
    fn counters_of(&mut self, qp: &Qp) -> (&mut Statistics, Option<&mut Statistics>) {
        let instance = qp.statistics_instance();
        let own = instance.and_then(|index| self.instances.get_mut(&index));
        match (own, self.config.variation.own_counters) {
            (Some(own), OwnCounters::Apart) => (own, None),
            (Some(own), OwnCounters::Both) => (&mut self.statistics, Some(own)),
            (None, _) => (&mut self.statistics, None),
        }
    }

    /// Counts what happened to a QP.
    pub(crate) fn count(&mut self, qp: &Qp, what: impl Fn(&mut Statistics, &Variation)) {
        let choices = self.config.variation;
        let (one, other) = self.counters_of(qp);
        what(one, &choices);
        if let Some(other) = other {
            what(other, &choices);
        }
    }

    /// Reports an HMC error, if it is one.
    pub(crate) fn reached<T>(
        &self,
        result: Result<T, HmcFault>,
        env: &mut dyn Env,
    ) -> Result<T, Unreachable> {
        result.map_err(|fault| {
            self.hmc.report(self.config.pf, fault, env);
            Unreachable
        })
    }

    /// Writes back and drops the cached contexts: all, or those in one SD.
    pub(crate) fn flush_contexts(&mut self, sd: Option<u64>, env: &mut dyn Env) {
        let hmc = &mut self.hmc;
        let results = [
            self.qps.flush(sd, hmc, env),
            self.cqs.flush(sd, hmc, env),
            self.mrs.flush(sd, hmc, env),
            self.arps.flush(sd, hmc, env),
            self.ahs.flush(sd, hmc, env),
            self.groups.flush(sd, hmc, env),
        ];
        for result in results {
            // Reported; the other contexts are still written.
            let _ = self.reached(result, env);
        }
    }
}
