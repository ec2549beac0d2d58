//! Sends each message of a peer back to it, by a connection that the peer has asked for.
//!
//! `cargo run --release --example echo_server -- vfio:0000:3b:00.0@192.0.2.1/24 7471`
//! In two processes without a card: `sim:wire=echo@192.0.2.1/24` here, and another address there.
//! It listens at the first address, and ends with its first client.

use std::time::Duration;

use anyhow::Context;
use e810::*;
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};
use e810_node::attended::{Attended, Connection, Ended, Grant};

const ROOM: u32 = 4096;
const LONG: Duration = Duration::from_secs(3600);

struct Server {
    spec: AddressedSpec,
    port: u16,
}

impl DeviceVisitor<1> for Server {
    type Outcome = ();
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [device]: [D; 1]) -> anyhow::Result<()> {
        let memory = device.payload(ROOM as usize)?;
        let function = Attended::open(device, &self.spec)?;
        let (pd, mr, mut cq, qp) = function.control(|control| {
            let pd = control.alloc_pd()?;
            let mr = control.reg_mr(&pd, memory.bytes(), AccessFlags::LOCAL_WRITE)?;
            let cq = control.create_cq(16, 0)?;
            let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
            Ok::<_, Error>((pd, mr, cq, qp))
        })?;
        let own = self.spec.addresses.first().context("give an address: SPEC@IP/LEN")?;
        let listener = function.listen(own.ip, self.port, 1)?;
        println!("listening on {}, port {}", own.ip, listener.port());
        let request = listener.next(LONG)?;
        let mut connection = Connection::new(&function, qp, 0).map_err(|(_, error)| error)?;
        let sge = |length| [Sge { addr: mr.address(), length, lkey: mr.lkey() }];
        // Before the peer knows of it: its first message may come at once.
        connection.qp().post_recv(&[RecvWr { wr_id: 0, sges: &sge(ROOM) }])?;
        connection.accept(&request, &Grant::default())?;
        let (mut wc, mut echoes) = ([Wc::default()], 0);
        loop {
            let found = connection.completions(&mut cq, &mut wc, LONG);
            match (found, wc[0].opcode) {
                (Ok(1), WcOpcode::Recv) if wc[0].status.is_success() => {
                    let op = Op::Send { data: Data::Sges(&sge(wc[0].byte_len)), imm: None };
                    let flags = SendFlags::SIGNALED;
                    connection.qp().post_send(&[SendWr { wr_id: 1, op, flags }])?;
                }
                // The memory is free again.
                (Ok(1), _) if wc[0].status.is_success() => {
                    echoes += 1;
                    connection.qp().post_recv(&[RecvWr { wr_id: 0, sges: &sge(ROOM) }])?;
                }
                (Ok(1), _) if wc[0].status != WcStatus::WrFlushErr => break,
                // Receives that the connection's end has flushed.
                (Ok(_), _) => {}
                (Err(error), _) if error.is::<Ended>() => break,
                (Err(error), _) => return Err(error),
            }
        }
        println!("{echoes} echoes, last completion {:?}", wc[0].status);
        drop(listener);
        let qp = connection.end();
        function.close_with(Remaining { qps: [qp], ahs: [], cqs: [cq], mrs: [mr], pds: [pd] })
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "sim:wire=echo@192.0.2.1/24".to_owned());
    let spec: AddressedSpec = spec.parse().map_err(anyhow::Error::msg)?;
    let port = args.next().map_or(Ok(7471), |port| port.parse())?;
    open([&spec.spec.clone()], Options::default(), Server { spec, port })
}
