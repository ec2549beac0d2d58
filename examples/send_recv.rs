//! A message over a reliable connection between two simulated functions.
//!
//! `cargo run --release --example send_recv`

use std::error::Error;

use e810::*;
use e810_sim::{Sim, SimPlatform, test_package};

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

/// Brings a function up from its reset on, and makes a queue pair and a region.
fn start(function: SimPlatform) -> Result<Node, Box<dyn Error>> {
    let (file, link) = (test_package(), LinkPolicy::Wait(Ns::from_ms(10_000)));
    let package = PackageSource::File(Package::parse(&file)?);
    let start = ColdStart { package, link };
    let device = bring_up_cold(function, &Config::cold(1500), &start, &mut |_| {})?;
    let (mut control, events) = device.split();
    let pd = control.alloc_pd()?;
    // 4096 bytes, as words that the device may write at any time.
    let memory = SharedBytes::from_static(vec![0; 512].leak());
    let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
    let cq = control.create_cq(16, 0)?;
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
    Ok(Node { control, events, pd, memory, mr, cq, qp })
}

impl Node {
    fn sge(&self, length: u32) -> [Sge; 1] {
        [Sge { addr: self.mr.address(), length, lkey: self.mr.lkey() }]
    }

    /// Polls until there is a completion. `failure` looks at the events, too.
    fn completion(&mut self, clock: &SimPlatform) -> Result<Wc, Box<dyn Error>> {
        let mut wc = [Wc::default()];
        while self.cq.poll(&mut wc) == 0 {
            progress(&mut self.control, &mut self.events, |_| {})?;
            clock.relax();
        }
        Ok(wc[0])
    }

    fn stop(self) -> Result<(), Box<dyn Error>> {
        let Self { control, events, pd, mr, cq, qp, .. } = self;
        let objects = Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] };
        Ok(control.shutdown_with(events, objects)?)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut a, mut b) = (start(sim.function(0))?, start(sim.function(1))?);
    // Between two machines this is what their programs exchange.
    let (info_a, info_b) = (a.qp.info(&a.control, 0)?, b.qp.info(&b.control, 0)?);
    a.qp.connect(&mut a.control, &info_b, &ConnectOptions::default())?;
    b.qp.connect(&mut b.control, &info_a, &ConnectOptions::default())?;

    b.qp.post_recv(&[RecvWr { wr_id: 1, sges: &b.sge(4096) }])?;
    a.memory.write(0, b"hello, RDMA")?;
    let op = Op::Send { data: Data::Sges(&a.sge(11)), imm: None };
    a.qp.post_send(&[SendWr { wr_id: 2, op, flags: SendFlags::SIGNALED }])?;

    let (received, sent) = (b.completion(&sim.function(0))?, a.completion(&sim.function(0))?);
    let mut text = vec![0; received.byte_len as usize];
    b.memory.read(0, &mut text)?;
    println!("{:?} of {} bytes: {}", received.opcode, received.byte_len, String::from_utf8(text)?);
    println!("{:?}: {}", sent.opcode, sent.status);
    a.stop()?;
    b.stop()
}
