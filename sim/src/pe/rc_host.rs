//! [`Host`](crate::rc::Host) for the RC engine: rings, STags, completions, events and frames of one
//! QP.

use super::aeq::{Event, Named};
use super::cq::Completion;
use super::device::Device;
use super::env::Env;
use super::fpm::Kind;
use super::host_context::mac_bytes;
use super::qp::{Qp, State};
use super::stats::Direction;
use crate::findings::kind;
use crate::rc::{
    Access, AsyncEvent, DropReason, Fault, Host, HostFault, Invalidator, Outcome, READ_ENTRY_WORDS,
    ReceiveCompletion, Ring, SendCompletion, Sent,
};
use crate::wire::{BuildError, Frame, Headers, Packet, Path};
use crate::wqe::{AeCode, Lints, Operation};

/// INVALID_ARP_ENTRY (control-path 7.5).
const INVALID_ARP_ENTRY: u16 = 0x0401;
/// The send queue as an AE source (control-path 7.4).
const SOURCE_SEND_QUEUE: u8 = 0x5;

/// The device as one QP sees it.
pub(super) struct QpHost<'a> {
    pub(super) device: &'a mut Device,
    pub(super) env: &'a mut dyn Env,
    pub(super) id: u32,
    pub(super) qp: &'a mut Qp,
    /// An event has stopped the QP.
    pub(super) stopped: bool,
    /// A frame had no valid ARP entry.
    pub(super) no_arp: bool,
    /// Frames sent, to advance through the transmit FIFO entries.
    pub(super) sent: u64,
    /// Payload was read ahead.
    pub(super) has_ahead: bool,
}

impl QpHost<'_> {
    fn ring_iova(&mut self, ring: Ring, offset: u32) -> Result<u64, HostFault> {
        let memory = match ring {
            Ring::Send => self.qp.send_memory(),
            Ring::Receive => self.qp.receive_memory(),
        };
        let at = memory.at(offset.into(), &mut self.device.hmc, self.env);
        self.device.reached(at, self.env).map_err(|_| HostFault)
    }

    fn read_entry(&self, slot: u16) -> Result<(Kind, u64), HostFault> {
        let entry = self.device.q1_entry(self.id, slot).ok_or(HostFault)?;
        Ok((Kind::Q1, entry))
    }

    /// Writes the transmit FIFO entry of the next frame, unless that would only repeat an earlier
    /// write; false when the entry has no backing.
    fn touch_transmit_entry(&mut self) -> bool {
        let Some(entry) = self.device.xf_entry(self.id, self.sent) else {
            return true;
        };
        let removed = self.env.mappings_removed();
        let removed = removed.filter(|_| self.device.config.shortcuts);
        let generation = removed.map(|removed| {
            // Both only grow.
            removed.wrapping_add(self.device.hmc.generation())
        });
        if let Some(generation) = generation
            && self.qp.touched.contains(generation, entry)
        {
            return true;
        }
        let hmc = &mut self.device.hmc;
        let touched = hmc.touch(Kind::Xf, entry, self.id.into(), self.env);
        let reached = self.device.reached(touched, self.env).is_ok();
        if let Some(generation) = generation.filter(|_| reached) {
            self.qp.touched.insert(generation, entry);
        }
        reached
    }

    fn privileged(&self) -> bool {
        self.qp.allowed(self.id).privileged
    }

    fn event(&mut self, code: u16, source: u8, wqe_index: u16) {
        self.stopped = true;
        let event = Event {
            code,
            source,
            id: self.id,
            wqe_index,
            context: Named::Qp(self.qp.completion_context()),
            state: State::Error as u8,
        };
        self.device.async_event(event, self.env);
    }

    /// Findings about a dropped packet.
    pub(super) fn dropped(&mut self, packet: &Packet<'_>, outcome: Outcome) {
        match outcome {
            Outcome::Dropped(DropReason::Vlan) => {
                self.device
                    .count(self.qp, |counters, _| counters.other_vlan());
            }
            Outcome::Dropped(DropReason::Partition) => {
                let wrong = "another partition than the queue pair's";
                self.device.lint_packet(packet, wrong, self.env);
            }
            _ => {}
        }
    }

    /// The event due for a frame without a destination.
    pub(super) fn report_no_arp(&mut self) {
        self.event(INVALID_ARP_ENTRY, SOURCE_SEND_QUEUE, 0);
    }
}

impl Host for QpHost<'_> {
    fn now_ns(&self) -> u64 {
        self.env.now()
    }

    fn load_ring(&mut self, ring: Ring, offset: u32) -> Result<u64, HostFault> {
        let at = self.ring_iova(ring, offset)?;
        self.env.load(at).map_err(|_| HostFault)
    }

    fn read_ring(&mut self, ring: Ring, offset: u32, words: &mut [u64]) -> Result<(), HostFault> {
        // Inside a 256-byte chunk, and so inside a page.
        let at = self.ring_iova(ring, offset)?;
        self.env.load_words(at, words).map_err(|_| HostFault)
    }

    fn load_quantum(&mut self, ring: Ring, offset: u32) -> Result<[u64; 4], HostFault> {
        let at = self.ring_iova(ring, offset)?;
        self.env.load_quantum(at).map_err(|_| HostFault)
    }

    fn load_read(&mut self, slot: u16) -> Result<[u64; READ_ENTRY_WORDS], HostFault> {
        let mut words = [0; READ_ENTRY_WORDS];
        let entry = self.read_entry(slot)?;
        let read = self.device.hmc.read(entry, 0, &mut words, self.env);
        self.device.reached(read, self.env).map_err(|_| HostFault)?;
        Ok(words)
    }

    fn store_read(&mut self, slot: u16, words: [u64; READ_ENTRY_WORDS]) -> Result<(), HostFault> {
        let entry = self.read_entry(slot)?;
        let written = self.device.hmc.write(entry, 0, &words, self.env);
        self.device
            .reached(written, self.env)
            .map_err(|_| HostFault)
    }

    fn takes_shortcuts(&self) -> bool {
        self.device.config.shortcuts
    }

    fn remember(&mut self, sent: Sent) {
        if self.device.config.shortcuts {
            self.qp.in_flight.push(sent);
        }
    }

    fn recall(&mut self, pos: u64) -> Option<Sent> {
        self.qp.in_flight.find(pos)
    }

    fn check(&mut self, access: Access, len: u32) -> Result<(), Fault> {
        let privileged = self.privileged();
        self.device
            .check_access(&access, len.into(), privileged, self.env)
    }

    fn read(&mut self, access: Access, out: &mut [u8]) -> Result<(), Fault> {
        let privileged = self.privileged();
        self.device.read_access(&access, out, privileged, self.env)
    }

    fn reads_ahead(&self) -> bool {
        self.device.config.shortcuts && self.env.reads_ahead()
    }

    fn read_ahead(&mut self, access: Access, len: u32) {
        let privileged = self.privileged();
        self.device
            .read_access_ahead(&access, len.into(), privileged, self.env);
        self.has_ahead = true;
    }

    fn forget_ahead(&mut self) {
        if std::mem::take(&mut self.has_ahead) {
            self.env.forget_ahead();
        }
    }

    fn write(&mut self, access: Access, data: &[u8]) -> Result<(), Fault> {
        let privileged = self.privileged();
        self.device
            .write_access(&access, data, privileged, self.env)
    }

    fn invalidate(&mut self, stag: u32, by: Invalidator) -> Result<(), Fault> {
        self.device
            .invalidate_stag(stag, by, self.qp.pd(), self.env)?;
        self.device
            .count(self.qp, |counters, _| counters.invalidate());
        Ok(())
    }

    fn local_operation(&mut self, operation: &Operation) -> Result<(), Fault> {
        self.device
            .stag_operation(operation, self.qp.allowed(self.id), self.env)?;
        if matches!(operation, Operation::BindWindow { .. }) {
            self.device.count(self.qp, |counters, _| counters.bind());
        }
        Ok(())
    }

    fn complete_send(&mut self, completion: &SendCompletion) -> Result<(), HostFault> {
        let cqe = completion.cqe(self.id, self.qp.completion_context());
        let encode = |polarity, next| cqe.encode(polarity, next);
        let completion = Completion {
            slots: cqe.slots() as u32,
            encode: &encode,
            solicited: false,
        };
        self.device
            .complete(self.qp.send_cq(), &completion, self.env)
            .map_err(|_| HostFault)
    }

    fn complete_receive(&mut self, completion: &ReceiveCompletion) -> Result<(), HostFault> {
        let solicited = completion.solicited;
        let cqe = completion.cqe(self.id, self.qp.completion_context());
        let encode = |polarity, next| cqe.encode(polarity, next);
        let completion = Completion {
            slots: cqe.slots() as u32,
            encode: &encode,
            solicited,
        };
        self.device
            .complete(self.qp.receive_cq(), &completion, self.env)
            .map_err(|_| HostFault)
    }

    fn report(&mut self, event: AsyncEvent) {
        let AeCode(code) = event.code;
        self.event(code, event.source as u8, event.wqe_index);
    }

    fn start_frame(
        &mut self,
        path: &Path,
        headers: &Headers,
        payload_len: usize,
    ) -> Result<Frame, BuildError> {
        if !self.device.config.shortcuts {
            return Frame::new(path, headers, payload_len);
        }
        let buffer = self.env.frame_buffer();
        self.qp.template.frame(path, headers, payload_len, buffer)
    }

    fn transmit(&mut self, mut frame: Vec<u8>) {
        // The destination MAC is looked up for each packet, as the card does from ARPIDX; it is not
        // part of the ICRC.
        let arp = self.device.arp(self.qp.arp_index(), self.env);
        let (Ok(Some(arp)), Some(destination)) = (arp, frame.first_chunk_mut::<6>()) else {
            self.no_arp = true;
            return;
        };
        *destination = mac_bytes(arp.mac);
        if !self.touch_transmit_entry() {
            return;
        }
        self.sent += 1;
        // A queue set that was removed from the LAN's scheduler is no longer served.
        if !self.env.has_queue_set(self.qp.queue_set()) {
            return;
        }
        self.device.count(self.qp, |counters, choices| {
            counters.frame(&frame, Direction::Transmit, choices);
        });
        self.env.transmit(frame);
    }

    fn lint(&mut self, ring: Ring, wqe_index: u16, lints: Lints) {
        if !lints.is_empty() {
            let text = format!(
                "QP {}: {ring:?} queue entry {wqe_index}: {lints:?}",
                self.id
            );
            self.env.finding(kind::WQE_BITS, text);
        }
    }
}
