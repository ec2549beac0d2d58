//! RDMA without an operating system: two functions of the card are brought up
//! from a reset, find each other and pass messages, and every byte of each is looked at.
//!
//! This page tells the story. How a node posts and waits is in `node`; the
//! machine, and what the driver wants of it, is in `metal`.

#![no_std]
#![no_main]

mod connections;
mod dhcp;
mod end;
mod failing_receive;
mod frames;
mod lan;
mod neighbours;
mod node;
mod nvme;
mod progress;
mod report;
mod rping;

use core::net::{IpAddr, Ipv4Addr};

use e810::hmc::Capacity;
use e810::{
    AccessFlags, ColdStart, Config, ConnectOptions, Control, EventSet, GidEntry, HOST_ALLOCATIONS,
    LinkPolicy, MacAddr, Mtu, Notify, Package, PackageSource, QpInfo, QpInit, bring_up_cold,
};
use lan::Lan;
use metal::machine::FUNCTIONS;
use metal::{Boxed, Machine, Metal, pool, say};
use node::{BYTES, CAPS, CONNECTIONS, HEADER, INCOMING, LIMIT, Node, Which};
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
    let of_one = [dhcp::serve as OfOne, rping::meet].into_iter();
    let mut of_one = ["dhcp", "rping"].into_iter().zip(of_one);
    match of_one.find(|(word, _)| machine.is_asked_for(word)) {
        None => messages(machine, &package, report),
        Some((_, program)) => {
            let function = machine.first_function()?;
            let metal = Metal::new(machine, &function);
            let parts = up(metal, &package, &mut report)?;
            program(metal, parts, report)
        }
    }
}

/// What is done with one function.
type OfOne = for<'m> fn(Metal<'m>, Parts<'m>, Report<'m>) -> Result<(), Failure>;

/// Two functions find each other and pass messages.
#[inline(never)] // What it has on the stack, the other one has not.
fn messages<'m>(
    machine: &'m Machine,
    package: &PackageSource<'_>,
    mut report: Report<'m>,
) -> Result<(), Failure> {
    let [first, second] = machine.functions()?;
    let (first, second) = (Metal::new(machine, &first), Metal::new(machine, &second));
    let mut a = node(first, package, &mut report)?;
    let mut b = node(second, package, &mut report)?;

    neighbours::find([&mut a, &mut b], &mut report)?;
    let (infos_of_a, infos_of_b) = (a.infos()?, b.infos()?);
    connect(&mut a, &infos_of_b)?;
    connect(&mut b, &infos_of_a)?;
    report.row("connecting", 2);

    for waits in [Waits::Polls, Waits::Sleeps] {
        for which in [Which::Rc, Which::Ud] {
            pass_all([&mut a, &mut b], which, waits, &mut report)?;
        }
    }
    failing_receive::receive_too_short(&mut a, &mut b)?;
    report.row("a failure, told", 1);
    connections::connect_and_part([&mut a, &mut b], &mut report)?;
    down(a)?;
    down(b)?;
    report.row("shutting down", 2);
    report.end()
}

/// A function that is up and has its objects, which are in the pool: they are large.
type InPool<'m> = Boxed<'m, Node<'m>>;

/// Brings a function up and makes its objects.
#[inline(never)] // What it has on the stack, the messages have not.
fn node<'m>(
    metal: Metal<'m>,
    package: &PackageSource<'_>,
    report: &mut Report<'_>,
) -> Result<InPool<'m>, Failure> {
    let parts = up(metal, package, report)?;
    objects(metal, parts, report)
}

/// Gives all of a function back.
#[inline(never)] // As above.
fn down(node: InPool<'_>) -> Result<(), Failure> {
    node.into_inner().down()
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
) -> Result<InPool<'m>, Failure> {
    let pd = control.alloc_pd()?;
    let memory = metal.payload(INCOMING + HEADER + BYTES)?;
    let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
    // On completion vector 0.
    let cq = control.create_cq(16, 0)?;
    let rc = control.create_qp(&pd, &QpInit::rc(&cq, &cq, CAPS))?;
    let ud = control.create_qp(&pd, &QpInit::ud(&cq, &cq, CAPS))?;
    let ip = ip(control.lan().mac);
    let gid = control.add_gid(GidEntry {
        gid: IpAddr::V4(ip).into(),
        vlan: None,
    })?;
    let lan = Lan::open(metal.machine(), &mut control, ip)?;
    report.row("objects", 7);
    let node = Node {
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
        connections: [const { None }; CONNECTIONS],
        current: 0,
    };
    Ok(Boxed::new(metal.machine(), node)?)
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

/// Passes messages between two nodes, there and back.
fn pass_all(
    [a, b]: [&mut Node<'_>; 2],
    which: Which,
    waits: Waits,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    for number in 0..MESSAGES {
        match number % 2 {
            0 => pass(a, b, which, waits, number)?,
            _ => pass(b, a, which, waits, number)?,
        }
        report.arrived();
    }
    report.row(waits.row(which), MESSAGES);
    Ok(())
}

/// Passes one message, and looks at both completions and at every byte.
fn pass(
    from: &mut Node<'_>,
    to: &mut Node<'_>,
    which: Which,
    waits: Waits,
    number: u64,
) -> Result<(), Failure> {
    let header = if which == Which::Ud { HEADER } else { 0 };
    let sent: [u8; BYTES] = core::array::from_fn(|at| (at as u64 * 7 + number * 31 + 1) as u8);
    from.memory.write(0, &sent)?;
    to.memory.write(INCOMING, &[0; HEADER + BYTES])?;
    to.post_recv(which, number, HEADER + BYTES)?;
    // Asked for before the message is on its way: its event cannot be missed.
    // Were there something to poll already, none would come.
    let asked = waits == Waits::Sleeps && !to.cq.arm(Notify::Any);
    from.post_send(which, number)?;
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
