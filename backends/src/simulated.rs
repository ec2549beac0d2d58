//! Simulated functions of this process as devices of a host.

use std::fs::File;

use anyhow::{Context, Result};
use e810::{Lan, MacAddr, VsiId};
use e810_hal::{Access, DmaError, DmaMap as _, Iova, Mapping, Ns, RegOffset, SharedBytes, Vector};
use e810_sim::SimPlatform;
use e810_sim::middleware::Layered;

use crate::buffer::{Buffer, Payload};
use crate::device::{Lends, TransportInfo};
use crate::interrupts::Interrupts;
use crate::{BackendError, Identity, Notice, Properties};

impl Payload for SimPlatform {
    fn payload(&self, bytes: usize) -> Result<Buffer> {
        // The simulator in this process can access all of its memory.
        Ok(Buffer::new(bytes)?)
    }
}

impl Interrupts for SimPlatform {
    fn wait_fired(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<()> {
        fired.extend(self.wait_interrupts(limit));
        Ok(())
    }
}

/// A simulated function behind a layer, such as one that injects faults, is a device as well.
impl<P: Payload, L> Payload for Layered<P, L> {
    fn payload(&self, bytes: usize) -> Result<Buffer> {
        self.platform().payload(bytes)
    }
}

impl<P: Interrupts, L> Interrupts for Layered<P, L> {
    fn wait_fired(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<()> {
        self.platform().wait_fired(limit, fired)
    }
}

impl<L> TransportInfo for Layered<SimPlatform, L> {
    fn identity(&self) -> Option<Identity> {
        self.platform().identity()
    }
    fn notice(&self) -> Option<(String, Notice)> {
        self.platform().notice()
    }
    fn failure(&self) -> Option<&BackendError> {
        self.platform().failure()
    }
    fn on_failure(&self, report: fn(&BackendError)) {
        self.platform().on_failure(report);
    }
    fn probe(&self) -> Result<(), BackendError> {
        self.platform().probe()
    }
    fn properties(&self) -> Option<&Properties> {
        self.platform().properties()
    }
    fn config_space(&self) -> Option<Result<Vec<u8>, BackendError>> {
        self.platform().config_space()
    }
    fn lends(&self) -> Option<&dyn Lends> {
        self.platform().lends()
    }
    fn lan(&self, mac: Option<[u8; 6]>, vsi: Option<u16>, mtu: u16) -> Result<Lan> {
        self.platform().lan(mac, vsi, mtu)
    }
}

impl Lends for SimPlatform {
    fn lend(&self, memory: SharedBytes) -> Result<(Mapping, Iova), DmaError> {
        let mapping = self.map_whole(memory, Access::ReadWrite)?;
        match self.dma_segment(&mapping, 0) {
            Some(segment) => Ok((mapping, segment.iova)),
            None => {
                self.dma_unmap(mapping);
                let bytes = memory.len();
                Err(DmaError::NoAddresses { bytes })
            }
        }
    }

    fn attach_program(&self) -> u64 {
        self.attach_program()
    }

    fn lend_process(&self, program: u64, memory: File) {
        self.lend_process(program, memory);
    }

    fn lend_at(&self, program: u64, address: u64, memory: SharedBytes) {
        self.lend_at(program, address, memory);
    }

    fn take_back_at(&self, program: u64, address: u64) {
        self.take_back_at(program, address);
    }

    fn detach_program(&self, program: u64) {
        self.detach_program(program);
    }

    fn ring(&self, register: RegOffset, value: u32) {
        self.ring(register, value);
    }

    fn attend(&self) -> bool {
        self.attend()
    }
}

impl TransportInfo for SimPlatform {
    fn identity(&self) -> Option<Identity> {
        None
    }

    fn notice(&self) -> Option<(String, Notice)> {
        None
    }

    fn failure(&self) -> Option<&BackendError> {
        None
    }

    fn on_failure(&self, _: fn(&BackendError)) {}

    fn probe(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn properties(&self) -> Option<&Properties> {
        None
    }

    fn config_space(&self) -> Option<Result<Vec<u8>, BackendError>> {
        None
    }

    fn lends(&self) -> Option<&dyn Lends> {
        Some(self)
    }

    fn lan(&self, mac: Option<[u8; 6]>, vsi: Option<u16>, mtu: u16) -> Result<Lan> {
        let vsi = vsi.unwrap_or_else(|| self.vsi());
        Ok(Lan {
            vsi: VsiId::new(vsi)
                .with_context(|| format!("the simulator's VSI {vsi} is not a VSI number"))?,
            mac: MacAddr(mac.unwrap_or_else(|| self.mac())),
            mtu,
        })
    }
}
