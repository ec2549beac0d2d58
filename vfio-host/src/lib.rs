//! The `e810` command: its command line, what its commands do, and their reports.
//!
//! The binary is a thin `main` over this library, so that tests can run a
//! command without a process:
//!
//! ```no_run
//! use clap::Parser;
//! use e810_host::cli::Cli;
//!
//! let cli = Cli::parse_from(["e810", "pingpong", "--iters", "10"]);
//! e810_host::run(&cli, &mut std::io::stdout()).unwrap();
//! ```
//!
//! * [`cli`]: what can be asked, an argument type a command.
//! * [`commands`]: a module a command.
//! * [`pci_functions`]: opening, starting and watching the functions that a command uses.
//! * [`measure`]: messages between two functions, a module a measurement.
//! * [`handshake`]: what two processes tell each other over TCP.
//! * [`monitor`]: functions at work, shown to another process.
//! * [`output`]: terminals, units, counters, and how a command ends.
//!
//! A new command is a variant of [`cli::Command`], a module of `commands` and a line in
//! [`run`]; a new measurement is a module of `measure`, and the command in front of it.

#![deny(unsafe_code)]
// These macros panic when the output is closed: reports go to `out`, notes to `output`.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

use std::io::Write;

use anyhow::Result;

pub mod cli;
pub mod commands;
pub mod handshake;
pub mod measure;
pub mod monitor;
pub mod output;
pub mod pci_functions;
pub mod settings;
pub mod stop;
pub mod usage;

/// Runs a command and writes its report to `out`.
///
/// # Errors
/// What failed, with the cause below it and what to do about it.
pub fn run(cli: &cli::Cli, out: &mut dyn Write) -> Result<()> {
    cli::named_files::check(&cli.command.named_files()).map_err(usage::Usage::from)?;
    match &cli.command {
        cli::Command::List(args) => commands::list::run(args, out),
        cli::Command::Doctor(args) => commands::doctor::run(args, out),
        cli::Command::Bind(args) => commands::bind::bind(args, out),
        cli::Command::Unbind(args) => commands::bind::unbind(args, out),
        cli::Command::Run(args) => commands::run::run(args, out),
        cli::Command::Pingpong(args) => commands::pingpong::run(args, out),
        cli::Command::Perf(args) => commands::perf::run(args, out),
        cli::Command::Ping(args) => commands::ping::run(args, out),
        cli::Command::Serve(args) => commands::serve::run(args, out),
        cli::Command::Ps(args) => commands::ps::run(args, out),
        cli::Command::Tap(args) => commands::tap::run(args, out),
        cli::Command::Monitor(args) => commands::monitor::run(args, out),
        cli::Command::Connections(args) => commands::connections::run(args, out),
        cli::Command::Stat(args) => commands::stat::run(args, out),
        cli::Command::Up(args) => commands::up::run(args, out),
        cli::Command::Report(args) => commands::report::run(args, out),
        cli::Command::Selftest(args) => commands::selftest::run(args, out),
        cli::Command::Trace(args) => commands::trace::run(args, out),
        cli::Command::Proxy(args) => commands::proxy::run(args, out),
        cli::Command::Sim(args) => commands::sim::run(args, out),
    }
}
