//! Two functions connect by port, as programs do that know an address and a port of each other and
//! nothing else: each asks once and listens once. They pass messages and part, and when nothing of
//! the connection can arrive any more, its queue pairs have the next one.

use core::net::SocketAddr;

use e810_connect::Phase;

use crate::end::{End, until};
use crate::neighbours::Both;
use crate::node::{LIMIT, Which};
use crate::pass_all;
use crate::report::{Failure, Report, Waits};

/// Where both listen.
const PORT: u16 = 7174;

/// The rows of a connection: how messages are waited for, both ends connected, both ends over.
const ROUNDS: [(Waits, &str, &str); 2] = [
    (Waits::Polls, "by port, connected", "by port, parted"),
    // In the other roles.
    (Waits::Sleeps, "by port, again", "by port, parted again"),
];

/// Both functions, each with the manager of its connections.
type Ends<'a, 'm> = [End<'a, 'm>; 2];

/// Connects them, has messages pass, and ends it; then again, with the same queue pairs.
#[inline(never)] // What it has on the stack, the bring-up has not.
pub(crate) fn connect_and_part<'m>(
    [a, b]: Both<'_, 'm>,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let mut qps = [a.make_qp()?, b.make_qp()?];
    let mut ends = [End::open(a)?, End::open(b)?];
    for end in &mut ends {
        end.listen(PORT)?;
    }
    for (waits, connected, parted) in ROUNDS {
        for (end, qp) in ends.iter_mut().zip(qps) {
            end.begin(qp)?;
        }
        connect(&mut ends)?;
        report.row(connected, 2);
        let nodes = ends.each_mut().map(|end| &mut *end.node);
        pass_all(nodes, Which::Port, waits, report)?;
        part(&mut ends)?;
        report.row(parted, 2);
        let [a, b] = &mut ends;
        qps = [a.finish()?, b.finish()?];
        // Who listened asks now.
        ends.reverse();
        qps.reverse();
    }
    for (end, qp) in ends.into_iter().zip(qps) {
        let gone = end.node.control.destroy_qp(qp);
        gone.map_err(|(_, error)| error)?;
        end.close()?;
    }
    report.row("by port, given back", 2);
    Ok(())
}

/// The first asks, and the second accepts.
fn connect(ends: &mut Ends<'_, '_>) -> Result<(), Failure> {
    let [asks, listens] = ends;
    asks.ask(SocketAddr::new(listens.node.lan.ipv4(), PORT), &[])?;
    until(ends, ("a request", LIMIT), |[_, listens]| {
        Ok(listens.is_asked().then_some(()))
    })?;
    let [asks, listens] = ends;
    if listens.peer() != Some(asks.node.lan.ipv4()) {
        return Err(Failure::NoConnection);
    }
    listens.accept()?;
    reach(ends, "a connection", Phase::Established)
}

/// The first ends it, and both wait until it is over.
fn part(ends: &mut Ends<'_, '_>) -> Result<(), Failure> {
    let [asks, _] = ends;
    asks.disconnect()?;
    reach(ends, "the end of a connection", Phase::Over)
}

fn reach(ends: &mut Ends<'_, '_>, what: &'static str, phase: Phase) -> Result<(), Failure> {
    until(ends, (what, LIMIT), |[a, b]| {
        Ok((a.is(phase)? && b.is(phase)?).then_some(()))
    })
}
