//! This project's side of librdmacm's example programs, as their peers know them.
//!
//! `e810-peers --device vfio-user:/tmp/e810@10.8.7.1/24 rping --listen 7174`; the peer of this is
//! `rping -c -a 10.8.7.1`. Protocols are those of the programs' sources; `rig` has what they share.

#![deny(unsafe_code)]

mod channel;
mod cmtime;
mod datagrams;
mod messages;
mod refuse;
mod rig;
mod role;
mod rping;
mod ucmatose;
mod udaddy;

use std::net::SocketAddr;

use anyhow::Result;
use clap::{Parser, Subcommand};
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options, open};

use rig::Rig;
use role::{Counts, Role, RoleArgs};

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
        /// Texts; a server wants so many, and then the end; 0: any number.
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
    /// Refuse a request.
    Refuse {
        /// The port.
        #[arg(long, value_name = "PORT")]
        listen: u16,
        /// A question for a UD queue pair.
        #[arg(long)]
        datagrams: bool,
    },
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
            Program::Refuse { listen, datagrams } => {
                refuse::run(Rig::open(device, &self, 0, 1)?, *listen, *datagrams)
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
