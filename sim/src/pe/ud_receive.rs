//! Received datagrams (data-path 7.2).

use super::device::Device;
use super::env::Env;
use super::qp::{Qp, State};
use super::ud::{Stop, own_qkey};
use super::word::bits16;
use crate::findings::kind;
use crate::rc::{Access, Right, may_talk};
use crate::wire::{Addresses, Packet};
use crate::wqe::{AeSource, Cqe, Datagram, MAX_QUANTA, QUANTUM_WORDS, ReceiveWqe, is_valid};

/// Bytes before the payload in a receive: the GRH, or an IPv4 header in its second half (data-path
/// 7.2).
const GRH: usize = 40;

impl Device {
    /// Receives a datagram for this QP; one that does not fit it is dropped, as UD does.
    pub(super) fn receive_ud(
        &mut self,
        id: u32,
        qp: &mut Qp,
        packet: &Packet<'_>,
        frame: &[u8],
        env: &mut dyn Env,
    ) {
        let Some(deth) = packet.headers.deth else {
            return;
        };
        let ready = matches!(qp.state(), State::Rtr | State::Rts | State::Sqd);
        let bth = &packet.headers.bth;
        // A packet of another version has another meaning.
        if !ready || bth.version != 0 {
            return;
        }
        if !may_talk(bth.pkey, bits16(qp.host[7], 47, 32)) {
            return self.lint_packet(packet, "another partition than the queue pair's", env);
        }
        if deth.qkey != own_qkey(qp) {
            return;
        }
        let (index, _) = qp.receive_head();
        match self.fill_receive(id, qp, packet, frame, env) {
            Ok(()) => {}
            Err(stop) => self.stop_ud(id, qp, stop, AeSource::ReceiveQueue, index, env),
        }
    }

    fn fill_receive(
        &mut self,
        id: u32,
        qp: &mut Qp,
        packet: &Packet<'_>,
        frame: &[u8],
        env: &mut dyn Env,
    ) -> Result<(), Stop> {
        let (index, polarity) = qp.receive_head();
        let mut words = [0; MAX_QUANTA * QUANTUM_WORDS];
        let words = words
            .get_mut(..qp.receive_slot_quanta() as usize * QUANTUM_WORDS)
            .unwrap_or_default();
        self.ring_words(qp.receive_memory(), index, words, env)?;
        if !words
            .get(3)
            .is_some_and(|header| is_valid(*header, polarity))
        {
            return Ok(());
        }
        let wqe = ReceiveWqe::decode(words, polarity)?;
        if !wqe.lints.is_empty() {
            let text = format!("QP {id}: receive queue entry {index}: {:?}", wqe.lints);
            env.finding(kind::WQE_BITS, text);
        }
        let ipv4 = matches!(packet.path.ip, Addresses::V4 { .. });
        let mut data = vec![0; GRH];
        let header = if packet.path.vlan.is_some() { 18 } else { 14 };
        let (skip, take) = if ipv4 { (GRH - 20, 20) } else { (0, GRH) };
        if let (Some(to), Some(from)) = (data.get_mut(skip..), frame.get(header..header + take)) {
            to.copy_from_slice(from);
        }
        data.extend_from_slice(packet.payload);
        if data.len() as u64 > wqe.fragments.total() {
            return Ok(());
        }
        let allowed = qp.allowed(id);
        let mut rest = data.as_slice();
        for part in wqe.fragments.span(0, data.len() as u32) {
            let access = Access {
                qpn: id,
                pd: allowed.pd,
                stag: part.stag,
                addr: part.addr,
                right: Right::LocalWrite,
            };
            let grant = self.grant(&access, part.len.into(), allowed.privileged, env)?;
            let (now, later) = rest.split_at_checked(part.len as usize).unwrap_or_default();
            self.write_grant(&grant, now, env)?;
            rest = later;
        }
        qp.ud.received += 1;
        let bth = &packet.headers.bth;
        let cqe = Cqe {
            payload_len: data.len() as u32,
            psn: bth.psn,
            context: qp.completion_context(),
            qp_id: id,
            datagram: Some(Datagram {
                src_qp: packet.headers.deth.map_or(0, |deth| deth.src_qp),
                ipv4,
                src_mac: Some(packet.path.src_mac),
                vlan: packet.path.vlan,
            }),
            wqe_index: index,
            solicited: bth.solicited,
            // The field holds 6 of the wire opcode's 8 bits.
            op: bth.opcode.0 & 0x3F,
            immediate: packet.headers.immediate,
            ..Cqe::default()
        };
        self.complete_ud(qp.receive_cq(), &cqe, env)?;
        Ok(())
    }
}
