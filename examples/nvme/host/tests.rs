//! A host, and a target that moves its data at once and answers as a test wants it to.

use std::boxed::Box;
use std::collections::VecDeque;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use e810::SharedBytes;

use super::*;
use crate::nvme::bytes::{byte, double, put, quad, word};
use crate::nvme::capsule::{Response, Sgl, admin, io};
use crate::nvme::fabrics::{self, Connect, Property, Rejection, Reply, Request};
use crate::nvme::identify::{self, controller as at, namespace};

const HOST: Host<'_> = Host { id: [7; 16], name: "nqn.host", subsystem: "nqn.disk" };
const ADDRESS: u64 = 0x7700_0000;
const BLOCKS: u64 = 3000;
const CONTROLLER: u16 = 5;

/// What a test changes of the answers.
type Change = fn(command: &Command, answer: &mut Happened);
/// The same of a page of Identify.
type ChangePage = fn(page: &mut [u8; 4096]);

struct Target {
    memory: SharedBytes,
    disk: Vec<u8>,
    config: u32,
    /// What happens next; responses come in another order than commands.
    coming: VecDeque<Happened>,
    change: Change,
    page: ChangePage,
    /// READs under way, and the most of them.
    reads: [usize; 2],
    seed: u64,
}

impl Target {
    fn new(change: Change, page: ChangePage) -> (Self, Memory) {
        let memory = SharedBytes::from_static(Box::leak(vec![0; 128 << 10].into_boxed_slice()));
        let disk = (0..BLOCKS << 9).map(|at| (at * 7 + at / 512) as u8).collect();
        let coming = VecDeque::new();
        let target = Self { memory, disk, config: 0, coming, change, page, reads: [0; 2], seed: 1 };
        (target, Memory { bytes: memory, address: ADDRESS, key: 0x1234 })
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed =
            self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.seed >> 33) as usize % below
    }

    fn execute(&mut self, command: &Command) -> Result<u64, Refused> {
        let Some(Sgl::Keyed { memory: to, invalidate: false }) = Sgl::of(command) else {
            return Err(Refused::SGL_TYPE);
        };
        let place = (to.address.wrapping_sub(ADDRESS)) as usize;
        let mut page = [0; 4096];
        match (byte(command, 0), byte(command, fabrics::KIND)) {
            (fabrics::OPCODE, fabrics::CONNECT) => {
                let mut data = vec![0; to.length as usize];
                self.memory.read(place, &mut data).unwrap();
                let connect = Connect::of(command, &data).ok_or(Refused::SGL_LENGTH)?;
                assert_eq!((connect.host, connect.subsystem), (&b"nqn.host"[..], &b"nqn.disk"[..]));
                let wanted = if connect.queue == 0 { fabrics::ANY } else { CONTROLLER };
                assert_eq!((connect.controller, connect.host_id), (wanted, [7; 16]));
                Ok(CONTROLLER.into())
            }
            (fabrics::OPCODE, _) => match Property::of(command).ok_or(Refused::OPCODE)? {
                Property { register: fabrics::CAP, is_long: true, .. } => Ok(1 << 24 | 1 << 37),
                Property { register: fabrics::CC, value: Some(value), .. } => {
                    self.config = value;
                    Ok(0)
                }
                Property { register: fabrics::CSTS, is_long: false, value: None } => {
                    Ok(u64::from(self.config & 1 | self.config >> 11 & 8))
                }
                _ => Err(Refused::FIELD),
            },
            (admin::IDENTIFY, _) => {
                match (byte(command, 40), double(command, 4)) {
                    (identify::CONTROLLER, 0) => {
                        put(&mut page, at::CNTLID, &CONTROLLER.to_le_bytes());
                        put(&mut page, at::SGLS, &(1 | at::SGLS_KEYED).to_le_bytes());
                        put(&mut page, at::MDTS, &[2]);
                    }
                    (identify::NAMESPACE, 1) => {
                        put(&mut page, namespace::NSZE, &BLOCKS.to_le_bytes());
                        put(&mut page, namespace::FORMATS + namespace::LBADS, &[9]);
                    }
                    _ => return Err(Refused::NAMESPACE),
                }
                (self.page)(&mut page);
                assert_eq!(to.length, 4096);
                self.memory.write(place, &page).unwrap();
                Ok(0)
            }
            (admin::SET_FEATURES, _) => Ok(0x3_0003),
            (io::READ, _) => {
                let (first, count) = (quad(command, 40), u64::from(word(command, 48)) + 1);
                if first + count > BLOCKS {
                    return Err(Refused::RANGE);
                }
                assert_eq!(u64::from(to.length), count << 9);
                let disk = &self.disk[(first as usize) << 9..((first + count) as usize) << 9];
                self.memory.write(place, disk).unwrap();
                self.reads[0] += 1;
                self.reads[1] = self.reads[1].max(self.reads[0]);
                Ok(0)
            }
            _ => Err(Refused::OPCODE),
        }
    }
}

impl Link for Target {
    type Error = Wrong;

    fn send(&mut self, id: u16, command: &Command) -> Result<(), Wrong> {
        assert_eq!(word(command, 2), id);
        let outcome = self.execute(command);
        let bytes = Response { command: id, outcome, invalidate: None }.bytes(0);
        let mut answer = Happened::Response { bytes, length: 16, invalidated: None };
        (self.change)(command, &mut answer);
        for happened in [Happened::Sent(id), answer] {
            let place = self.random(self.coming.len() + 1);
            self.coming.insert(place, happened);
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Happened, Wrong> {
        let happened = self.coming.pop_front().ok_or(Wrong::Late("a test"))?;
        if let Happened::Response { .. } = happened {
            self.reads[0] = self.reads[0].saturating_sub(1);
        }
        Ok(happened)
    }

    fn pause(&mut self, _: u64) -> Result<(), Wrong> {
        Ok(())
    }
}

/// Connects both queues, reads blocks, and shuts down.
fn course(
    target: &mut Target,
    memory: &Memory,
    blocks: Blocks,
    take: &mut impl FnMut(&[u8]),
) -> Result<(), Wrong> {
    let mut admin = Admin::new(memory.part(0, Admin::PAGE)?);
    admin.queue.accepted(&Reply { receives: DEPTH }.bytes())?;
    let id = admin.connect(target, &HOST)?;
    let controller = admin.identify(target)?;
    let namespace = admin.namespace(target, 1)?;
    let mut queue = Queue::new(1);
    queue.accepted(&Reply { receives: 9 }.bytes())?;
    let data = memory.part(Admin::PAGE, 100 << 10)?;
    queue.connect(target, &data, &HOST, id)?;
    read(&mut queue, target, &namespace, blocks, (&data, controller.most), take)?;
    admin.shut_down(target)
}

fn outcome(change: Change, page: ChangePage) -> Result<(), Wrong> {
    let (mut target, memory) = Target::new(change, page);
    course(&mut target, &memory, Blocks { first: 0, count: 100 }, &mut |_| ())
}

#[test]
fn blocks_are_read_in_order() {
    for (first, count) in [(0, BLOCKS), (1, 1), (17, 1000), (BLOCKS, 0), (BLOCKS - 33, 33)] {
        let (mut target, memory) = Target::new(|_, _| (), |_| ());
        let mut bytes = Vec::new();
        let blocks = Blocks { first, count };
        let done = course(&mut target, &memory, blocks, &mut |part| bytes.extend_from_slice(part));
        assert_eq!(done, Ok(()));
        assert!(bytes == target.disk[(first as usize) << 9..((first + count) as usize) << 9]);
        // Of 16 KiB, as the controller says; 100 KiB have room for six, and the queue for eight.
        assert!(count < 1000 || target.reads[1] == 6, "{:?}", target.reads);
    }
    let (mut target, memory) = Target::new(|_, _| (), |_| ());
    for (first, count) in [(0, BLOCKS + 1), (BLOCKS, 1), (u64::MAX, 2)] {
        let done = course(&mut target, &memory, Blocks { first, count }, &mut |_| ());
        assert_eq!(done, Err(Wrong::Outside(BLOCKS)));
    }
}

#[test]
fn private_data() {
    let mut queue = Queue::new(3);
    assert_eq!(Request::of(&queue.request()), Ok(Request { id: 3, receives: 32, sends: 31 }));
    assert_eq!(queue.accepted(&[0; 31]), Err(Wrong::Reply));
    assert_eq!(queue.accepted(&[1; 32]), Err(Wrong::Reply));
    assert_eq!(queue.accepted(&Reply { receives: 1 }.bytes()), Err(Wrong::Room(1)));
    queue.accepted(&Reply { receives: 500 }.bytes()).unwrap();
    assert_eq!(queue.window(), 31);
    queue.accepted(&Reply { receives: 4 }.bytes()).unwrap();
    assert_eq!(queue.window(), 3);
    assert_eq!(Rejection(4).to_string(), "status 4, so many commands cannot be sent");
}

#[test]
fn bad_answers_are_errors() {
    let is_read = |command: &Command| byte(command, 0) == io::READ;
    assert!(is_read(&[2; 64]));
    // What the change of each answer leads to.
    let cases: [(Change, Wrong); 8] = [
        (
            |command, answer| {
                if let Happened::Response { length, .. } = answer {
                    *length -= u32::from(byte(command, 0) == io::READ);
                }
            },
            Wrong::Length(15),
        ),
        (
            |command, answer| {
                if let Happened::Response { invalidated, .. } = answer {
                    *invalidated = (byte(command, 0) == io::READ).then_some(0x1234);
                }
            },
            Wrong::Invalidated(0x1234),
        ),
        (|command, answer| respond(command, answer, io::READ, 7, Ok(0)), Wrong::Unasked(7)),
        (|command, answer| respond(command, answer, io::READ, 999, Ok(0)), Wrong::Unasked(999)),
        (
            |command, answer| respond(command, answer, io::READ, 0, Err(Refused::RANGE)),
            Wrong::Refused("Read", Refused::RANGE),
        ),
        (
            |command, answer| respond(command, answer, admin::IDENTIFY, 0, Err(Refused::FIELD)),
            Wrong::Refused("Identify", Refused::FIELD),
        ),
        (
            |command, answer| {
                let is_connect = byte(command, fabrics::KIND) == fabrics::CONNECT;
                let opcode = if is_connect { fabrics::OPCODE } else { 0 };
                respond(command, answer, opcode, 0, Ok(5 | 1 << 17));
            },
            Wrong::Authentication,
        ),
        (|_, answer| *answer = Happened::Sent(0), Wrong::Late("a test")),
    ];
    for (change, wrong) in cases {
        assert_eq!(outcome(change, |_| ()), Err(wrong));
    }
    // The controller fails, never gets ready, or has large pages only.
    let cases: [(Change, Wrong); 3] = [
        (|command, answer| property(command, answer, fabrics::CSTS, 2), Wrong::Failed),
        (|command, answer| property(command, answer, fabrics::CSTS, 0), Wrong::Late("ready")),
        (|command, answer| property(command, answer, fabrics::CAP, 1 << 48), Wrong::Pages),
    ];
    for (change, wrong) in cases {
        assert_eq!(outcome(change, |_| ()), Err(wrong));
    }
    let cases: [(ChangePage, Wrong); 5] = [
        (|page| put(page, at::SGLS, &[1]), Wrong::Sgls(1)),
        (|page| put(page, at::CNTLID, &[9]), Wrong::OtherController(5, 9)),
        (|page| put(page, namespace::FORMATS + namespace::LBADS, &[8]), Wrong::Blocks(8)),
        (|page| put(page, namespace::FORMATS, &[8]), Wrong::Metadata(8)),
        (|page| put(page, namespace::NSZE, &[99, 0]), Wrong::Outside(99)),
    ];
    for (page, wrong) in cases {
        assert_eq!(outcome(|_, _| (), page), Err(wrong));
    }
    assert_eq!(
        Wrong::Refused("Read", Refused::RANGE).to_string(),
        "Read: status 0x80, blocks outside of the namespace"
    );
}

/// Another response to commands with this opcode.
fn respond(
    command: &Command,
    answer: &mut Happened,
    opcode: u8,
    id: u16,
    outcome: Result<u64, Refused>,
) {
    if let (Happened::Response { bytes, .. }, true) = (answer, byte(command, 0) == opcode) {
        *bytes = Response { command: id, outcome, invalidate: None }.bytes(0);
    }
}

/// Another value of a register.
fn property(command: &Command, answer: &mut Happened, register: u32, value: u64) {
    let property = Property::of(command).filter(|_| byte(command, 0) == fabrics::OPCODE);
    if property.is_some_and(|property| (property.register, property.value) == (register, None)) {
        respond(command, answer, fabrics::OPCODE, 0, Ok(value));
    }
}

/// Whatever a target answers: no panic, and no end without an error but the right one.
#[test]
fn random_answers() {
    let (mut target, memory) = Target::new(|_, _| (), |_| ());
    let mut kinds = [0; 2];
    for seed in 0..2000 {
        target.coming.clear();
        target.seed = seed;
        let mut link = Random(&mut target, 4 + seed as usize % 60);
        let mut bytes = 0;
        let mut run = || -> Result<(), Wrong> {
            let mut admin = Admin::new(memory.part(0, Admin::PAGE)?);
            let private_data = [link.0.random(2) as u8; 32];
            admin.queue.accepted(&private_data).ok();
            let id = admin.connect(&mut link, &HOST)?;
            let most = admin.identify(&mut link)?.most;
            let namespace = admin.namespace(&mut link, 1)?;
            let mut queue = Queue::new(1);
            let data = memory.part(Admin::PAGE, 100 << 10)?;
            queue.connect(&mut link, &data, &HOST, id)?;
            let blocks = Blocks { first: 5, count: 100 };
            read(&mut queue, &mut link, &namespace, blocks, (&data, most), &mut |part| {
                bytes += part.len();
            })?;
            admin.shut_down(&mut link)
        };
        let is_done = run().is_ok();
        assert!(!is_done || bytes == 100 << 9);
        kinds[usize::from(is_done)] += 1;
    }
    assert!(kinds.iter().all(|count| *count > 100), "{kinds:?}");
}

/// A target that changes one answer of some, and one byte of pages.
struct Random<'a>(&'a mut Target, usize);

impl Link for Random<'_> {
    type Error = Wrong;

    fn send(&mut self, id: u16, command: &Command) -> Result<(), Wrong> {
        self.0.send(id, command)?;
        if self.0.random(self.1) == 0 {
            let place = self.0.random(self.0.coming.len());
            let [at, value] = [16, 256].map(|below| self.0.random(below));
            match &mut self.0.coming[place] {
                Happened::Sent(id) => *id ^= value as u16,
                Happened::Response { bytes, .. } if value > 4 => bytes[at] ^= value as u8,
                Happened::Response { length, .. } => *length = value as u32,
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Happened, Wrong> {
        let happened = self.0.next()?;
        if self.0.random(self.1) == 0 {
            let at = self.0.random(4000);
            let byte = self.0.random(256) as u8;
            self.0.memory.write(at, &[byte; 2]).unwrap();
        }
        Ok(happened)
    }

    fn pause(&mut self, ms: u64) -> Result<(), Wrong> {
        self.0.pause(ms)
    }
}
