//! Arguments of `e810 ping`.

use std::net::IpAddr;

use clap::Args;
use e810_backends::spec::DeviceSpec;
use e810_hal::Ns;

use super::capture::CaptureArgs;
use super::device;
use super::file::checked;
use super::number::{number, seconds};
use super::{BackendArgs, StartArgs};
use e810_node::address::OwnAddress;

/// Maximum bytes of payload: what fits the largest MTU (9702) after an IPv6 and an ICMP header.
const MOST: u64 = 9702 - 48;

/// Arguments of `e810 ping`.
#[derive(Args, Debug, Clone)]
pub struct PingArgs {
    /// The IP address to ping [default: with `sim`, the other function].
    #[arg(value_name = "DEST")]
    pub destination: Option<IpAddr>,
    /// The function that pings: `sim`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default:
    /// E810_DEVICE, else sim].
    ///
    /// With `sim`, another function of the same simulator answers. With `sim:wire=NAME`, other
    /// functions on that wire answer.
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub device: Option<DeviceSpec>,
    /// IP addresses of the function, separated by commas, besides the link-local IPv6 address
    /// derived from its Ethernet address [default: with `sim` 10.8.10.1].
    ///
    /// A prefix length (192.0.2.1/24) says which addresses are on the link; without one, all
    /// addresses of that family are.
    #[arg(long, value_name = "ADDR[/LEN],..", value_delimiter = ',')]
    pub ip: Vec<OwnAddress>,
    /// The router to addresses that are not on the link: at most one of each family, separated by a
    /// comma.
    #[arg(long, value_name = "ADDR[,ADDR]", value_delimiter = ',')]
    pub gateway: Vec<IpAddr>,
    /// IP addresses of the function that answers, with `sim` [default: 10.8.10.2].
    #[arg(long, value_name = "ADDR[/LEN],..", value_delimiter = ',')]
    pub peer_ip: Vec<OwnAddress>,
    /// VLAN of the addresses.
    #[arg(long, value_name = "ID", value_parser = number::<u16>(1, 4094))]
    pub vlan: Option<u16>,
    /// Send this many requests and exit [default: until Ctrl-C].
    #[arg(short, long, value_name = "N", value_parser = number::<u64>(1, u64::MAX))]
    pub count: Option<u64>,
    /// Seconds from one request to the next.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Ns,
    /// Bytes of payload of a request, 0 to 9654, after the 8 bytes of ICMP header.
    ///
    /// Requests are not fragmented: the packet has to fit the MTU.
    #[arg(short, long, value_name = "BYTES", default_value = "56", value_parser = number::<u16>(0, MOST))]
    pub size: u16,
    /// Print one JSON object at the end instead of text.
    #[arg(long)]
    pub json: bool,
    /// How the function is started.
    #[command(flatten)]
    pub start: StartArgs,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Whether frames are recorded.
    #[command(flatten)]
    pub capture: CaptureArgs,
}
