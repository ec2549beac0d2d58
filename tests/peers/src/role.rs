//! Which side a program is, and how much it does.

use std::net::SocketAddr;

use anyhow::Result;
use clap::Args;

/// Exactly one of the two.
#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct RoleArgs {
    /// Listen on this port of all addresses of a family that the function has.
    #[arg(long, value_name = "PORT")]
    listen: Option<u16>,
    /// Connect to this address and port.
    #[arg(long, value_name = "IP:PORT")]
    connect: Option<SocketAddr>,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Counts {
    #[command(flatten)]
    pub(crate) role: RoleArgs,
    /// Connections.
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: u32,
    /// Messages of each, each way.
    #[arg(long, default_value_t = 10)]
    pub(crate) messages: u32,
    /// Bytes of a message.
    #[arg(long, default_value_t = 100)]
    pub(crate) size: u32,
}

/// What a program is to its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Server(u16),
    Client(SocketAddr),
}

impl RoleArgs {
    /// Which of the two it is.
    pub(crate) fn role(self) -> Result<Role> {
        match (self.listen, self.connect) {
            (Some(port), None) => Ok(Role::Server(port)),
            (None, Some(peer)) => Ok(Role::Client(peer)),
            _ => anyhow::bail!("either --listen or --connect"),
        }
    }
}
