//! The `e810` command. Exit code 0: done; 1: failed; 2: usage.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let cli = e810_host::cli::Cli::parse();
    let mut out = stdout().lock();
    match e810_host::run(&cli, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e810: {error:#}");
            ExitCode::FAILURE
        }
    }
}
