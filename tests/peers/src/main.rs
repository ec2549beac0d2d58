//! This project's side of librdmacm's example programs, as their peers know them.
//!
//! `e810-peers --device vfio-user:/tmp/e810@10.8.7.1/24 rping --listen 7174`; the peer of this is
//! `rping -c -a 10.8.7.1`. Protocols are those of the programs' sources; `rig` has what they share.

#![deny(unsafe_code)]

mod channel;
mod cmtime;
mod datagrams;
mod messages;
mod rig;
mod rping;
mod text;
mod ucmatose;
mod udaddy;

use std::net::SocketAddr;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};

use rig::Rig;

/// Peers of librdmacm's programs.
#[derive(Parser, Debug)]
struct Cli {
    /// The function and its addresses, as `vfio-user:PATH@10.8.7.1/24` or `sim:wire=NAME@10.8.7.1/24`.
    #[arg(long)]
    device: AddressedSpec,
    /// The VLAN of the addresses.
    #[arg(long)]
    vlan: Option<u16>,
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand, Debug)]
enum Program {
    /// READs and WRITEs of a text, verified.
    Rping {
        #[command(flatten)]
        role: RoleArgs,
        /// Bytes of the text.
        #[arg(long, default_value_t = 64)]
        size: u32,
        /// Texts; a server wants so many, and then the end.
        #[arg(long, default_value_t = 20)]
        count: u32,
    },
    /// rdma_server and rdma_client: one message each way.
    Messages(RoleArgs),
    /// Connections, and messages each way.
    Ucmatose(Counts),
    /// The same with datagrams.
    Udaddy(Counts),
    /// Connections that are ended at once.
    Cmtime {
        #[command(flatten)]
        counts: Counts,
        /// Where the server waits for a client at each step.
        #[arg(long, value_name = "IP:PORT")]
        wait_at: Option<SocketAddr>,
    },
}

/// Exactly one of the two.
#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = false)]
struct RoleArgs {
    /// Listen on this port of all addresses of a family that the function has.
    #[arg(long, value_name = "PORT")]
    listen: Option<u16>,
    /// Connect to this address and port.
    #[arg(long, value_name = "IP:PORT")]
    connect: Option<SocketAddr>,
}

#[derive(Args, Clone, Copy, Debug)]
struct Counts {
    #[command(flatten)]
    role: RoleArgs,
    /// Connections.
    #[arg(long, default_value_t = 1)]
    connections: u32,
    /// Messages of each, each way.
    #[arg(long, default_value_t = 10)]
    messages: u32,
    /// Bytes of a message.
    #[arg(long, default_value_t = 100)]
    size: u32,
}

/// What a program is to its peer.
#[derive(Clone, Copy, Debug)]
enum Role {
    Server(u16),
    Client(SocketAddr),
}

impl RoleArgs {
    fn role(self) -> Result<Role> {
        match (self.listen, self.connect) {
            (Some(port), None) => Ok(Role::Server(port)),
            (None, Some(peer)) => Ok(Role::Client(peer)),
            _ => anyhow::bail!("either --listen or --connect"),
        }
    }
}

impl DeviceVisitor<1> for Cli {
    type Outcome = ();
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [device]: [D; 1]) -> Result<()> {
        match &self.program {
            Program::Rping { role, size, count } => {
                let rig = Rig::open(device, &self, rping::ROOM, 1)?;
                match role.role()? {
                    Role::Server(port) => rping::serve(rig, port, *count),
                    Role::Client(peer) => rping::ask(rig, peer, *size, *count),
                }
            }
            Program::Messages(role) => {
                messages::run(Rig::open(device, &self, messages::ROOM, 1)?, role.role()?)
            }
            Program::Ucmatose(counts) => {
                let rig = Rig::open(device, &self, ucmatose::room(counts), counts.connections)?;
                ucmatose::run(rig, *counts)
            }
            Program::Udaddy(counts) => {
                let rig = Rig::open(device, &self, udaddy::room(counts), counts.connections)?;
                udaddy::run(rig, *counts)
            }
            Program::Cmtime { counts, wait_at } => cmtime::run(
                Rig::open(device, &self, 0, counts.connections)?,
                *counts,
                *wait_at,
            ),
        }
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    open([&cli.device.spec.clone()], Options::default(), cli)
}
