//! The `e810` command. Exit codes: 0 done, 1 failed, 2 usage, 128 plus a signal's number after an
//! orderly shutdown by that signal (130 for Ctrl-C), 141 when the reader of the output is gone.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use e810_backends::signals;
use e810_host::cli::Cli;
use e810_host::cli::help;
use e810_host::output::standard::Standard;
use e810_host::output::{ending, terminal};
use env_logger::{Builder, Env};
use log::Level;

fn main() -> ExitCode {
    signals::take_file_limit_as_error();
    log();
    terminal::use_stdout();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return help::tell(&said, std::env::args_os()),
    };
    let mut out = Standard::lock();
    let result = e810_host::run(&cli, &mut out);
    // What a command that failed has said is still written.
    let written = out.flush();
    match result.and_then(|()| Ok(written?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ending::tell(&error, out.is_closed(), cli.command.prints_json()),
    }
}

/// Logs to standard error: warnings as the command's own lines, or with RUST_LOG whatever it
/// selects, with targets and the seconds since the start.
fn log() {
    let mut logger = Builder::from_env(Env::default().default_filter_or("warn"));
    let began = Instant::now();
    if std::env::var_os("RUST_LOG").is_some() {
        logger.format(move |out, record| {
            let seconds = began.elapsed().as_secs_f64();
            let (level, place, text) = (record.level(), record.target(), record.args());
            writeln!(out, "[{seconds:.6} {level} {place}] {text}")
        });
    } else {
        logger.format(|out, record| {
            let level = match record.level() {
                Level::Error => "error",
                _ => "warning",
            };
            writeln!(out, "e810: {level}: {}", record.args())
        });
    }
    logger.init();
}
