//! The ping-pong over datagrams, which the wire may lose.
//!
//! Immediate data carries the message number. The initiator resends a datagram whose answer does
//! not come in time; the responder answers a repeated datagram again. Both ignore what belongs to
//! an earlier message.

use anyhow::{Context, Result, ensure};
use e810::{Wc, WcFlags};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;

use super::endpoint::{GRH, RECEIVES, is_receive, low};
use super::{MESSAGE_LIMIT, Outcome, PingpongEndpoint, Plan, UNREACHED};
use crate::measure::endpoint::succeeded;
use crate::measure::payload::{self, Direction};
use crate::output::progress::Progress;
use crate::stop::Stop;

/// Time for an answer before the datagram is sent again.
const AGAIN: Ns = Ns::from_ms(50);

/// Maximum outstanding datagrams of a side; its queue is longer.
const OUTSTANDING: u32 = 8;

/// Called with the initiator in each empty turn, to rest or do other work. An error ends the
/// exchange.
pub type Idle<'a, P> = &'a mut dyn FnMut(&mut PingpongEndpoint<P>) -> Result<()>;

/// Posts the receives of a side.
///
/// # Errors
/// The queue refuses them.
pub fn prepare<P: HostPlatform>(side: &mut PingpongEndpoint<P>) -> Result<()> {
    (0..RECEIVES).try_for_each(|slot| side.post_slot(slot))
}

/// Verifies messages that arrive.
struct Check {
    plan: Plan,
    expected: Vec<u8>,
    got: Vec<u8>,
    outstanding: u32,
}

impl Check {
    fn new(plan: &Plan) -> Self {
        let scratch = vec![0; plan.size as usize];
        Self {
            plan: *plan,
            expected: scratch.clone(),
            got: scratch,
            outstanding: 0,
        }
    }

    fn fill<P: HostPlatform>(
        &mut self,
        side: &PingpongEndpoint<P>,
        number: u64,
        direction: Direction,
    ) -> Result<()> {
        payload::fill(&mut self.expected, self.plan.seed, number, direction);
        Ok(side.outgoing()?.write(0, &self.expected)?)
    }

    fn send<P: HostPlatform>(&mut self, side: &mut PingpongEndpoint<P>, number: u64) -> Result<()> {
        if self.outstanding < OUTSTANDING {
            side.post_datagram(number)?;
            self.outstanding += 1;
        }
        Ok(())
    }

    /// Takes a completion; returns the number and the place of a message that arrived.
    fn take(&mut self, wc: &Wc) -> Result<Option<(u32, u64)>> {
        succeeded(wc)?;
        if !is_receive(wc.opcode) {
            self.outstanding = self.outstanding.saturating_sub(1);
            return Ok(None);
        }
        // Anyone who knows the Q_Key can send something.
        let ours = wc.flags.contains(WcFlags::WITH_IMM)
            && wc.byte_len as usize == GRH + self.plan.size as usize;
        Ok(Some((if ours { wc.imm } else { u32::MAX }, wc.wr_id)))
    }

    fn is_right<P: HostPlatform>(
        &mut self,
        side: &PingpongEndpoint<P>,
        slot: u64,
        number: u64,
        direction: Direction,
    ) -> Result<bool> {
        let memory = side.slot(slot)?;
        let memory = memory.window(GRH, memory.len() - GRH)?;
        let (expected, got) = (&mut self.expected, &mut self.got);
        let seed = self.plan.seed;
        Ok(payload::first_difference(memory, expected, got, seed, number, direction, 0).is_none())
    }
}

/// Runs the initiator; `idle` runs or watches the responder. `outcome` has what was done, even
/// after an error.
///
/// # Errors
/// A completion that failed, an asynchronous error, a message that is never answered, or the error
/// of `idle`. Differences in payload are counted, not returned.
pub fn ask<P: HostPlatform>(
    side: &mut PingpongEndpoint<P>,
    plan: &Plan,
    progress: &mut Progress,
    idle: Idle<'_, P>,
    (stop, outcome): (&Stop, &mut Outcome),
) -> Result<()> {
    let mut check = Check::new(plan);
    let mut wcs = [Wc::default(); 8];
    let start = side.endpoint.now();
    for number in 0..plan.iterations {
        if stop.is_asked() || plan.is_over(start, || side.endpoint.now()) {
            break;
        }
        check.fill(side, number, Direction::Request)?;
        let posted = side.endpoint.now();
        outcome.elapsed = posted - start;
        let (mut sent, mut tries) = (posted, 1u64);
        check.send(side, number)?;
        let mut answer = None;
        // Wait until resent datagrams are sent, before the memory changes.
        while answer.is_none() || check.outstanding > 0 {
            let polled = side.endpoint.poll(&mut wcs)?;
            for wc in wcs.iter().take(polled) {
                let Some((of, slot)) = check.take(wc)? else {
                    continue;
                };
                if of == low(number) && answer.is_none() {
                    outcome.latencies.add((side.endpoint.now() - posted).0 / 2);
                    answer = Some(check.is_right(side, slot, number, Direction::Response)?);
                }
                side.post_slot(slot)?;
            }
            if polled > 0 {
                continue;
            }
            idle(side)?;
            let now = side.endpoint.now();
            ensure!(
                now - posted < MESSAGE_LIMIT,
                "message {number} was not answered within {MESSAGE_LIMIT}, sent {tries} times: {UNREACHED}"
            );
            if answer.is_none() && now - sent >= AGAIN {
                outcome.lost += 1;
                tries += 1;
                sent = now;
                check.send(side, number)?;
            }
        }
        outcome.messages += 2;
        match answer {
            Some(true) => outcome.verified += 1,
            _ => outcome.errors += 1,
        }
        outcome.iterations += 1;
        plan.show(progress, number + 1);
    }
    outcome.elapsed = side.endpoint.now() - start;
    Ok(())
}

/// The side that answers, one turn at a time.
pub struct Responder {
    check: Check,
    /// Number of the message that comes next.
    next: u64,
    outcome: Outcome,
    begun: Option<Ns>,
}

impl Responder {
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            check: Check::new(plan),
            next: 0,
            outcome: Outcome::default(),
            begun: None,
        }
    }

    /// Answers what has arrived; returns the number of completions.
    ///
    /// # Errors
    /// A completion that failed, or an asynchronous error.
    pub fn turn<P: HostPlatform>(&mut self, side: &mut PingpongEndpoint<P>) -> Result<usize> {
        let mut wcs = [Wc::default(); 8];
        let polled = side.endpoint.poll(&mut wcs)?;
        for wc in wcs.iter().take(polled) {
            let Some((number, slot)) = self.check.take(wc)? else {
                continue;
            };
            let is_next = number == low(self.next) && self.next < self.check.plan.iterations;
            if is_next {
                let number = self.next;
                match self
                    .check
                    .is_right(side, slot, number, Direction::Request)?
                {
                    true => self.outcome.verified += 1,
                    false => self.outcome.errors += 1,
                }
                self.check.fill(side, number, Direction::Response)?;
                self.next += 1;
                self.outcome.messages += 2;
                let now = side.endpoint.now();
                let begun = *self.begun.get_or_insert(now);
                self.outcome.elapsed = now - begun;
            }
            side.post_slot(slot)?;
            let last = self.next.checked_sub(1);
            if let Some(last) = last.filter(|last| number == low(*last)) {
                self.outcome.lost += u64::from(!is_next);
                self.check.send(side, last)?;
            }
        }
        Ok(polled)
    }

    /// No more messages than these come.
    pub fn stop_at(&mut self, messages: u64) {
        let plan = &mut self.check.plan;
        plan.iterations = plan.iterations.min(messages);
    }

    /// Fails if messages are missing.
    ///
    /// # Errors
    /// The number of missing messages.
    pub fn check_all(&self) -> Result<()> {
        let missing = self.check.plan.iterations.checked_sub(self.next);
        let missing = missing.context("more messages than there are")?;
        ensure!(missing == 0, "{missing} messages have not arrived");
        Ok(())
    }

    /// What it saw; `lost` counts the repeated messages.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        Outcome {
            iterations: self.next,
            ..self.outcome
        }
    }
}
