//! Writes the command's manual pages and completions for shells, from its own
//! definition:
//!
//! ```text
//! cargo run --package e810-host --features pages --example pages -- DIR
//! ```
//!
//! `DIR/man1` has a page for `e810` and one for each of its commands,
//! `DIR/completions` a file each for bash, zsh, fish and elvish.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use e810_host::cli::Cli;

fn main() -> io::Result<()> {
    let Some(dir) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: pages DIR: the folder that they are written into",
        ));
    };
    let (man, completions) = (dir.join("man1"), dir.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let mut command = Cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
        let written = generate_to(shell, &mut command, "e810", &completions)?;
        println!("{}", written.display());
    }
    // Subcommands get a name for display, like `e810-perf`.
    command.build();
    pages(&command, &man)
}

/// The manual page of a command, and those of its commands.
fn pages(command: &Command, dir: &Path) -> io::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    clap_mangen::Man::new(command.clone()).render(&mut fs::File::create(&path)?)?;
    println!("{}", path.display());
    for subcommand in command.get_subcommands() {
        if subcommand.get_name() != "help" {
            pages(subcommand, dir)?;
        }
    }
    Ok(())
}
