//! A host that builds its capsules byte by byte, from the offsets of the standard.

use e810_examples::nvme::capsule::{HostMemory, Response};

use crate::capsule::{Source, Step};
use crate::target::{Config, Queue, Target};

const NAME: &str = "nqn.2025-01.example:ram";
const NAMED: &[u8] = b"nqn.2025-01.example:ram\0";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Of 2048 blocks.
const CONFIG: Config<'static> = Config {
    subsystem: NAME,
    serial: "E810-1",
    uuid: [7; 16],
    bytes: 1 << 20,
    address: "192.0.2.1",
    port: "4420",
    provider: 4,
};
const FABRICS: u8 = 0x7f;

/// A command with a keyed descriptor of this length, and these fields.
fn command(opcode: u8, length: u32, fields: &[(usize, u32)]) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(&[opcode, 0x40, 0x34, 0x12]);
    bytes[24..32].copy_from_slice(&0x1122_3344_5566_7788_u64.to_le_bytes());
    bytes[32..35].copy_from_slice(&length.to_le_bytes()[..3]);
    bytes[35..40].copy_from_slice(&[0xd, 0xc, 0xb, 0xa, 0x4f]);
    for (at, field) in fields {
        bytes[*at..at + 4].copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

fn remote(length: u32) -> HostMemory {
    HostMemory { address: 0x1122_3344_5566_7788, length, key: 0x0a0b_0c0d }
}

/// The command of a capsule, and data in it.
fn inline(mut command: [u8; 64], data: &[u8]) -> Vec<u8> {
    command[24..40].fill(0);
    command[32..36].copy_from_slice(&u32::try_from(data.len()).unwrap().to_le_bytes());
    command[39] = 1;
    [&command, data].concat()
}

fn connect(queue: u16, entries: u16) -> [u8; 64] {
    let [queue, entries] = [queue, entries].map(u32::from);
    command(FABRICS, 1024, &[(4, 1), (40, queue << 16), (44, entries - 1), (48, 5000)])
}

fn connect_data(controller: u16, name: &str) -> [u8; 1024] {
    let mut data = [0; 1024];
    data[..16].fill(9);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + name.len()].copy_from_slice(name.as_bytes());
    data[512..515].copy_from_slice(b"nqn");
    data
}

fn request(queue: u16, receives: u16, sends: u16) -> [u8; 32] {
    let mut data = [0; 32];
    for (at, field) in [(2, queue), (4, receives), (6, sends)] {
        data[at..at + 2].copy_from_slice(&field.to_le_bytes());
    }
    data
}

fn queue_of(target: &Target<'_>, id: u16) -> Queue {
    target.accept(&request(id, 128, if id == 0 { 31 } else { 127 })).unwrap().0
}

/// Status and result, of a response's bytes.
fn reply(queue: &mut Queue, step: Step<'_>) -> (u16, u64) {
    let Step::Respond(response) = step else { panic!("{step:?}") };
    let bytes = queue.seal(&response);
    assert_eq!(bytes[12..14], [0x34, 0x12]);
    let status = u16::from_le_bytes([bytes[14], bytes[15]]);
    assert_eq!(status & 1, 0);
    (status >> 1, u64::from_le_bytes(bytes[..8].try_into().unwrap()))
}

/// A target, and a host with its admin queue.
struct Host(Target<'static>, Queue);

impl Host {
    fn new(name: &str) -> Self {
        let mut target = Target::new(CONFIG).unwrap();
        let (mut admin, reply_data) = target.accept(&request(0, 32, 31)).unwrap();
        assert_eq!((reply_data.bytes()[..4].to_vec(), admin.capsule()), (vec![0, 0, 32, 0], 64));
        let capsule = connect(0, 32);
        assert_eq!(target.command(&mut admin, &capsule), Step::Join { host: remote(1024) });
        let capsule = [&capsule[..], &connect_data(0xffff, name)].concat();
        let step = target.connect(&mut admin, &capsule);
        assert!(matches!(step, Step::Respond(then) if then.invalidate == Some(0x0a0b_0c0d)));
        assert_eq!(reply(&mut admin, step), (0, 1));
        let mut host = Self(target, admin);
        assert_eq!(host.ask(0x06, 0, &[(40, 1)]), (0x400c, 0)); // not before it is ready
        host.enable();
        host
    }

    fn enable(&mut self) {
        for config in [0x46_0000, 0x46_0001] {
            assert_eq!(self.ask(FABRICS, 0, &[(44, 0x14), (48, config)]), (0, 0));
            let status = self.ask(FABRICS, 0, &[(4, 4), (44, 0x1c)]);
            assert_eq!(status, (0, u64::from(config & 1)));
        }
    }

    fn step<'c>(&mut self, capsule: &'c [u8]) -> Step<'c> {
        self.0.command(&mut self.1, capsule)
    }

    fn ask(&mut self, opcode: u8, length: u32, fields: &[(usize, u32)]) -> (u16, u64) {
        let capsule = command(opcode, length, fields);
        let step = self.step(&capsule);
        reply(&mut self.1, step)
    }

    /// A page that the target gives.
    fn page(&mut self, opcode: u8, length: u32, fields: &[(usize, u32)]) -> Vec<u8> {
        let capsule = command(opcode, length, fields);
        match self.step(&capsule) {
            Step::Give { from: Source::Page, host: to, .. } => assert_eq!(to, remote(length)),
            step => panic!("{step:?}"),
        }
        self.0.page[..length as usize].to_vec()
    }

    /// A queue that connects with its data in the capsule, and the response.
    fn join(&mut self, id: u16, controller: u16, name: &str) -> (Queue, (u16, u64)) {
        let mut queue = queue_of(&self.0, id);
        let capsule = inline(connect(id, queue.depth), &connect_data(controller, name));
        let step = self.0.command(&mut queue, &capsule);
        let reply = reply(&mut queue, step);
        (queue, reply)
    }

    fn io_queue(&mut self, id: u16) -> Queue {
        let (queue, reply) = self.join(id, 1, NAME);
        assert_eq!((reply, queue.capsule()), ((0, 1), 64 + 4096));
        queue
    }
}

#[test]
fn connection_requests() {
    let target = Target::new(CONFIG).unwrap();
    let refusal = |data: &[u8]| target.accept(data).unwrap_err().bytes()[2];
    assert_eq!([refusal(&[0; 31]), refusal(&[1; 32])], [1, 2]);
    let sizes = [(9, 128, 127), (0, 32, 32), (0, 32, 0), (1, 128, 128), (1, 0, 127)];
    let refused = sizes.map(|(queue, receives, sends)| refusal(&request(queue, receives, sends)));
    assert_eq!(refused, [3, 4, 4, 4, 5]);
}

#[test]
fn discover() {
    let mut host = Host::new(DISCOVERY);
    let page = host.page(0x06, 4096, &[(40, 1)]);
    assert_eq!((page[111], &page[768..804]), (2, DISCOVERY.as_bytes()));
    let log = |bytes: u32| (40, 0x70 | (bytes / 4 - 1) << 16);
    let whole = host.page(0x02, 2048, &[log(2048)]);
    assert_eq!((&whole[8..16], whole[16]), (&[1, 0, 0, 0, 0, 0, 0, 0][..], 0));
    assert_eq!(host.page(0x02, 20, &[log(20)]), whole[..20]);
    // Behind the log there are zeros.
    let entry = host.page(0x02, 4096, &[log(4096), (48, 1024)]);
    assert_eq!(entry, [&whole[1024..], &[0; 3072]].concat());
    assert_eq!(entry[..10], [1, 1, 2, 0, 1, 0, 0xff, 0xff, 32, 0]);
    assert_eq!([&entry[32..37], &entry[512..522]], [&b"4420\0"[..], b"192.0.2.1\0"]);
    assert_eq!([&entry[256..280], &entry[768..771]], [NAMED, &[1, 4, 1]]);
    let [behind, odd] = [2052, 2].map(|at| host.ask(0x02, 8, &[log(8), (48, at)]).0);
    assert_eq!([behind, odd, host.ask(0x06, 4096, &[(4, 1)]).0], [0x4002; 3]);
    assert_eq!(host.ask(0x09, 0, &[(40, 0x0b), (44, 1 << 31)]), (0, 0));
    // It has no I/O queues.
    assert_eq!([NAME, DISCOVERY].map(|name| host.join(1, 1, name).1), [(0x4182, 0x1_0010); 2]);
}

/// What Linux asks for, in its order, and what it checks.
#[test]
fn linux_connects() {
    let mut host = Host::new(NAME);
    let (status, cap) = host.ask(FABRICS, 0, &[(4, 4), (40, 1)]);
    assert_eq!((status, cap & 0xffff, (cap >> 37) & 0xff, (cap >> 48) & 0xf), (0, 127, 1, 0));
    assert_eq!(host.ask(FABRICS, 0, &[(4, 4), (44, 8)]), (0, 0x1_0300));
    let page = host.page(0x06, 4096, &[(40, 1)]);
    let number = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    assert_eq!((number(78) & 0xffff, number(320) & 0xffff), (1, 10)); // cntlid, kas
    assert_eq!(number(536), 1 | 1 << 2 | 1 << 20); // sgls
    assert_eq!((number(1792), number(1796), number(1800) & 0xffff), (260, 1, 0)); // capsules
    assert_eq!((number(514) & 0xffff, number(516), page[77], page[111]), (128, 1, 8, 1));
    assert_eq!(page[4..24], *b"E810-1              ");
    assert_eq!(&page[768..792], NAMED);
    let effects = host.page(0x02, 4096, &[(40, 5 | 1023 << 16)]);
    assert_eq!([4 * 6, 1024, 1028, 1032, 1036].map(|at| effects[at]), [1, 1, 3, 1, 0]);
    assert_eq!(host.page(0x02, 512, &[(40, 2 | 127 << 16)]), [0; 512]);
    assert_eq!(host.ask(0x09, 0, &[(40, 7), (44, 0x3_0003)]), (0, 0x7_0007));
    let queues = [1, 8].map(|id| host.io_queue(id));
    // An event is waited for, four times at most.
    assert_eq!(host.ask(0x09, 0, &[(40, 0x0b), (44, 1 << 8)]), (0, 0));
    assert_eq!(host.ask(0x0a, 0, &[(40, 0x0b)]), (0, 1 << 8));
    let wait = command(0x0c, 0, &[]);
    assert_eq!([0; 4].map(|_| host.step(&wait)), [Step::Keep; 4]);
    assert_eq!(host.ask(0x0c, 0, &[]).0, 0x4105);
    host.enable();
    assert_eq!(host.step(&wait), Step::Keep);
    assert_eq!(host.page(0x06, 4096, &[(40, 2)])[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let identifiers = host.page(0x06, 4096, &[(40, 3), (4, 1)]);
    assert_eq!(identifiers[..21], [&[3, 16, 0, 0][..], &[7; 16], &[0]].concat());
    let namespace = host.page(0x06, 4096, &[(40, 0), (4, 1)]);
    assert_eq!([0, 1, 2, 8, 9, 10, 130].map(|at| namespace[at]), [0, 8, 0, 0, 8, 0, 9]);
    assert_eq!(host.page(0x06, 4096, &[(40, 6)]), [0; 4096]);
    assert_eq!([host.ask(0x18, 0, &[]), host.ask(0x08, 0, &[])], [(0, 0), (0, 1)]);
    // Disconnect: I/O queues, then a shutdown, then the admin queue.
    for queue in &queues {
        host.0.closed(queue);
    }
    host.io_queue(1);
    assert_eq!(host.ask(FABRICS, 0, &[(4, 0), (44, 0x14), (48, 0x46_4001)]), (0, 0));
    assert_eq!(host.ask(FABRICS, 0, &[(4, 4), (44, 0x1c)]), (0, 9));
    host.0.closed(&host.1);
    assert!(!host.0.lives(&host.1));
}

#[test]
fn io() {
    let mut admin = Host::new(NAME);
    let queue = admin.io_queue(1);
    let mut host = Host(admin.0, queue);
    let range = |first: u32, blocks: u32| [(4, 1), (40, first), (48, blocks - 1)];
    let then = Response { command: 0x1234, outcome: Ok(0), invalidate: Some(0x0a0b_0c0d) };
    let read = Step::Give { from: Source::Namespace(2048), host: remote(4096), then };
    assert_eq!(host.step(&command(2, 4096, &range(4, 8))), read);
    let read = Step::Give { from: Source::Namespace(0), host: remote(1 << 20), then };
    assert_eq!(host.step(&command(2, 1 << 20, &range(0, 2048))), read);
    let write = Step::Fetch { host: remote(4096), into: 0xf_f000, then };
    assert_eq!(host.step(&command(1, 4096, &range(2040, 8))), write);
    let then = Response { invalidate: None, ..then };
    let write = Step::Store { data: &[5; 512], into: 0xf_fe00, then };
    assert_eq!(host.step(&inline(command(1, 0, &range(2047, 1)), &[5; 512])), write);
    let mut other = command(1, 512, &range(0, 1));
    other[39] = 0x40;
    assert_eq!(host.step(&other), Step::Fetch { host: remote(512), into: 0, then });

    let block = inline(command(1, 0, &range(0, 1)), &[0; 512]);
    let with = |at, byte| {
        let mut command = command(1, 512, &range(0, 1));
        command[at] = byte;
        command.to_vec()
    };
    let mut status = |capsule: &[u8]| {
        let step = host.step(capsule);
        reply(&mut host.1, step).0
    };
    assert_eq!(status(&command(0, 0, &[(4, 1)])), 0);
    assert_eq!(status(&command(0, 0, &[(4, 2)])), 0x400b);
    assert_eq!(status(&command(9, 16, &[(4, 1)])), 0x4001);
    assert_eq!(status(&command(2, 512, &[(4, 2)])), 0x400b);
    assert_eq!(status(&command(2, 1024, &range(2047, 2))), 0x4080);
    assert_eq!(status(&command(2, 512, &[(4, 1), (40, u32::MAX), (44, u32::MAX)])), 0x4080);
    assert_eq!(status(&command(2, 0x10_0200, &range(0, 2049))), 0x4002);
    assert_eq!(status(&command(1, 512, &range(0, 2))), 0x400f);
    assert_eq!(status(&command(0, 512, &[(4, 1)])), 0x400f);
    assert_eq!(status(&inline(command(2, 0, &range(0, 1)), &[0; 512])), 0x4002);
    assert_eq!(status(&block[..575]), 0x4016);
    assert_eq!([0x41, 0].map(|descriptor| status(&with(39, descriptor))), [0x4011; 2]);
    assert_eq!([0x41, 0].map(|flags| status(&with(1, flags))), [0x4002; 2]);
    assert_eq!(host.step(&block[..63]), Step::Close);
}

#[test]
fn refused() {
    let mut host = Host::new(NAME);
    let mut status = |opcode, length, fields: &[_]| host.ask(opcode, length, fields).0;
    assert_eq!(status(0x80, 0, &[]), 0x4001);
    assert_eq!(status(FABRICS, 1024, &[(4, 1)]), 0x4001); // a second Connect
    assert_eq!(status(FABRICS, 0, &[(4, 4), (44, 0x20)]), 0x4002);
    assert_eq!(status(0x02, 4, &[(40, 0x70)]), 0x4109);
    assert_eq!(status(0x02, 4, &[(40, 1), (44, 1)]), 0x4002);
    assert_eq!(status(0x02, 8, &[(40, 1)]), 0x400f);
    assert_eq!(status(0x06, 4096, &[(4, 2)]), 0x400b);
    assert_eq!(status(0x06, 4096, &[(4, u32::MAX), (40, 2)]), 0x400b);
    assert_eq!(status(0x06, 4096, &[(40, 6), (44, 2 << 24)]), 0x4002);
    assert_eq!(status(0x09, 0, &[(40, 0x0b), (44, 1 << 9)]), 0x4002);
    assert_eq!(status(0x09, 8, &[(40, 7)]), 0x400f);
    assert_eq!(status(0x09, 0, &[(40, 0x0f), (44, 0)]), 0);
    assert_eq!(status(0x18, 0, &[]), 0x401a); // There is no timer any more.
    // Pages of 8192 bytes, and entries of no bytes: the controller fails.
    for config in [0x46_0081, 1] {
        assert_eq!(host.ask(FABRICS, 0, &[(44, 0x14), (48, config)]), (0, 0));
        assert_eq!(host.ask(FABRICS, 0, &[(4, 4), (44, 0x1c)]), (0, 2));
    }
}

#[test]
fn heads() {
    let mut host = Host::new(NAME);
    let Step::Respond(then) = host.step(&command(0x18, 0, &[])) else { panic!() };
    // Six responses were sent above.
    let heads: Vec<u8> = (0..28).map(|_| host.1.seal(&then)[8]).collect();
    assert_eq!((heads[0], heads[24], heads[25], heads[26]), (7, 31, 0, 1));
    // A host may do without.
    let mut connect = connect(1, 128);
    connect[46] = 4;
    let mut queue = queue_of(&host.0, 1);
    host.0.command(&mut queue, &inline(connect, &connect_data(1, NAME)));
    assert_eq!(queue.seal(&then)[8..10], [0xff; 2]);
}

#[test]
fn lives() {
    let mut host = Host::new(NAME);
    let mut queue = host.io_queue(1);
    let silent = queue_of(&host.0, 0);
    // The queue is there; no such controller; unknown name; another queue than the connection's.
    assert_eq!(host.join(1, 1, NAME).1, (0x400c, 0));
    assert_eq!(host.join(1, 2, NAME).1, (0x4182, 0x1_0010));
    assert_eq!(host.join(1, 1, "nqn").1, (0x4182, 0x1_0100));
    assert_eq!(host.join(0, 1, NAME).1, (0x4182, 0x1_0010));
    // The wrong queue; a stranger.
    let mut other = queue_of(&host.0, 2);
    for (id, host_id, expected) in [(3, 9, 42), (2, 8, 0x1_0010)] {
        let mut capsule = [&connect(id, 128)[..], &connect_data(1, NAME)].concat();
        capsule[64] = host_id;
        let step = host.0.connect(&mut other, &capsule);
        assert_eq!(reply(&mut other, step), (0x4182, expected));
    }
    // The timer, of 5 s.
    host.0.now = 5000;
    assert!(host.0.lives(&queue) && host.0.lives(&silent));
    let flush = command(0, 0, &[(4, 1)]);
    let step = host.0.command(&mut queue, &flush);
    assert_eq!(reply(&mut queue, step).0, 0);
    host.0.now = 10_000;
    assert!(host.0.lives(&queue) && host.0.lives(&host.1) && host.0.lives(&silent));
    host.0.now = 10_001;
    assert!(!host.0.lives(&queue) && !host.0.lives(&host.1) && !host.0.lives(&silent));
    // Without its admin queue, an I/O queue is dead, whoever gets the controller's id.
    host.0.closed(&host.1);
    let given: Vec<_> = (0..17).map(|_| host.join(0, 0xffff, NAME).1).collect();
    assert!(given.iter().zip(1..17).all(|(&given, id)| given == (0, id)));
    assert_eq!(given[16], (0x181, 0));
    let step = host.0.command(&mut queue, &flush);
    assert_eq!(reply(&mut queue, step).0, 0x400c);
}

/// Nothing panics, and whatever is moved is inside of the namespace or of the page.
#[test]
fn random_capsules() {
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((seed >> 33) % below) as usize
    };
    let mut host = Host::new(NAME);
    let mut queues =
        [host.io_queue(1), host.join(0, 0xffff, DISCOVERY).0, queue_of(&host.0, 2), host.1];
    let mut moved = [0; 4];
    for _ in 0..300_000 {
        // A command that may pass, and then some bytes that may change that.
        let (opcode, data) = ([0, 1, 2, 6, 9, 10, 12, FABRICS][random(8)], [0; 4096]);
        let fields = [(4, random(3)), (40, random(9)), (44, 0), (48, random(2))];
        let length = [0, 512, 1024, 4096][random(4)];
        let fields = fields.map(|(at, field)| (at, field as u32));
        let mut capsule = command(opcode, length as u32, &fields).to_vec();
        if random(3) == 0 {
            capsule = inline(capsule.try_into().unwrap(), &data[..length]);
        }
        for _ in 0..random(4) {
            capsule[random(64)] = random(256) as u8;
        }
        capsule.truncate(if random(9) == 0 { random(5000) } else { 5000 });
        let queue = &mut queues[random(4)];
        let inside = |at: u64, length: usize| at + length as u64 <= CONFIG.bytes;
        let (kind, good) = match host.0.command(queue, &capsule) {
            Step::Fetch { host, into, .. } => (0, inside(into, host.length as usize)),
            Step::Store { data, into, .. } => (1, inside(into, data.len())),
            Step::Give { from: Source::Page, host, .. } => (2, host.length <= 4096),
            Step::Give { from: Source::Namespace(at), host, .. } => {
                (3, inside(at, host.length as usize))
            }
            Step::Close => (4, capsule.len() < 64),
            Step::Respond(_) | Step::Keep | Step::Join { .. } => (4, true),
        };
        assert!(good);
        moved.get_mut(kind).into_iter().for_each(|count| *count += 1);
        let _ = host.0.accept(&capsule);
        host.0.connect(queue, &capsule);
    }
    assert!(moved.iter().all(|&count| count > 100), "{moved:?}");
}

/// A queue pair for each place beside the one that makes connections, and 2 GiB in pages of 4 KiB.
#[test]
fn a_function_has_room_for_every_place() {
    let sizes = crate::sizes(2 << 30);
    assert!(sizes.capacity.usable_qps() > crate::PLACES as u32);
    assert!(sizes.capacity.pbles >= 1 << 19);
}

/// Immediate data takes a receive, too, but is no capsule. A host that sends some, without a byte
/// of memory, loses its own queue at most.
#[test]
fn immediate_data_is_no_capsule() {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use e810::*;
    use e810_backends::buffer::Payload;
    use e810_node::attended::{Attended, Connection};
    use e810_node::start::Sizes;
    use e810_node::station::Network;

    use crate::queue::{PLACE, Site};

    const LIMIT: Duration = Duration::from_secs(60);
    let builder = e810_sim::Sim::builder().functions(2).mode(e810_sim::Mode::Real);
    let sim = builder.profile(e810_sim::Profile::small()).cold().build();
    let [host, function] = [1, 2].map(|number| {
        let nic = sim.function(number - 1);
        let own = format!("192.0.2.{number}/24").parse().unwrap();
        let network = Network { addresses: vec![own], ..Network::default() };
        let start = e810_node::simulated::start(&nic, 1500);
        Attended::start(nic, &start, Sizes::default(), network).unwrap()
    });
    let memory = function.platform().payload((1 << 20) + PLACE).unwrap().bytes();
    let (pd, mr) = function.control(|control| {
        let pd = control.alloc_pd().unwrap();
        let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE).unwrap();
        (pd, mr)
    });
    let listener = function.listen([192, 0, 2, 2].into(), 4420, 4).unwrap();
    let site = Site {
        function: &function,
        pd: &pd,
        memory,
        base: Sge { addr: mr.address(), length: 0, lkey: mr.lkey() },
        disk: 1 << 20,
        target: Mutex::new(Target::new(CONFIG).unwrap()),
        began: Instant::now(),
        places: Mutex::new(vec![0]),
        is_ending: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let (pd, mut cq) = host
            .control(|control| (control.alloc_pd().unwrap(), control.create_cq(64, 0).unwrap()));
        let init = QpInit::rc(&cq, &cq, QpCaps::default());
        let qp = host.control(|control| control.create_qp(&pd, &init)).unwrap();
        let mut connection = Connection::new(&host, qp, 0).map_err(|(_, error)| error).unwrap();
        let data = request(0, 32, 31);
        let mut ask = host.ask("192.0.2.2:4420".parse().unwrap()).unwrap();
        ask.private_data = &data;
        connection.connect(&ask).unwrap();
        let asked = listener.next(LIMIT).unwrap();
        crate::take(&site, &asked, scope).unwrap();
        connection.established(LIMIT).unwrap();
        let op =
            Op::Write { data: Data::Sges(&[]), remote: Remote { addr: 0, rkey: 0 }, imm: Some(7) };
        let write = SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED };
        connection.qp().post_send(&[write]).unwrap();
        let mut wcs = [Wc::default()];
        assert_eq!(connection.completions(&mut cq, &mut wcs, LIMIT).unwrap(), 1);
        assert!(wcs[0].status.is_success(), "{:?}", wcs[0]);
        thread::sleep(Duration::from_secs(1));
        site.is_ending.store(true, Ordering::Relaxed);
    });
    // The thread has not panicked, and the place is free again.
    assert_eq!(*site.places.lock().unwrap(), [0]);
}
