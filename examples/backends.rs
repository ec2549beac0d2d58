//! A message between two functions that Linux reaches: bound to vfio-pci, served by
//! `e810 sim` (`vfio-user:/tmp/a vfio-user:/tmp/b`), or simulated here (no arguments).
//!
//! `cargo run --release --example backends -- vfio:0000:3b:00.0 vfio:0000:3b:00.1`

use e810::*;
use e810_backends::buffer::Buffer;
use e810_backends::host::{Host, package};
use e810_backends::spec::DeviceSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};

struct Node<D: Platform> {
    device: D,
    control: Control<D>,
    events: EventSet<D>,
    pd: Pd,
    memory: Buffer,
    mr: Mr<D>,
    cq: Cq<D>,
    qp: Qp<D>,
}

fn start<D: HostDevice>(device: D) -> anyhow::Result<Node<D>> {
    // The card's package (DDP) is where Linux takes it from, or E810_DDP names it.
    let file = match (std::env::var_os("E810_DDP"), device.identity()) {
        (Some(path), _) => std::fs::read(path)?,
        (None, Some(identity)) => package::find(&Host::default(), identity.serial)?.bytes,
        (None, None) => e810_sim::test_package(),
    };
    let package = PackageSource::File(Package::parse(&file)?);
    let start = ColdStart { package, link: LinkPolicy::Wait(Ns::from_ms(10_000)) };
    let up = bring_up_cold(device.clone(), &Config::cold(1500), &start, &mut |_| {})?;
    let (mut control, events) = up.split();
    let pd = control.alloc_pd()?;
    let memory = device.payload(4096)?;
    let mr = control.reg_mr(&pd, memory.bytes(), AccessFlags::LOCAL_WRITE)?;
    let cq = control.create_cq(16, 0)?;
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
    Ok(Node { device, control, events, pd, memory, mr, cq, qp })
}

/// What is done with the two devices, whatever their type.
struct Hello;

impl DeviceVisitor<2> for Hello {
    type Outcome = String;
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [a, b]: [D; 2]) -> anyhow::Result<String> {
        let (mut a, mut b) = (start(a)?, start(b)?);
        let (info_a, info_b) = (a.qp.info(&a.control, 0)?, b.qp.info(&b.control, 0)?);
        a.qp.connect(&mut a.control, &info_b, &ConnectOptions::default())?;
        b.qp.connect(&mut b.control, &info_a, &ConnectOptions::default())?;
        let sges = [Sge { addr: b.mr.address(), length: 4096, lkey: b.mr.lkey() }];
        b.qp.post_recv(&[RecvWr { wr_id: 1, sges: &sges }])?;
        a.memory.bytes().write(0, b"hello")?;
        let sges = [Sge { addr: a.mr.address(), length: 5, lkey: a.mr.lkey() }];
        let op = Op::Send { data: Data::Sges(&sges), imm: None };
        a.qp.post_send(&[SendWr { wr_id: 2, op, flags: SendFlags::empty() }])?;
        let mut wc = [Wc::default()];
        while b.cq.poll(&mut wc) == 0 {
            progress(&mut b.control, &mut b.events, |event| eprintln!("{event:?}"))?;
            b.device.relax();
        }
        let mut text = [0; 5];
        b.memory.bytes().read(0, &mut text)?;
        for Node { control, events, pd, mr, cq, qp, .. } in [a, b] {
            let objects = Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] };
            control.shutdown_with(events, objects)?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn main() -> anyhow::Result<()> {
    let mut specs = std::env::args().skip(1).map(|spec| spec.parse::<DeviceSpec>());
    let mut spec = || specs.next().unwrap_or_else(|| "sim".parse()).map_err(anyhow::Error::msg);
    println!("{}", open([&spec()?, &spec()?], Options::default(), Hello)?);
    Ok(())
}
