//! An NVMe over Fabrics target: memory of this process, as a disk that hosts reach by RDMA.
//!
//! `cargo run --release --example nvme_target -- vfio:0000:3b:00.0@192.0.2.1/24 4420 256`
//!
//! On a host: `nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2025-01.example:e810`. The numbers
//! are the port and the disk's size in MiB. SIGINT and SIGTERM end it.
//!
//! * [`target`], [`fabrics`], [`admin`], [`io`], [`discovery`], [`capsule`]: the protocol, which
//!   says what to read, write and send, with the formats of [`e810_examples::nvme`];
//! * [`queue`]: a queue pair for each queue, which does so.
//!
//! Whoever reaches the port may read and write the disk: there is no authentication.

mod admin;
mod capsule;
mod discovery;
mod fabrics;
mod io;
mod queue;
mod target;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use e810::*;
use e810_backends::signals::Signals;
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};
use e810_connect::{News, Told};
use e810_examples::nvme::fabrics::Rejection;
use e810_node::attended::{Attended, Listener};
use e810_node::start::Sizes;

use queue::{PLACE, Served, Site, caps};
use target::{Config, DEPTH, Target};

const NAME: &str = "nqn.2025-01.example:e810";
/// Connections at a time: hosts with an admin queue and some I/O queues each.
const PLACES: usize = 64;
/// Pause between two looks for requests and signals.
const PAUSE: Duration = Duration::from_millis(20);

struct Server {
    spec: AddressedSpec,
    port: u16,
    disk: usize,
    signals: Signals,
}

impl DeviceVisitor<1> for Server {
    type Outcome = ();
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [device]: [D; 1]) -> anyhow::Result<()> {
        let bytes = self.disk + PLACES * PLACE;
        let memory = device.payload(bytes)?.bytes();
        let function = Attended::open_for(device, &self.spec, sizes(bytes))?;
        let own = self.spec.addresses.first().context("no address")?;
        let (pd, mr) = function.control(|control| {
            let pd = control.alloc_pd()?;
            let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
            Ok::<_, Error>((pd, mr))
        })?;
        let (address, port) = (own.ip.to_string(), self.port.to_string());
        let target = Target::new(Config {
            subsystem: NAME,
            serial: "E810",
            uuid: uuid(own.ip, self.port),
            bytes: self.disk as u64,
            address: &address,
            port: &port,
            provider: 4,
        });
        let listener = function.listen(own.ip, self.port, PLACES as u32)?;
        println!("listening on {address}, port {port}: {NAME}, {} MiB", self.disk >> 20);
        let site = Site {
            function: &function,
            pd: &pd,
            memory,
            base: Sge { addr: mr.address(), length: 0, lkey: mr.lkey() },
            disk: self.disk,
            target: Mutex::new(target.context("a name is too long")?),
            began: Instant::now(),
            places: Mutex::new((0..PLACES).collect()),
            is_ending: AtomicBool::new(false),
        };
        let done = thread::scope(|scope| {
            let done = take_requests(&site, &listener, &self.signals, scope);
            // The queues' threads end, and the scope waits for them.
            site.is_ending.store(true, Ordering::Relaxed);
            done
        });
        drop(listener);
        let closed =
            function.close_with(Remaining { qps: [], ahs: [], cqs: [], mrs: [mr], pds: [pd] });
        done.and(closed)
    }
}

/// What a function needs for all connections, with the queue pair that makes them, and for a region
/// of so many bytes in pages of 4 KiB. A device that has fewer is used as well.
fn sizes(bytes: usize) -> Sizes {
    let mut sizes = Sizes::of_queue_pairs(PLACES as u32 + 1, caps(DEPTH));
    sizes.or_fewer = true;
    sizes.capacity.pbles += u32::try_from(bytes >> 12).unwrap_or(u32::MAX / 2);
    sizes
}

/// Linux refuses two namespaces with one UUID, so each address and port has its own.
fn uuid(address: IpAddr, port: u16) -> [u8; 16] {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    (u128::from(address) ^ u128::from_be_bytes(*b"E810 NVMe target") ^ u128::from(port) << 48)
        .to_be_bytes()
}

/// Takes requests for connections until a signal comes.
fn take_requests<'s, D: HostDevice>(
    site: &'s Site<'_, D>,
    listener: &Listener<D>,
    signals: &Signals,
    scope: &'s Scope<'s, '_>,
) -> anyhow::Result<()> {
    loop {
        let mut next = pin!(listener.request());
        match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(request) => {
                let request = request?;
                if let Err(refusal) = take(site, &request, scope) {
                    // A host that has given up meanwhile needs no answer.
                    let _ = listener.reject(&request, &refusal.bytes());
                }
            }
            Poll::Pending if signals.wait_for(PAUSE)?.is_some() => return Ok(()),
            Poll::Pending => {}
        }
    }
}

/// Accepts a request, or says why not.
fn take<'s, D: HostDevice>(
    site: &'s Site<'_, D>,
    request: &Told,
    scope: &'s Scope<'s, '_>,
) -> Result<(), Rejection> {
    let News::Requested(asked) = &request.news else { return Err(Rejection::NO_RESOURCES) };
    let (queue, reply) = site.target().accept(&asked.private_data)?;
    let (id, host) = (queue.id, asked.source);
    let served = Served::new(site, queue).map_err(|error| {
        eprintln!("{host}, queue {id}: {error:#}");
        Rejection::NO_RESOURCES
    })?;
    println!("{host}, queue {id}: connects");
    let request = request.clone();
    scope.spawn(move || match served.serve(&request, &reply) {
        Ok(()) => println!("{host}, queue {id}: ended"),
        Err(error) => eprintln!("{host}, queue {id}: {error:#}"),
    });
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // Before there are threads.
    let signals = Signals::stop_and(&[])?;
    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "sim:wire=nvme@192.0.2.1/24".to_owned());
    let spec: AddressedSpec = spec.parse().map_err(anyhow::Error::msg)?;
    let port = args.next().map_or(Ok(4420), |port| port.parse())?;
    let mib: usize = args.next().map_or(Ok(256), |mib| mib.parse())?;
    let disk = mib.checked_mul(1 << 20).filter(|_| (1..=1 << 20).contains(&mib));
    let disk = disk.context("the disk has 1 MiB at least, and 1 TiB at most")?;
    open([&spec.spec.clone()], Options::default(), Server { spec, port, disk, signals })
}
