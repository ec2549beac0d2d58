//! `e810 doctor`: what a function still needs to be used from user space.
//!
//! Each check is a line with a level and the command that fixes it. The checks only read. They do
//! open and close VFIO's files, because only that shows whether this user may.

use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use e810_backends::host::Host;
use e810_backends::host::pci::{DEVICES, Function, e810s};
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::output::json;
use crate::output::terminal::Paint;

mod function;
mod machine;

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, but something could be better or should be checked.
    Warning,
    /// It does not work.
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    const fn paint(self) -> Paint {
        match self {
            Self::Ok => Paint::Good,
            Self::Warning => Paint::Odd,
            Self::Error => Paint::Bad,
        }
    }
}

/// The JSON of `e810 doctor`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DoctorReport {
    /// The checks of the machine, then those of each function.
    pub checks: Vec<Check>,
}

/// One line of `e810 doctor`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// What was checked, a short name.
    pub check: &'static str,
    /// The function that was checked; absent for the machine as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The result.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// The command or step that fixes it. It never takes away storage, the default route, a console
    /// or another user's device.
    pub remedy: Option<String>,
}

impl Check {
    fn new(
        check: &'static str,
        level: Level,
        text: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self {
            check,
            function: None,
            level,
            text: text.into(),
            remedy,
        }
    }

    fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, text, None)
    }

    fn warning(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Level::Warning, text, Some(remedy.into()))
    }

    fn error(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Level::Error, text, Some(remedy.into()))
    }
}

/// Runs the command.
///
/// # Errors
/// A check found an error (all checks are printed first), or the address is not that of an E810.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> Result<()> {
    run_on(&Host::default(), args, out)
}

/// Runs the command on a given machine.
///
/// # Errors
/// As [`run`].
pub fn run_on(host: &Host, args: &DoctorArgs, out: &mut dyn Write) -> Result<()> {
    let functions = match args.function {
        None => e810s(host),
        Some(bdf) => {
            let function = Function::read(host, bdf)
                .with_context(|| format!("{bdf}: no such PCI function; see `e810 list`"))?;
            ensure!(
                function.adapter().is_some(),
                "{bdf} is {:04x}:{:04x}, not an E810; see `e810 list`",
                function.vendor,
                function.device
            );
            vec![function]
        }
    };
    let mut checks = machine::checks(host)?;
    if functions.is_empty() {
        checks.push(Check::error(
            "card",
            "no E810 function in this machine",
            format!("`lspci -nn -d 8086:` shows what is there; e810 looks in {DEVICES}"),
        ));
    }
    for function in &functions {
        checks.extend(function::checks(host, function));
    }
    let report = DoctorReport { checks };
    match args.json {
        true => json::write_line(out, "doctor", &report)?,
        false => print(&report.checks, out)?,
    }
    let is_error = |check: &&Check| check.level == Level::Error;
    let errors = report.checks.iter().filter(is_error).count();
    if errors > 0 {
        bail!("{errors} of {} checks found an error", report.checks.len());
    }
    Ok(())
}

fn print(checks: &[Check], out: &mut dyn Write) -> Result<()> {
    let mut about: Option<&String> = None;
    for check in checks {
        if check.function.as_ref() != about {
            about = check.function.as_ref();
            if let Some(function) = about {
                writeln!(out, "{function}")?;
            }
        }
        writeln!(
            out,
            "{} {:<14} {}",
            check
                .level
                .paint()
                .on(&format!("{:<8}", check.level.name())),
            check.check,
            check.text
        )?;
        if let Some(remedy) = &check.remedy {
            writeln!(out, "{:<8} {:<14} fix: {remedy}", "", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
