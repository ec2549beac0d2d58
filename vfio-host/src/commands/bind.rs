//! `e810 bind` and `e810 unbind`: binds functions to vfio-pci, and gives them back.
//!
//! Before anything is written, these refuse a function that the machine depends on. After a later
//! failure, they restore every function that they can and name the others.

use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use e810_backends::Accept;
use e810_backends::host::binding::{self, Former, Kernel, Restored, Sysfs};
use e810_backends::host::dependents::{self, Dependents, used_virtual_function};
use e810_backends::host::group::Group;
use e810_backends::host::kernel::{Module, has_vfio_pci, module};
use e810_backends::host::pci::{self, Function, VFIO_PCI};
use e810_backends::host::{Host, folder};
use e810_backends::spec::Bdf;

use crate::cli::BindArgs;
use crate::output::ending::Steps;
use crate::pci_functions::shared_group::advice;

/// Runs `e810 bind`.
///
/// # Errors
/// A function that is refused, or the kernel's error.
pub fn bind(args: &BindArgs, out: &mut dyn Write) -> Result<()> {
    bind_on(&Host::default(), &mut Sysfs, args, out)
}

/// Runs `e810 unbind`.
///
/// # Errors
/// A function in use, a former driver that is not loaded, or the kernel's error.
pub fn unbind(args: &BindArgs, out: &mut dyn Write) -> Result<()> {
    unbind_on(&Host::default(), &mut Sysfs, args, out)
}

/// Runs `e810 bind` on a given machine.
///
/// # Errors
/// As [`bind`].
pub fn bind_on(
    host: &Host,
    kernel: &mut dyn Kernel,
    args: &BindArgs,
    out: &mut dyn Write,
) -> Result<()> {
    let accept = match args.force {
        true => Accept::IntelEthernet,
        false => Accept::E810,
    };
    let functions = find_functions(host, &args.functions)?;
    for function in &functions {
        let bdf = function.bdf;
        folder::check(host, &bdf.to_string(), bdf, accept)?;
        check(host, function, args)?;
    }
    let mut done: Vec<Bdf> = Vec::new();
    for function in &functions {
        if let Err(error) = binding::bind(host, kernel, function, accept) {
            return Err(undo(host, kernel, &done, error));
        }
        if !function.is_on_vfio() {
            done.push(function.bdf);
        }
    }
    for function in &functions {
        let was = match (function.is_on_vfio(), &function.driver) {
            (true, _) => "already there".to_owned(),
            (false, Some(driver)) => format!("was on {driver}"),
            (false, None) => "had no driver".to_owned(),
        };
        writeln!(out, "{}: bound to vfio-pci ({was})", function.bdf)?;
    }
    Ok(())
}

/// Restores every function that this command has bound, and names those that it cannot restore.
fn undo(host: &Host, kernel: &mut dyn Kernel, done: &[Bdf], error: anyhow::Error) -> anyhow::Error {
    let mut left = Vec::new();
    for bdf in done.iter().rev() {
        let restored = Function::read(host, *bdf)
            .context("the function is gone")
            .and_then(|function| binding::unbind(host, kernel, &function));
        if let Err(why) = restored {
            left.push(format!("{bdf} is still on vfio-pci ({why:#})"));
        }
    }
    match left.is_empty() {
        true => error,
        false => error.context(left.join("; ")),
    }
}

/// Runs `e810 unbind` on a given machine.
///
/// # Errors
/// As [`unbind`].
pub fn unbind_on(
    host: &Host,
    kernel: &mut dyn Kernel,
    args: &BindArgs,
    out: &mut dyn Write,
) -> Result<()> {
    let functions = find_functions(host, &args.functions)?;
    for function in &functions {
        binding::may_unbind(host, function.bdf)?;
        check_idle(host, function, args.force, out)?;
    }
    let mut steps = Steps::default();
    let mut failed = Vec::new();
    for function in &functions {
        match binding::unbind(host, kernel, function) {
            Ok(restored) => {
                steps.note(writeln!(out, "{}: {}", function.bdf, restored_as(restored)));
            }
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    // Each text names its function.
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    steps.end()
}

fn restored_as(restored: Restored) -> String {
    match restored {
        Restored::Nothing => "was not bound to vfio-pci, nothing to do".to_owned(),
        Restored::Former(Some(driver)) => format!("back on {driver}"),
        Restored::Former(None) => "without a driver, as before".to_owned(),
        Restored::Chosen(Some(driver)) => {
            format!("its former driver was not remembered; the kernel chose {driver}")
        }
        Restored::Chosen(None) => {
            "its former driver was not remembered; the kernel has none for it".to_owned()
        }
    }
}

/// The functions, each once.
fn find_functions(host: &Host, wanted: &[Bdf]) -> Result<Vec<Function>> {
    let mut functions: Vec<Function> = Vec::new();
    for bdf in wanted {
        let function = Function::read(host, *bdf)
            .with_context(|| format!("{bdf}: no such PCI function; see `e810 list`"))?;
        if !functions.iter().any(|known| known.bdf == *bdf) {
            functions.push(function);
        }
    }
    Ok(functions)
}

/// Refuses a function that must not or cannot be bound.
fn check(host: &Host, function: &Function, args: &BindArgs) -> Result<()> {
    let bdf = function.bdf;
    if !has_vfio_pci(host) {
        match module(host, VFIO_PCI) {
            Module::Missing => {
                bail!("{bdf}: this kernel has no vfio-pci; install the kernel package that has it")
            }
            _ => bail!("{bdf}: vfio-pci is not loaded; load it first: modprobe vfio-pci"),
        }
    }
    let Some(number) = function.group else {
        bail!(
            "{bdf}: it has no IOMMU group, so the IOMMU is off; `e810 doctor` says how to switch it on"
        );
    };
    check_group(host, &Group::read(host, number), bdf, &args.functions)?;
    // A card that may not be an E810 is never taken from its users.
    let is_known = function.adapter().is_some();
    if function.is_on_vfio() || args.force && is_known {
        return Ok(());
    }
    let by_force = match is_known {
        true => " (--force binds it anyway)",
        false => "",
    };
    let dependents = Dependents::of(host, function);
    ensure!(
        dependents.is_free(),
        "{bdf}: {}; binding it would take that away{by_force}",
        dependents.uses.join(", ")
    );
    if let Some(vfs) = function.vfs.filter(|vfs| vfs.enabled > 0) {
        bail!(
            "{bdf}: {} virtual functions are enabled and would disappear; {}{by_force}",
            vfs.enabled,
            match used_virtual_function(host, function) {
                Some(used) => used,
                None => format!(
                    "remove them first: echo 0 > {}",
                    pci::folder(host, bdf).join("sriov_numvfs").display()
                ),
            }
        );
    }
    Ok(())
}

/// Refuses a function whose group would be unusable after the bind.
fn check_group(host: &Host, group: &Group, bdf: Bdf, together: &[Bdf]) -> Result<()> {
    let in_the_way: Vec<_> = group
        .others(bdf)
        .filter(|member| member.is_in_the_way() && !together.contains(&member.bdf))
        .collect();
    if in_the_way.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = in_the_way.iter().map(|member| member.to_string()).collect();
    bail!(
        "{bdf}: IOMMU group {} is shared with {}, so the function could not be used; {}",
        group.number,
        names.join(", "),
        advice(host, bdf, &in_the_way)
    )
}

/// Refuses a function that a program has open: the kernel would wait for that program without
/// limit, and so would this command.
fn check_idle(host: &Host, function: &Function, force: bool, out: &mut dyn Write) -> Result<()> {
    if !function.is_on_vfio() {
        return Ok(());
    }
    let holders = dependents::users(host, function);
    if holders.is_empty() {
        return Ok(());
    }
    let bdf = function.bdf;
    let names = holders.join(", ");
    ensure!(
        force,
        "{bdf}: in use by process {names}; end it first (--force asks it to close the function, and waits without limit)"
    );
    let former = Former::load(host, bdf).and_then(|former| former.driver);
    writeln!(
        out,
        "{bdf}: waiting for process {names} to close it, then back to {}",
        former.as_deref().unwrap_or("no driver")
    )?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
