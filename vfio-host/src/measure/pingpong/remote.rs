//! The ping-pong of one side of a reliable connection, whose peer is in another
//! process.
//!
//! Neither process sees both memories, so each message signals its arrival: a SEND does so by
//! itself, a WRITE carries immediate data, and for a READ both sides send an empty message, when
//! the memory is ready and when it was read.

use anyhow::{Result, bail, ensure};
use e810::Wc;
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;

use super::{MESSAGE_LIMIT, Outcome, PingpongEndpoint, Plan, UNREACHED, Watch};
use crate::handshake::Role;
use crate::measure::op::PingpongOp;
use crate::measure::payload::{self, Direction};
use crate::output::progress::Progress;

/// What messages contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Payload made from seed, number and direction.
    Own,
    /// The same, or what this side has sent last: `ibv_rc_pingpong` has one buffer for both
    /// directions, so it sends what it received. The first message of its client is the buffer's
    /// initial content.
    Echoed,
}

/// The byte that `ibv_rc_pingpong` fills its buffer with.
const FILLED: u8 = 0x7b;
/// With `-c`, it puts a zero at the beginning of each page, sends it, and checks it at the end.
const PAGE: usize = 4096;

/// One side and its progress.
struct RemotePingpong<'a, P: HostPlatform> {
    side: &'a mut PingpongEndpoint<P>,
    plan: &'a Plan,
    content: Content,
    watch: Watch<'a>,
    sent: u32,
    received: u32,
    expected: Vec<u8>,
    got: Vec<u8>,
    start: Ns,
    outcome: &'a mut Outcome,
}

impl<'a, P: HostPlatform> RemotePingpong<'a, P> {
    fn new(
        side: &'a mut PingpongEndpoint<P>,
        plan: &'a Plan,
        content: Content,
        watch: Watch<'a>,
        outcome: &'a mut Outcome,
    ) -> Self {
        if plan.op == PingpongOp::Read {
            side.expect(0);
        }
        let scratch = vec![0; plan.size as usize];
        Self {
            start: side.endpoint.now(),
            side,
            plan,
            content,
            watch,
            sent: 0,
            received: 0,
            expected: scratch.clone(),
            got: scratch,
            outcome,
        }
    }

    /// Polls until `sent` more requests are completed and `received` more messages have arrived.
    fn until(&mut self, sent: u32, received: u32) -> Result<()> {
        self.until_or(sent, received, &|| false).map(drop)
    }

    /// The same, unless `is_over` says in an empty turn that they do not come; returns whether they
    /// came.
    fn until_or(&mut self, sent: u32, received: u32, is_over: &dyn Fn() -> bool) -> Result<bool> {
        (self.watch)()?;
        let start = self.side.endpoint.now();
        self.outcome.elapsed = start - self.start;
        let mut wcs = [Wc::default(); 8];
        while self.sent < sent || self.received < received {
            let polled = self.side.endpoint.poll(&mut wcs)?;
            for wc in wcs.iter().take(polled) {
                let (mut send, mut receive) = (1, 1);
                self.side.take(wc, &mut send, &mut receive)?;
                self.sent += 1 - send;
                self.received += 1 - receive;
            }
            if polled == 0 {
                let waited = self.side.endpoint.now() - start;
                ensure!(
                    waited < MESSAGE_LIMIT,
                    "no completion after {MESSAGE_LIMIT}: {UNREACHED}"
                );
                (self.watch)()?;
                if is_over() {
                    return Ok(false);
                }
                self.side.endpoint.sleep()?;
            }
        }
        self.sent -= sent;
        self.received -= received;
        Ok(true)
    }

    fn fill(&mut self, number: u64, direction: Direction) -> Result<()> {
        payload::fill(&mut self.expected, self.plan.seed, number, direction);
        if self.content == Content::Echoed {
            clear_first_of_pages(&mut self.expected);
        }
        self.side.outgoing()?.write(0, &self.expected)?;
        self.side.put_key()
    }

    /// Replaces the key that the peer's message invalidated, if messages invalidate keys.
    fn renew_key(&mut self) -> Result<()> {
        match self.side.renew_key()? {
            true => self.until(1, 0),
            false => Ok(()),
        }
    }

    /// Verifies what has arrived.
    fn check(&mut self, number: u64, direction: Direction) -> Result<()> {
        if self.content == Content::Echoed {
            return self.check_echoed(number, direction);
        }
        let (memory, skip) = (self.side.incoming()?, self.side.key_bytes());
        let (expected, got, seed) = (&mut self.expected, &mut self.got, self.plan.seed);
        let found = payload::first_difference(memory, expected, got, seed, number, direction, skip);
        match self.side.take_key()? && found.is_none() {
            true => self.outcome.verified += 1,
            false => self.outcome.errors += 1,
        }
        Ok(())
    }

    /// The same, for a peer that may send back what it received.
    fn check_echoed(&mut self, number: u64, direction: Direction) -> Result<()> {
        self.side.incoming()?.read(0, &mut self.got)?;
        clear_first_of_pages(&mut self.got);
        // What this side has sent last, if anything.
        let echoed = match direction {
            Direction::Request => number.checked_sub(1),
            Direction::Response => Some(number),
        };
        let back = match direction {
            Direction::Request => Direction::Response,
            Direction::Response => Direction::Request,
        };
        let mut is_right = false;
        for (number, direction) in [(Some(number), direction), (echoed, back)] {
            match number {
                Some(number) => {
                    payload::fill(&mut self.expected, self.plan.seed, number, direction);
                }
                None => self.expected.fill(FILLED),
            }
            clear_first_of_pages(&mut self.expected);
            is_right |= self.expected == self.got;
        }
        match is_right {
            true => self.outcome.verified += 1,
            false => self.outcome.errors += 1,
        }
        Ok(())
    }

    /// Asks once.
    fn ask(&mut self, number: u64) -> Result<()> {
        let op = self.plan.op;
        if op == PingpongOp::Read {
            self.until(0, 1)?;
        } else {
            self.fill(number, Direction::Request)?;
        }
        let posted = self.side.endpoint.now();
        match op {
            PingpongOp::Send | PingpongOp::SendInv => {
                self.side.post(op, number)?;
                self.until(1, 1)?;
                let round_trip = self.side.endpoint.now() - posted;
                self.outcome.latencies.add(round_trip.0 / 2);
                self.outcome.messages += 2;
            }
            PingpongOp::Write => {
                self.side.post_write_imm(number)?;
                self.until(1, 0)?;
                let took = self.side.endpoint.now() - posted;
                self.outcome.latencies.add(took.0);
                self.until(0, 1)?;
                self.outcome.messages += 2;
            }
            PingpongOp::Read => {
                self.side.post(op, number)?;
                self.until(1, 0)?;
                let took = self.side.endpoint.now() - posted;
                self.outcome.latencies.add(took.0);
                self.outcome.messages += 1;
            }
        }
        self.check(number, Direction::Response)?;
        self.side.post_receives()?;
        self.renew_key()?;
        if op == PingpongOp::Read {
            self.side.post_sign(number)?;
            self.until(1, 0)?;
        }
        Ok(())
    }

    /// Answers once, unless `is_over` says that no more messages come; returns whether it did. For
    /// READ, nothing arrives that could be verified.
    fn answer(&mut self, number: u64, is_over: &dyn Fn() -> bool) -> Result<bool> {
        let op = self.plan.op;
        if op == PingpongOp::Read {
            self.fill(number, Direction::Response)?;
            self.side.post_sign(number)?;
            if !self.until_or(1, 1, is_over)? {
                return Ok(false);
            }
            self.side.post_receives()?;
            self.outcome.messages += 1;
            return Ok(true);
        }
        if !self.until_or(0, 1, is_over)? {
            return Ok(false);
        }
        self.check(number, Direction::Request)?;
        self.side.post_receives()?;
        self.renew_key()?;
        self.fill(number, Direction::Response)?;
        match op {
            PingpongOp::Send | PingpongOp::SendInv => self.side.post(op, number)?,
            PingpongOp::Write => self.side.post_write_imm(number)?,
            PingpongOp::Read => bail!("a READ is not answered"),
        }
        self.until(1, 0)?;
        self.outcome.messages += 2;
        Ok(true)
    }
}

fn clear_first_of_pages(bytes: &mut [u8]) {
    bytes.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
}

/// Posts the receives of a side before its peer begins.
///
/// # Errors
/// The queue refuses them.
pub fn prepare<P: HostPlatform>(side: &mut PingpongEndpoint<P>) -> Result<()> {
    side.post_receives()?;
    side.register_first_key()
}

/// Runs the initiator or the responder. The initiator calls `is_over` before each message, the
/// responder while it waits for one; it returns whether message `number` no longer comes. `outcome`
/// has what was done, even after an error.
///
/// # Errors
/// As [`run`](super::run).
pub fn run<P: HostPlatform>(
    (role, content): (Role, Content),
    side: &mut PingpongEndpoint<P>,
    plan: &Plan,
    progress: &mut Progress,
    watch: Watch<'_>,
    (is_over, outcome): (&dyn Fn(u64) -> bool, &mut Outcome),
) -> Result<()> {
    let mut pingpong = RemotePingpong::new(side, plan, content, watch, outcome);
    let start = pingpong.start;
    for number in 0..plan.iterations {
        match role {
            Role::Client => {
                if is_over(number) || plan.is_over(start, || pingpong.side.endpoint.now()) {
                    break;
                }
                pingpong.ask(number)?;
            }
            Role::Server => {
                if !pingpong.answer(number, &|| is_over(number))? {
                    break;
                }
            }
        }
        pingpong.outcome.iterations += 1;
        plan.show(progress, number + 1);
    }
    pingpong.outcome.elapsed = pingpong.side.endpoint.now() - start;
    Ok(())
}
