//! A run on a function that another process owns, with a peer in a third one.

use std::path::Path as FilePath;

use anyhow::Result;
use e810::{MacAddr, Path, Platform};
use e810_attach::client::{AnyClient, Client};

use super::Measure;
use super::rows::Sink;
use crate::cli::PairArgs;
use crate::handshake::{Link, Offer, Program, Rendezvous, Role};
use crate::measure::attached::AttachedQueues;
use crate::measure::perf::PerfEndpoint;
use crate::output::terminal::say;
use crate::pci_functions::peer::run_with_peer;
use crate::pci_functions::workload::{RunContext, TransportLabel};
use crate::settings::TuningArg;
use crate::usage::refuse;

/// Options of a function that this process brings up.
fn refuse_what_is_the_owners(args: &PairArgs) -> Result<()> {
    let (address, start, backend) = (&args.address, &args.start, &args.backend);
    for (option, is_given) in [
        ("--ip", !address.ip.is_empty()),
        ("--gateway", !address.gateway.is_empty()),
        ("--tap", address.tap.is_some()),
        ("--mtu", start.mtu.is_some()),
    ] {
        if is_given {
            refuse!("{option}: `e810 serve` decides that (its option --device); leave it out");
        }
    }
    for (option, is_given) in [
        ("--peer", args.peer.is_some()),
        ("--virtual", args.virtual_time),
        ("--events", args.events),
        ("--monitor", args.monitor.is_some()),
        ("--faults", args.faults.is_some()),
        ("--tuning", args.tuning != TuningArg::Linux),
        ("--vlan", address.vlan.is_some()),
        ("--ddp", start.ddp.is_some()),
        ("--warm", start.warm),
        ("--leave-link", start.leave_link),
        ("--hugepages", backend.hugepages),
        ("--trace", backend.trace.is_some()),
        ("--pcap", args.capture.pcap.is_some()),
        ("--cm", args.rendezvous.cm),
    ] {
        if is_given {
            refuse!(
                "{option}: e810 perf has not got that for a function of e810 serve (--device at:PATH); leave it out"
            );
        }
    }
    if args.rendezvous.with != Program::E810 {
        refuse!("--with: on a function of another process the peer is another e810 perf");
    }
    Ok(())
}

impl<S: Sink> Measure<'_, S> {
    /// Runs on the function whose owner listens at `path`.
    ///
    /// # Errors
    /// Options that the owner decides, no peer, nobody who listens there, or the error of the run.
    pub(super) fn run_attached(&self, path: &FilePath) -> Result<()> {
        refuse_what_is_the_owners(self.pair)?;
        let stopped = || Ok(self.stop.check()?);
        let Some(rendezvous) = self.pair.rendezvous.open(&stopped)? else {
            refuse!(
                "--device at:{}: the peer is another process; give --listen to one and --connect to the other",
                path.display()
            );
        };
        match AnyClient::attach(path)? {
            AnyClient::Simulated(client) => self.run_on(client, rendezvous),
            AnyClient::Function(client) => self.run_on(client, rendezvous),
        }
    }

    fn run_on<P: Platform + Send>(&self, client: Client<P>, rendezvous: Rendezvous) -> Result<()> {
        let stopped = || Ok(self.stop.check()?);
        let queues = AttachedQueues::new(client, self.plan)?;
        if rendezvous.role == Role::Server {
            say(&format!("listening on {}", rendezvous.at()));
        }
        let transport = TransportLabel::ATTACHED;
        let context = RunContext::attached(&stopped, &|| false, &transport);
        run_with_peer(
            PerfEndpoint::over(queues, self.plan),
            rendezvous,
            context,
            self.stop,
            |end| end.queues.close(),
            |_, rendezvous, watch| rendezvous.establish(watch),
            |role, end, link| {
                self.connect_attached(end, link)?;
                self.measure_with(role, end, link, context, |_| 0)
            },
        )
    }

    /// Exchanges queue pairs with the peer, and connects them.
    fn connect_attached<P: Platform>(
        &self,
        end: &mut PerfEndpoint<AttachedQueues<P>>,
        link: &mut Link,
    ) -> Result<()> {
        let address = &self.pair.address;
        let client = end.queues.client();
        let own = client.own_gid(address.gid_index)?;
        let ip = own.entry.gid.ip();
        let fits = client.mtu()?;
        let mtu = address.path_mtu.unwrap_or(fits);
        if mtu > fits {
            refuse!(
                "--path-mtu {}: packets of the function carry at most {}",
                mtu.bytes(),
                fits.bytes()
            );
        }
        let mut terms = self.terms();
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        terms.insert("addresses of".to_owned(), family.into());
        let mac: MacAddr = client.resolve(&own, ip)?;
        let offer = Offer::new(terms, mac, own.entry.gid, mtu, end.queues.describe());
        let peer = link.exchange_params(&offer)?;
        let destination = peer.gid.ip();
        let mac = client.resolve(&own, destination)?;
        let path = Path {
            priority: address.priority,
            ..Path::new(own.index, destination, mac)
        };
        end.queues.connect(peer.endpoints, path, peer.mtu)
    }
}
