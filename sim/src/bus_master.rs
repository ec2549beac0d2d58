//! PCI Bus Master Enable: while it is clear, a function issues no requests, neither DMA nor MSI-X
//! messages.
//!
//! Software clears the bit to stop a device it no longer controls: the kernel does so when a
//! program ends, before it resets the function. Requests of work already in progress then fail at
//! the bus; this is counted and is no finding. If the driver requests work afterwards, or before it
//! first sets the bit, the resulting requests of the engine are findings. A reset of the function
//! clears that record.

use crate::findings::kind;
use crate::function::EngineEnv;
use crate::iommu::{Refusal, Refused};
use crate::pe::DmaFault;

/// Whether a function may issue requests, and whether an attempt without permission is a driver
/// error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum BusMastering {
    /// It may issue requests.
    #[default]
    On,
    /// It may not; the driver has requested no work since.
    Stopped,
    /// It may not, and the driver requested work.
    WorkRequested,
}

impl BusMastering {
    /// The driver rang a doorbell whose work needs requests.
    pub(crate) fn work_requested(&mut self) {
        if *self == Self::Stopped {
            *self = Self::WorkRequested;
        }
    }

    /// The function was reset: no requested work is left.
    pub(crate) fn was_reset(&mut self) {
        if *self == Self::WorkRequested {
            *self = Self::Stopped;
        }
    }

    /// Bus Master Enable is set or cleared.
    pub(crate) fn set(&mut self, on: bool) {
        *self = match (on, *self) {
            (true, _) => Self::On,
            (false, Self::On) => Self::Stopped,
            (false, off) => off,
        };
    }
}

impl EngineEnv<'_> {
    /// Refuses an access of a function that may not make requests.
    pub(crate) fn check_bus_mastering(
        &mut self,
        iova: u64,
        bytes: usize,
        write: bool,
    ) -> Result<(), DmaFault> {
        let refused = Refused {
            refusal: Refusal::NoMaster,
            iova,
            bytes,
            write,
        };
        match self.state.bus_mastering {
            BusMastering::On => Ok(()),
            BusMastering::WorkRequested => Err(self.refused(refused)),
            BusMastering::Stopped => {
                self.state.stats.stopped += 1;
                Err(refused.into())
            }
        }
    }

    /// Sends the messages of vectors that fired, as far as the MSI-X table and bus mastering allow
    /// it.
    pub(crate) fn check_messages(&mut self) {
        for vector in self.state.irq.take_fired() {
            self.check_holder(vector);
            self.state.msix.fire(vector);
        }
        if self.state.bus_mastering == BusMastering::On {
            return;
        }
        let count = self.state.msix.forget_sent();
        if self.state.bus_mastering == BusMastering::Stopped {
            self.state.stats.stopped += count as u64;
        } else if count > 0 {
            let text = "an MSI-X message without bus mastering".to_owned();
            self.found(kind::MSIX_NO_MASTER, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::Env;
    use crate::{Finding, Sim};
    use e810_hal::regs::{DYN_CTL_ENABLE, GLINT_DYN_CTL, PFPE_CCQPHIGH, PFPE_CCQPLOW};
    use e810_hal::{DmaAlloc, DmaLayout, Ns, Vector};

    const TRIGGER: u32 = DYN_CTL_ENABLE | 1 << 2;

    fn kinds(found: &[Finding]) -> Vec<&'static str> {
        found.iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn work_without_bus_mastering_is_a_finding() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        nic.set_bus_master(false);
        let context = nic.dma_alloc(DmaLayout::new(64, 512)).unwrap();
        PFPE_CCQPHIGH.set(&nic, (context.iova.0 >> 32) as u32);
        PFPE_CCQPLOW.set(&nic, context.iova.0 as u32);
        sim.run(Ns::from_ms(1));
        assert!(kinds(&sim.take_findings()).contains(&kind::DMA_NO_MASTER.name));
        let stats = sim.stats(0);
        assert_eq!(
            (stats.dma_reads, stats.dma_writes, stats.stopped),
            (0, 0, 0)
        );
        assert!(stats.dma_faults > 0);
        nic.function_level_reset();
        nic.set_bus_master(true);
        PFPE_CCQPHIGH.set(&nic, (context.iova.0 >> 32) as u32);
        PFPE_CCQPLOW.set(&nic, context.iova.0 as u32);
        sim.run(Ns::from_ms(1));
        assert!(sim.stats(0).dma_reads > 0);
        assert!(!kinds(&sim.take_findings()).contains(&kind::DMA_NO_MASTER.name));
        // SAFETY: allocated above and freed once; after the reset the device no longer uses it.
        unsafe { nic.dma_free(context) };
    }

    #[test]
    fn no_message_without_bus_mastering() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let control = GLINT_DYN_CTL.at(Vector::new(1).unwrap());
        nic.set_bus_master(false);
        control.set(&nic, TRIGGER);
        assert_eq!(nic.take_interrupts(), []);
        assert_eq!(kinds(&sim.take_findings()), [kind::MSIX_NO_MASTER.name]);
        nic.set_bus_master(true);
        assert_eq!(nic.take_interrupts(), [], "lost");
        control.set(&nic, TRIGGER);
        assert_eq!(nic.take_interrupts().len(), 1);
        assert_eq!((sim.stats(0).interrupts, sim.findings()), (1, vec![]));
    }

    /// What the kernel does to a device whose program was killed.
    #[test]
    fn work_that_is_stopped_is_nobodys_mistake() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let memory = nic.dma_alloc(DmaLayout::new(64, 64)).unwrap();
        let vector = Vector::new(1).unwrap();
        GLINT_DYN_CTL.at(vector).set(&nic, DYN_CTL_ENABLE);
        nic.set_bus_master(false);
        nic.with(|env| {
            let iova = memory.iova.0;
            assert!(env.store(iova, 1).is_err());
            assert!(env.load(iova).is_err());
            assert!(env.read(iova, &mut [0]).is_err());
            assert!(env.write(iova, &[0]).is_err());
        });
        // Masking a vector is no request for work, and neither is an earlier event.
        GLINT_DYN_CTL.at(vector).set(&nic, 0);
        GLINT_DYN_CTL.at(vector).set(&nic, DYN_CTL_ENABLE);
        assert_eq!((sim.stats(0).stopped, sim.stats(0).dma_faults), (4, 0));
        assert_eq!(sim.findings(), []);
        nic.set_bus_master(true);
        nic.with(|env| assert_eq!(env.load(memory.iova.0), Ok(0)));
        // SAFETY: allocated above and freed once.
        unsafe { nic.dma_free(memory) };
        assert_eq!(sim.findings(), []);
    }
}
