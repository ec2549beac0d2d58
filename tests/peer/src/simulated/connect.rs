//! Queue pairs to RTS: what a kernel does at `modify_qp`.

use e810_cqp::op::{ArpChange, FlushStatus, FlushWqes, IpPair, ManageArp, ModifyQp};
use e810_cqp::qpc::RoceContext;
use e810_hal::{Barrier, DmaWord, DmaWords, Iova};
use e810_types::{FlushCode, HwQpState, MacAddr};

use super::answers::is_listed;
use super::{Address, CONTEXT_BYTES, Pair, Simulated};
use crate::kernel::{Answer, Errno};

/// First PSN in both directions.
const PSN: u32 = 0x00ff_fff0;

impl Simulated {
    /// Puts a neighbour into the device's ARP table.
    ///
    /// # Errors
    /// The device's.
    pub fn know(&mut self, neighbour: Address) -> Answer<()> {
        let (mac, index) = (MacAddr(neighbour.mac), self.next.arp);
        self.command(&ManageArp {
            index,
            change: ArpChange::Add {
                mac,
                permanent: true,
                reach_max: 0,
            },
        })?;
        self.next.arp += 1;
        self.neighbours.insert(neighbour.ip, (mac, index));
        Ok(())
    }

    /// Moves a queue pair to RTS (control-path 5.5): a connected one with its
    /// peer, a datagram one with its Q_Key.
    ///
    /// # Errors
    /// An unknown queue pair or neighbour, or the device's.
    pub fn connect(&mut self, qp: u32, peer: Address, peer_qp: u32, qkey: u32) -> Answer<()> {
        let mut pair = *self.pairs.get(&qp).ok_or(Errno::MISSING)?;
        let (_, arp) = *self.neighbours.get(&peer.ip).ok_or(Errno::MISSING)?;
        let context = &mut pair.context;
        context.qkey = qkey;
        context.psn_next = PSN;
        context.psn_unacked = PSN;
        context.psn_max = PSN;
        context.psn_expected = PSN;
        context.lsn = 0xFFFF;
        context.retries = 7;
        context.rnr_retries = 7;
        context.peer.addresses = IpPair::V4 {
            source: self.address.ip,
            destination: peer.ip,
        };
        context.peer.hop_limit = 64;
        context.peer.arp_index = arp;
        context.peer.endpoint_index = arp.into();
        context.peer.qp = peer_qp;
        let address = self.write_context(qp, &pair.context)?;
        for (state, ord_valid) in [(HwQpState::Rtr, false), (HwQpState::Rts, true)] {
            self.command(&ModifyQp {
                arp_valid: true,
                cqs_valid: true,
                ord_valid,
                ..modify(qp, &pair, address, state)
            })?;
        }
        self.pairs.insert(qp, pair);
        Ok(())
    }

    /// Stops a queue pair that an event reported, and flushes what is outstanding
    /// (control-path 7.6): the first send with code `sq` (data-path 4.4), all
    /// others as flushed.
    ///
    /// # Errors
    /// An unknown queue pair, or the device's.
    pub fn stop(&mut self, qp: u32, sq: u16) -> Answer<()> {
        let pair = *self.pairs.get(&qp).ok_or(Errno::MISSING)?;
        let context = self.context_of(qp)?;
        self.command(&modify(qp, &pair, context, HwQpState::Error))?;
        let code = FlushStatus {
            minor: FlushCode(sq),
            ..FlushStatus::GENERAL
        };
        self.command(&FlushWqes::both(qp, code, FlushStatus::GENERAL))
            .map(drop)
    }

    pub(super) fn context_of(&self, id: u32) -> Answer<Iova> {
        let offset = u64::from(id) * CONTEXT_BYTES as u64;
        self.contexts
            .iova()
            .offset(offset)
            .filter(|_| offset < self.contexts.bytes() as u64)
            .ok_or(Errno::EXHAUSTED)
    }

    pub(super) fn write_context(&self, id: u32, context: &RoceContext) -> Answer<Iova> {
        let words = context.encode().map_err(|_| Errno::INVALID)?;
        let address = self.context_of(id)?;
        let place = self.contexts.block::<{ CONTEXT_BYTES / 8 }>(id as usize);
        for (cell, word) in place.into_iter().flatten().zip(words) {
            cell.set(word);
        }
        self.nic.to_device();
        Ok(address)
    }
}

pub(super) fn modify(qp: u32, pair: &Pair, context: Iova, state: HwQpState) -> ModifyQp {
    ModifyQp {
        virtual_queues: is_listed(&pair.context),
        ..ModifyQp::new(qp, pair.kind, context, pair.shadow, state)
    }
}
