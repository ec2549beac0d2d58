//! Typed commands: pure functions from arguments to parameters and data, and
//! from a reply to a value.
//!
//! There is one file for each group of commands. Offsets are those of control-path 9.4 to 9.10;
//! where it gives none, a comment names the place in the existing drivers.
//!
//! ```
//! use e810_adminq::op::{Command, Data, RequestResource, Resource};
//!
//! let request = RequestResource::write(Resource::GLOBAL_CONFIG, 5000);
//! assert_eq!(request.params()[..8], [4, 0, 2, 0, 0x88, 0x13, 0, 0]);
//! assert_eq!(request.data(), Data::None);
//! ```

use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::opcode::Opcode;

mod caps;
mod disable_queue;
mod ets;
mod function;
mod link;
mod lldp;
mod mac;
mod package;
mod phy;
mod queue_set;
mod resource;
mod rules;
mod sched;
mod switch;
mod tx_queue;
mod version;
mod vlan;
mod vsi;

pub use caps::{Capabilities, ListCaps, Owner};
pub use disable_queue::DisableQueue;
pub use ets::{ClassTeids, QueryPortEts};
pub use function::{ClearPf, ClearPxe};
pub use link::{GetLinkStatus, LinkEvents, LinkFec, LinkInfo, LinkStatus, RestartAn, SetEventMask};
pub use lldp::LldpEvents;
pub use mac::{ReadMac, SetMacConfig};
pub use package::{DownloadFailure, GetPackageInfo, PackageInfo, download};
pub use phy::{GetPhyCaps, PhyCaps, PhyReport, SetPhyConfig};
pub use queue_set::AddQueueSet;
pub use resource::{Grant, ReleaseResource, RequestResource, Resource};
pub use rules::{AddRule, RemoveRule, RuleId};
pub use sched::{
    AddElement, Branch, DeleteElement, Element, ElementKind, GetDefaultTopology, GetElement,
    MAX_LAYERS, QueryResources, SchedulerResources, Topology,
};
pub use switch::{GetSwitchConfig, LocalForwarding, SetPortParameters, SwitchPage, SwitchPort};
pub use tx_queue::{AddTxQueue, TX_CONTEXT_BYTES, TxQueueContext};
pub use version::{Api, DriverVersion, Firmware, GetVersion, QueueShutdown, Version};
pub use vlan::{GetVlanMode, SetVlanMode, VlanMode};
pub use vsi::{AddVsi, FreeVsi, UpdateVsi, VSI_BYTES, VsiAdded, VsiContext};

/// What goes to the firmware besides the parameters, and what it may send back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data<'a> {
    /// No buffer.
    None,
    /// A buffer of this many bytes for the firmware to fill.
    Receive(u16),
    /// Data for the firmware, which may fill as many bytes in return.
    Send(&'a [u8]),
}

/// A command of the AdminQ.
pub trait Command {
    /// What the firmware answers.
    type Reply;

    /// The opcode.
    fn opcode(&self) -> Opcode;

    /// The 16 parameter bytes; bytes 8 to 15 are replaced by the buffer's
    /// address when there is a buffer.
    fn params(&self) -> [u8; 16] {
        [0; 16]
    }

    /// The buffer.
    fn data(&self) -> Data<'_> {
        Data::None
    }

    /// The value of a reply that is not a refusal.
    ///
    /// # Errors
    /// [`Error::ShortReply`], [`Error::BadReply`].
    fn decode(&self, answer: &Answer<'_>) -> Result<Self::Reply>;
}

/// `value`, unless it is above `limit`.
pub(crate) const fn at_most(what: &'static str, value: u64, limit: u64) -> Result<u64> {
    if value > limit {
        return Err(Error::OutOfRange { what, value, limit });
    }
    Ok(value)
}

#[cfg(test)]
pub(crate) mod testing {
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::Command;
    use crate::answer::Answer;
    use crate::descriptor::Descriptor;
    use crate::error::Result;

    /// Decodes a reply with these parameters and data.
    pub(crate) fn decode<C: Command>(
        command: &C,
        params: [u8; 16],
        data: &[u8],
    ) -> Result<C::Reply> {
        let cells: Vec<AtomicU64> = data
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                AtomicU64::new(u64::from_ne_bytes(word))
            })
            .collect();
        let descriptor = Descriptor::command(command.opcode(), params);
        command.decode(&Answer::new(descriptor, &cells, data.len()))
    }

    /// Parameters that begin with `bytes`.
    pub(crate) fn params(bytes: &[u8]) -> [u8; 16] {
        let mut params = [0; 16];
        params[..bytes.len()].copy_from_slice(bytes);
        params
    }
}
