//! RDMA without an operating system: two functions of the card are brought up
//! from a reset, find each other and pass messages, and every byte of each is looked at.
//!
//! This page tells the story. How a node posts and waits is in `node`; the
//! machine, and what the driver wants of it, is in `metal`.

#![no_std]
#![no_main]

mod dhcp;
mod failing_receive;
mod frames;
mod lan;
mod neighbours;
mod node;
mod progress;
mod report;

use core::net::{IpAddr, Ipv4Addr};

use e810::hmc::Capacity;
use e810::{
    AccessFlags, ColdStart, Config, ConnectOptions, Control, EventSet, GidEntry, HOST_ALLOCATIONS,
    LinkPolicy, MacAddr, Mtu, Notify, Package, PackageSource, QpCaps, QpInfo, QpInit, QpType,
    bring_up_cold,
};
use lan::Lan;
use metal::machine::FUNCTIONS;
use metal::{Machine, Metal, pool, say};
use node::{BYTES, HEADER, INCOMING, LIMIT, Node};
use report::{Failure, Report, Waits};

/// Messages of each kind.
const MESSAGES: u64 = 50;

/// How both functions are brought up.
const CONFIG: Config = Config {
    // Few objects take little memory.
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
    // One vector for completions; the events of the card have their own.
    ceqs: 1,
    ..Config::cold(1500)
};

// The driver's tables take at most so much of the pool, which gives out pages.
// The rest is for the card: 2 MiB pieces for its objects, and rings.
const _: () = {
    let tables = CONFIG.host_bytes::<Metal<'_>>() + HOST_ALLOCATIONS * pool::PAGE;
    assert!(FUNCTIONS * (tables + (4 << 20)) < pool::BYTES);
};

metal::entry!(main);

/// A function that was brought up.
type Parts<'m> = (Control<Metal<'m>>, EventSet<Metal<'m>>);

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
    match machine.is_asked_for("dhcp") {
        false => messages(machine, &package, report),
        true => {
            let function = machine.first_function()?;
            let metal = Metal::new(machine, &function);
            let parts = up(metal, &package, &mut report)?;
            dhcp::serve(metal, parts, report)
        }
    }
}

/// Two functions find each other and pass messages.
#[inline(never)] // What it has on the stack, the other one has not.
fn messages<'m>(
    machine: &'m Machine,
    package: &PackageSource<'_>,
    mut report: Report<'m>,
) -> Result<(), Failure> {
    let [first, second] = machine.functions()?;
    let (first, second) = (Metal::new(machine, &first), Metal::new(machine, &second));
    let device = up(first, package, &mut report)?;
    let mut a = objects(first, device, &mut report)?;
    let device = up(second, package, &mut report)?;
    let mut b = objects(second, device, &mut report)?;

    neighbours::find([&mut a, &mut b], &mut report)?;
    let (infos_of_a, infos_of_b) = (a.infos()?, b.infos()?);
    connect(&mut a, &infos_of_b)?;
    connect(&mut b, &infos_of_a)?;
    report.row("connecting", 2);

    for waits in [Waits::Polls, Waits::Sleeps] {
        for qp_type in [QpType::Rc, QpType::Ud] {
            for number in 0..MESSAGES {
                // There and back.
                let (from, to) = match number % 2 {
                    0 => (&mut a, &mut b),
                    _ => (&mut b, &mut a),
                };
                pass(from, to, qp_type, waits, number)?;
                report.arrived();
            }
            report.row(waits.row(qp_type), MESSAGES);
        }
    }
    failing_receive::receive_too_short(&mut a, &mut b)?;
    report.row("a failure, told", 1);
    a.down()?;
    b.down()?;
    report.row("shutting down", 2);
    report.end()
}

/// Brings a function up from its reset on.
fn up<'m>(
    metal: Metal<'m>,
    package: &PackageSource<'_>,
    report: &mut Report<'_>,
) -> Result<Parts<'m>, Failure> {
    let start = ColdStart {
        package: *package,
        link: LinkPolicy::Wait(LIMIT),
    };
    let device = bring_up_cold(metal, &CONFIG, &start, &mut |reached| {
        report.row(reached.stage.name(), 1);
    })?;
    Ok(device.split())
}

/// Makes a function's objects and opens its port.
#[inline(never)] // What it has on the stack, the bring-up has not.
fn objects<'m>(
    metal: Metal<'m>,
    (mut control, events): Parts<'m>,
    report: &mut Report<'_>,
) -> Result<Node<'m>, Failure> {
    let pd = control.alloc_pd()?;
    let memory = metal.payload(INCOMING + HEADER + BYTES)?;
    let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
    // On completion vector 0.
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
    let ip = ip(control.lan().mac);
    let gid = control.add_gid(GidEntry {
        gid: IpAddr::V4(ip).into(),
        vlan: None,
    })?;
    let lan = Lan::open(metal.machine(), &mut control, ip)?;
    report.row("objects", 7);
    Ok(Node {
        metal,
        control,
        events,
        lan,
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

/// Takes both queue pairs to RTS: one towards its peer, one for datagrams. What one
/// side knows of the other is a variable here; between two machines it has to be
/// exchanged. Frames go where the peer has answered from.
fn connect(node: &mut Node<'_>, infos: &[QpInfo; 2]) -> Result<(), Failure> {
    let [of_rc, _] = infos;
    let mac = node
        .lan
        .watch(of_rc.gid.ip())?
        .ok_or(Failure::Silence("a neighbour"))?;
    let [rc, ud] = infos.map(|info| QpInfo { mac, ..info });
    let options = ConnectOptions {
        sgid_index: node.gid,
        mtu: Some(Mtu::Mtu1024),
        ..ConnectOptions::default()
    };
    node.rc.connect(&mut node.control, &rc, &options)?;
    node.ud.connect(&mut node.control, &ud, &options)?;
    let ah = node.control.create_ah(&node.pd, &ud.path(node.gid))?;
    node.peer = Some((ah, ud));
    Ok(())
}

/// The address of the function with that MAC address.
fn ip(mac: MacAddr) -> Ipv4Addr {
    let [.., last] = mac.0;
    Ipv4Addr::new(10, 8, 10, last.wrapping_add(1))
}

/// Passes one message, and looks at both completions and at every byte.
fn pass(
    from: &mut Node<'_>,
    to: &mut Node<'_>,
    qp_type: QpType,
    waits: Waits,
    number: u64,
) -> Result<(), Failure> {
    let header = if qp_type == QpType::Ud { HEADER } else { 0 };
    let sent: [u8; BYTES] = core::array::from_fn(|at| (at as u64 * 7 + number * 31 + 1) as u8);
    from.memory.write(0, &sent)?;
    to.memory.write(INCOMING, &[0; HEADER + BYTES])?;
    to.post_recv(qp_type, number, HEADER + BYTES)?;
    // Asked for before the message is on its way: its event cannot be missed.
    // Were there something to poll already, none would come.
    let asked = waits == Waits::Sleeps && !to.cq.arm(Notify::Any);
    from.post_send(qp_type, number)?;
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
