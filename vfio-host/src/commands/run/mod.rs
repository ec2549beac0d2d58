//! `e810 run`: runs an unmodified libibverbs program on this driver. The command sets variables and
//! then becomes the program.

mod functions;
mod libraries;
mod program;
mod sysfs;

use crate::output::ending::CannotExecute;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{self, Path};
use std::process::Command;

use anyhow::{Context as _, Result};
use e810_backends::host::device_nodes;
use e810_backends::host::user_folder::user_folder;
use e810_backends::signals;

use self::functions::Functions;
use self::libraries::Libraries;
use self::program::Program;
use crate::cli::RunArgs;
use crate::output::terminal::say;

/// Variables that the library reads: the functions, and the folder of their locks.
const DEVICES: &str = "E810_VERBS";
const LOCKS: &str = "E810_LOCKS";
/// The variable with the folder that programs read instead of `/sys`.
const SYSFS: &str = "SYSFS_PATH";
/// The variable with the card's package.
const PACKAGE: &str = "E810_DDP";

type Variables = Vec<(&'static str, OsString)>;

/// Runs the command. It returns only without a program, or with an error.
///
/// # Errors
/// [`CannotExecute`] for the program, options that do not fit, or missing libraries.
pub fn run(args: &RunArgs, out: &mut dyn Write) -> Result<()> {
    let program = match args.print_env {
        true => None,
        false => Program::find(&args.program)?,
    };
    let mut functions = Functions::of(args)?;
    let libraries = Libraries::find(args.libraries.as_deref())?;
    let (variable, value) = match args.preload {
        true => libraries.preloaded(env::var_os("LD_PRELOAD").as_deref()),
        false => libraries.in_place(&user_folder()?, env::var_os("LD_LIBRARY_PATH").as_deref())?,
    };
    let mut variables: Variables = vec![
        (DEVICES, functions.value(args.all).into()),
        (LOCKS, locks()?),
        (variable, value),
    ];
    if let Some(ddp) = &args.ddp {
        let absolute = path::absolute(ddp).with_context(|| format!("--ddp {}", ddp.display()))?;
        variables.push((PACKAGE, absolute.into()));
    }
    // A shell that uses the variables outlives this process, so it gets no files of it.
    let Some(program) = program else {
        return Ok(print(&variables, out)?);
    };
    functions.ask();
    let devices = functions.most(args.all);
    let sysfs = sysfs::make(&user_folder()?, &functions.of_devices(args.all));
    let sysfs = sysfs.with_context(|| {
        let folder = user_folder().unwrap_or_default();
        format!(
            "files for programs in {} (of XDG_RUNTIME_DIR, else /tmp)",
            folder.display()
        )
    })?;
    if !args.quiet {
        if env::var_os(DEVICES).is_some_and(|earlier| !earlier.is_empty()) {
            say(&format!(
                "e810 run: {DEVICES} of the environment is not used: name the function with --at or --device"
            ));
        }
        let whose = functions.shared(args.all);
        say(&format!(
            "e810 run: {functions}; {whose}; {variable} is set to the libraries of {libraries}"
        ));
    }
    if args.dev_infiniband {
        device_nodes::add(devices, &sysfs).context("--dev-infiniband")?;
    }
    // If the user has named a folder, that one is used.
    if env::var_os(SYSFS).is_none() {
        variables.push((SYSFS, sysfs.into()));
    }
    let mut command = Command::new(&program.path);
    command.arg0(program.name).args(program.arguments);
    signals::take_file_limit_as_at_first();
    let error = command.envs(variables).exec();
    Err(CannotExecute::because(program.name, &error).into())
}

/// The folder of the locks, set explicitly so that it does not depend on other variables.
fn locks() -> Result<OsString> {
    match env::var_os(LOCKS).filter(|folder| !folder.is_empty()) {
        None => Ok(user_folder()?.into()),
        Some(folder) => Ok(path::absolute(Path::new(&folder)).context(LOCKS)?.into()),
    }
}

fn print(variables: &Variables, out: &mut dyn Write) -> std::io::Result<()> {
    for (name, value) in variables {
        write!(out, "export {name}=")?;
        out.write_all(&quoted(value))?;
        writeln!(out)?;
    }
    Ok(())
}

/// Quotes a value for a shell.
fn quoted(value: &OsStr) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in value.as_bytes() {
        match byte {
            b'\'' => word.extend(br"'\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_words_of_a_shell() {
        let mut out = Vec::new();
        let variables = vec![("A", "b c|d".into()), ("E", "it's".into())];
        print(&variables, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "export A='b c|d'\nexport E='it'\\''s'\n");
    }
}
