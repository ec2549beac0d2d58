//! Bring-up, waiting for links, and shutdown of one function, or of two of this process.

use crate::output::ending::after_failure;
use anyhow::{Context, Result};
use e810::{Control, EventSet, LinkPolicy, Platform};

use super::watch;
use super::workload::RunContext;
use e810_node::start::{LINK, Sizes, Start};

/// Two functions of this process.
pub(super) const FUNCTIONS: [&str; 2] = ["function 0", "function 1"];

/// Brings a function up and returns its parts. This enables the link but does not wait for it
/// ([`wait_link`]): the other end may be the next function to be brought up.
pub(crate) fn bring_up<P: Platform>(
    platform: P,
    start: &Start,
) -> Result<(Control<P>, EventSet<P>)> {
    bring_up_for(platform, start, Sizes::default())
}

/// The same, for the number of objects in `sizes`.
pub(crate) fn bring_up_for<P: Platform>(
    platform: P,
    start: &Start,
    sizes: Sizes,
) -> Result<(Control<P>, EventSet<P>)> {
    let device = start.bring_up_for(platform, sizes, LinkPolicy::GoOn, &mut |_| {})?;
    Ok(device.split())
}

/// Waits for the link of a function. The other end must be enabled.
///
/// # Errors
/// Why there is no link.
pub(crate) fn wait_link<P: Platform>(control: &mut Control<P>) -> Result<()> {
    control.wait_link(LINK).context("waiting for the link")?;
    Ok(())
}

/// Waits for the links of both functions.
///
/// # Errors
/// Which function has no link, and why.
pub(crate) fn wait_links<P: Platform>(controls: [&mut Control<P>; 2]) -> Result<()> {
    for (control, name) in controls.into_iter().zip(FUNCTIONS) {
        wait_link(control).context(name)?;
    }
    Ok(())
}

/// Makes a side of each of two functions of this process. If the second fails, this shuts the first
/// down.
///
/// # Errors
/// What failed, and for which function.
pub(crate) fn sides<P, S>(
    [ask, answer]: [P; 2],
    [ask_start, answer_start]: &[Start; 2],
    make: impl Fn(P, &Start, usize) -> Result<S>,
    shut_down: impl Fn(S) -> Result<()>,
) -> Result<[S; 2]> {
    let ask = make(ask, ask_start, 0).context(FUNCTIONS[0])?;
    match make(answer, answer_start, 1).context(FUNCTIONS[1]) {
        Ok(answer) => Ok([ask, answer]),
        Err(error) => Err(after_failure(error, shut_down(ask).context(FUNCTIONS[0]))),
    }
}

/// Shuts down both sides of this process, as [`close`].
pub(crate) fn close_both<S, O>(
    [ask, answer]: [S; 2],
    shut_down: impl Fn(S) -> Result<()>,
    outcome: Result<O>,
    context: RunContext<'_>,
) -> Result<O> {
    let sides = [(ask, FUNCTIONS[0]), (answer, FUNCTIONS[1])];
    close(sides, shut_down, outcome, context)
}

/// Shuts sides down and returns `outcome`. It does so after a failure too, unless a device is gone.
pub(super) fn close<S, O, const N: usize>(
    sides: [(S, &'static str); N],
    shut_down: impl Fn(S) -> Result<()>,
    outcome: Result<O>,
    context: RunContext<'_>,
) -> Result<O> {
    let is_notice = |error: &anyhow::Error| error.is::<watch::KernelNotice>();
    if outcome.as_ref().is_err_and(|error| !is_notice(error)) && (context.is_lost)() {
        return outcome;
    }
    for (side, name) in sides {
        match (shut_down(side).context(name), &outcome) {
            (Err(error), Err(_)) => log::warn!("not shut down cleanly: {error:#}"),
            (closed, _) => closed?,
        }
    }
    outcome
}

#[cfg(test)]
mod tests;
