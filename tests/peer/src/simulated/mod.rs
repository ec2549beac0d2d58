//! A kernel whose device is the simulator: it maps what the library registers
//! for the simulated function and issues the CQP commands that a kernel driver
//! would.
//!
//! The control path is this project's (`e810-cqp`); the memory, the encoders and
//! the decoders of the data path are the library's.

mod answers;
mod connect;
mod mapped;
mod node;

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;

use e810_cqp::hmc::{Backing, Capacity, FpmQuery, Hmc, Object, Plan, query_features};
use e810_cqp::limits::{RESERVED_CQS, RESERVED_PDS, RESERVED_QPS};
use e810_cqp::op::{
    CqAttributes, CreateCeq, HwQpType, NodeChange, PriorityType, QueueMemory, WorkSchedNode,
};
use e810_cqp::qpc::RoceContext;
use e810_cqp::{CcqConfig, Config, Cqp, Error};
use e810_hal::bus::{CeqId, PfId, VsiId};
use e810_hal::regs::PFPE_CQACK;
use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, Iova};
use e810_sim::SimPlatform;
use e810_types::MacAddr;

use crate::kernel::{Answer, Errno};

use mapped::Mapped;

pub use node::Node;

/// Bytes of a QP's host context, and their alignment.
const CONTEXT_BYTES: usize = 256;
/// QPs that have room for a context.
const CONTEXTS: u32 = 64;
/// Entries of the completion event queue.
const CEQ_ENTRIES: u32 = 512;

/// Where a function is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    pub mac: [u8; 6],
    /// IPv4.
    pub ip: Ipv4Addr,
}

/// A queue pair of the device.
#[derive(Clone, Copy, Debug)]
struct Pair {
    kind: HwQpType,
    context: RoceContext,
    shadow: Iova,
}

/// The kernel of one simulated function.
pub struct Simulated {
    nic: SimPlatform,
    cqp: Cqp<SimPlatform>,
    hmc: Hmc<SimPlatform>,
    address: Address,
    vsi: VsiId,
    queue_set: u16,
    ceq: DmaBuf<SimPlatform>,
    /// Entries of the CEQ taken so far.
    events: u64,
    contexts: DmaBuf<SimPlatform>,
    mapped: HashMap<u32, Mapped>,
    cqs: HashMap<u32, CqAttributes>,
    pairs: HashMap<u32, Pair>,
    handles: HashMap<u32, e810_cqp::op::AddressHandle>,
    /// ARP index of each neighbour.
    neighbours: HashMap<Ipv4Addr, (MacAddr, u16)>,
    next: Next,
    /// What the device last refused.
    last: Option<Error>,
}

/// Next number of each kind.
#[derive(Debug)]
struct Next {
    pd: u32,
    handle: u32,
    cq: u32,
    qp: u32,
    ah: u32,
    arp: u16,
    /// Index of the next region; freed ones go round, each time with another
    /// key.
    region: u32,
    key: u8,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated")
            .field("address", &self.address)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Simulated {
    /// Takes a function from its reset to a scheduler with a queue set and a
    /// completion event queue.
    ///
    /// # Errors
    /// A failed command, or no memory.
    pub fn new(nic: SimPlatform, ip: Ipv4Addr) -> e810_cqp::Result<Self> {
        let invalid = |what| Error::Invalid { what };
        let pf = PfId::new(nic.pf().into()).ok_or(invalid("a PF"))?;
        let vsi = VsiId::new(nic.vsi()).ok_or(invalid("a VSI"))?;
        let mut cqp = Cqp::create(nic.clone(), Config::new(pf))?;
        query_features(&mut cqp)?;
        let query = FpmQuery::ask(&mut cqp)?;
        let plan = Plan::new(&query, &Capacity::DEFAULT, Backing::Full)?;
        let hmc = Hmc::create(&mut cqp, &query, &plan)?;
        cqp.attach_ccq(CcqConfig {
            ceq: CeqId::ZERO,
            vsi,
            context: 0,
        })?;
        let block = |bytes, align| DmaBuf::new(nic.clone(), DmaLayout::new(bytes, align));
        let ceq = block(CEQ_ENTRIES as usize * 8, 4096)?;
        cqp.execute(&CreateCeq {
            ceq: CeqId::ZERO,
            entries: CEQ_ENTRIES,
            memory: QueueMemory::Contiguous(ceq.iova()),
            vsi,
            itr_no_expire: false,
            processing_hint: None,
        })?;
        let contexts = block(CONTEXT_BYTES * CONTEXTS as usize, CONTEXT_BYTES)?;
        let queue_set = queue_set(&mut cqp, vsi)?;
        let address = Address { mac: nic.mac(), ip };
        Ok(Self {
            nic,
            cqp,
            hmc,
            address,
            vsi,
            queue_set,
            ceq,
            events: 0,
            contexts,
            mapped: HashMap::new(),
            cqs: HashMap::new(),
            pairs: HashMap::new(),
            handles: HashMap::new(),
            neighbours: HashMap::new(),
            next: Next {
                pd: RESERVED_PDS,
                handle: 1,
                cq: RESERVED_CQS,
                qp: RESERVED_QPS,
                ah: 1,
                arp: 1,
                region: 1,
                key: 0x20,
            },
            last: None,
        })
    }

    /// Where this function is.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// What the device last refused, if anything.
    #[must_use]
    pub const fn last(&self) -> Option<&Error> {
        self.last.as_ref()
    }

    /// Queue pairs whose rings the device finds through page lists.
    #[must_use]
    pub fn listed_queue_pairs(&self) -> usize {
        let pairs = self.pairs.values();
        pairs
            .filter(|pair| answers::is_listed(&pair.context))
            .count()
    }

    /// Completion events since the last call: contexts of the CQs, which are
    /// their ids. Acknowledges each, as a kernel does (data-path 3.1).
    pub fn take_events(&mut self) -> Vec<u64> {
        let mut taken = Vec::new();
        loop {
            let entries = u64::from(CEQ_ENTRIES);
            let (slot, lap) = (self.events % entries, self.events / entries);
            let Some(word) = self.ceq.words().get(slot as usize).map(DmaWord::observe) else {
                return taken;
            };
            if word >> 63 == lap % 2 {
                return taken;
            }
            self.events += 1;
            let context = word & !(1 << 63);
            PFPE_CQACK.set(&self.nic, context as u32);
            taken.push(context);
        }
    }

    /// Runs a command, and keeps why it failed.
    fn command(&mut self, command: &impl e810_cqp::op::Command) -> Answer<u32> {
        let done = self.cqp.execute(command);
        done.map(|completion| completion.ret_val)
            .map_err(|error| self.refused(error))
    }

    /// Backs an object of the device before its id is used.
    fn back(&mut self, object: Object, id: u32) -> Answer<()> {
        let Self { hmc, cqp, .. } = self;
        let backed = hmc.ensure(cqp, object, id);
        backed.map_err(|error| self.refused(error))
    }

    fn refused(&mut self, error: Error) -> Errno {
        self.last = Some(error);
        Errno::DEVICE
    }
}

/// Root, VSI node and a leaf with a queue set; its handle (control-path 4.13).
fn queue_set(cqp: &mut Cqp<SimPlatform>, vsi: VsiId) -> e810_cqp::Result<u16> {
    let node = WorkSchedNode {
        node: 0,
        parent: 0,
        vsi,
        leaf: false,
        enable: true,
        priority: PriorityType::WeightedRoundRobin,
        traffic_class: 0,
        weight: 1,
        change: NodeChange::Add,
    };
    cqp.execute(&node)?;
    cqp.execute(&WorkSchedNode { node: 1, ..node })?;
    let leaf = WorkSchedNode {
        node: 2,
        parent: 1,
        leaf: true,
        enable: false,
        ..node
    };
    let added = cqp.execute(&leaf)?;
    cqp.execute(&WorkSchedNode {
        enable: true,
        change: NodeChange::Modify,
        ..leaf
    })?;
    Ok(added.ret_val as u16)
}
