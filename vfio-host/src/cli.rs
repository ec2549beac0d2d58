//! The command line and its limits.
//!
//! Usage errors end in exit code 2, which is clap's own.

pub mod address;
mod bind;
pub mod capture;
mod card;
mod connections;
pub mod device;
mod doctor;
pub mod faults;
pub(crate) mod file;
pub mod help;
mod link;
mod list;
mod monitor;
pub mod named_files;
pub(crate) mod number;
mod pair;
mod perf;
mod ping;
mod pingpong;
mod proxy;
mod ps;
mod rendezvous;
mod report;
mod run;
mod selftest;
mod serve;
mod sim;
mod start;
mod stat;
mod tap;
mod trace;
mod transport;
mod up;

use clap::{Arg, Parser, Subcommand};

pub use bind::BindArgs;
pub use card::{CardArgs, ProfileArg};
pub use connections::ConnectionsArgs;
pub use doctor::DoctorArgs;
pub use link::{LinkArg, NoLink};
pub use list::ListArgs;
pub use monitor::MonitorArgs;
pub use pair::PairArgs;
pub use perf::{PerfArgs, TestArg};
pub use ping::PingArgs;
pub use pingpong::{PingpongArgs, ServiceArg};
pub use proxy::ProxyArgs;
pub use ps::PsArgs;
pub use rendezvous::RendezvousArgs;
pub use report::{ReportArgs, ResetArg};
pub use run::RunArgs;
pub use selftest::{RiskArg, SelftestArgs};
pub use serve::ServeArgs;
pub use sim::SimArgs;
pub use start::{BackendArgs, StartArgs};
pub use stat::StatArgs;
pub use tap::TapArgs;
pub use trace::{KindArg, OnlyArgs, TraceAction, TraceArgs};
pub use transport::TransportArgs;
pub use up::UpArgs;

/// RDMA on the Intel E810, without a kernel driver.
#[derive(Parser, Debug)]
#[command(name = "e810", version, arg_required_else_help = true)]
#[command(mut_subcommands(|command| command.mut_args(with_negative_numbers)))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Takes a negative number as a value, which the option refuses with its own message, not as an
/// option.
fn with_negative_numbers(arg: Arg) -> Arg {
    let takes_values = arg.get_action().takes_values();
    arg.allow_negative_numbers(takes_values)
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the E810 functions of this machine.
    List(ListArgs),
    /// Check what a function needs to be used from user space, and how to fix it.
    Doctor(DoctorArgs),
    /// Bind functions to vfio-pci and remember their drivers.
    Bind(BindArgs),
    /// Give functions back to the drivers they had before.
    Unbind(BindArgs),
    /// Run an unmodified program of libibverbs or librdmacm on this driver.
    Run(RunArgs),
    /// Own a function that libibverbs programs share.
    ///
    /// It runs until SIGINT or SIGTERM, or until its functions are gone. SIGUSR2 unplugs the cables
    /// of simulated functions; a second one plugs them in again.
    Serve(ServeArgs),
    /// Show the programs that share a served function, and what each has.
    Ps(PsArgs),
    /// Exchange messages between two functions and verify every byte.
    Pingpong(PingpongArgs),
    /// Measure the latency or bandwidth of an operation over message sizes.
    Perf(PerfArgs),
    /// Ping another host from a function's own LAN queues.
    Ping(PingArgs),
    /// Use a port as a network interface of this host (a TAP), beside its RDMA engine.
    Tap(TapArgs),
    /// Watch functions at work: interrupts, moderation, queues, asynchronous events, counters.
    Monitor(MonitorArgs),
    /// Show the connections of a running command: states, peers, ages, listeners, counters.
    Connections(ConnectionsArgs),
    /// Show a port's state, addresses and counters.
    Stat(StatArgs),
    /// Bring one function up, show each stage and the memory it took, and shut it down.
    Up(UpArgs),
    /// Record everything that a function reports about itself, for others to look at.
    Report(ReportArgs),
    /// Perform experiments that decide what is only assumed of a card.
    Selftest(SelftestArgs),
    /// Show a trace that `--trace` recorded, or compare two.
    Trace(TraceArgs),
    /// Pass a function on to a driver in another process or virtual machine, and record both.
    ///
    /// It runs until SIGINT or SIGTERM, or until the function is gone, and serves one driver after
    /// the other. The function is reset before and after each of them.
    Proxy(ProxyArgs),
    /// Serve simulated functions to other processes and virtual machines over vfio-user.
    ///
    /// It runs until SIGINT or SIGTERM. SIGUSR2 unplugs the cables of all ports; a second one plugs
    /// them in again. SIGUSR1 writes the report.
    #[command(after_long_help = e810_sim_server::USERS)]
    Sim(SimArgs),
}

impl Command {
    /// Whether what the command prints is JSON.
    #[must_use]
    pub const fn prints_json(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Pingpong(args) => args.json,
            Self::Perf(args) => args.json,
            Self::Ping(args) => args.json,
            Self::Tap(args) => args.json,
            Self::Monitor(args) => args.json,
            Self::Connections(args) => args.json,
            Self::Stat(args) => args.json,
            Self::Up(args) => args.json,
            Self::Ps(args) => args.json,
            Self::Bind(_)
            | Self::Unbind(_)
            | Self::Run(_)
            | Self::Serve(_)
            | Self::Report(_)
            | Self::Selftest(_)
            | Self::Trace(_)
            | Self::Proxy(_)
            | Self::Sim(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
