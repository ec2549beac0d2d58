//! One function: what brings it up and what connects.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use e810::hmc::Capacity;
use e810::{
    Config, Control, Cq, Data, EventSet, GidEntry, Lan, MacAddr, Mr, Op, Pd, QpCaps, QpInit,
    RecvWr, SendFlags, SendWr, Sge, SharedBytes, VsiId, bring_up,
};
use e810_cm::Machine;
use e810_cm::machine::{self, ConnectionId, Listener, Slot, Tables};
use e810_connect::{Connection, Gsi, Local, Lookup, Manager, Neighbours, Question};
use e810_hal::Clock;
use e810_sim::{Sim, SimPlatform};

use super::work::Done;

const RECEIVES: u16 = 512;
pub(crate) const POLLED: usize = 32;

#[derive(Default)]
pub(crate) struct Known(pub(crate) Vec<(IpAddr, MacAddr)>);

impl Neighbours for Known {
    fn lookup(&mut self, question: &Question) -> Lookup {
        let mut all = self.0.iter();
        let found = all.find(|(ip, _)| *ip == question.destination);
        found.map_or(Lookup::Unreachable, |(_, mac)| Lookup::Known(*mac, 64))
    }
}

pub(crate) struct Side {
    pub(crate) platform: SimPlatform,
    pub(crate) control: Control<SimPlatform>,
    pub(crate) events: EventSet<SimPlatform>,
    pub(crate) pd: Pd,
    pub(crate) mr: Mr<SimPlatform>,
    pub(crate) cq: Cq<SimPlatform>,
    pub(crate) manager: Manager<'static, SimPlatform>,
    pub(crate) ip: IpAddr,
    pub(crate) connections: HashMap<ConnectionId, (Connection<SimPlatform>, Instant)>,
    pub(crate) by_qp: HashMap<u32, ConnectionId>,
    pub(crate) known: Known,
    pub(crate) done: Done,
    pub(crate) is_active: bool,
    pub(crate) stay: bool,
}

fn leak<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    vec![value; count].leak()
}

impl Side {
    pub(crate) fn new(sim: &Sim, number: u8, qps: u32, stay: bool) -> Self {
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
            known: Known::default(),
            done: Done::default(),
            is_active: number == 0,
            stay,
        }
    }

    pub(crate) fn local(&mut self) -> Local<'_, 'static, SimPlatform> {
        Local {
            now: self.platform.now(),
            manager: &mut self.manager,
            control: &mut self.control,
            neighbours: &mut self.known,
        }
    }

    /// A connection with a receive; `None` when there is no queue pair.
    pub(crate) fn connection(&mut self) -> Option<Connection<SimPlatform>> {
        let caps = QpCaps {
            max_send_wr: 2,
            max_recv_wr: 2,
            max_inline: 16,
            ..QpCaps::default()
        };
        let init = QpInit::rc(&self.cq, &self.cq, caps);
        let qp = self.control.create_qp(&self.pd, &init).ok()?;
        let made = Connection::new(&mut self.local(), qp, 1);
        let mut connection = made.map_err(|(_, error)| error).expect("INIT");
        self.receive(&mut connection);
        Some(connection)
    }

    pub(crate) fn receive(&self, connection: &mut Connection<SimPlatform>) {
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
    }

    pub(crate) fn keep(&mut self, mut connection: Connection<SimPlatform>) {
        let id = connection.id().expect("a name");
        self.by_qp.insert(connection.qp().number().get(), id);
        self.connections.insert(id, (connection, Instant::now()));
    }

    pub(crate) fn message(&mut self, id: ConnectionId) {
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
