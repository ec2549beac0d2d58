//! The host memory cache (steps 10 to 13).

use e810_cqp::hmc::{Features, FpmQuery, Hmc, Object as HmcObject, Plan, query_features};
use e810_cqp::{Cqp, Error as CqpError};
use e810_hal::{HostBox, Platform};

use super::{CqpUp, Device, Failed};
use crate::config::Config;
use crate::error::{Error, Result};

/// The host memory cache is backed.
#[derive(Debug)]
pub struct HmcUp<P: Platform> {
    pub(super) cqp: Cqp<P>,
    pub(super) hmc: HostBox<P, Memory<P>>,
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
    fn create(platform: P, cqp: &mut Cqp<P>, config: &Config) -> Result<HostBox<P, Self>> {
        let room = HostBox::room(platform)?;
        let features = query_features(cqp)?;
        let query = FpmQuery::ask(cqp)?;
        let plan = Plan::new(&query, &config.capacity, config.backing)?;
        let hmc = Hmc::create(cqp, &query, &plan)?;
        Ok(room.fill(Self {
            features,
            query,
            plan,
            hmc,
        }))
    }

    /// Objects committed of a kind, without those beyond what was planned: the
    /// tables for them are as large as that.
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

impl<P: Platform> Device<P, CqpUp<P>> {
    /// Plans, commits and backs the host memory cache (steps 10 to 13).
    ///
    /// # Errors
    /// A capacity the device does not have, no memory, a failed command.
    #[inline(never)]
    pub fn create_hmc(mut self) -> Result<Device<P, HmcUp<P>>, Failed<P, CqpUp<P>>> {
        match Memory::create(self.platform.clone(), &mut self.stage.cqp, &self.config) {
            Ok(hmc) => Ok(self.map(|CqpUp { cqp }| HmcUp { cqp, hmc })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, HmcUp<P>> {
    /// The host memory cache: what was planned and what is backed.
    #[must_use]
    pub fn hmc(&self) -> &Memory<P> {
        &self.stage.hmc
    }

    /// Undoes everything in order. After a refusal the CQP is destroyed all the
    /// same, as existing drivers do.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (HmcUp { mut cqp, hmc }, rest) = self.take();
        let cleared = hmc.into_inner().hmc.destroy(&mut cqp);
        let destroyed = match cleared {
            Ok(()) | Err(CqpError::Cqp { .. }) => cleared.and(cqp.destroy()),
            // A command that did not end, or a device that is gone.
            Err(_) => cleared,
        };
        rest.end(destroyed.map_err(Error::from))
    }
}
