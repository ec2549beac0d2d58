//! The engine answers (control-path 3.1, steps 5 and 6).

use e810_hal::bus::{PfId, RegIndex};
use e810_hal::clock::live;
use e810_hal::regs::{
    CPU_READY, GLPCI_LBARCTRL, GLPE_CPUSTATUS0, GLPE_CPUSTATUS1, GLPE_CPUSTATUS2, PF_FUNC_RID,
};
use e810_hal::{HostBox, Ns, Platform, poll_until};

use super::{Attached, Device, Failed, LanReady};
use crate::error::{Error, Result};
use crate::lan::LanOwnership;

/// The engine answers.
#[derive(Debug)]
pub struct EngineReady {
    pub(super) pf: PfId,
}

/// Time between two looks at the engine's processors, and in all (control-path 10: 1 s, 15
/// reads).
const ENGINE_PAUSE: Ns = Ns::from_ms(1_000);
const ENGINE_LIMIT: Ns = Ns::from_ms(14_000);

impl<P: Platform> Device<P, Attached> {
    /// Waits until the engine's three processors report ready, then checks that
    /// its doorbells are exposed (control-path 3.1, steps 5 and 6).
    ///
    /// # Errors
    /// A time-out after 14 s, a device that is gone, [`Error::NoDoorbells`].
    #[inline(never)]
    pub fn wait_ready(self) -> Result<Device<P, EngineReady>, Failed<P, Attached>> {
        let ready = engine_ready(&self.platform);
        match ready.and_then(|()| function_number(&self.platform)) {
            Ok(pf) => Ok(self.map(|Attached(())| EngineReady { pf })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, LanReady<P>> {
    /// As after [`Device::attach`], on a LAN side that the cold start has made
    /// ready and that the device owns from here on.
    ///
    /// # Errors
    /// A time-out after 14 s, a device that is gone, [`Error::NoDoorbells`].
    #[inline(never)]
    pub fn wait_ready(self) -> Result<Device<P, EngineReady>, Failed<P, LanReady<P>>> {
        let ready = engine_ready(&self.platform);
        match ready.and_then(|()| Ok(HostBox::uninit(self.platform.clone())?)) {
            Ok(room) => {
                let (LanReady { lan }, mut rest) = self.take();
                let pf = lan.pf;
                rest.lan_side = LanOwnership::Owned(room.fill(lan));
                Ok(rest.with(EngineReady { pf }))
            }
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, EngineReady> {
    /// Undoes nothing of the engine, whose registers were only read. Undoes a LAN side that is
    /// ours.
    ///
    /// # Errors
    /// Those of undoing the LAN side.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (_, rest) = self.take();
        rest.end(Ok(()))
    }
}

fn engine_ready<P: Platform>(platform: &P) -> Result<()> {
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
    Ok(())
}

/// The number of this function.
pub(super) fn function_number<P: Platform>(platform: &P) -> Result<PfId> {
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
