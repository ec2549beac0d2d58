//! A program sleeps until an interrupt says that a message has arrived.
//!
//! `cargo run --release --example events`

use std::error::Error;

use e810::*;
use e810_sim::{Sim, SimPlatform, test_package};

struct Node {
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    pd: Pd,
    memory: SharedBytes,
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
    Ok(Node { control, events, pd, memory, mr, cq, qp })
}

/// Sleeps until the completion queue has an event.
fn sleep(node: &mut Node, function: &SimPlatform) -> Result<(), Box<dyn Error>> {
    // True when there is something to poll already: then there may be no event.
    if node.cq.arm(Notify::Any) {
        return Ok(());
    }
    let queue = node.events.iter_mut().find(|events| events.completion_vector() == Some(0));
    let queue = queue.ok_or("no completion vector")?;
    while !node.cq.take_event() {
        if !function.wait_interrupt(queue.vector(), Ns::from_ms(1_000)) {
            return Err("no interrupt within a second".into());
        }
        // What an interrupt handler does: empty the vector's queues and enable it again.
        while queue.on_vector(&mut |event| println!("{event:?}")).more {}
        // The deferred work, outside the handler.
        node.control.progress()?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut a, mut b) = (start(sim.function(0))?, start(sim.function(1))?);
    let (info_a, info_b) = (a.qp.info(&a.control, 0)?, b.qp.info(&b.control, 0)?);
    a.qp.connect(&mut a.control, &info_b, &ConnectOptions::default())?;
    b.qp.connect(&mut b.control, &info_a, &ConnectOptions::default())?;

    let sges = [Sge { addr: b.mr.address(), length: 4096, lkey: b.mr.lkey() }];
    b.qp.post_recv(&[RecvWr { wr_id: 1, sges: &sges }])?;
    a.memory.write(0, b"wake up")?;
    let sges = [Sge { addr: a.mr.address(), length: 7, lkey: a.mr.lkey() }];
    let op = Op::Send { data: Data::Sges(&sges), imm: None };
    a.qp.post_send(&[SendWr { wr_id: 2, op, flags: SendFlags::empty() }])?;

    let mut wc = [Wc::default()];
    while b.cq.poll(&mut wc) == 0 {
        sleep(&mut b, &sim.function(1))?;
    }
    println!("{} bytes after an interrupt", wc[0].byte_len);
    for Node { control, events, pd, mr, cq, qp, .. } in [a, b] {
        let objects = Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] };
        control.shutdown_with(events, objects)?;
    }
    Ok(())
}
