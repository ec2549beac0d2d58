//! A program writes into the memory of its peer, and reads it back, without the peer's
//! processor.
//!
//! `cargo run --release --example rdma_write`

use std::error::Error;

use e810::*;
use e810_sim::{Sim, SimPlatform, test_package};

const ACCESS: AccessFlags =
    AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_WRITE).union(AccessFlags::REMOTE_READ);

/// A function and what the program made on it.
struct Node {
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    pd: Pd,
    memory: SharedBytes,
    mr: Mr<SimPlatform>,
    cq: Cq<SimPlatform>,
    qp: Qp<SimPlatform>,
}

fn start(function: SimPlatform) -> Result<Node, Box<dyn Error>> {
    let (file, link) = (test_package(), LinkPolicy::Wait(Ns::from_ms(10_000)));
    let package = PackageSource::File(Package::parse(&file)?);
    let start = ColdStart { package, link };
    let device = bring_up_cold(function, &Config::cold(1500), &start, &mut |_| {})?;
    let (mut control, events) = device.split();
    let pd = control.alloc_pd()?;
    let memory = SharedBytes::from_static(vec![0; 512].leak());
    // The region allows peers to write and read it: they need its address and its rkey.
    let mr = control.reg_mr(&pd, memory, ACCESS)?;
    let cq = control.create_cq(16, 0)?;
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
    Ok(Node { control, events, pd, memory, mr, cq, qp })
}

/// Posts a request and polls until it is completed.
fn carry_out(node: &mut Node, op: Op<'_>, clock: &SimPlatform) -> Result<Wc, Box<dyn Error>> {
    node.qp.post_send(&[SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED }])?;
    let mut wc = [Wc::default()];
    while node.cq.poll(&mut wc) == 0 {
        progress(&mut node.control, &mut node.events, |_| {})?;
        clock.relax();
    }
    Ok(wc[0])
}

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut a, mut b) = (start(sim.function(0))?, start(sim.function(1))?);
    let (info_a, info_b) = (a.qp.info(&a.control, 0)?, b.qp.info(&b.control, 0)?);
    // The queue pair has to allow the access too.
    let options = ConnectOptions { access: ACCESS, ..ConnectOptions::default() };
    a.qp.connect(&mut a.control, &info_b, &options)?;
    b.qp.connect(&mut b.control, &info_a, &options)?;

    let clock = sim.function(0);
    let remote = Remote { addr: b.mr.address(), rkey: b.mr.rkey() };
    let at = |offset: u64| [Sge { addr: a.mr.address() + offset, length: 8, lkey: a.mr.lkey() }];
    let (source, target) = (at(0), at(2048));
    a.memory.write(0, b"written!")?;
    let write = Op::Write { data: Data::Sges(&source), remote, imm: None };
    println!("WRITE: {}", carry_out(&mut a, write, &clock)?.status);
    println!("READ: {}", carry_out(&mut a, Op::Read { into: &target, remote }, &clock)?.status);
    let mut text = [0; 8];
    a.memory.read(2048, &mut text)?;
    println!("read back: {}", String::from_utf8_lossy(&text));

    for Node { control, events, pd, mr, cq, qp, .. } in [a, b] {
        let objects = Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] };
        control.shutdown_with(events, objects)?;
    }
    Ok(())
}
