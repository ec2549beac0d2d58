//! [`Ah`]: an address handle, as a program holds it.

use e810_cqp::op::AddressHandle;
use e810_datapath::UdTarget;

use crate::addr::Path;
use crate::attr::Qpn;
use crate::route::Route;

/// User handle to an address handle: a destination for datagrams of one protection
/// domain.
///
/// It is a number in the device. Any number of sends can name it with a [`UdTarget`], until
/// [`Control::destroy_ah`](crate::Control::destroy_ah).
#[derive(Debug)]
#[must_use = "an address handle is destroyed with Control::destroy_ah"]
#[doc(alias = "ibv_ah")]
pub struct Ah {
    pub(crate) owner: u64,
    pub(crate) path: Path,
    /// Kept because DESTROY_ADDR_HANDLE repeats it.
    pub(crate) made: AddressHandle,
    pub(crate) route: Route,
}

impl Ah {
    /// Its number, as sends name it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.made.index
    }

    /// What it was made with (`query_ah`).
    #[must_use]
    pub const fn path(&self) -> Path {
        self.path
    }

    /// A queue pair at that destination. A `qkey` with its highest bit set stands for the sending
    /// queue pair's own.
    #[must_use]
    pub const fn target(&self, qpn: Qpn, qkey: u32) -> UdTarget {
        UdTarget {
            ah: self.number(),
            qpn: qpn.get(),
            qkey,
        }
    }
}
