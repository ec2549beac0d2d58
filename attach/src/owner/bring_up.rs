//! Bringing up a function for programs that do not say in advance what they need.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context as _;
use e810::hmc::{Backing, Capacity};
use e810::{Channel, Control, Device, GidEntry, LinkPolicy, Mtu, StageError};
use e810_backends::spec::{AddressedSpec, DeviceSpec, SimSpec};
use e810_backends::vfio::Vfio;
use e810_backends::{DeviceVisitor, Function, HostDevice, Options};
use e810_hal::Ns;
use e810_node::address::{OwnAddress, addresses_of};
use e810_node::start::{MTU, Sizes, Start};
use e810_sim::Sim;

use super::Owner;
use super::resolve::Resolver;
use crate::messages::DeviceEvent;

/// How long to wait for a link when a function is opened; without a link it is opened all the same.
const LINK: Ns = Ns::from_ms(3_000);

/// MTU of a simulated interface unless one is given: every path MTU fits into it.
pub const SIMULATED_MTU: u16 = Mtu::Mtu4096.bytes() as u16 + 200;

/// How long to wait for a peer's address, unless a time is given: three questions, a second apart.
/// The kernel takes one second, in which it asks once.
pub const WAIT: Ns = Ns::from_ms(3_000);

/// Queue pairs, unless a number is given: as many as irdma has by default.
pub const QUEUE_PAIRS: u32 = 1024;

/// ARP entries: all that the card's format can name, one for each peer.
pub(super) const ARPS: u32 = 4096;

/// Page list entries: 4 GiB in pages of 4 KiB; memory is allocated only for what is used.
pub(super) const PBLES: u32 = 0x10_0000;

/// Capacity for the objects of programs that do not say in advance what they need. With the usual
/// number of queue pairs as much as irdma has by default, as far as the card has it; all that a
/// card has of address handles and ARP entries, which cost little.
fn capacity(queue_pairs: u32) -> Capacity {
    Capacity {
        qps: queue_pairs,
        cqs: 2 * queue_pairs,
        mrs: (4 * queue_pairs).max(16_384),
        ahs: 0x2_0000,
        arps: ARPS,
        mcast_groups: 1025,
        pbles: PBLES,
    }
}

/// Protection domains: all that a card has.
const PDS: u32 = 1 << 18;

/// Words that track the requests of all queue pairs: with the usual number of queue pairs enough for
/// a quarter of them if all have the largest queues. The system allocates only what is used.
const TRACKER_WORDS: u32 = 3 * QUEUE_ENTRIES;

/// The same for each queue pair when memory is short: three times the smallest queue pair.
const LEAST_TRACKER_WORDS: u32 = 4608;

/// The most queue entries of all queue pairs together: each takes three words.
pub const QUEUE_ENTRIES: u32 = QUEUE_PAIRS * 2 * 32_768 / 4;

/// How a function is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The function.
    pub spec: DeviceSpec,
    /// Its addresses, in the order of the GID table after the link-local one.
    pub addresses: Vec<OwnAddress>,
    /// How many queue pairs programs can have together; a power of two.
    pub queue_pairs: u32,
    /// The TAP interface whose addresses the function uses while it is open.
    pub tap: Option<String>,
    /// Gateways to destinations on none of its networks.
    pub gateways: Vec<IpAddr>,
    /// How long to wait for a peer's address.
    pub wait: Ns,
    /// Bytes of the longest IP packet.
    pub mtu: u16,
}

/// What the thread that serves a function asks, and whom it tells.
pub trait Ready {
    /// Builds the simulator of a simulated function.
    ///
    /// # Errors
    /// It cannot be built.
    fn simulator(&mut self, spec: &SimSpec) -> anyhow::Result<Sim>;

    /// The function is up, and programs can come. What this returns is dropped when the function is
    /// gone.
    ///
    /// # Errors
    /// The function is not wanted after all.
    fn ready<D: HostDevice>(
        self,
        owner: &Arc<Owner<D>>,
        function: &D,
    ) -> anyhow::Result<Box<dyn Any>>;
}

/// Opens a function and brings it up, says so, and serves it on this thread until it is gone: returns
/// why.
///
/// # Errors
/// It did not come up.
pub fn serve(opening: &Opening, ready: impl Ready) -> anyhow::Result<anyhow::Error> {
    let serving = Serving { opening, ready };
    e810_backends::open([&opening.spec], Options::default(), serving)
}

/// As [`serve`], of a function that is taken over from an owner that has died.
///
/// # Errors
/// It did not come up.
pub fn serve_taken(
    opening: &Opening,
    taken: Vfio,
    ready: impl Ready,
) -> anyhow::Result<anyhow::Error> {
    let serving = Serving { opening, ready };
    serving.visit([Function::open(taken, Options::default())?])
}

/// Brings a function up. Where the process may not have as much memory as the queues could use
/// (`ulimit -v`, a system that promises no more than there is), it gets fewer queue entries.
fn bring_up<D: HostDevice>(
    start: &Start,
    function: &D,
    queue_pairs: u32,
) -> anyhow::Result<Device<D, e810::Ready<D>>> {
    let mut tracker_words_per_qp = TRACKER_WORDS / queue_pairs;
    loop {
        // All of it has memory from the beginning, as with existing drivers: programs and their
        // peers may name any key.
        let sizes = Sizes {
            backing: Backing::Full,
            capacity: capacity(queue_pairs),
            or_fewer: true,
            pds: PDS,
            tracker_words_per_qp,
        };
        let up = start.bring_up_for(function.clone(), sizes, LinkPolicy::GoOn, &mut |_| {});
        match up {
            Err(error)
                if tracker_words_per_qp > LEAST_TRACKER_WORDS && is_out_of_memory(&error) =>
            {
                tracker_words_per_qp = LEAST_TRACKER_WORDS;
            }
            up => return up,
        }
    }
}

fn is_out_of_memory(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<StageError>();
    error.is_some_and(|error| matches!(error.error, e810::Error::HostMemory(_)))
}

struct Serving<'a, R> {
    opening: &'a Opening,
    ready: R,
}

impl<R: Ready> DeviceVisitor<1> for Serving<'_, R> {
    type Outcome = anyhow::Error;
    type Error = anyhow::Error;

    fn simulator(&mut self, spec: &SimSpec) -> anyhow::Result<Sim> {
        self.ready.simulator(spec)
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> anyhow::Result<anyhow::Error> {
        let start = Start::usual(&function, self.opening.mtu)?;
        let (mut control, events) = bring_up(&start, &function, self.opening.queue_pairs)?.split();
        let (resolver, channel) = match self.opening.set_up(&function, &mut control) {
            Ok(set_up) => set_up,
            Err(error) => {
                return Err(match control.shutdown(events) {
                    Ok(()) => error,
                    Err(failed) => {
                        error.context(format!("not shut down cleanly: {}", failed.error))
                    }
                });
            }
        };
        let owner = Arc::new(Owner::new(function.clone(), control, channel, resolver));
        let _kept = self.ready.ready(&owner, &function)?;
        let why = owner.serve(&function, events);
        // Commands are refused before a program hears that the device is gone.
        let _ = owner.gone.set(format!("{}: {why:#}", self.opening.spec));
        owner.tell_all(DeviceEvent::DeviceFatal);
        Ok(why)
    }
}

impl TryFrom<AddressedSpec> for Opening {
    type Error = String;

    fn try_from(said: AddressedSpec) -> Result<Self, String> {
        let addresses = addresses_of(&said)?;
        let AddressedSpec {
            spec,
            addresses: _,
            tap,
            gateways,
            wait,
            mtu,
        } = said;
        // Nothing is known of a card's network; a simulated one takes every path MTU.
        let usual = match spec {
            DeviceSpec::Vfio(..) => MTU,
            _ => SIMULATED_MTU,
        };
        Ok(Self {
            spec,
            addresses,
            queue_pairs: QUEUE_PAIRS,
            tap,
            gateways,
            wait: wait.map_or(WAIT, |seconds| Ns::from_ms(u64::from(seconds) * 1000)),
            mtu: mtu.unwrap_or(usual),
        })
    }
}

impl Opening {
    /// Whether the function is a program of this machine, which needs its processors.
    #[must_use]
    pub const fn yields(&self) -> bool {
        !matches!(self.spec, DeviceSpec::Vfio(..))
    }

    /// Addresses, neighbours and events of a function.
    fn set_up<D: HostDevice>(
        &self,
        function: &D,
        control: &mut Control<D>,
    ) -> anyhow::Result<(Resolver<D>, Channel<D>)> {
        // With a TAP interface they come from its stack.
        if self.tap.is_none() {
            for OwnAddress { ip, .. } in &self.addresses {
                let gid = GidEntry::untagged(*ip);
                control
                    .add_gid(gid)
                    .with_context(|| format!("address {ip}"))?;
            }
        }
        // A port without a link is still a port.
        let _ = control.wait_link(LINK);
        let channel = control.create_channel()?;
        Ok((Resolver::start(function, control, self)?, channel))
    }
}
