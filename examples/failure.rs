//! A message that is too long for its receive: what both sides see, and how they go on.
//!
//! `cargo run --release --example failure`

use std::error::Error;

use e810::*;
use e810_sim::{Sim, SimPlatform, test_package};

struct Node {
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    pd: Pd,
    mr: Mr<SimPlatform>,
    cq: Cq<SimPlatform>,
    qp: Qp<SimPlatform>,
}

/// Brings a function up from its reset on, and makes a queue pair and a region.
fn start(function: SimPlatform) -> Result<Node, Box<dyn Error>> {
    let (file, link) = (test_package(), LinkPolicy::Wait(Ns::from_ms(10_000)));
    let package = PackageSource::File(Package::parse(&file)?);
    let start = ColdStart { package, link };
    let device = bring_up_cold(function, &Config::cold(1500), &start, &mut |_| {})?;
    let (mut control, events) = device.split();
    let pd = control.alloc_pd()?;
    let memory = SharedBytes::from_static(vec![0; 512].leak());
    let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
    let cq = control.create_cq(16, 0)?;
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
    Ok(Node { control, events, pd, mr, cq, qp })
}

/// Lets `a` send `length` bytes to a receive of 8 bytes, and prints what is completed.
fn send(a: &mut Node, b: &mut Node, length: u32, sim: &Sim) -> Result<(), Box<dyn Error>> {
    let (info_a, info_b) = (a.qp.info(&a.control, 0)?, b.qp.info(&b.control, 0)?);
    a.qp.connect(&mut a.control, &info_b, &ConnectOptions::default())?;
    b.qp.connect(&mut b.control, &info_a, &ConnectOptions::default())?;
    let sges = [Sge { addr: b.mr.address(), length: 8, lkey: b.mr.lkey() }];
    b.qp.post_recv(&[RecvWr { wr_id: 1, sges: &sges }, RecvWr { wr_id: 2, sges: &sges }])?;
    let sges = [Sge { addr: a.mr.address(), length, lkey: a.mr.lkey() }];
    let op = Op::Send { data: Data::Sges(&sges), imm: None };
    a.qp.post_send(&[SendWr { wr_id: 3, op, flags: SendFlags::SIGNALED }])?;
    for (name, node) in [("receiver", b), ("sender", a)] {
        let mut wc = [Wc::default()];
        while node.cq.poll(&mut wc) == 0 {
            // The card stops a queue pair that fails and reports it by an event. It is
            // this call that moves it to ERR and has its requests flushed.
            progress(&mut node.control, &mut node.events, |event| {
                if let Event::Async(event) = event {
                    println!("{name}: {event}");
                }
            })?;
            sim.function(0).relax();
        }
        println!("{name}: request {} {}, state {}", wc[0].wr_id, wc[0].status, node.qp.state());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut a, mut b) = (start(sim.function(0))?, start(sim.function(1))?);
    send(&mut a, &mut b, 9, &sim)?;
    // A queue pair in ERR is of use again after a reset: it can be connected anew.
    for Node { control, cq, qp, .. } in [&mut a, &mut b] {
        let dropped = control.reset_qp(qp, &mut [cq])?;
        println!("reset: {} receives dropped", dropped.receives);
    }
    send(&mut a, &mut b, 8, &sim)?;
    for Node { control, events, pd, mr, cq, qp, .. } in [a, b] {
        let objects = Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] };
        control.shutdown_with(events, objects)?;
    }
    Ok(())
}
