//! Transmit queues: descriptors to packets, and packets to frames (lan-path 3.4, 4).

use super::segment::{IpKind, L4Kind, Offload, frames};
use super::tx_context::TxContext;
use super::{LanQueues, LanVsi};
use crate::findings::kind;
use crate::function::EngineEnv;
use crate::fw::Firmware;
use crate::pe::Env;

/// Bytes of a descriptor; its second word holds type, command and lengths.
const LEN: u64 = 16;
/// Types of descriptors; the last one marks a descriptor that is done.
const DATA: u64 = 0;
const CONTEXT: u64 = 1;
const FILTER: u64 = 8;
const DONE: u64 = 0xF;
/// Commands of a data descriptor.
const EOP: u32 = 4;
const RS: u32 = 5;
const IL2TAG1: u32 = 7;
const DUMMY: u32 = 8;
/// Commands of a context descriptor.
const TSO: u32 = 4;
const IL2TAG2: u32 = 6;
/// Shortest packet, and most descriptors of one that is not segmented (lan-path 1.4).
const SHORTEST: usize = 17;
const MOST: u32 = 8;
/// Bytes gathered for one packet: the maximum of TSO_LEN, and headers.
const LONGEST: usize = (1 << 18) + 1024;

fn bit(word: u64, at: u32) -> bool {
    word >> at & 1 != 0
}

fn bits(word: u64, high: u32, low: u32) -> u64 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// A packet whose last descriptor has not arrived.
#[derive(Clone, Debug, Default)]
struct Packet {
    bytes: Vec<u8>,
    descriptors: u32,
    /// Both words of its context descriptor.
    context: Option<(u64, u64)>,
    /// Not a packet: it programs a filter.
    is_dummy: bool,
}

/// A queue that the firmware has added.
#[derive(Clone, Debug)]
pub(super) struct TxQueue {
    context: TxContext,
    head: u32,
    packet: Packet,
}

/// Result of a doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// The queue's new head.
    pub(crate) head: u32,
    /// A descriptor was written back.
    pub(crate) has_reported: bool,
}

impl TxQueue {
    pub(super) fn new(context: TxContext) -> Self {
        Self {
            context,
            head: 0,
            packet: Packet::default(),
        }
    }

    fn bad_packet(number: u16, what: &str, env: &mut EngineEnv<'_>) {
        let text = format!("LAN transmit queue {number}: {what}");
        env.found(kind::LAN_PACKET, text);
    }

    /// Executes the descriptors up to `tail`.
    fn run(
        &mut self,
        number: u16,
        tail: u32,
        sender: &Sender<'_>,
        env: &mut EngineEnv<'_>,
    ) -> Sent {
        let mut sent = Sent {
            head: self.head,
            has_reported: false,
        };
        while self.head != tail {
            let at = self.context.base.wrapping_add(u64::from(self.head) * LEN);
            let mut words = [0; 2];
            // The access records a finding if the memory cannot be reached; the queue stops there.
            if env.load_words(at, &mut words).is_err() {
                break;
            }
            let [address, word] = words;
            match bits(word, 3, 0) {
                DATA => {
                    if self.gather(number, address, word, env).is_err() {
                        break;
                    }
                    if bit(word, EOP) {
                        let packet = std::mem::take(&mut self.packet);
                        sender.send(number, &packet, word, env);
                    }
                    if bit(word, RS) {
                        if env.store(at.wrapping_add(8), DONE).is_err() {
                            break;
                        }
                        sent.has_reported = true;
                    }
                }
                CONTEXT => self.packet.context = Some((address, word)),
                // The filter that it programs is not modelled: no filter directs frames here.
                FILTER => {}
                other => {
                    let what = format!("a descriptor of type {other}");
                    Self::bad_packet(number, &what, env);
                }
            }
            self.head = (self.head + 1) % self.context.length;
            sent.head = self.head;
        }
        sent
    }

    /// Reads the memory that a data descriptor names.
    fn gather(
        &mut self,
        number: u16,
        address: u64,
        word: u64,
        env: &mut EngineEnv<'_>,
    ) -> Result<(), crate::pe::DmaFault> {
        let packet = &mut self.packet;
        packet.descriptors += 1;
        packet.is_dummy |= bit(word, DUMMY);
        let len = bits(word, 47, 34) as usize;
        let from = packet.bytes.len();
        if from + len > LONGEST {
            let what = format!("a packet of more than {LONGEST} bytes");
            Self::bad_packet(number, &what, env);
            self.packet = Packet::default();
            return Ok(());
        }
        packet.bytes.resize(from + len, 0);
        let room = packet.bytes.get_mut(from..).unwrap_or_default();
        env.read(address, room)
    }
}

/// Destination that a context descriptor sets, whatever the switch's rules say (lan-path 4.2): the
/// port, or VSIs; 0 leaves it to the switch.
fn destination((_, second): (u64, u64)) -> u64 {
    bits(second, 9, 8)
}

const TO_THE_UPLINK: u64 = 1;

/// What all frames of a queue have in common.
pub(crate) struct Sender<'a> {
    /// The firmware whose rules may drop a frame.
    pub(crate) firmware: &'a Firmware,
    /// The sending VSI, and its number.
    pub(crate) vsi: LanVsi,
    pub(crate) number: u16,
    /// Longest frame of the port, FCS included.
    pub(crate) max_frame: usize,
}

impl Sender<'_> {
    fn offload(&self, packet: &Packet, word: u64) -> Offload {
        let mut offload = Offload {
            ip: match bits(word, 10, 9) {
                0 => IpKind::None,
                1 => IpKind::V6,
                2 => IpKind::V4,
                _ => IpKind::V4Checksum,
            },
            l4: match bits(word, 13, 12) {
                0 => L4Kind::None,
                1 => L4Kind::Tcp,
                2 => L4Kind::Sctp,
                _ => L4Kind::Udp,
            },
            mac_len: bits(word, 22, 16) as usize * 2,
            ip_len: bits(word, 29, 23) as usize * 4,
            l4_len: bits(word, 33, 30) as usize * 4,
            inner_tag: bit(word, IL2TAG1).then(|| bits(word, 63, 48) as u16),
            ..Offload::default()
        };
        if let Some((first, second)) = packet.context {
            if bit(second, IL2TAG2) {
                offload.outer_tag = Some((self.vsi.outer_type, bits(first, 47, 32) as u16));
            }
            if bit(second, TSO) {
                let mss = bits(second, 63, 50) as u16;
                offload.segments = Some((bits(second, 47, 30) as u32, mss));
            }
        }
        offload
    }

    /// Makes frames from a packet, whose last descriptor has `word`, and sends them.
    fn send(&self, number: u16, packet: &Packet, word: u64, env: &mut EngineEnv<'_>) {
        if packet.is_dummy {
            return;
        }
        let len = packet.bytes.len();
        if len < SHORTEST {
            let what = format!("a packet of {len} bytes; the shortest has {SHORTEST}");
            return TxQueue::bad_packet(number, &what, env);
        }
        // EIPT and L4TUNT: outer headers.
        if packet
            .context
            .is_some_and(|(first, _)| bits(first, 1, 0) != 0 || bits(first, 10, 9) != 0)
        {
            // Offloads inside tunnels are not modelled.
            return env.state.lan_queues.counters.not_sent(self.number);
        }
        let destination = packet.context.map_or(0, destination);
        if destination != 0 && !self.firmware.may_name_destination(self.number) {
            let what = "a packet names its destination, and its VSI lacks ALLOW_DEST_OVRD";
            return TxQueue::bad_packet(number, what, env);
        }
        let offload = self.offload(packet, word);
        if packet.descriptors > MOST && offload.segments.is_none() {
            let what = format!(
                "a packet of {} descriptors; {MOST} at most",
                packet.descriptors
            );
            return TxQueue::bad_packet(number, &what, env);
        }
        match frames(&packet.bytes, &offload) {
            Ok(frames) => {
                let is_checked = destination != TO_THE_UPLINK;
                for frame in frames {
                    let to_itself = frame.first_chunk() == Some(&env.state.mac);
                    let is_dropped = is_checked
                        && (self.firmware.drops_sent(self.number, &frame)
                            || !to_itself && !self.firmware.lets_out(self.number, &frame));
                    if is_dropped || super::rx::wire_len(&frame) > self.max_frame {
                        env.state.lan_queues.counters.not_sent(self.number);
                        continue;
                    }
                    env.state.lan_queues.counters.vsi_sent(self.number, &frame);
                    env.transmit_lan(frame);
                }
            }
            Err(refused) => TxQueue::bad_packet(number, &refused.to_string(), env),
        }
    }
}

impl LanQueues {
    /// The VSI that queue `number` sends for.
    pub(crate) fn vsi_of(&self, number: u16) -> Option<u16> {
        self.tx.get(&number).map(|queue| queue.context.vsi)
    }

    /// The driver has posted up to `tail` on transmit queue `number`. `None` when the queue does
    /// not exist or cannot be served, which is a finding.
    pub(crate) fn doorbell(
        number: u16,
        tail: u32,
        sender: &Sender<'_>,
        env: &mut EngineEnv<'_>,
    ) -> Option<Sent> {
        let mut queue = env.state.lan_queues.tx.remove(&number)?;
        let length = queue.context.length;
        let sent = if tail < length {
            Some(queue.run(number, tail, sender, env))
        } else {
            let text = format!("LAN transmit queue {number}: tail {tail} of {length} descriptors");
            env.found(kind::LAN_RING, text);
            None
        };
        env.state.lan_queues.tx.insert(number, queue);
        sent
    }
}
