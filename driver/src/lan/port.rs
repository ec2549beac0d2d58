//! [`LanPort`]: LAN queues of the function, and what is remembered of them.

use e810_adminq::op::{RuleId, TxQueueContext, UpdateVsi};
use e810_adminq::tree::TxQueue;
use e810_hal::bus::{ItrIndex, RxQueueId, TxQueueId};
use e810_hal::{Platform, Vector};
use e810_lan::{
    Error as LanError, Interrupt, LanInit, LanQueues, NotEnabled, RxCounts, RxLeft, RxMemory,
    RxRing, TxCounts, TxMemory, TxRing,
};
use e810_types::MacAddr;
use heapless::Vec;

use super::{LanSide, check_mtu};
use crate::error::{Error, Object, Result};

/// Groups that a port can be in.
pub const LAN_GROUPS: usize = 16;

/// The queues of a port: the VSI's receive map names queue 0 alone (lan-path 7.1, 15).
const RX_QUEUE: RxQueueId = RxQueueId::ZERO;
const TX_QUEUE: TxQueueId = TxQueueId::ZERO;

/// IPv6's group of all nodes, without which no router advertisement and no
/// neighbour's duplicate address detection arrives (lan-path 8).
pub(crate) const ALL_NODES: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);

/// LAN queues of a function that was started cold: Ethernet frames in and out,
/// beside the RDMA engine. What belongs to the engine does not come here.
///
/// It is `Send`; one thread has it. No call waits, locks or allocates. Frames to the
/// port's address, to broadcast and to [all IPv6 nodes] arrive; more groups are
/// joined with [`Control::join_lan_group`](crate::Control::join_lan_group).
///
/// [all IPv6 nodes]: https://www.rfc-editor.org/rfc/rfc4291#section-2.7.1
#[derive(Debug)]
#[must_use = "a port that is dropped leaks its memory: close_lan()"]
pub struct LanPort<P: Platform> {
    pub(crate) queues: LanQueues<P>,
    pub(crate) key: LanPortKey,
}

impl<P: Platform> LanPort<P> {
    /// Sends a frame, destination address first, without FCS. It is copied, and
    /// padded with zeros to 60 bytes.
    ///
    /// # Errors
    /// A length that no frame has, a ring that is full, or that has been for 5 s without a
    /// frame that left; nothing was sent.
    pub fn transmit(&mut self, frame: &[u8]) -> Result<(), LanError> {
        self.queues.transmit(frame)
    }

    /// Copies the next frame that has arrived to `into` and gives its length; `None`
    /// when there is none now. Frames with errors and those that are longer than
    /// `into` are dropped and counted.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        self.queues.receive(into)
    }

    /// The longest frame in bytes, without FCS: a buffer of this size holds each.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        self.queues.max_frame()
    }

    /// Frames given to [`transmit`](Self::transmit) that have not left yet.
    pub fn outstanding(&mut self) -> u16 {
        self.queues.outstanding()
    }

    /// Frames sent so far.
    #[must_use]
    pub const fn tx_counts(&self) -> TxCounts {
        self.queues.tx_counts()
    }

    /// Frames received and dropped so far.
    #[must_use]
    pub const fn rx_counts(&self) -> RxCounts {
        self.queues.rx_counts()
    }

    /// The vector that interrupts when a frame has come or left: that of the
    /// asynchronous events. A program that waits calls
    /// [`VectorEvents::on_vector`](crate::VectorEvents::on_vector) when it fires,
    /// which enables it again, and then [`receive`](Self::receive).
    #[must_use]
    pub const fn vector(&self) -> Vector {
        self.queues.interrupt().vector
    }

    /// What names this port where another thread has it.
    #[must_use]
    pub const fn key(&self) -> LanPortKey {
        self.key
    }

    /// Gives the memory back without a word to the device, after the function was
    /// reset from outside; before
    /// [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self) {
        self.queues.release_after_reset();
    }
}

/// Names an open LAN port of a function, for its groups: the thread that has the port need not be
/// the one that has [`Control`](crate::Control). Once the port is closed it names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanPortKey {
    /// Whose it is.
    pub(crate) owner: u64,
    /// Which of its ports, one after the other.
    pub(crate) number: u64,
}

impl<P: Platform> From<&LanPort<P>> for LanPortKey {
    fn from(port: &LanPort<P>) -> Self {
        port.key()
    }
}

/// What the LAN side remembers of an open port.
#[derive(Debug)]
pub(crate) struct OpenPort {
    number: u64,
    tx: TxQueue,
    groups: Vec<LanGroup, LAN_GROUPS>,
}

/// A group that a port is in.
#[derive(Debug)]
struct LanGroup {
    mac: MacAddr,
    /// `None`: the switch had one before, of nobody's here.
    rule: Option<RuleId>,
}

impl<P: Platform> LanSide<P> {
    /// Whether a port is open.
    pub(crate) const fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// Whether the port with this number is open.
    pub(crate) fn has_open(&self, number: u64) -> bool {
        let open = self.port.as_ref();
        open.is_some_and(|port| port.number == number)
    }

    /// Makes the queues of port `number`, and switches them on (lan-path 1.1, steps 8 to 12). What
    /// was made is undone after an error. `all_nodes` is the rule that exists for that
    /// group already.
    pub(crate) fn open_queues(
        &mut self,
        platform: &P,
        init: &LanInit,
        (vector, number): (Vector, u64),
        all_nodes: Option<RuleId>,
    ) -> Result<LanQueues<P>> {
        if self.has_port() {
            return Err(Error::Exhausted {
                object: Object::LanPort,
                limit: 1,
            });
        }
        check_mtu("MTU of the LAN queues", init.mtu, self.max_mtu())?;
        init.check()?;
        // The queues that a port has had before are the same.
        self.end_remains()?;
        self.leave_tags()?;
        let rx_memory = RxMemory::new(platform, init)?;
        let (tx, entry) = match self.add_tx(platform, init, vector) {
            Ok(added) => added,
            Err(error) => {
                rx_memory.release();
                return Err(error);
            }
        };
        let interrupt = interrupt(vector);
        let rx = match RxRing::enable(platform.clone(), RX_QUEUE, rx_memory, interrupt) {
            Ok(rx) => rx,
            Err(NotEnabled { error, left }) => {
                match left {
                    RxLeft::Memory(memory) => memory.release(),
                    RxLeft::Queue(ring) => self.keep_rx(ring),
                }
                // The first error says more than one that undoing may add.
                let _ = self.remove_tx(tx, entry);
                return Err(error.into());
            }
        };
        self.port = Some(OpenPort {
            number,
            tx: entry,
            groups: Vec::new(),
        });
        let queues = LanQueues::new(platform.clone(), tx, rx, interrupt);
        match self.join(ALL_NODES, all_nodes) {
            Ok(()) => Ok(queues),
            Err(error) => {
                // It is in no group yet.
                let _ = self.close_queues(queues, |_| true);
                Err(error)
            }
        }
    }

    /// Leaves the port's groups and switches its queues off (lan-path 1.3). `in_use`
    /// says whether a rule is somebody else's too. Goes on after a failure; the first
    /// one counts, and what the device may still use is kept.
    pub(crate) fn close_queues(
        &mut self,
        queues: LanQueues<P>,
        in_use: impl Fn(RuleId) -> bool,
    ) -> Result<()> {
        let (tx, rx) = queues.into_rings();
        let Some(mut port) = self.port.take() else {
            return Ok(());
        };
        while let Some(group) = port.groups.pop() {
            self.end_rule(group, &in_use);
        }
        rx.unbind();
        let removed = self.remove_tx(tx, port.tx);
        removed.and(self.disable_rx(rx))
    }

    /// Leaves VLAN tags in received frames (lan-path 7.3): a program sees frames as
    /// they came. That this changes nothing for the RDMA engine is `[inf]`: with two
    /// VLANs allowed existing drivers have it so from the start.
    fn leave_tags(&mut self) -> Result<()> {
        let context = self.vsi.context.leaving_tags();
        let vsi = self.vsi.id;
        self.adminq.execute(&UpdateVsi { vsi, context })?;
        Ok(())
    }

    /// Adds the transmit queue, which is on then.
    fn add_tx(
        &mut self,
        platform: &P,
        init: &LanInit,
        vector: Vector,
    ) -> Result<(TxRing<P>, TxQueue)> {
        let memory = TxMemory::new(platform, init)?;
        let context = TxQueueContext {
            ring: memory.ring(),
            entries: memory.entries(),
            queue: TX_QUEUE,
            lport: self.identity.port.lport,
            traffic_class: self.class_of(0),
            pf: self.pf,
            vsi: self.vsi.id,
        };
        match self.tree.add_tx_queue(&mut self.adminq, &context) {
            Ok(entry) => {
                let interrupt = interrupt(vector);
                let ring = TxRing::start(platform.clone(), TX_QUEUE, memory, interrupt);
                Ok((ring, entry))
            }
            Err(failed) => {
                match failed.may_exist {
                    Some(entry) => self.remains.keep_unsure_tx(memory, entry),
                    None => memory.release(),
                }
                Err(failed.error.into())
            }
        }
    }

    /// Lets frames to a group in. `rule` is one that exists for the address already.
    pub(crate) fn join(&mut self, mac: MacAddr, rule: Option<RuleId>) -> Result<()> {
        let full = Error::Exhausted {
            object: Object::McastGroup,
            limit: LAN_GROUPS as u32,
        };
        let known = self.port.as_ref().is_none_or(|port| port.has(mac));
        if known {
            return Ok(());
        }
        if self.port.as_ref().is_some_and(|port| port.groups.is_full()) {
            return Err(full);
        }
        let rule = match rule {
            Some(rule) => Some(rule),
            None => self.admit_once(mac)?,
        };
        let groups = self.port.as_mut().map(|port| &mut port.groups);
        // There is room, as just seen.
        let _ = groups.map(|groups| groups.push(LanGroup { mac, rule }));
        Ok(())
    }

    /// Ends that; whether it was in the group.
    pub(crate) fn leave(&mut self, mac: MacAddr, in_use: impl Fn(RuleId) -> bool) -> bool {
        let Some(port) = self.port.as_mut() else {
            return false;
        };
        let Some(place) = port.groups.iter().position(|group| group.mac == mac) else {
            return false;
        };
        let group = port.groups.swap_remove(place);
        self.end_rule(group, in_use);
        true
    }

    /// The rule that the port has for an address.
    pub(crate) fn port_rule(&self, mac: MacAddr) -> Option<RuleId> {
        let mut groups = self.port.as_ref()?.groups.iter();
        groups.find(|group| group.mac == mac)?.rule
    }

    /// Whether the port needs a rule.
    pub(crate) fn port_needs(&self, rule: RuleId) -> bool {
        let mut groups = self.port.iter().flat_map(|port| &port.groups);
        groups.any(|group| group.rule == Some(rule))
    }

    fn end_rule(&mut self, group: LanGroup, in_use: impl Fn(RuleId) -> bool) {
        if let Some(rule) = group.rule
            && !in_use(rule)
        {
            self.end_admission(group.mac, rule);
        }
    }
}

impl OpenPort {
    fn has(&self, mac: MacAddr) -> bool {
        self.groups.iter().any(|group| group.mac == mac)
    }
}

/// ITR 2 of the vector of the asynchronous events: its ITR 0 is that of the other
/// causes, its ITR 1 that of a completion event queue which shares it.
fn interrupt(vector: Vector) -> Interrupt {
    Interrupt {
        vector,
        timer: ItrIndex::new(2).unwrap_or(ItrIndex::ZERO),
    }
}
