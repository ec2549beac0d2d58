//! Receive queues (lan-path 5).

use crate::findings::kind;
use e810_hal::RegOffset;

use super::headers::{Parsed, parse};
use super::rx_descriptor::Report;
use super::tx_context::field;
use super::{FCS, LanQueues, LanVsi};
use crate::function::EngineEnv;
use crate::pe::Env;
use crate::regs::lan::place;

/// Maximum buffers of a frame.
const BUFFERS: usize = 5;

/// An enabled queue: its context when it was enabled.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxQueue {
    base: u64,
    length: u32,
    /// Bytes of a buffer.
    buffer: usize,
    /// Bytes of a descriptor.
    descriptor: u64,
    strips_fcs: bool,
    /// The removed tag goes to L2TAG1.
    l2tsel: bool,
    longest: usize,
    rxdid: u8,
    /// The next descriptor to fill.
    head: u32,
}

impl RxQueue {
    /// Reads the context of queue `number` from its registers.
    fn from_registers(number: u16, env: &EngineEnv<'_>) -> Self {
        let get = |off: Option<RegOffset>| off.map_or(0, |off| env.state.registers.get(off));
        let context: Vec<u8> = (0..8)
            .flat_map(|dword| get(place::rx_context(dword, number)).to_le_bytes())
            .collect();
        let field = |low, width| field(&context, low, width);
        Self {
            head: field(0, 13) as u32,
            // In units of 128 bytes.
            base: field(32, 57) << 7,
            length: field(89, 13) as u32,
            buffer: field(102, 7) as usize * 128,
            descriptor: if field(116, 1) != 0 { 32 } else { 16 },
            strips_fcs: field(117, 1) != 0,
            l2tsel: field(119, 1) != 0,
            longest: field(174, 14) as usize,
            rxdid: get(place::rx_profile(number)) as u8 & 0x3F,
        }
    }

    /// Descriptors that the device owns, from its head to `tail`, whose lower three bits do not
    /// count.
    fn room(&self, tail: u32) -> usize {
        let tail = tail & !7;
        let room = (tail + self.length).checked_sub(self.head);
        // A tail outside the ring is a finding when it is written.
        room.filter(|_| self.length != 0 && tail < self.length)
            .map_or(0, |room| (room % self.length) as usize)
    }

    /// Writes a frame to the buffers; false when it does not fit.
    fn put(&mut self, frame: &Arriving<'_>, tail: u32, env: &mut EngineEnv<'_>) -> bool {
        let mut bytes = frame.bytes.to_vec();
        if !self.strips_fcs {
            let fcs = crc32fast::hash(&bytes);
            bytes.extend_from_slice(&fcs.to_le_bytes());
        }
        let count = if self.buffer == 0 {
            0
        } else {
            bytes.len().div_ceil(self.buffer)
        };
        let fits = (1..=BUFFERS.min(self.room(tail))).contains(&count);
        if !fits || frame.bytes.len() > self.longest {
            return false;
        }
        for (index, piece) in bytes.chunks(self.buffer).enumerate() {
            let at = self
                .base
                .wrapping_add(u64::from(self.head) * self.descriptor);
            // The access records a finding if the memory cannot be reached.
            let Ok(buffer) = env.load(at) else {
                return false;
            };
            if env.write(buffer, piece).is_err() {
                return false;
            }
            let report = Report {
                rxdid: self.rxdid,
                len: piece.len() as u16,
                is_last: index + 1 == count,
                parsed: frame.parsed,
                tag: frame.tag.map(|tag| (tag, self.l2tsel)),
                hash: frame.hash,
                has_fcs: !self.strips_fcs,
            };
            let words = report.words();
            let words = words
                .get(..self.descriptor as usize / 8)
                .unwrap_or_default();
            if env.write_entry(at, words, 1).is_err() {
                return false;
            }
            self.head = (self.head + 1) % self.length;
        }
        true
    }
}

/// A frame for a queue.
struct Arriving<'a> {
    bytes: &'a [u8],
    parsed: Parsed,
    /// The removed tag.
    tag: Option<u16>,
    hash: Option<u32>,
}

impl LanQueues {
    /// QRX_CTRL of queue `number` was written: the queue is enabled or disabled from now on.
    pub(crate) fn switch_rx(number: u16, on: bool, env: &mut EngineEnv<'_>) {
        let is_on = env.state.lan_queues.rx.contains_key(&number);
        if on && !is_on {
            let queue = RxQueue::from_registers(number, env);
            env.state.lan_queues.rx.insert(number, queue);
        } else if !on {
            env.state.lan_queues.rx.remove(&number);
        }
    }

    /// QRX_TAIL of queue `number` was written.
    pub(crate) fn rx_tail(number: u16, tail: u32, env: &mut EngineEnv<'_>) {
        let Some(queue) = env.state.lan_queues.rx.get(&number) else {
            // Takes effect when the queue is enabled.
            return;
        };
        if tail >= queue.length {
            let text = format!(
                "LAN receive queue {number}: tail {tail} of {} descriptors",
                queue.length
            );
            env.found(kind::LAN_RING, text);
        }
    }

    /// Delivers a frame to VSI `number`. Returns whether a queue took it.
    pub(crate) fn receive(
        number: u16,
        vsi: &LanVsi,
        frame: &[u8],
        env: &mut EngineEnv<'_>,
    ) -> bool {
        let queues = &mut env.state.lan_queues;
        queues.counters.vsi_received(number, frame);
        let taken = Self::put(vsi, frame, env);
        if !taken {
            env.state.lan_queues.counters.vsi_discarded(number);
        }
        taken
    }

    fn put(vsi: &LanVsi, frame: &[u8], env: &mut EngineEnv<'_>) -> bool {
        let Some(mut queue) = env.state.lan_queues.rx.get(&vsi.queue).copied() else {
            return false;
        };
        let tail = place::rx_tail_of(vsi.queue).map_or(0, |off| env.state.registers.get(off));
        let stripped = vsi.strip.and_then(|kind| strip(frame, kind));
        let (tag, bytes) = match &stripped {
            Some((tag, bytes)) => (Some(*tag), bytes.as_slice()),
            None => (None, frame),
        };
        let arriving = Arriving {
            bytes,
            parsed: parse(frame),
            tag,
            hash: vsi.hash,
        };
        let taken = queue.put(&arriving, tail, env);
        env.state.lan_queues.rx.insert(vsi.queue, queue);
        if taken && let Some(off) = place::rx_interrupt(vsi.queue) {
            env.raise_cause("QINT_RQCTL", off);
        }
        taken
    }
}

/// Removes the first tag of a frame, if it is of type `kind`.
fn strip(frame: &[u8], kind: u16) -> Option<(u16, Vec<u8>)> {
    let (addresses, rest) = frame.split_at_checked(12)?;
    let (tag, rest) = rest.split_first_chunk::<4>()?;
    let [t0, t1, v0, v1] = *tag;
    if u16::from_be_bytes([t0, t1]) != kind {
        return None;
    }
    Some((u16::from_be_bytes([v0, v1]), [addresses, rest].concat()))
}

/// Bytes of a frame on the wire, FCS included.
pub(crate) const fn wire_len(frame: &[u8]) -> usize {
    frame.len() + FCS
}
