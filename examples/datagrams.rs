//! A datagram, and an answer to its sender.
//!
//! `cargo run --release --example datagrams`

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
    let caps = QpCaps { max_inline: 64, ..QpCaps::default() };
    let mut qp = control.create_qp(&pd, &QpInit::ud(&cq, &cq, caps))?;
    // No peer: it takes datagrams from anywhere that carry this Q_Key.
    qp.start_datagrams(&mut control, DATAGRAM_QKEY)?;
    let sges = [Sge { addr: mr.address(), length: 1024, lkey: mr.lkey() }];
    qp.post_recv(&[RecvWr { wr_id: 1, sges: &sges }])?;
    Ok(Node { control, events, pd, memory, mr, cq, qp })
}

impl Node {
    fn send(&mut self, text: &str, path: &Path, qpn: Qpn) -> Result<Ah, Box<dyn Error>> {
        let ah = self.control.create_ah(&self.pd, path)?;
        let (data, to) = (Data::Inline(&[text.as_bytes()]), ah.target(qpn, DATAGRAM_QKEY));
        let op = Op::UdSend { data, imm: None, to };
        self.qp.post_send(&[SendWr { wr_id: 2, op, flags: SendFlags::empty() }])?;
        Ok(ah)
    }

    /// Waits for a datagram; returns the way back.
    fn receive(&mut self, clock: &SimPlatform) -> Result<(Path, Qpn), Box<dyn Error>> {
        let (wc, sender) = loop {
            if let Some((wc, Some(sender))) = self.cq.poll_with_sender() {
                break (wc, sender);
            }
            progress(&mut self.control, &mut self.events, |_| {})?;
            clock.relax();
        };
        let mut bytes = vec![0; wc.byte_len as usize];
        self.memory.read(0, &mut bytes)?;
        let (grh, text) = bytes.split_at(40); // the network header, then the message
        println!("{}", String::from_utf8_lossy(text));
        let path = Path::to_sender(0, grh, wc.flags, &sender).ok_or("no header")?;
        Ok((path, Qpn::new(wc.src_qp).ok_or("no queue pair")?))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut a, mut b) = (start(sim.function(0))?, start(sim.function(1))?);
    let peer = b.qp.info(&b.control, 0)?;
    let ah_a = a.send("who is there?", &peer.path(0), peer.qpn)?;
    let (path, qpn) = b.receive(&sim.function(1))?;
    let ah_b = b.send("a datagram", &path, qpn)?;
    a.receive(&sim.function(0))?;
    for (node, ah) in [(a, ah_a), (b, ah_b)] {
        let Node { control, events, pd, mr, cq, qp, .. } = node;
        let objects = Remaining { qps: [qp], ahs: [ah], cqs: [cq], mrs: [mr], pds: [pd] };
        control.shutdown_with(events, objects)?;
    }
    Ok(())
}
