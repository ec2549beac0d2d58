//! A ping-pong between two functions: connect, exchange, verify every byte.
//!
//! It is generic over the platform, so that every backend runs the same exchange. One thread drives
//! both sides: it posts, then polls both completion queues and both event queues until the message
//! has arrived.

pub mod datagram;
mod endpoint;
mod invalidated_key;
pub mod remote;

use anyhow::{Context, Result, ensure};
use e810::{Stats, Wc};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;

use crate::measure::latency::Latencies;
use crate::measure::op::PingpongOp;
use crate::measure::payload::{self, Direction};
use crate::output::progress::Progress;
use crate::stop::Stop;

pub use endpoint::{PingpongEndpoint, PingpongEndpointPlan};
pub use invalidated_key::KEY_BYTES;

/// What to exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The operation.
    pub op: PingpongOp,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Messages (exchanges of one message each way, except for `read`).
    pub iterations: u64,
    /// Duration of the exchange: a message that would begin later is not sent.
    pub duration: Option<Ns>,
    /// Seed of the payload.
    pub seed: u64,
}

impl Plan {
    /// Shows how many messages are done.
    pub(crate) fn show(&self, progress: &mut Progress, done: u64) {
        progress.at(|| match self.duration {
            Some(time) => format!("{done} messages, {time} in all"),
            None => format!("{done} of {} messages", self.iterations),
        });
    }

    /// Whether the time of an exchange that began at `start` is over.
    pub(crate) fn is_over(&self, start: Ns, now: impl FnOnce() -> Ns) -> bool {
        self.duration
            .is_some_and(|duration| now() - start >= duration)
    }
}

/// What was exchanged.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Iterations; fewer than were asked for if the exchange was cut short.
    pub iterations: u64,
    /// Iterations whose every byte was as expected, both ways.
    pub verified: u64,
    /// Iterations with a difference or a failed completion.
    pub errors: u64,
    /// One sample per iteration: half the round trip for `send` and `send-inv`, post to completion
    /// for `write` and `read`.
    pub latencies: Latencies,
    /// Messages that crossed the wire carrying payload.
    pub messages: u64,
    /// Datagrams that were not answered in time and sent again.
    pub lost: u64,
    /// How much counters have grown, if asked for.
    pub counters: Vec<Stats>,
    /// Interrupts taken, with `--events`.
    pub interrupts: u64,
    /// Time of the exchange alone; if it failed, up to the message before.
    pub elapsed: Ns,
}

/// Time limit of one message. It is far above any retry time of the transport; a real failure
/// arrives as an event first.
pub(crate) const MESSAGE_LIMIT: Ns = Ns::from_ms(10_000);

/// One of this many empty turns reads the clock.
const CLOCK_EVERY: u32 = 16;

/// What to check when nothing comes from a peer in another process.
pub(crate) const UNREACHED: &str = "check that packets reach the peer, which `e810 ping` from here shows, and that its queue pair is ready; a firewall there may drop UDP port 4791";

/// Called at least once per message and in each empty turn. An error ends the exchange cleanly.
pub type Watch<'a> = &'a dyn Fn() -> Result<()>;

/// Runs `plan` between two sides with a reliable connection. `outcome` has what was done, even
/// after an error.
///
/// # Errors
/// A completion that failed, an asynchronous error, a message that did not arrive, or the error of
/// `watch`. Differences in payload are counted, not returned.
pub fn run<P: HostPlatform>(
    [ask, answer]: [&mut PingpongEndpoint<P>; 2],
    plan: &Plan,
    progress: &mut Progress,
    watch: Watch<'_>,
    (stop, outcome): (&Stop, &mut Outcome),
) -> Result<()> {
    let size = plan.size as usize;
    let (mut expected, mut got) = (vec![0u8; size], vec![0u8; size]);
    let mut scratch = vec![0u8; size];
    if matches!(plan.op, PingpongOp::Send | PingpongOp::SendInv) {
        for side in [&mut *ask, &mut *answer] {
            side.post_receives()?;
            side.register_first_key()?;
        }
    }
    log::info!("connected; {} messages to come", plan.iterations);
    let mut want = Want::NOTHING;
    let start = ask.endpoint.now();
    for number in 0..plan.iterations {
        if stop.is_asked() || plan.is_over(start, || ask.endpoint.now()) {
            break;
        }
        let mut check = |side: &mut PingpongEndpoint<P>, direction| -> Result<bool> {
            let is_right = payload::first_difference(
                side.incoming()?,
                &mut expected,
                &mut got,
                plan.seed,
                number,
                direction,
                side.key_bytes(),
            )
            .is_none();
            Ok(side.take_key()? && is_right)
        };
        payload::fill(&mut scratch, plan.seed, number, Direction::Request);
        let good;
        match plan.op {
            PingpongOp::Send | PingpongOp::SendInv => {
                exchange([ask, answer], watch, &mut want, |want| want.ask_sent == 0)?;
                ask.outgoing()?.write(0, &scratch)?;
                ask.put_key()?;
                payload::fill(&mut scratch, plan.seed, number, Direction::Response);
                // A side knows a full round trip later that its last message has arrived. Only a
                // side that writes the next message into the same place waits for that.
                let is_written = want.answer_sent == 0;
                if is_written {
                    answer.outgoing()?.write(0, &scratch)?;
                }
                let posted = ask.endpoint.now();
                outcome.elapsed = posted - start;
                ask.post(plan.op, number)?;
                want.ask_sent += 1;
                want.answer_received += 1;
                exchange([ask, answer], watch, &mut want, |want| {
                    want.answer_received == 0
                })?;
                let there = check(answer, Direction::Request)?;
                answer.post_receives()?;
                want.answer_sent += u32::from(answer.renew_key()?);
                exchange([ask, answer], watch, &mut want, |want| {
                    want.answer_sent == 0
                })?;
                if !is_written {
                    answer.outgoing()?.write(0, &scratch)?;
                }
                answer.put_key()?;
                answer.post(plan.op, number)?;
                want.answer_sent += 1;
                want.ask_received += 1;
                exchange([ask, answer], watch, &mut want, |want| {
                    want.ask_received == 0
                })?;
                let round_trip = ask.endpoint.now() - posted;
                outcome.latencies.add(round_trip.0 / 2);
                good = check(ask, Direction::Response)? && there;
                ask.post_receives()?;
                want.ask_sent += u32::from(ask.renew_key()?);
                outcome.messages += 2;
            }
            PingpongOp::Write => {
                ask.outgoing()?.write(0, &scratch)?;
                let posted = ask.endpoint.now();
                outcome.elapsed = posted - start;
                ask.post(plan.op, number)?;
                exchange_all([ask, answer], watch, Want::ASK_SENT)?;
                outcome.latencies.add((ask.endpoint.now() - posted).0);
                let there = check(answer, Direction::Request)?;
                payload::fill(&mut scratch, plan.seed, number, Direction::Response);
                answer.outgoing()?.write(0, &scratch)?;
                answer.post(plan.op, number)?;
                exchange_all([ask, answer], watch, Want::ANSWER_SENT)?;
                good = check(ask, Direction::Response)? && there;
                outcome.messages += 2;
            }
            PingpongOp::Read => {
                answer.outgoing()?.write(0, &scratch)?;
                let posted = ask.endpoint.now();
                outcome.elapsed = posted - start;
                ask.post(plan.op, number)?;
                exchange_all([ask, answer], watch, Want::ASK_SENT)?;
                outcome.latencies.add((ask.endpoint.now() - posted).0);
                good = check(ask, Direction::Request)?;
                outcome.messages += 1;
            }
        }
        if good {
            outcome.verified += 1;
        } else {
            outcome.errors += 1;
        }
        outcome.iterations += 1;
        plan.show(progress, number + 1);
    }
    exchange([ask, answer], watch, &mut want, Want::is_nothing)?;
    outcome.elapsed = ask.endpoint.now() - start;
    Ok(())
}

/// Completions still wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Want {
    ask_sent: u32,
    ask_received: u32,
    answer_sent: u32,
    answer_received: u32,
}

impl Want {
    const NOTHING: Self = Self {
        ask_sent: 0,
        ask_received: 0,
        answer_sent: 0,
        answer_received: 0,
    };
    /// The initiator's request.
    const ASK_SENT: Self = Self {
        ask_sent: 1,
        ..Self::NOTHING
    };
    /// The responder's request.
    const ANSWER_SENT: Self = Self {
        answer_sent: 1,
        ..Self::NOTHING
    };
    fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }
}

/// Polls both sides until the wanted completions are there.
fn exchange_all<P: HostPlatform>(
    sides: [&mut PingpongEndpoint<P>; 2],
    watch: Watch<'_>,
    mut want: Want,
) -> Result<()> {
    exchange(sides, watch, &mut want, Want::is_nothing)
}

/// Polls both sides until `is_done` accepts the completions that are left.
fn exchange<P: HostPlatform>(
    [ask, answer]: [&mut PingpongEndpoint<P>; 2],
    watch: Watch<'_>,
    want: &mut Want,
    is_done: impl Fn(&Want) -> bool,
) -> Result<()> {
    watch()?;
    // Reading the clock costs a tenth of a message, so few empty turns do it.
    let (mut empty, mut since) = (0_u32, None);
    let mut wcs = [Wc::default(); 8];
    while !is_done(want) {
        let polled = ask.endpoint.poll(&mut wcs)?;
        for wc in wcs.iter().take(polled) {
            ask.take(wc, &mut want.ask_sent, &mut want.ask_received)
                .context("on the initiator's side")?;
        }
        let polled_there = answer.endpoint.poll(&mut wcs)?;
        for wc in wcs.iter().take(polled_there) {
            answer
                .take(wc, &mut want.answer_sent, &mut want.answer_received)
                .context("on the responder's side")?;
        }
        if polled + polled_there == 0 {
            if empty % CLOCK_EVERY == CLOCK_EVERY - 1 {
                let now = ask.endpoint.now();
                let waited = now - *since.get_or_insert(now);
                ensure!(
                    waited < MESSAGE_LIMIT,
                    "no completion after {MESSAGE_LIMIT}: check that the peer's queue pair is in RTS and that packets reach it"
                );
            }
            empty = empty.wrapping_add(1);
            watch()?;
            ask.endpoint.relax();
            answer.endpoint.relax();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
