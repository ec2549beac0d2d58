//! [`LanPort`]: LAN queues of the function, and what the LAN side remembers about them.

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

/// The receive queue of a port: the VSI's receive map names only queue 0 (lan-path 7.1, 15).
const RX_QUEUE: RxQueueId = RxQueueId::ZERO;
const TX_QUEUE: TxQueueId = TxQueueId::ZERO;

/// IPv6's group of all nodes. Without it no router advertisement arrives, nor a neighbour's
/// duplicate address detection (lan-path 8).
pub(crate) const ALL_NODES: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);

/// LAN queues of a function that was started cold: they send and receive Ethernet frames beside
/// the RDMA engine. Frames for the engine do not come here.
///
/// It is `Send`; one thread owns it. No call waits, locks or allocates. It receives frames to the
/// port's address, to broadcast and to [all IPv6 nodes]; join more groups with
/// [`Control::join_lan_group`](crate::Control::join_lan_group).
///
/// [all IPv6 nodes]: https://www.rfc-editor.org/rfc/rfc4291#section-2.7.1
#[derive(Debug)]
#[must_use = "a port that is dropped leaks its memory: close_lan()"]
pub struct LanPort<P: Platform> {
    pub(crate) queues: LanQueues<P>,
    pub(crate) key: LanPortKey,
}

impl<P: Platform> LanPort<P> {
    /// Sends a frame that starts with the destination address, without FCS. It is copied, and
    /// padded with zeros to 60 bytes.
    ///
    /// # Errors
    /// A length that no frame has; a ring that is full, or has been full for 5 s without a frame
    /// leaving. Nothing was sent.
    pub fn transmit(&mut self, frame: &[u8]) -> Result<(), LanError> {
        self.queues.transmit(frame)
    }

    /// Copies the next frame that has arrived to `into` and returns its length; `None` if there
    /// is none now. Frames with errors and frames longer than `into` are dropped and counted.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        self.queues.receive(into)
    }

    /// The longest frame in bytes, without FCS: a buffer of this size holds every frame.
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

    /// The vector that interrupts when a frame has arrived or left: that of the asynchronous
    /// events. When it fires, a waiting program calls
    /// [`VectorEvents::on_vector`](crate::VectorEvents::on_vector), which enables the vector
    /// again, and then [`receive`](Self::receive).
    #[must_use]
    pub const fn vector(&self) -> Vector {
        self.queues.interrupt().vector
    }

    /// Names this port for the groups, where another thread has it.
    #[must_use]
    pub const fn key(&self) -> LanPortKey {
        self.key
    }

    /// Gives the memory back without a command to the device, after the function was reset from
    /// outside; call it before
    /// [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self) {
        self.queues.release_after_reset();
    }
}

/// Names an open LAN port of a function, for its groups: the thread that has the port need not be
/// the thread that has [`Control`](crate::Control). Once the port is closed the key names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanPortKey {
    /// Whose it is.
    pub(crate) owner: u64,
    /// Which of the function's successive ports.
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
    /// `None`: the switch already had a rule, which nobody here owns.
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

    /// Makes the queues of port `number`, and switches them on (lan-path 1.1, steps 8 to 12).
    /// After an error, undoes what was made. `all_nodes` is the existing rule for that group, if
    /// any.
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
        // An earlier port had the same queues.
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

    /// Leaves the port's groups and switches its queues off (lan-path 1.3). `in_use` says whether
    /// others need a rule too. Goes on after a failure and returns the first; keeps what the
    /// device may still use.
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

    /// Leaves VLAN tags in received frames (lan-path 7.3), so that a program sees frames as they
    /// came. That this changes nothing for the RDMA engine is `[inf tags_left]`: existing drivers
    /// set it from the start, with two VLANs allowed.
    fn leave_tags(&mut self) -> Result<()> {
        let context = self.vsi.context.leaving_tags();
        let vsi = self.vsi.id;
        self.adminq.execute(&UpdateVsi { vsi, context })?;
        Ok(())
    }

    /// Adds the transmit queue; it is on afterwards.
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

    /// Lets frames to a group pass. `rule` is a rule that exists for the address already.
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

    /// Leaves the group; returns whether the port was in it.
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

/// ITR 2 of the vector of the asynchronous events: its ITR 0 is for the other causes, its ITR 1
/// for a completion event queue that shares the vector.
fn interrupt(vector: Vector) -> Interrupt {
    Interrupt {
        vector,
        timer: ItrIndex::new(2).unwrap_or(ItrIndex::ZERO),
    }
}
