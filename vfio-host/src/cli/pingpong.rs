//! Arguments of `e810 pingpong`.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use e810_hal::Ns;

use super::PairArgs;
use super::number::{number, seconds, size};
use crate::measure::op::PingpongOp;

/// Arguments of `e810 pingpong`.
#[derive(Args, Debug, Clone)]
pub struct PingpongArgs {
    /// Bytes of payload in a message, 1 to 64M (K = 1024) [default: 64].
    #[arg(short, long, value_name = "BYTES", value_parser = size::<u32>(1, MAX_SIZE))]
    pub size: Option<u32>,
    /// Messages to exchange [default: 10000].
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<u64>(1, 1_000_000_000))]
    pub iters: Option<u64>,
    /// Run for this many seconds instead of --iters messages.
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with_all = ["iters", "virtual_time"], value_parser = seconds)]
    pub duration: Option<Ns>,
    /// The operation that carries a message.
    ///
    /// send-inv needs messages of at least 4 bytes.
    #[arg(long, value_enum, default_value_t = PingpongOp::Send)]
    pub op: PingpongOp,
    /// How messages are carried: by a reliable connection or by datagrams.
    ///
    /// Datagrams work only with --op send, and carry at most the path MTU. A datagram that is not
    /// answered within 50 ms is sent again and counted.
    #[arg(long, value_enum, default_value_t = ServiceArg::Rc)]
    pub transport: ServiceArg,
    /// Multicast group to send messages to; the side that answers joins it.
    ///
    /// An address of 224.0.0.0/4 or ff00::/8, of the family of --ip. Answers go only to the side
    /// that asks. Needs --transport ud.
    #[arg(long, value_name = "ADDR", value_parser = group)]
    pub group: Option<IpAddr>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Also print how much the counters of each function of this process have grown.
    #[arg(long)]
    pub counters: bool,
    /// Also print how much the counters of the queue pairs have grown. Each queue pair gets its own
    /// counters, and the function's counters do not include them.
    #[arg(long, conflicts_with = "counters")]
    pub qp_counters: bool,
    /// The functions.
    #[command(flatten)]
    pub pair: PairArgs,
}

/// Largest payload of `pingpong`: 64 MiB, so that a typing error does not ask
/// for the machine's memory; the device's own limit is 2^31 - 1.
const MAX_SIZE: u64 = 64 << 20;

/// A multicast address.
fn group(text: &str) -> Result<IpAddr, String> {
    let address = text.parse::<IpAddr>().ok();
    address
        .filter(IpAddr::is_multicast)
        .ok_or_else(|| format!("`{text}` is not a multicast address (224.0.0.0/4 or ff00::/8)"))
}

/// How messages are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ServiceArg {
    /// A reliable connection.
    Rc,
    /// Unreliable datagrams.
    Ud,
}

impl ServiceArg {
    /// The name used on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Ud => "ud",
        }
    }
}

impl From<ServiceArg> for e810::QpType {
    fn from(service: ServiceArg) -> Self {
        match service {
            ServiceArg::Rc => Self::Rc,
            ServiceArg::Ud => Self::Ud,
        }
    }
}
