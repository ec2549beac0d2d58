//! AdminQ client for tests: rings and commands are written byte by byte as control-path 9.1 defines
//! them.

use e810_hal::bus::Index;
use e810_hal::regs as hw;
use e810_hal::{Clock, DmaAlloc, DmaLayout, Ns, RawDma};

use crate::fw::AqCode;
use crate::fw::layout::{put, put_u16, put_u32, u16_at, u32_at};
use crate::pe::Env;
use crate::{Builder, Finding, Sim, SimPlatform};

/// Descriptors of each ring.
pub(super) const RING: u32 = 8;
const DESCRIPTOR: u64 = 32;
const BUFFER: u64 = 4096;
const ENABLE: u32 = 1 << 31;
const LB: u16 = 1 << 9;
const RD: u16 = 1 << 10;
const BUF: u16 = 1 << 12;
const SI: u16 = 1 << 13;

/// Reply to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) flags: u16,
    pub(super) params: [u8; 16],
    pub(super) datalen: u16,
    /// As much of the buffer as `datalen` says.
    pub(super) data: Vec<u8>,
}

impl Reply {
    pub(super) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    pub(super) fn refused(self, code: AqCode) {
        assert_eq!(self.code, u16::from(code.0), "{self:?}");
    }

    pub(super) fn param16(&self, at: usize) -> u16 {
        u16_at(&self.params, at)
    }

    pub(super) fn param32(&self, at: usize) -> u32 {
        u32_at(&self.params, at)
    }

    pub(super) fn data16(&self, at: usize) -> u16 {
        u16_at(&self.data, at)
    }

    pub(super) fn data32(&self, at: usize) -> u32 {
        u32_at(&self.data, at)
    }
}

/// An event: opcode, first parameters, data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) opcode: u16,
    pub(super) params: [u8; 16],
    pub(super) data: Vec<u8>,
}

/// Builds parameters from pairs of offset and bytes.
pub(super) fn params(fields: &[(usize, &[u8])]) -> [u8; 16] {
    let mut all = [0; 16];
    for (at, bytes) in fields {
        put(&mut all, *at, bytes);
    }
    all
}

/// A driver's end of the queues of one function.
pub(super) struct Client {
    pub(super) sim: Sim,
    pub(super) nic: SimPlatform,
    commands: RawDma,
    events: RawDma,
    buffers: RawDma,
    pub(super) next: u32,
    clean: u32,
}

impl Client {
    /// One cold function with its queues enabled.
    pub(super) fn new() -> Self {
        Self::of(Sim::builder())
    }

    pub(super) fn of(builder: Builder) -> Self {
        Self::on(&builder.cold().build(), 0)
    }

    /// The queues of function `pf`.
    pub(super) fn on(sim: &Sim, pf: u8) -> Self {
        let nic = sim.function(pf);
        let ring = DmaLayout::new((u64::from(RING) * DESCRIPTOR) as usize, 64);
        let buffers = DmaLayout::new((BUFFER * u64::from(RING + 1)) as usize, 4096);
        let client = Self {
            commands: nic.dma_alloc(ring).unwrap(),
            events: nic.dma_alloc(ring).unwrap(),
            buffers: nic.dma_alloc(buffers).unwrap(),
            sim: sim.clone(),
            nic,
            next: 0,
            clean: 0,
        };
        client.start()
    }

    /// Sets up both queues, from the first descriptor on.
    pub(super) fn start(mut self) -> Self {
        (self.next, self.clean) = (0, 0);
        let nic = &self.nic;
        let (commands, events) = (self.commands.iova.0, self.events.iova.0);
        hw::PF_FW_ATQH.set(nic, 0);
        hw::PF_FW_ATQT.set(nic, 0);
        hw::PF_FW_ATQLEN.set(nic, RING | ENABLE);
        hw::PF_FW_ATQBAL.set(nic, commands as u32);
        hw::PF_FW_ATQBAH.set(nic, (commands >> 32) as u32);
        for index in 0..RING {
            self.give_event(index);
        }
        hw::PF_FW_ARQH.set(nic, 0);
        hw::PF_FW_ARQT.set(nic, 0);
        hw::PF_FW_ARQLEN.set(nic, RING | ENABLE);
        hw::PF_FW_ARQBAL.set(nic, events as u32);
        hw::PF_FW_ARQBAH.set(nic, (events >> 32) as u32);
        hw::PF_FW_ARQT.set(nic, RING - 1);
        self
    }

    /// An empty descriptor for an event.
    fn give_event(&self, index: u32) {
        let mut bytes = [0; DESCRIPTOR as usize];
        put_u16(&mut bytes, 0, BUF | LB);
        put_u16(&mut bytes, 4, BUFFER as u16);
        let at = self.event_buffer(index);
        put_u32(&mut bytes, 24, (at >> 32) as u32);
        put_u32(&mut bytes, 28, at as u32);
        let place = self.events.iova.0 + u64::from(index) * DESCRIPTOR;
        self.poke(place, &bytes);
    }

    /// Removes the data buffer from the descriptor of event `index`.
    pub(super) fn take_room(&self, index: u32) {
        let place = self.events.iova.0 + u64::from(index) * DESCRIPTOR;
        self.poke(place, &[0; DESCRIPTOR as usize]);
    }

    fn event_buffer(&self, index: u32) -> u64 {
        self.buffers.iova.0 + BUFFER * u64::from(index + 1)
    }

    fn poke(&self, at: u64, bytes: &[u8]) {
        self.nic.with(|env| env.write(at, bytes).unwrap());
    }

    fn peek(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.nic.with(|env| env.read(at, &mut bytes).unwrap());
        bytes
    }

    /// A command without a buffer.
    pub(super) fn direct(&mut self, opcode: u16, params: [u8; 16]) -> Reply {
        self.try_send(opcode, params, None, 0).expect("no answer")
    }

    /// A command with a reply of up to `room` bytes.
    pub(super) fn ask(&mut self, opcode: u16, params: [u8; 16], room: usize) -> Reply {
        let sent = self.try_send(opcode, params, None, room);
        sent.expect("no answer")
    }

    /// A command that brings `data`, with a reply of up to the same length.
    pub(super) fn tell(&mut self, opcode: u16, params: [u8; 16], data: &[u8]) -> Reply {
        let sent = self.try_send(opcode, params, Some(data), data.len());
        sent.expect("no answer")
    }

    /// Like the others, but returns `None` when there is no answer within a second.
    pub(super) fn try_send(
        &mut self,
        opcode: u16,
        mut params: [u8; 16],
        data: Option<&[u8]>,
        room: usize,
    ) -> Option<Reply> {
        let buffer = self.buffers.iova.0;
        let mut flags = SI;
        if room > 0 {
            flags |= BUF;
            flags |= if room > 512 { LB } else { 0 };
            put_u32(&mut params, 8, (buffer >> 32) as u32);
            put_u32(&mut params, 12, buffer as u32);
        }
        if let Some(data) = data {
            flags |= RD;
            self.poke(buffer, data);
        }
        self.post(flags, opcode, room as u16, params);
        let at = self.commands.iova.0 + u64::from(self.next) * DESCRIPTOR;
        self.next = (self.next + 1) % RING;
        hw::PF_FW_ATQT.set(&self.nic, self.next);
        let start = self.nic.now();
        while hw::PF_FW_ATQH.get(&self.nic) != self.next {
            if self.nic.now() - start > Ns::from_ms(1_000) {
                return None;
            }
            self.nic.delay(Ns(20_000));
        }
        let bytes = self.peek(at, DESCRIPTOR as usize);
        let datalen = u16_at(&bytes, 4);
        let mut answer = [0; 16];
        put(&mut answer, 0, &bytes[16..]);
        Some(Reply {
            code: u16_at(&bytes, 6),
            flags: u16_at(&bytes, 0),
            params: answer,
            datalen,
            data: self.peek(buffer, usize::from(datalen).min(room)),
        })
    }

    /// Parameters with only the client's buffer.
    pub(super) fn buffer(&self) -> [u8; 16] {
        let at = self.buffers.iova.0;
        let (high, low) = ((at >> 32) as u32, at as u32);
        params(&[(8, &high.to_le_bytes()), (12, &low.to_le_bytes())])
    }

    /// Writes the next descriptor of the command queue.
    pub(super) fn post(&self, flags: u16, opcode: u16, datalen: u16, params: [u8; 16]) {
        let mut bytes = [0; DESCRIPTOR as usize];
        put_u16(&mut bytes, 0, flags);
        put_u16(&mut bytes, 2, opcode);
        put_u16(&mut bytes, 4, datalen);
        put(&mut bytes, 16, &params);
        let at = self.commands.iova.0 + u64::from(self.next) * DESCRIPTOR;
        self.poke(at, &bytes);
    }

    /// Returns the events so far and posts their descriptors again.
    pub(super) fn said(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        while hw::PF_FW_ARQH.get(&self.nic) != self.clean {
            let at = self.events.iova.0 + u64::from(self.clean) * DESCRIPTOR;
            let bytes = self.peek(at, DESCRIPTOR as usize);
            let mut said = [0; 16];
            put(&mut said, 0, &bytes[16..]);
            let len = usize::from(u16_at(&bytes, 4));
            all.push(Said {
                opcode: u16_at(&bytes, 2),
                params: said,
                data: self.peek(self.event_buffer(self.clean), len),
            });
            self.give_event(self.clean);
            hw::PF_FW_ARQT.set(&self.nic, self.clean);
            self.clean = (self.clean + 1) % RING;
        }
        all
    }

    pub(super) fn add_vsi(&mut self) -> u16 {
        let mut props = [0; 128];
        // Its switch, LAN_ENA.
        (props[2], props[4]) = (1 + self.nic.pf(), 1 << 4);
        let reply = self.tell(0x0210, params(&[(6, &[2])]), &props).ok();
        reply.param16(0)
    }

    /// Sets bit 0 of the VSI's queue options.
    pub(super) fn open_vsi(&mut self, vsi: u16, open: bool) -> Reply {
        let mut props = [0; 128];
        put_u16(&mut props, 0, 1 << 7);
        put(&mut props, 80, &[u8::from(open)]);
        let number = (vsi | 0x8000).to_le_bytes();
        self.tell(0x0211, params(&[(0, &number)]), &props)
    }

    /// Downloads the test package as control-path 9.10 says, with the steps that belong to it.
    pub(super) fn download(&mut self) {
        self.download_only();
        self.open_switch();
    }

    pub(super) fn download_only(&mut self) {
        let lock = params(&[(0, &[4]), (2, &[2])]);
        assert_eq!(self.direct(0x0008, lock).ok().param16(12), 0);
        let buffers = package_buffers();
        for (index, buffer) in buffers.iter().enumerate() {
            let last = u8::from(index + 1 == buffers.len());
            self.tell(0x0c40, params(&[(0, &[last])]), buffer).ok();
        }
        self.direct(0x0009, params(&[(0, &[4])])).ok();
    }

    /// Opens the switch block's whole input, as after each download.
    pub(super) fn open_switch(&self) {
        let switch = Index::new(0).unwrap();
        hw::GL_PREEXT_L2_PMASK0.at(switch).set(&self.nic, u32::MAX);
        hw::GL_PREEXT_L2_PMASK1.at(switch).set(&self.nic, 0xffff);
    }

    /// Findings, by kind.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let found: Vec<Finding> = self.sim.take_findings();
        found.iter().map(|finding| finding.kind).collect()
    }
}

/// The three buffers of the test package.
pub(super) fn package_buffers() -> Vec<Vec<u8>> {
    let file = crate::test_package();
    // The E810's segment is the second; its buffers follow its header and three counts.
    let segment = u32_at(&file, 12) as usize;
    let count = u32_at(&file, segment + 44 + 8) as usize;
    let first = segment + 44 + 12;
    (0..count)
        .map(|buffer| file[first + buffer * 4096..][..4096].to_vec())
        .collect()
}
