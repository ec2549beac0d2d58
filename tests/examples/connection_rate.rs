//! How many connections two functions make in a second: each is asked for, accepted, carries one
//! message each way, is ended, and its queue pairs are destroyed after TIMEWAIT.
//!
//! ```text
//! cargo run --release -p e810-tests --example connection_rate -- [SECONDS [AT ONCE [QPS]]]
//! ```
//!
//! Both functions are driven by one thread; the simulator has its own. AT ONCE connections are being
//! made at a time (1: the times of the set-up alone are told, too). QPS is the capacity of each
//! function for queue pairs.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a run that goes wrong ends the program"
)]

use std::collections::HashMap;
use std::env;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use e810::hmc::Capacity;
use e810::{
    Config, Control, Cq, Data, EventSet, GidEntry, Lan, MacAddr, Mr, Op, Pd, QpCaps, QpInit,
    RecvWr, Remaining, SendFlags, SendWr, Sge, SharedBytes, VsiId, Wc, WcOpcode, bring_up,
};
use e810_cm::Machine;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{self, Connect, ConnectionId, Listen, Listener, Slot, Tables};
use e810_connect::{
    Call, Connection, Grant, Gsi, Happened, Local, Lookup, Manager, Neighbours, News, Phase,
    Question, Service, Told,
};
use e810_hal::Clock;
use e810_sim::pe::FpmProfile;
use e810_sim::{Mode, Sim, SimPlatform};

const PORT: u16 = 7471;
const RECEIVES: u16 = 512;
const POLLED: usize = 32;

struct Known([(IpAddr, MacAddr); 2]);

impl Neighbours for Known {
    fn lookup(&mut self, question: &Question) -> Lookup {
        let mut all = self.0.iter();
        let found = all.find(|(ip, _)| *ip == question.destination);
        found.map_or(Lookup::Unreachable, |(_, mac)| Lookup::Known(*mac, 64))
    }
}

struct Side {
    platform: SimPlatform,
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    pd: Pd,
    mr: Mr<SimPlatform>,
    cq: Cq<SimPlatform>,
    manager: Manager<'static, SimPlatform>,
    ip: IpAddr,
    connections: HashMap<ConnectionId, (Connection<SimPlatform>, Instant)>,
    by_qp: HashMap<u32, ConnectionId>,
}

fn leak<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    vec![value; count].leak()
}

impl Side {
    fn new(sim: &Sim, number: u8, qps: u32) -> Self {
        let platform = sim.function(number);
        let lan = Lan {
            vsi: VsiId::new(platform.vsi()).expect("a VSI"),
            mac: MacAddr(platform.mac()),
            mtu: 1500,
        };
        let config = Config {
            capacity: Capacity {
                qps,
                ..Capacity::DEFAULT
            },
            or_fewer: true,
            ceqs: 1,
            ..Config::new(lan)
        };
        let device = bring_up(platform.clone(), &config, &mut |_| {}).expect("up");
        let (mut control, events) = device.split();
        let ip = IpAddr::from([192, 0, 2, 1 + number]);
        control.add_gid(GidEntry::untagged(ip)).expect("an address");
        let pd = control.alloc_pd().expect("a PD");
        let memory = SharedBytes::from_static(leak(0, 512));
        let access = e810::AccessFlags::LOCAL_WRITE;
        let mr = control.reg_mr(&pd, memory, access).expect("a region");
        let cq = control.create_cq(0x8000, 0).expect("a CQ");
        let bytes = Gsi::<SimPlatform>::bytes(RECEIVES);
        let memory = SharedBytes::from_static(leak(0, bytes / 8));
        let gsi = Gsi::open(&mut control, memory, 0).expect("queue pair 1");
        let slots = qps as usize;
        let tables = Tables {
            slots: leak(Slot::EMPTY, slots),
            listeners: leak(Listener::EMPTY, 1),
            words: leak(0, Tables::words(slots)),
        };
        let config = machine::Config::new(control.query_device().node_guid);
        let machine = Machine::new(config, tables, [number + 1; 16]).expect("a machine");
        Self {
            platform,
            control,
            events,
            pd,
            mr,
            cq,
            manager: Manager::new(machine, gsi),
            ip,
            connections: HashMap::new(),
            by_qp: HashMap::new(),
        }
    }

    fn local<'a>(&'a mut self, known: &'a mut Known) -> Local<'a, 'static, SimPlatform> {
        Local {
            now: self.platform.now(),
            manager: &mut self.manager,
            control: &mut self.control,
            neighbours: known,
        }
    }

    /// A connection with a receive; `None` when there is no queue pair.
    fn connection(&mut self, known: &mut Known) -> Option<Connection<SimPlatform>> {
        let caps = QpCaps {
            max_send_wr: 2,
            max_recv_wr: 2,
            max_inline: 16,
            ..QpCaps::default()
        };
        let init = QpInit::rc(&self.cq, &self.cq, caps);
        let qp = self.control.create_qp(&self.pd, &init).ok()?;
        let made = Connection::new(&mut self.local(known), qp, 1);
        let mut connection = made.map_err(|(_, error)| error).expect("INIT");
        let sges = [Sge {
            addr: self.mr.address(),
            length: 64,
            lkey: self.mr.lkey(),
        }];
        let receive = RecvWr {
            wr_id: 0,
            sges: &sges,
        };
        connection.qp().post_recv(&[receive]).expect("a receive");
        Some(connection)
    }

    fn keep(&mut self, mut connection: Connection<SimPlatform>) {
        let id = connection.id().expect("a name");
        self.by_qp.insert(connection.qp().number().get(), id);
        self.connections.insert(id, (connection, Instant::now()));
    }

    fn message(&mut self, id: ConnectionId) {
        let op = Op::Send {
            data: Data::Inline(&[b"one message each"]),
            imm: None,
        };
        let request = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::empty(),
        };
        let (connection, _) = self.connections.get_mut(&id).expect("a connection");
        connection.qp().post_send(&[request]).expect("a send");
    }
}

/// What was done.
#[derive(Default)]
struct Done {
    over: u64,
    refused: u64,
    no_queue_pair: u64,
    /// Of the active side: from its question until its queue pair is in RTS.
    setups: Vec<Duration>,
}

fn heard(sides: &mut [Side; 2], known: &mut Known, n: usize, told: &Told, done: &mut Done) {
    let side = &mut sides[n];
    if matches!(told.news, News::Requested(_)) {
        let Some(mut connection) = side.connection(known) else {
            // Its peer asks again.
            let ignored = side.local(known).call(&Call::Release(told.id));
            ignored.expect("ignored");
            done.no_queue_pair += 1;
            return;
        };
        let accepted = connection.accept(&mut side.local(known), told, &Grant::default());
        accepted.expect("accepted");
        side.keep(connection);
        return;
    }
    let Some((mut connection, began)) = side.connections.remove(&told.id) else {
        return;
    };
    connection
        .hear(&mut side.local(known), told)
        .expect("a step");
    match connection.phase() {
        Phase::Over | Phase::Refused(_) | Phase::Unreachable => {
            done.refused += u64::from(connection.phase() != Phase::Over);
            done.over += u64::from(n == 0 && connection.phase() == Phase::Over);
            let qp = connection.end(&mut side.local(known));
            side.by_qp.remove(&qp.number().get());
            let destroyed = side.control.destroy_qp(qp);
            destroyed.map_err(|(_, error)| error).expect("destroyed");
        }
        phase => {
            side.connections.insert(told.id, (connection, began));
            if n == 0 && phase == Phase::Established {
                done.setups.push(began.elapsed());
                side.message(told.id);
            }
        }
    }
}

/// Takes completions: the passive side answers, the active side ends.
fn messages(sides: &mut [Side; 2], known: &mut Known, n: usize) -> usize {
    let side = &mut sides[n];
    let mut wcs = [Wc::default(); POLLED];
    let count = side.cq.poll(&mut wcs);
    for wc in &wcs[..count] {
        if wc.opcode != WcOpcode::Recv || !wc.status.is_success() {
            continue;
        }
        let Some(&id) = side.by_qp.get(&wc.qp_num) else {
            continue;
        };
        let Some((mut connection, began)) = side.connections.remove(&id) else {
            continue;
        };
        let mut local = side.local(known);
        connection.arrived(&mut local);
        if n == 0 {
            connection.disconnect(&mut local).expect("an end");
        }
        side.connections.insert(id, (connection, began));
        if n == 1 {
            side.message(id);
        }
    }
    count
}

fn main() {
    let mut args = env::args()
        .skip(1)
        .map(|arg| arg.parse::<u32>().expect("a number"));
    let seconds = Duration::from_secs(args.next().unwrap_or(10).into());
    let at_once = args.next().unwrap_or(16) as usize;
    let qps = args.next().unwrap_or(32_768);
    let sim = Sim::builder().functions(2).mode(Mode::Real);
    let sim = sim.profile(FpmProfile::card()).build();
    let mut sides = [0, 1].map(|number| Side::new(&sim, number, qps));
    let mut known = Known(
        sides
            .each_ref()
            .map(|side| (side.ip, side.control.lan().mac)),
    );
    let listen = Listen {
        space: PortSpace::Tcp,
        port: PORT,
        address: sides[1].ip,
        only_family: true,
        backlog: 1024,
        context: 0,
    };
    let listened = sides[1].local(&mut known).call(&Call::Listen(listen));
    listened.expect("a listener");
    let mut done = Done::default();
    let commands = sides.each_ref().map(|side| side.control.commands());
    let (mut began, mut asked, mut made) = (Instant::now(), 0_u64, 0_u64);
    // Numbers come back after TIMEWAIT: what is measured begins then.
    let warm = Duration::from_secs(2);
    let mut is_warm = false;
    loop {
        if !is_warm && began.elapsed() > warm {
            is_warm = true;
            began = Instant::now();
            made = done.setups.len() as u64;
            done.setups.clear();
        }
        let is_ending = is_warm && began.elapsed() > seconds;
        if is_ending {
            break;
        }
        let under_way = asked - (done.setups.len() as u64 + if is_warm { made } else { 0 });
        if (under_way as usize) < at_once {
            if let Some(mut connection) = sides[0].connection(&mut known) {
                let ask = Connect::new(sides[0].ip, (sides[1].ip, PORT).into());
                let side = &mut sides[0];
                let asking = connection.connect(&mut side.local(&mut known), &ask);
                asking.expect("asked");
                side.keep(connection);
                asked += 1;
            } else {
                done.no_queue_pair += 1;
            }
        }
        let mut has_worked = false;
        for n in 0..2 {
            for _ in 0..POLLED {
                let side = &mut sides[n];
                let now = side.platform.now();
                let happened = side.manager.progress(&mut side.control, &mut known, now);
                match happened.expect("queue pair 1") {
                    Happened::Told(told) => heard(&mut sides, &mut known, n, &told, &mut done),
                    Happened::More => {}
                    Happened::Nothing => break,
                }
                has_worked = true;
            }
            has_worked |= messages(&mut sides, &mut known, n) > 0;
            let side = &mut sides[n];
            e810::progress(&mut side.control, &mut side.events, |_| {}).expect("progress");
        }
        if !has_worked {
            // The engine of a function works while its program polls.
            sides.iter().for_each(|side| side.platform.relax());
        }
    }
    let elapsed = began.elapsed();
    let count = done.setups.len() as u64;
    println!(
        "{:.0} connections/s: {count} in {elapsed:.1?}, {} over, {} refused, {} without a queue pair",
        count as f64 / elapsed.as_secs_f64(),
        done.over,
        done.refused,
        done.no_queue_pair,
    );
    for (n, side) in sides.iter_mut().enumerate() {
        let counters = *side.manager.machine().counters();
        let all = (made + count) as f64;
        println!(
            "{}: {:.2} CQP commands, {:.2} datagrams sent and {} repeated, of all connections",
            ["active", "passive"][n],
            (side.control.commands() - commands[n]) as f64 / all,
            counters.sent.iter().sum::<u64>() as f64 / all,
            counters.repeated,
        );
    }
    done.setups.sort();
    let at = |share: f64| done.setups[(count as f64 * share) as usize];
    println!(
        "set-up, until the active side is in RTS: p50 {:.1?}, p99 {:.1?} ({at_once} at once)",
        at(0.5),
        at(0.99),
    );
    let began = Instant::now();
    while sides.iter().any(|side| !side.connections.is_empty()) {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "connections stay"
        );
        for n in 0..2 {
            let side = &mut sides[n];
            let now = side.platform.now();
            let happened = side.manager.progress(&mut side.control, &mut known, now);
            if let Happened::Told(told) = happened.expect("queue pair 1") {
                heard(&mut sides, &mut known, n, &told, &mut done);
            }
            messages(&mut sides, &mut known, n);
        }
    }
    for side in sides {
        let mut control = side.control;
        side.manager.close(&mut control).1.expect("closed");
        let objects = Remaining {
            qps: [],
            ahs: [],
            cqs: [side.cq],
            mrs: [side.mr],
            pds: [side.pd],
        };
        control.shutdown_with(side.events, objects).expect("down");
    }
    assert_eq!(sim.findings(), []);
}
