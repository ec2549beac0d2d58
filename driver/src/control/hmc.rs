//! The host memory cache, with the plan it was created from.

use e810_cqp::Cqp;
use e810_cqp::hmc::{Features, FpmQuery, Hmc, Object as HmcObject, Plan, query_features};
use e810_hal::{HostBox, Platform};

use crate::config::Config;
use crate::error::Result;

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
    /// Asks the device what it can do, then plans, commits and backs the cache.
    pub(crate) fn create(
        platform: P,
        cqp: &mut Cqp<P>,
        config: &Config,
    ) -> Result<HostBox<P, Self>> {
        let room = HostBox::uninit(platform)?;
        let features = query_features(cqp)?;
        let query = FpmQuery::ask(cqp)?;
        let plan_for = match config.or_fewer {
            true => Plan::at_most,
            false => Plan::new,
        };
        let plan = plan_for(&query, &config.capacity, config.backing)?;
        let hmc = Hmc::create(cqp, &query, &plan)?;
        Ok(room.fill(Self {
            features,
            query,
            plan,
            hmc,
        }))
    }

    /// Committed objects of a kind, without those beyond the plan: the tables for them have that
    /// size.
    #[must_use]
    pub fn count(&self, object: HmcObject) -> u32 {
        let committed = self.hmc.layout().area(object).count;
        committed.min(self.plan.counts.get(object))
    }

    /// Bytes of host memory the device has been given.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        self.hmc.backed_bytes()
    }
}
