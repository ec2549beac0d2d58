//! An NVMe over Fabrics host: reads blocks of a target by RDMA, and prints their CRC-32, as the
//! command `crc32` does, and their number of bytes.
//!
//! `cargo run --release --example nvme_read -- vfio:0000:3b:00.1@192.0.2.2/24 192.0.2.1:4420 NQN`
//!
//! NQN is the subsystem's name. `--blocks FIRST COUNT` reads these, else all of namespace 1. The
//! target may be Linux' (nvmet), or the example `nvme_target`. The protocol is
//! [`e810_examples::nvme::host`]; here are the connections.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use crc32fast::Hasher;
use e810::*;
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};
use e810_connect::NotConnected;
use e810_examples::nvme::capsule::Command;
use e810_examples::nvme::fabrics::Rejection;
use e810_examples::nvme::host::{
    Admin, Blocks, Happened, Host, Link, Memory, Queue, Responses, read,
};
use e810_node::attended::{Attended, Connection, Ended};

const USAGE: &str = "nvme_read SPEC ADDRESS:PORT NQN [--blocks FIRST COUNT]";
const NAME: &str = "nqn.2025-01.example:e810-host";
const NAMESPACE: u32 = 1;
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that READs fill: some at a time.
const DATA: usize = 2 << 20;
/// READs of the target at once: it reads the data of Connect.
const READS: u8 = 1;

/// What is to be done.
struct Read {
    spec: AddressedSpec,
    target: SocketAddr,
    subsystem: String,
    blocks: Option<Blocks>,
}

/// What both queues have in common.
struct Site<'a, D: HostDevice> {
    function: &'a Attended<D>,
    pd: &'a Pd,
    target: SocketAddr,
}

/// A queue's connection.
struct Linked<D: HostDevice> {
    connection: Connection<D>,
    cq: Cq<D>,
    responses: Responses,
}

impl<D: HostDevice> Link for Linked<D> {
    type Error = anyhow::Error;

    fn send(&mut self, id: u16, command: &Command) -> Result<()> {
        Ok(self.responses.send(self.connection.qp(), id, command)?)
    }

    fn next(&mut self) -> Result<Happened> {
        let mut wc = [Wc::default()];
        if self.connection.completions(&mut self.cq, &mut wc, LIMIT)? == 0 {
            bail!("the target does not answer within {LIMIT:?}");
        }
        Ok(self.responses.happened(self.connection.qp(), &wc[0])?)
    }

    fn pause(&mut self, ms: u64) -> Result<()> {
        thread::sleep(Duration::from_millis(ms));
        Ok(())
    }
}

impl<D: HostDevice> Linked<D> {
    /// A queue pair that can be connected.
    fn new(site: &Site<'_, D>, responses: Responses) -> Result<Self> {
        let (cq, qp) = site.function.control(|control| {
            let cq = control.create_cq(Responses::COMPLETIONS, 0)?;
            let qp = control.create_qp(site.pd, &QpInit::rc(&cq, &cq, Responses::CAPS))?;
            Ok::<_, Error>((cq, qp))
        })?;
        let connection = Connection::new(site.function, qp, READS).map_err(|(_, error)| error)?;
        Ok(Self { connection, cq, responses })
    }

    fn connect(&mut self, site: &Site<'_, D>, queue: &mut Queue) -> Result<()> {
        self.responses.post_all(self.connection.qp())?;
        let (mut ask, request) = (site.function.ask(site.target)?, queue.request());
        ask.private_data = &request;
        (ask.responder_resources, ask.initiator_depth) = (READS, 0);
        self.connection.connect(&ask)?;
        self.connection.established(LIMIT).map_err(why)?;
        Ok(queue.accepted(self.connection.private_data())?)
    }

    /// Ends the connection; what is left of it.
    fn end(mut self) -> Result<(Qp<D>, Cq<D>)> {
        match self.connection.disconnect() {
            // It was not there, or has ended already.
            Ok(()) | Err(NotConnected::Phase(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.connection.over(LIMIT)?;
        Ok((self.connection.end(), self.cq))
    }
}

/// Why there is no connection, in the words of NVMe/RDMA.
fn why(error: anyhow::Error) -> anyhow::Error {
    let rejection = match error.downcast_ref() {
        Some(Ended::Refused { private_data, .. }) => Rejection::of(private_data),
        _ => None,
    };
    match rejection {
        Some(rejection) => error.context(format!("the target rejects: {rejection}")),
        None => error,
    }
}

impl DeviceVisitor<1> for Read {
    type Outcome = ();
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [device]: [D; 1]) -> Result<()> {
        // Responses of both queues; what the target may read and write: a page, and blocks.
        let bytes = device.payload(2 * Responses::BYTES + Admin::PAGE + DATA)?.bytes();
        let own = bytes.window(0, 2 * Responses::BYTES)?;
        let shared = bytes.window(2 * Responses::BYTES, Admin::PAGE + DATA)?;
        let function = Attended::open(device, &self.spec)?;
        let rights =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        let (pd, own_mr, shared_mr) = function.control(|control| {
            let pd = control.alloc_pd()?;
            let own = control.reg_mr(&pd, own, AccessFlags::LOCAL_WRITE)?;
            let shared = control.reg_mr(&pd, shared, rights)?;
            Ok::<_, Error>((pd, own, shared))
        })?;
        let site = Site { function: &function, pd: &pd, target: self.target };
        let memory = Memory::new(shared, &shared_mr);
        let linked = |number| Linked::new(&site, Responses::new(own, &own_mr, number)?);
        let mut links = [linked(0)?, linked(1)?];
        let done = self.run(&site, &mut links, &memory);
        let [admin, io] = links;
        // A controller ends with its admin queue.
        let [io, admin] = [io.end()?, admin.end()?];
        let (qps, cqs) = ([io.0, admin.0], [io.1, admin.1]);
        let mrs = [own_mr, shared_mr];
        let closed = function.close_with(Remaining { qps, ahs: [], cqs, mrs, pds: [pd] });
        done.and(closed)
    }
}

impl Read {
    fn run<D: HostDevice>(
        &self,
        site: &Site<'_, D>,
        [first, second]: &mut [Linked<D>; 2],
        memory: &Memory,
    ) -> Result<()> {
        let own = self.spec.addresses.first().context("no address")?;
        let host = Host { id: host_id(own.ip), name: NAME, subsystem: &self.subsystem };
        let mut admin = Admin::new(memory.part(0, Admin::PAGE)?);
        first.connect(site, &mut admin.queue)?;
        let id = admin.connect(first, &host)?;
        let controller = admin.identify(first)?;
        let namespace = admin.namespace(first, NAMESPACE)?;
        let text = |text| String::from_utf8_lossy(text).trim_end().to_owned();
        let (model, serial) = (text(&controller.model), text(&controller.serial));
        let (blocks, shift) = (namespace.blocks, namespace.shift);
        eprintln!("{model}, serial number {serial}: {blocks} blocks of {} bytes", 1 << shift);

        let data = memory.part(Admin::PAGE, DATA)?;
        let mut queue = Queue::new(1);
        second.connect(site, &mut queue)?;
        queue.connect(second, &data, &host, id)?;
        let all = Blocks { first: 0, count: namespace.blocks };
        let blocks = self.blocks.unwrap_or(all);
        let (began, mut sum) = (Instant::now(), Hasher::new());
        let mut add = |part: &[u8]| sum.update(part);
        read(&mut queue, second, &namespace, blocks, (&data, controller.most), &mut add)?;
        eprintln!("{} blocks in {:?}", blocks.count, began.elapsed());
        println!("{:08x} {}", sum.finalize(), blocks.count << shift);
        admin.shut_down(first)
    }
}

/// The id of a host is a UUID: one for each address.
fn host_id(address: IpAddr) -> [u8; 16] {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    (u128::from(address) ^ u128::from_be_bytes(*b"E810 NVMe reader")).to_be_bytes()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (spec, target, subsystem, blocks) = match args[..] {
        [spec, target, subsystem] => (spec, target, subsystem, None),
        [spec, target, subsystem, "--blocks", first, count] => {
            let blocks = Blocks { first: first.parse()?, count: count.parse()? };
            (spec, target, subsystem, Some(blocks))
        }
        _ => bail!("usage: {USAGE}"),
    };
    let spec: AddressedSpec = spec.parse().map_err(anyhow::Error::msg)?;
    let (target, subsystem) = (target.parse()?, subsystem.to_owned());
    open([&spec.spec.clone()], Options::default(), Read { spec, target, subsystem, blocks })
}
