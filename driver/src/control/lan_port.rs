//! The LAN port: Ethernet frames beside the RDMA engine.

use e810_hal::Platform;
use e810_lan::{LanInit, MAX_MTU};
use e810_types::MacAddr;

use super::Control;
use crate::error::{Error, Object, Result};
use crate::ids::next_tag;
use crate::lan::{ALL_NODES, LanPort, LanPortKey, LanSide, check_mtu};

impl<P: Platform> Control<P> {
    /// Makes the function's LAN queues, one in each direction, and switches them on. They carry
    /// Ethernet frames that do not belong to the RDMA engine, such as ARP, neighbour discovery
    /// and ICMP. There is one port; nothing of it exists before this call.
    ///
    /// # Errors
    /// [`Error::Invalid`] where another driver has set the function up: its LAN queues
    /// are that driver's. [`Error::Exhausted`] while a port is open; settings out of
    /// range, no memory, refused commands, a device that does not answer. What was
    /// made is undone.
    pub fn open_lan(&mut self, init: &LanInit) -> Result<LanPort<P>> {
        let owner = self.tag();
        let vector = self.wiring.at(0);
        let all_nodes = self.groups.rule_of(ALL_NODES);
        let (Some(lan), Some(vector)) = (self.lan_side.owned_mut(), vector) else {
            return Err(NOT_OURS);
        };
        let number = next_tag();
        let queues = lan.open_queues(&self.platform, init, (vector, number), all_nodes)?;
        let key = LanPortKey { owner, number };
        Ok(LanPort { queues, key })
    }

    /// Switches the LAN queues off and gives their memory back. Frames that have not left, or
    /// were not received, are lost.
    ///
    /// # Errors
    /// [`Error::Foreign`] with the port. Otherwise the first step that failed, without the port:
    /// what the device may still use is kept. The step is tried again when a port is opened and
    /// at the [shutdown](Self::shutdown), whose reset of the function frees it in any case.
    pub fn close_lan(&mut self, port: LanPort<P>) -> Result<(), (Option<LanPort<P>>, Error)> {
        if let Err(error) = self.own(port.key.owner, Object::LanPort, 0) {
            return Err((Some(port), error));
        }
        let groups = &self.groups;
        match self.lan_side.owned_mut() {
            Some(lan) => lan
                .close_queues(port.queues, |rule| groups.users_of(rule) > 0)
                .map_err(|error| (None, error)),
            None => Err((Some(port), NOT_OURS)),
        }
    }

    /// Sets the interface's MTU, in bytes. From now on it limits the path MTU
    /// ([`query_port`](Self::query_port)). Queue pairs that have a path keep theirs, and LAN
    /// queues take frames of the length that they were opened for. No command.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] beyond what the function takes.
    pub fn set_mtu(&mut self, mtu: u16) -> Result<()> {
        let most = self.lan_side.owned().map(LanSide::max_mtu);
        check_mtu("interface MTU", mtu, most.unwrap_or(MAX_MTU))?;
        self.lan.mtu = mtu;
        Ok(())
    }

    /// Lets frames to a multicast address pass, for example to the solicited-node group of an
    /// IPv6 address (33:33:ff and its last three bytes). One call is enough. `port` is the port,
    /// or its [`key`](LanPort::key) where another thread has it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not a group's, [`Error::Foreign`],
    /// [`Error::NoSuch`] for a port that is closed, [`Error::Exhausted`] beyond
    /// [`LAN_GROUPS`](crate::LAN_GROUPS), or the firmware's refusal.
    pub fn join_lan_group(&mut self, port: impl Into<LanPortKey>, mac: MacAddr) -> Result<()> {
        let rule = self.groups.rule_of(mac);
        self.lan_of(port.into(), mac)?.join(mac, rule)
    }

    /// Leaves such a group.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if the port is not in the group; otherwise as
    /// [`join_lan_group`](Self::join_lan_group).
    pub fn leave_lan_group(&mut self, port: impl Into<LanPortKey>, mac: MacAddr) -> Result<()> {
        self.lan_of(port.into(), mac)?;
        let groups = &self.groups;
        let lan = self.lan_side.owned_mut().ok_or(NOT_OURS)?;
        if lan.leave(mac, |rule| groups.users_of(rule) > 0) {
            return Ok(());
        }
        Err(Error::NoSuch {
            object: Object::McastGroup,
            id: 0,
        })
    }

    fn lan_of(&mut self, port: LanPortKey, MacAddr(mac): MacAddr) -> Result<&mut LanSide<P>> {
        self.own(port.owner, Object::LanPort, 0)?;
        if mac.first().is_none_or(|first| first & 1 == 0) {
            return Err(Error::Invalid {
                what: "a group's MAC address has bit 0 of its first byte set",
            });
        }
        let lan = self.lan_side.owned_mut().ok_or(NOT_OURS)?;
        if lan.has_open(port.number) {
            return Ok(lan);
        }
        Err(Error::NoSuch {
            object: Object::LanPort,
            id: 0,
        })
    }
}

const NOT_OURS: Error = Error::Invalid {
    what: "LAN queues need a function that this driver has started (bring_up_cold): on another one they belong to the driver that has set it up",
};
