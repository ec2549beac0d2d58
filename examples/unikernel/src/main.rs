//! RDMA without an operating system: two functions of the card are brought up
//! from a reset and pass messages, and every byte of each is looked at.
//!
//! This page is all that uses the driver; the machine is in `metal`.

#![no_std]
#![no_main]

mod report;

use e810::hmc::Capacity;
use e810::{
    AccessFlags, Ah, AsyncEvent, ColdStart, Config, Control, Cq, Data, Event, EventSet, GidEntry,
    LinkPolicy, MacAddr, Mr, Mtu, Notify, Op, Package, PackageSource, Path, Pd, Qp, QpAttr, QpCaps,
    QpInit, Qpn, RecvWr, SendFlags, SendWr, Service, Sge, SharedBytes, Wc, WcStatus, bring_up_cold,
    v4,
};
use e810_hal::Ns;
use metal::interrupts::Lines;
use metal::{Machine, Metal, say};
use report::{Failure, Report, Waits};

/// Messages of each kind, and bytes of each.
const MESSAGES: u64 = 50;
const BYTES: usize = 1000;
/// A datagram arrives behind room for its network header.
const HEADER: usize = 40;
/// Where a side's messages arrive: behind the one that it sends.
const INCOMING: usize = 1024;
/// How long anything may take.
const LIMIT: Ns = Ns::from_ms(10_000);

const QKEY: u32 = 0x1111_1111;
const PSN: u32 = 0x10_0000;

metal::entry!(main);

fn main(machine: &Machine) -> Result<(), Failure> {
    let mut report = Report::begin(machine);
    // The package is a file beside the program. Without it the card has to have
    // one, from another function or from the last time.
    let package = match machine.module() {
        Some(file) => PackageSource::File(Package::parse(file)?),
        None => PackageSource::AnotherFunction,
    };
    if machine.module().is_none() {
        say!("no package was given (-initrd): the card must have one");
    }
    let [first, second] = machine.functions()?;
    let mut a = Node::up(Metal::new(machine, &first), &package, &mut report)?;
    let mut b = Node::up(Metal::new(machine, &second), &package, &mut report)?;

    let (address_a, address_b) = (a.address(), b.address());
    a.connect(&address_b)?;
    b.connect(&address_a)?;
    report.row("connecting", 2);

    for waits in [Waits::Polls, Waits::Sleeps] {
        for service in [Service::Rc, Service::Ud] {
            for number in 0..MESSAGES {
                // There and back.
                let (from, to) = match number % 2 {
                    0 => (&mut a, &mut b),
                    _ => (&mut b, &mut a),
                };
                pass(from, to, service, waits, number)?;
                report.arrived();
            }
            report.row(waits.row(service), MESSAGES);
        }
    }
    a.down()?;
    b.down()?;
    report.row("shutting down", 2);
    report.end()
}

/// One function with its objects.
struct Node<'m> {
    metal: Metal<'m>,
    control: Control<Metal<'m>>,
    events: EventSet<Metal<'m>>,
    pd: Pd,
    memory: SharedBytes,
    mr: Mr<Metal<'m>>,
    cq: Cq<Metal<'m>>,
    rc: Qp<Metal<'m>>,
    ud: Qp<Metal<'m>>,
    gid: u8,
    /// Where datagrams go: the way, and whom they are for.
    peer: Option<(Ah, Qpn)>,
}

/// What the other side has to know.
struct Address {
    mac: MacAddr,
    rc: Qpn,
    ud: Qpn,
}

impl<'m> Node<'m> {
    /// Brings a function up from its reset on and makes its objects.
    fn up(
        metal: Metal<'m>,
        package: &PackageSource<'_>,
        report: &mut Report<'_>,
    ) -> Result<Self, Failure> {
        let config = Config {
            capacity: Capacity {
                qps: 8,
                cqs: 8,
                mrs: 8,
                ahs: 4,
                arps: 8,
                mcast_groups: 1,
                pbles: 512,
            },
            cqp_entries: 8,
            ceqs: 1,
            ..Config::cold(1500)
        };
        let start = ColdStart {
            package: *package,
            link: LinkPolicy::Wait(LIMIT),
        };
        let device = bring_up_cold(metal, &config, &start, &mut |reached| {
            report.row(reached.stage.name(), 1);
        })?;
        let (mut control, events) = device.split();
        let pd = control.alloc_pd()?;
        let memory = metal.payload(INCOMING + HEADER + BYTES)?;
        let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
        let cq = control.create_cq(16, 0)?;
        let caps = QpCaps {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let rc = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps))?;
        let ud = control.create_qp(&pd, &QpInit::ud(&cq, &cq, caps))?;
        let gid = control.add_gid(GidEntry {
            gid: ip(control.lan().mac).into(),
            vlan: None,
        })?;
        report.row("objects", 5);
        Ok(Self {
            metal,
            control,
            events,
            pd,
            memory,
            mr,
            cq,
            rc,
            ud,
            gid,
            peer: None,
        })
    }

    fn address(&self) -> Address {
        Address {
            mac: self.control.lan().mac,
            rc: self.rc.number(),
            ud: self.ud.number(),
        }
    }

    /// Takes both queue pairs to RTS: one towards its peer, one for datagrams.
    fn connect(&mut self, peer: &Address) -> Result<(), Failure> {
        let path = Path::new(self.gid, ip(peer.mac), peer.mac);
        for attr in [
            QpAttr::to_init(AccessFlags::empty()),
            QpAttr::to_rtr(path, Mtu::Mtu1024, peer.rc, PSN),
            QpAttr::to_rts(PSN),
        ] {
            self.control.modify_qp(&mut self.rc, &attr)?;
        }
        for attr in [
            QpAttr::ud_to_init(QKEY),
            QpAttr::ud_to_rtr(),
            QpAttr::ud_to_rts(PSN),
        ] {
            self.control.modify_qp(&mut self.ud, &attr)?;
        }
        self.peer = Some((self.control.create_ah(&self.pd, &path)?, peer.ud));
        Ok(())
    }

    fn qp(&mut self, service: Service) -> &mut Qp<Metal<'m>> {
        match service {
            Service::Ud => &mut self.ud,
            _ => &mut self.rc,
        }
    }

    fn sge(&self, offset: usize, bytes: usize) -> Sge {
        Sge {
            addr: self.mr.address() + offset as u64,
            length: bytes as u32,
            lkey: self.mr.lkey(),
        }
    }

    fn post_recv(&mut self, service: Service, number: u64) -> Result<(), Failure> {
        let sges = [self.sge(INCOMING, HEADER + BYTES)];
        let receive = RecvWr {
            wr_id: number,
            sges: &sges,
        };
        Ok(self.qp(service).post_recv(&[receive])?)
    }

    fn post_send(&mut self, service: Service, number: u64) -> Result<(), Failure> {
        let sges = [self.sge(0, BYTES)];
        let (data, imm) = (Data::Sges(&sges), None);
        let to = self.peer.as_ref().map(|(ah, qpn)| ah.target(*qpn, QKEY));
        let op = match (service, to) {
            (Service::Ud, Some(to)) => Op::UdSend { data, imm, to },
            _ => Op::Send { data, imm },
        };
        let request = SendWr {
            wr_id: number,
            op,
            flags: SendFlags::SIGNALED,
        };
        Ok(self.qp(service).post_send(&[request])?)
    }

    /// Stops the processor until the event that was asked for has come.
    fn sleep(&mut self) -> Result<(), Failure> {
        let machine = self.metal.machine();
        let end = machine.now() + LIMIT;
        while !self.cq.take_event() {
            if machine.now() > end {
                return Err(Failure::Late);
            }
            let fired = machine.sleep(self.metal.lines(), Ns::from_ms(100));
            self.attend(Some(fired))?;
        }
        Ok(())
    }

    /// Looks for the next completion until it is there.
    fn completion(&mut self) -> Result<Wc, Failure> {
        let end = self.metal.machine().now() + LIMIT;
        let mut wc = [Wc::default()];
        while self.cq.poll(&mut wc) == 0 {
            if self.metal.machine().now() > end {
                return Err(Failure::Late);
            }
            self.attend(None)?;
        }
        let [wc] = wc;
        match wc.status {
            WcStatus::Success => Ok(wc),
            status => Err(Failure::Completion(status, wc.vendor_err)),
        }
    }

    /// Takes events, all of them or those of the lines that fired, and does what
    /// the driver has put off.
    fn attend(&mut self, fired: Option<Lines>) -> Result<(), Failure> {
        let mut trouble: Option<AsyncEvent> = None;
        let mut deliver = |event| {
            if let Event::Async(event) = event {
                trouble = Some(event);
            }
        };
        for part in &mut self.events {
            match fired {
                None => drop(part.poll(&mut deliver)),
                Some(fired) if self.metal.has_fired(fired, part.vector()) => {
                    while part.on_vector(&mut deliver).more {}
                }
                Some(_) => {}
            }
        }
        self.control.service()?;
        trouble.map_or(Ok(()), |event| Err(Failure::Event(event)))
    }

    /// Gives everything back, in order.
    fn down(mut self) -> Result<(), Failure> {
        if let Some((ah, _)) = self.peer.take() {
            self.control.destroy_ah(ah).map_err(|(_, error)| error)?;
        }
        for qp in [self.rc, self.ud] {
            self.control.destroy_qp(qp).map_err(|(_, error)| error)?;
        }
        self.control
            .destroy_cq(self.cq)
            .map_err(|(_, error)| error)?;
        self.control.dereg_mr(self.mr).map_err(|(_, error)| error)?;
        self.control
            .dealloc_pd(self.pd)
            .map_err(|(_, error)| error)?;
        let ended = self.control.shutdown(self.events);
        Ok(ended.map_err(|failed| failed.error)?)
    }
}

/// Passes one message, and looks at both completions and at every byte.
fn pass(
    from: &mut Node<'_>,
    to: &mut Node<'_>,
    service: Service,
    waits: Waits,
    number: u64,
) -> Result<(), Failure> {
    let header = if service == Service::Ud { HEADER } else { 0 };
    let sent: [u8; BYTES] = core::array::from_fn(|at| (at as u64 * 7 + number * 31 + 1) as u8);
    from.memory.write(0, &sent)?;
    to.memory.write(INCOMING, &[0; HEADER + BYTES])?;
    to.post_recv(service, number)?;
    // Asked for before the message is on its way: its event cannot be missed.
    // Were there something to poll already, none would come.
    let asked = waits == Waits::Sleeps && !to.cq.arm(Notify::Any);
    from.post_send(service, number)?;
    if asked {
        to.sleep()?;
    }
    let received = to.completion()?;
    let sent_off = from.completion()?;
    let mut arrived = [0; BYTES];
    to.memory.read(INCOMING + header, &mut arrived)?;
    let right = received.wr_id == number
        && received.byte_len as usize == header + BYTES
        && sent_off.wr_id == number
        && arrived == sent;
    right.then_some(()).ok_or(Failure::Wrong { number })
}

/// The address of the function with that MAC address.
fn ip(mac: MacAddr) -> core::net::IpAddr {
    let [.., last] = mac.0;
    v4(10, 8, 10, last.wrapping_add(1))
}
