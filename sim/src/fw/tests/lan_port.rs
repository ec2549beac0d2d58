//! A driver's end of one LAN transmit and one receive queue, for tests: rings and contexts are
//! written word by word (lan-path 3 to 5).

use e810_hal::{Bus, DmaAlloc, DmaLayout, Ns, RawDma, RegOffset};

use super::client::{Client, params};
use super::scheduler::{branch, group, lan_queue};
use super::switch::mac_rule;
use crate::pe::Env;
use crate::{Builder, Sim};

pub(super) const ONE: [(usize, &[u8]); 1] = [(0, &[1])];
/// Descriptors of each ring.
pub(super) const LENGTH: u32 = 64;
/// Bytes of a receive buffer, and the start of the buffers in the port's memory.
pub(super) const BUFFER: usize = 1024;
const BUFFERS: u64 = 256 << 10;
/// sw_flags2 and inner_vlan_flags of a VSI; LAN_ENA; a VSI that leaves tags in place.
pub(super) const SW_FLAGS: usize = 3;
pub(super) const INNER_VLAN: usize = 12;
pub(super) const LEAVE_TAGS: u8 = 0x1B;
/// End of packet and report status of a data descriptor.
pub(super) const LAST: u64 = 0x30;

pub(super) fn reg(off: u32) -> RegOffset {
    RegOffset::new(off)
}

pub(super) const QRX_CTRL: u32 = 0x12_0000;
pub(super) const QRX_TAIL: u32 = 0x29_0000;
pub(super) const QTX_COMM_DBELL: u32 = 0x2C_0000;
const QRX_CONTEXT: u32 = 0x28_0000;
const QRXFLXP_CNTXT: u32 = 0x48_0000;

/// A received frame: its descriptors, and the bytes in their buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Received {
    pub(super) words: Vec<[u64; 4]>,
    pub(super) bytes: Vec<u8>,
}

impl Received {
    pub(super) fn last(&self) -> [u64; 4] {
        *self.words.last().unwrap()
    }
}

pub(super) struct Port {
    pub(super) client: Client,
    pub(super) vsi: u16,
    pub(super) memory: RawDma,
    tx: RawDma,
    rx: RawDma,
    tail: u32,
    next: u32,
}

/// Settings of a receive queue.
#[derive(Clone, Copy)]
pub(super) struct RxContext {
    pub(super) rxdid: u32,
    pub(super) longest: u64,
    pub(super) strips_fcs: bool,
    pub(super) l2tsel: bool,
}

impl Default for RxContext {
    fn default() -> Self {
        Self {
            rxdid: 2,
            longest: 4 * BUFFER as u64,
            strips_fcs: true,
            l2tsel: true,
        }
    }
}

/// Properties of a VSI with queue 0 that leaves tags in place.
pub(super) fn properties() -> [u8; 128] {
    let mut props = [0; 128];
    // Sections VLAN, queue map and queue options.
    props[0] = 1 << 2 | 1 << 6 | 1 << 7;
    props[INNER_VLAN] = LEAVE_TAGS;
    props[SW_FLAGS + 1] = 1 << 4;
    props[32] = 1;
    props
}

impl Port {
    /// Queues of function `pf`, whose VSI gets frames for its address and broadcasts.
    pub(super) fn new(sim: &Sim, pf: u8, props: &[u8; 128], context: RxContext) -> Self {
        let mut client = Client::on(sim, pf);
        if pf == 0 {
            client.download();
        }
        let mut props = *props;
        props[2] = 1 + pf;
        let reply = client.tell(0x0210, params(&[(6, &[2])]), &props).ok();
        let vsi = reply.param16(0);
        for mac in [client.nic.mac(), [0xFF; 6]] {
            client.tell(0x02a0, params(&ONE), &mac_rule(vsi, mac)).ok();
        }
        let parent = group(&mut client);
        Self::with(client, vsi, parent, context)
    }

    /// The same in the way of iPXE (lan-path 19): the firmware's VSI, two receive rules, the queue
    /// below the last default node, no package.
    pub(super) fn as_ipxe(sim: &Sim, pf: u8, context: RxContext) -> Self {
        let mut client = Client::on(sim, pf);
        let vsi = client.ask(0x0200, [0; 16], 2048).ok();
        let mut vsis = (0..vsi.param16(4)).map(|at| vsi.data16(6 * usize::from(at)));
        let vsi = vsis.rfind(|element| element >> 14 == 2).unwrap() & 0x3FF;
        for mac in [[0xFF; 6], [2, 0, 0, 0, 0, 0]] {
            let mut rule = mac_rule(vsi, mac);
            let action = u32::from(vsi) << 4 | 1 << 17;
            rule[0] = 0;
            rule[4] = 3;
            rule[6..8].copy_from_slice(&[pf, 0]);
            rule[8..12].copy_from_slice(&action.to_le_bytes());
            client.tell(0x02a0, params(&ONE), &rule).ok();
        }
        let parent = *branch(&mut client).last().unwrap();
        Self::with(client, vsi, parent, context)
    }

    fn with(mut client: Client, vsi: u16, parent: u32, context: RxContext) -> Self {
        let longest = 9728_u16.to_le_bytes();
        client.direct(0x0603, params(&[(0, &longest)])).ok();
        let memory = |bytes: usize| {
            let layout = DmaLayout::new(bytes, 4096);
            client.nic.dma_alloc(layout).unwrap()
        };
        let (tx, rx) = (memory(16 * LENGTH as usize), memory(32 * LENGTH as usize));
        let memory = memory(512 << 10);
        let mut queue = lan_queue(parent, 0, vsi);
        queue[16..24].copy_from_slice(&(tx.iova.0 >> 7).to_le_bytes());
        queue[32..34].copy_from_slice(&((LENGTH << 7) as u16).to_le_bytes());
        client.tell(0x0c30, params(&ONE), &queue).ok();
        let port = Self {
            client,
            vsi,
            memory,
            tx,
            rx,
            tail: 0,
            next: 0,
        };
        port.start(context);
        port
    }

    /// Two functions, and the simulator.
    pub(super) fn pair(props: &[u8; 128], context: RxContext) -> (Sim, [Self; 2]) {
        let sim = Builder::default().functions(2).cold().build();
        let ports = [0, 1].map(|pf| Self::new(&sim, pf, props, context));
        sim.run(Ns::from_ms(3_000));
        (sim, ports)
    }

    fn start(&self, context: RxContext) {
        let mut bits = [0_u64; 4];
        let mut put = |low: usize, value: u64| {
            bits[low / 64] |= value << (low % 64);
            if !low.is_multiple_of(64) && low / 64 < 3 {
                bits[low / 64 + 1] |= value >> (64 - low % 64);
            }
        };
        put(32, self.rx.iova.0 >> 7);
        put(89, LENGTH.into());
        put(102, BUFFER as u64 / 128);
        put(116, 1);
        put(117, context.strips_fcs.into());
        put(119, context.l2tsel.into());
        put(174, context.longest);
        let nic = &self.client.nic;
        nic.write32(reg(QRXFLXP_CNTXT), context.rxdid);
        for (index, word) in (0..).zip(bits) {
            nic.write32(reg(QRX_CONTEXT + 2 * index * 0x2000), word as u32);
            nic.write32(
                reg(QRX_CONTEXT + (2 * index + 1) * 0x2000),
                (word >> 32) as u32,
            );
        }
        nic.write32(reg(QRX_TAIL), 0);
        for index in 0..LENGTH {
            self.give(index);
        }
        nic.write32(reg(QRX_TAIL), LENGTH - 1);
        nic.write32(reg(QRX_CTRL), 1);
        assert_eq!(nic.read32(reg(QRX_CTRL)), 5);
    }

    fn buffer(&self, index: u32) -> u64 {
        self.memory.iova.0 + BUFFERS + u64::from(index) * BUFFER as u64
    }

    fn give(&self, index: u32) {
        let at = self.rx.iova.0 + 32 * u64::from(index);
        let words = [self.buffer(index), 0, 0, 0];
        self.client
            .nic
            .with(|env| env.write_entry(at, &words, 1).unwrap());
    }

    /// Writes bytes to the memory that descriptors name.
    pub(super) fn fill(&self, at: u64, bytes: &[u8]) -> u64 {
        let at = self.memory.iova.0 + at;
        self.client.nic.with(|env| env.write(at, bytes).unwrap());
        at
    }

    /// Posts descriptors with one doorbell; returns their second words afterwards.
    pub(super) fn post(&mut self, descriptors: &[[u64; 2]]) -> Vec<u64> {
        let at = |index: u32| self.tx.iova.0 + 16 * u64::from(index % LENGTH);
        let (first, tx_end) = (self.tail, self.tail + descriptors.len() as u32);
        let nic = &self.client.nic;
        nic.with(|env| {
            for (index, words) in (first..).zip(descriptors) {
                env.write_entry(at(index), words, 1).unwrap();
            }
        });
        nic.write32(reg(QTX_COMM_DBELL), tx_end % LENGTH);
        let after = (first..tx_end).map(|index| nic.with(|env| env.load(at(index) + 8).unwrap()));
        let after = after.collect();
        self.tail = tx_end % LENGTH;
        after
    }

    /// Sends one packet with these command bits, and with a context descriptor if there is one.
    pub(super) fn send(&mut self, packet: &[u8], command: u64, context: Option<[u64; 2]>) {
        let at = self.fill(0, packet);
        let data = [at, LAST | command | (packet.len() as u64) << 34];
        let all: Vec<[u64; 2]> = context.into_iter().chain([data]).collect();
        let after = self.post(&all);
        assert_eq!(after.last(), Some(&0xF));
        self.client.sim.run(Ns::from_ms(1));
    }

    /// The received frames; their buffers are posted again.
    pub(super) fn received(&mut self) -> Vec<Received> {
        let mut all = Vec::new();
        let mut frame = Received {
            words: Vec::new(),
            bytes: Vec::new(),
        };
        loop {
            let index = self.next % LENGTH;
            let at = self.rx.iova.0 + 32 * u64::from(index);
            let mut words = [0; 4];
            self.client
                .nic
                .with(|env| env.load_words(at, &mut words).unwrap());
            if words[1] & 1 == 0 {
                break;
            }
            let flexible = words[0] & 0x3F >= 2 && words[1] >> 38 & 0x3FFF == 0;
            let len = if flexible {
                words[0] >> 32
            } else {
                words[1] >> 38
            } & 0x3FFF;
            let mut bytes = vec![0; len as usize];
            let buffer = self.buffer(index);
            self.client
                .nic
                .with(|env| env.read(buffer, &mut bytes).unwrap());
            frame.words.push(words);
            frame.bytes.extend(bytes);
            if words[1] & 2 != 0 {
                all.push(frame.clone());
                (frame.words, frame.bytes) = (Vec::new(), Vec::new());
            }
            self.give(index);
            self.next += 1;
            let tail = (self.next + LENGTH - 1) % LENGTH;
            self.client.nic.write32(reg(QRX_TAIL), tail);
        }
        all
    }

    /// A 40-bit counter at `off`.
    pub(super) fn counter(&self, off: u32) -> u64 {
        let read = |off| u64::from(self.client.nic.read32(reg(off)));
        read(off) | read(off + 4) << 32
    }
}

/// A frame of `len` bytes, from the second address to the first.
pub(super) fn frame(to: [u8; 6], from: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|index| (index * 7) as u8).collect();
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}

/// Ethernet, IPv4 and TCP headers, with the fields that Linux leaves to the device, and `len`
/// bytes.
pub(super) fn tcp(to: [u8; 6], from: [u8; 6], len: usize, is_segmented: bool) -> Vec<u8> {
    let mut packet = frame(to, from, 14 + 40 + len);
    let ip_len = if is_segmented { 0 } else { (40 + len) as u16 };
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14..34].fill(0);
    packet[14] = 0x45;
    packet[16..18].copy_from_slice(&ip_len.to_be_bytes());
    packet[18..20].copy_from_slice(&[0x12, 0x34]);
    (packet[22], packet[23]) = (64, 6);
    packet[26..34].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    let sum = |bytes: &[u8], start: u32| {
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum::<u32>() + start;
        let sum = (sum & 0xFFFF) + (sum >> 16);
        ((sum & 0xFFFF) + (sum >> 16)) as u16
    };
    if !is_segmented {
        let checksum = !sum(&packet[14..34], 0);
        packet[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    packet[34..54].fill(0);
    packet[38..42].copy_from_slice(&1000_u32.to_be_bytes());
    // Five words; FIN, PSH, ACK and CWR.
    (packet[46], packet[47]) = (0x50, 0x99);
    let l4_len = if is_segmented { 0 } else { 20 + len as u32 };
    let pseudo = sum(&packet[26..34], 6 + l4_len);
    packet[50..52].copy_from_slice(&pseudo.to_be_bytes());
    packet
}

/// The command of such a packet: IIPT, L4T, and lengths for headers of 14, 20 and 20 bytes.
pub(super) const fn tcp_command(iipt: u64) -> u64 {
    iipt << 9 | 1 << 12 | 7 << 16 | 5 << 23 | 5 << 30
}
