//! Connects to an echo server, has some messages sent back, and compares them.
//!
//! `cargo run --release --example echo_client -- vfio:0000:3b:00.1@192.0.2.2/24 192.0.2.1:7471`

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use e810::*;
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};
use e810_node::attended::{Attended, Connection};

const LIMIT: Duration = Duration::from_secs(60);

struct Client {
    spec: AddressedSpec,
    peer: SocketAddr,
}

impl DeviceVisitor<1> for Client {
    type Outcome = ();
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [device]: [D; 1]) -> anyhow::Result<()> {
        let memory = device.payload(8192)?;
        let function = Attended::open(device, &self.spec)?;
        let (pd, mr, mut cq, qp) = function.control(|control| {
            let pd = control.alloc_pd()?;
            let mr = control.reg_mr(&pd, memory.bytes(), AccessFlags::LOCAL_WRITE)?;
            let cq = control.create_cq(16, 0)?;
            let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
            Ok::<_, Error>((pd, mr, cq, qp))
        })?;
        let mut connection = Connection::new(&function, qp, 0).map_err(|(_, error)| error)?;
        let began = Instant::now();
        connection.connect(&function.ask(self.peer)?)?;
        connection.established(LIMIT)?;
        println!("connected to {} in {:?}", self.peer, began.elapsed());
        for round in 1..=5_u32 {
            let text = format!("message {round}");
            memory.bytes().write(0, text.as_bytes())?;
            let sge = |offset| [Sge { addr: mr.address() + offset, length: 4096, lkey: mr.lkey() }];
            connection.qp().post_recv(&[RecvWr { wr_id: 0, sges: &sge(4096) }])?;
            let sges = [Sge { length: text.len() as u32, ..sge(0)[0] }];
            let op = Op::Send { data: Data::Sges(&sges), imm: None };
            connection.qp().post_send(&[SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED }])?;
            let (mut wc, mut done) = ([Wc::default()], 0);
            while done < 2 {
                let found = connection.completions(&mut cq, &mut wc, LIMIT)?;
                anyhow::ensure!(found == 1, "no echo within {LIMIT:?}");
                let status = wc[0].status;
                anyhow::ensure!(status.is_success(), "is the server still there? {status}");
                done += 1;
            }
            let mut back = vec![0; text.len()];
            memory.bytes().read(4096, &mut back)?;
            anyhow::ensure!(back == text.as_bytes(), "another echo: {back:?}");
        }
        println!("5 echoes");
        connection.disconnect()?;
        connection.over(LIMIT)?;
        let qp = connection.end();
        function.close_with(Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] })
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "sim:wire=echo@192.0.2.2/24".to_owned());
    let spec: AddressedSpec = spec.parse().map_err(anyhow::Error::msg)?;
    let peer = args.next().unwrap_or_else(|| "192.0.2.1:7471".to_owned()).parse()?;
    open([&spec.spec.clone()], Options::default(), Client { spec, peer })
}
