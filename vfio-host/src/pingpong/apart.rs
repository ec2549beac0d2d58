//! The ping-pong of one side of a reliable connection, the other being another
//! program's.
//!
//! Nobody sees both memories, so each message tells when it has arrived: a SEND
//! does, a WRITE carries immediate data, and around a READ both sides send an
//! empty message, when the memory is ready and when it was read.

use anyhow::{Result, bail, ensure};
use e810::{Platform, Wc};

use super::{Endpoint, MESSAGE_LIMIT, Outcome, Plan, Side, Watch};
use crate::cli::Op;
use crate::payload::{self, Direction};
use crate::progress::Progress;

/// One side and how far it is.
struct Alone<'a, P: Platform> {
    side: &'a mut Side<P>,
    watch: Watch<'a>,
    sent: u32,
    received: u32,
    expected: Vec<u8>,
    got: Vec<u8>,
}

impl<'a, P: Platform> Alone<'a, P> {
    fn new(side: &'a mut Side<P>, plan: &Plan, watch: Watch<'a>) -> Self {
        if plan.op == Op::Read {
            side.expect(0);
        }
        let scratch = vec![0; plan.size as usize];
        Self {
            side,
            watch,
            sent: 0,
            received: 0,
            expected: scratch.clone(),
            got: scratch,
        }
    }

    /// Polls until so many more requests are carried out and messages are there.
    fn until(&mut self, sent: u32, received: u32) -> Result<()> {
        (self.watch)()?;
        let start = self.side.now();
        let mut wcs = [Wc::default(); 8];
        while self.sent < sent || self.received < received {
            let polled = self.side.turn(&mut wcs)?;
            for wc in wcs.iter().take(polled) {
                let (mut send, mut receive) = (1, 1);
                self.side.take(wc, &mut send, &mut receive)?;
                self.sent += 1 - send;
                self.received += 1 - receive;
            }
            if polled == 0 {
                let waited = self.side.now() - start;
                ensure!(
                    waited < MESSAGE_LIMIT,
                    "no completion after {MESSAGE_LIMIT}: check that packets reach the peer; nothing answers ARP for this function, so a kernel there needs `ip neigh replace`"
                );
                (self.watch)()?;
                self.side.relax();
            }
        }
        self.sent -= sent;
        self.received -= received;
        Ok(())
    }

    fn fill(&mut self, plan: &Plan, number: u64, direction: Direction) -> Result<()> {
        payload::fill(&mut self.expected, plan.seed, number, direction);
        Ok(self.side.outgoing()?.write(0, &self.expected)?)
    }

    /// Looks at what has arrived.
    fn check(
        &mut self,
        plan: &Plan,
        number: u64,
        direction: Direction,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let memory = self.side.incoming()?;
        let (expected, got) = (&mut self.expected, &mut self.got);
        match payload::first_difference(memory, expected, got, plan.seed, number, direction) {
            None => outcome.verified += 1,
            Some(_) => outcome.errors += 1,
        }
        Ok(())
    }
}

/// Posts the receives of a side that has not been told to begin yet.
///
/// # Errors
/// A queue that refuses them.
pub fn prepare<P: Platform>(side: &mut Side<P>) -> Result<()> {
    side.post_receives()
}

/// Runs the side that asks.
///
/// # Errors
/// As [`run`](super::run).
pub fn ask<P: Platform>(
    side: &mut Side<P>,
    there: &Endpoint,
    plan: &Plan,
    progress: &mut Progress,
    watch: Watch<'_>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut alone = Alone::new(side, plan, watch);
    let start = alone.side.now();
    for number in 0..plan.iterations {
        if plan.op == Op::Read {
            alone.until(0, 1)?;
        } else {
            alone.fill(plan, number, Direction::Ask)?;
        }
        let posted = alone.side.now();
        match plan.op {
            Op::Send => {
                alone.side.post(plan.op, number, there)?;
                alone.until(1, 1)?;
                let round_trip = alone.side.now() - posted;
                outcome.latencies.add(round_trip.0 / 2);
                outcome.messages += 2;
            }
            Op::Write => {
                alone.side.post_write_told(number, there)?;
                alone.until(1, 0)?;
                let took = alone.side.now() - posted;
                outcome.latencies.add(took.0);
                alone.until(0, 1)?;
                outcome.messages += 2;
            }
            Op::Read => {
                alone.side.post(plan.op, number, there)?;
                alone.until(1, 0)?;
                let took = alone.side.now() - posted;
                outcome.latencies.add(took.0);
                outcome.messages += 1;
            }
        }
        alone.check(plan, number, Direction::Answer, &mut outcome)?;
        alone.side.post_receives()?;
        if plan.op == Op::Read {
            alone.side.post_sign(number)?;
            alone.until(1, 0)?;
        }
        progress.at(number + 1);
    }
    outcome.elapsed = alone.side.now() - start;
    Ok(outcome)
}

/// Runs the side that answers. For READ, nothing arrives that it could verify.
///
/// # Errors
/// As [`run`](super::run).
pub fn answer<P: Platform>(
    side: &mut Side<P>,
    there: &Endpoint,
    plan: &Plan,
    progress: &mut Progress,
    watch: Watch<'_>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut alone = Alone::new(side, plan, watch);
    let start = alone.side.now();
    for number in 0..plan.iterations {
        if plan.op == Op::Read {
            alone.fill(plan, number, Direction::Answer)?;
            alone.side.post_sign(number)?;
            alone.until(1, 1)?;
            alone.side.post_receives()?;
            outcome.messages += 1;
        } else {
            alone.until(0, 1)?;
            alone.check(plan, number, Direction::Ask, &mut outcome)?;
            alone.side.post_receives()?;
            alone.fill(plan, number, Direction::Answer)?;
            match plan.op {
                Op::Send => alone.side.post(plan.op, number, there)?,
                Op::Write => alone.side.post_write_told(number, there)?,
                Op::Read => bail!("a READ is not answered"),
            }
            alone.until(1, 0)?;
            outcome.messages += 2;
        }
        progress.at(number + 1);
    }
    outcome.elapsed = alone.side.now() - start;
    Ok(outcome)
}
