//! Commands as functions, with the answer that each has.

use std::net::IpAddr;

use e810::{
    AccessFlags, AttrMask, DeviceAttr, GidEntry, Path, PortAttr, QpAttr, QpCaps, QueriedQp,
};

use e810_node::route::Neighbour;

use super::command::{Answer, Command, Handover, Memory, MrChanges, NewQp, Token};
use super::{ControlPlane, Refused};
use crate::rings::{CqRings, QpRings};

/// Gives a command, and takes the one kind of answer that it has.
macro_rules! ask {
    ($plane:expr, $command:expr, $answer:pat => $value:expr) => {
        match $plane.call($command)? {
            $answer => Ok($value),
            other => Err(Refused::unexpected(&other)),
        }
    };
}

#[derive(Debug)]
pub(crate) struct MadeCq {
    pub(crate) number: u32,
    pub(crate) entries: u32,
    pub(crate) rings: Box<dyn CqRings>,
}

#[derive(Debug)]
pub(crate) struct MadeQp {
    pub(crate) number: u32,
    pub(crate) caps: QpCaps,
    pub(crate) rings: Box<dyn QpRings>,
}

type Asked<T> = Result<T, Refused>;

impl dyn ControlPlane + '_ {
    /// What the device offers.
    pub fn query_device(&self) -> Asked<DeviceAttr> {
        ask!(self, Command::QueryDevice, Answer::Device(attr) => attr)
    }

    /// What a port, from 1, says of itself.
    pub fn query_port(&self, port: u8) -> Asked<PortAttr> {
        ask!(self, Command::QueryPort(port), Answer::Port(attr) => attr)
    }

    /// An entry of the GID table, if there is one.
    pub fn query_gid(&self, index: u8) -> Asked<Option<GidEntry>> {
        ask!(self, Command::QueryGid(index), Answer::Gid(entry) => entry)
    }

    /// An entry of a port's P_Key table.
    pub fn query_pkey(&self, port: u8, index: u16) -> Asked<u16> {
        ask!(self, Command::QueryPkey { port, index }, Answer::Pkey(key) => key)
    }

    pub(crate) fn resolve(&self, destination: IpAddr, vlan: Option<u16>) -> Asked<Neighbour> {
        ask!(self, Command::Resolve(destination, vlan), Answer::Resolved(found) => found)
    }

    pub(crate) fn alloc_pd(&self) -> Asked<u32> {
        ask!(self, Command::AllocPd, Answer::Number(number) => number)
    }

    pub(crate) fn dealloc_pd(&self, number: u32) -> Asked<()> {
        ask!(self, Command::DeallocPd(number), Answer::Done => ())
    }

    pub(crate) fn reg_mr(
        &self,
        pd: u32,
        memory: Memory,
        iova: u64,
        access: AccessFlags,
    ) -> Asked<u32> {
        let command = Command::RegMr {
            pd,
            memory,
            iova,
            access,
        };
        ask!(self, command, Answer::Key(key) => key)
    }

    pub(crate) fn rereg_mr(&self, key: u32, changes: MrChanges) -> Asked<u32> {
        ask!(self, Command::ReregMr(key, changes), Answer::Key(key) => key)
    }

    pub(crate) fn dereg_mr(&self, key: u32) -> Asked<()> {
        ask!(self, Command::DeregMr(key), Answer::Done => ())
    }

    pub(crate) fn create_cq(&self, entries: u32, vector: u16, token: Token) -> Asked<MadeCq> {
        let command = Command::CreateCq {
            entries,
            vector,
            token,
        };
        ask!(self, command, Answer::Cq { number, entries, rings } => MadeCq { number, entries, rings })
    }

    pub(crate) fn resize_cq(&self, cq: u32, entries: u32) -> Asked<(u32, Option<Handover>)> {
        let command = Command::ResizeCq(cq, entries);
        ask!(self, command, Answer::CqResized { entries, handover } => (entries, handover))
    }

    pub(crate) fn destroy_cq(&self, cq: u32) -> Asked<Handover> {
        ask!(self, Command::DestroyCq(cq), Answer::Handover(destroyed) => destroyed)
    }

    pub(crate) fn create_qp(&self, new: NewQp) -> Asked<MadeQp> {
        ask!(self, Command::CreateQp(new), Answer::Qp { number, caps, rings } => MadeQp { number, caps, rings })
    }

    pub(crate) fn modify_qp(&self, qp: u32, attr: QpAttr) -> Asked<()> {
        ask!(self, Command::ModifyQp(qp, Box::new(attr)), Answer::Done => ())
    }

    pub(crate) fn query_qp(&self, qp: u32, mask: AttrMask) -> Asked<QueriedQp> {
        ask!(self, Command::QueryQp(qp, mask), Answer::QueriedQp(queried) => *queried)
    }

    pub(crate) fn begin_reset(&self, qp: u32, attr: QpAttr) -> Asked<()> {
        ask!(self, Command::BeginReset(qp, Box::new(attr)), Answer::Done => ())
    }

    pub(crate) fn reopen(&self, qp: u32) -> Asked<Handover> {
        ask!(self, Command::Reopen(qp), Answer::Handover(reopened) => reopened)
    }

    pub(crate) fn finish_reset(&self, qp: u32) -> Asked<()> {
        ask!(self, Command::FinishReset(qp), Answer::Done => ())
    }

    pub(crate) fn destroy_qp(&self, qp: u32) -> Asked<Handover> {
        ask!(self, Command::DestroyQp(qp), Answer::Handover(destroyed) => destroyed)
    }

    pub(crate) fn create_ah(&self, pd: u32, path: Path) -> Asked<u32> {
        ask!(self, Command::CreateAh(pd, path), Answer::Number(number) => number)
    }

    pub(crate) fn destroy_ah(&self, ah: u32) -> Asked<()> {
        ask!(self, Command::DestroyAh(ah), Answer::Done => ())
    }

    pub(crate) fn attach_mcast(&self, qp: u32, group: IpAddr) -> Asked<()> {
        ask!(self, Command::AttachMcast(qp, group), Answer::Done => ())
    }

    pub(crate) fn detach_mcast(&self, qp: u32, group: IpAddr) -> Asked<()> {
        ask!(self, Command::DetachMcast(qp, group), Answer::Done => ())
    }
}
