//! Options that say where the other process is.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgGroup, Args};

use super::number::number;
use crate::handshake::{HandshakeError, HostPort, PORT, Program, Rendezvous, Role};
use crate::stop::watched;
use crate::usage::refuse;

/// Makes a side, from the address, the default port, the other program and the time limit.
type Open = fn(&HostPort, u16, Program, Duration) -> Result<Rendezvous, HandshakeError>;

/// Where the other process is.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Another process", group(ArgGroup::new("has_peer_process").args(["listen", "connect"]).multiple(true)))]
pub struct RendezvousArgs {
    /// Wait for another e810 with `--connect`, at ADDR:PORT, ADDR or :PORT.
    ///
    /// Without ADDR it listens on all addresses of this machine; with port 0 on a free port, which
    /// is printed. Each process then has one function. The two exchange what they need to know over
    /// this TCP connection, which is neither encrypted nor authenticated.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["connect", "peer"])]
    pub listen: Option<HostPort>,
    /// Connect to another e810 with `--listen`, at HOST:PORT or HOST. This side sends first.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "peer")]
    pub connect: Option<HostPort>,
    /// Meet the other process by the RDMA connection manager, over the function's own port, in place
    /// of TCP.
    ///
    /// Both sides need it. `--listen` then takes the function's RDMA address (or :PORT alone), and
    /// `--connect` that of the peer's function. No other network is needed.
    #[arg(long, requires = "has_peer_process")]
    pub cm: bool,
    /// The port, where `--listen` or `--connect` names none.
    #[arg(short = 'p', long, value_name = "PORT", default_value = "18515", requires = "has_peer_process", value_parser = number::<u16>(0, u16::MAX.into()))]
    pub port: u16,
    /// The program at the other end: another e810, or the unmodified `ibv_rc_pingpong` of
    /// libibverbs on any RDMA host.
    ///
    /// With `ibv_rc_pingpong`, messages are SENDs of a reliable connection, and --size, --iters and
    /// --path-mtu have that program's defaults: 4096, 1000 and 1024 (its -s, -n and -m). It does
    /// not send its Ethernet address, which is resolved.
    #[arg(long, value_enum, value_name = "PROGRAM", default_value_t = Program::E810, requires = "has_peer_process")]
    pub with: Program,
    /// Seconds to wait for the other process, and for each of its answers.
    #[arg(long, value_name = "SECONDS", default_value = "60", requires = "has_peer_process", value_parser = number::<u32>(1, 3600))]
    pub wait: u32,
}

impl RendezvousArgs {
    /// Whether the peer is in another process.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.listen.is_some() || self.connect.is_some()
    }

    /// The rendezvous that was asked for, if any. A listener listens from here on. `watch` is
    /// called while a host name is resolved; its error ends that.
    ///
    /// # Errors
    /// A host that is not found, a port that cannot be listened on, or the error of `watch`.
    pub fn open(&self, watch: &dyn Fn() -> Result<()>) -> Result<Option<Rendezvous>> {
        let wait = Duration::from_secs(self.wait.into());
        let (port, with) = (self.port, self.with);
        if self.cm {
            return self.by_cm(wait);
        }
        let (at, open) = match (&self.listen, &self.connect) {
            (Some(at), _) => (at.clone(), Rendezvous::listen as Open),
            (None, Some(at)) => (at.clone(), Rendezvous::connect as Open),
            (None, None) => return Ok(None),
        };
        // A name server may not answer.
        let open = move || open(&at, port, with, wait);
        Ok(Some(watched("finding the host", open, watch)??))
    }

    /// The rendezvous by the connection manager.
    fn by_cm(&self, wait: Duration) -> Result<Option<Rendezvous>> {
        if self.with == Program::IbvRcPingpong {
            refuse!(
                "--cm --with ibv_rc_pingpong: that program exchanges its parameters over TCP; leave out --cm"
            );
        }
        let (option, role, at) = match (&self.listen, &self.connect) {
            (Some(at), _) => ("--listen", Role::Server, at),
            (None, Some(at)) => ("--connect", Role::Client, at),
            (None, None) => return Ok(None),
        };
        let (ip, port) = match (at.address(self.port), role) {
            (Some((Some(ip), port)), _) => (ip, port),
            (Some((None, port)), Role::Server) => (Ipv4Addr::UNSPECIFIED.into(), port),
            _ => refuse!(
                "--cm {option} {at}: give the RDMA address of a function, like 192.0.2.1 or [fe80::1]:{PORT}; names are not looked up"
            ),
        };
        Ok(Some(Rendezvous::by_cm(role, (ip, port).into(), wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_to_end_looks_for_no_host() {
        let asked_for = RendezvousArgs {
            connect: Some("e810.invalid".parse().unwrap()),
            ..RendezvousArgs::default()
        };
        let error = asked_for.open(&|| anyhow::bail!("enough")).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        let none = RendezvousArgs::default().open(&|| Ok(()));
        assert!(none.unwrap().is_none());
    }
}
