//! The side that measures.

use anyhow::{Result, ensure};
use e810_hal::Ns;

use super::endpoint::{Completed, Post};
use super::pace::Pace;
use super::{PerfEndpoint, Plan, Run, Spread, Test};
use crate::measure::latency::Latencies;
use crate::measure::op::Op;
use crate::measure::queues::Queues;

/// A queue pair of a bandwidth run.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Messages in all.
    goal: u64,
    posted: u64,
    completed: u64,
}

/// The side that measures, in a run of one size.
pub struct Client<'a> {
    plan: &'a Plan,
    size: u32,
    flows: Vec<Flow>,
    begun: Option<Ns>,
    ended: Ns,
    posted: u64,
    completed: u64,
    pace: Pace,
    samples: Latencies,
    posted_at: Ns,
    /// A message is in flight whose answer has not come.
    waiting: bool,
    answered: bool,
    verified: u64,
    errors: u64,
}

impl<'a> Client<'a> {
    /// Prepares memory and receives for messages of `size` bytes.
    ///
    /// # Errors
    /// What the queues or the memory refused.
    pub fn prepare<Q: Queues>(
        end: &mut PerfEndpoint<Q>,
        plan: &'a Plan,
        size: u32,
    ) -> Result<Self> {
        for place in 0..plan.places() {
            end.fill(plan, place, size, 0)?;
            end.wipe(place, size)?;
        }
        if plan.test == Test::Latency && plan.op == Op::Send {
            end.post_receive(0, plan.place(0, 0), size)?;
        }
        Ok(Self {
            plan,
            size,
            flows: vec![
                Flow {
                    goal: plan.iterations,
                    ..Flow::default()
                };
                plan.qps
            ],
            begun: None,
            ended: Ns(0),
            posted: 0,
            completed: 0,
            pace: Pace::new(),
            samples: Latencies::default(),
            posted_at: Ns(0),
            waiting: false,
            answered: false,
            verified: 0,
            errors: 0,
        })
    }

    /// Runs a turn; returns whether anything happened.
    ///
    /// # Errors
    /// A completion that failed, an asynchronous error, or a refused request.
    pub fn turn<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>) -> Result<bool> {
        match self.plan.test {
            Test::Latency => self.one_message(end),
            Test::Bandwidth => self.stream(end),
        }
    }

    /// Whether all messages are done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let through = |flow: &Flow| flow.completed == flow.goal;
        self.flows.iter().all(through) && !self.waiting
    }

    /// Posts no more messages; the run ends with those in flight.
    pub fn stop(&mut self) {
        for flow in &mut self.flows {
            flow.goal = flow.posted;
        }
    }

    /// Messages posted on each queue pair, if the run was cut short.
    #[must_use]
    pub fn cut_short(&self) -> Option<Vec<u64>> {
        let short = |flow: &Flow| flow.goal < self.plan.iterations;
        let posted = self.flows.iter().map(|flow| flow.posted);
        self.flows.iter().any(short).then(|| posted.collect())
    }

    /// Completed messages of all queue pairs.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.completed
    }

    /// Ends the run when its time is over; returns whether it is.
    fn is_over(&mut self, now: Ns) -> bool {
        let Some((begun, duration)) = self.begun.zip(self.plan.duration) else {
            return false;
        };
        let is_over = now - begun >= duration;
        if is_over {
            self.stop();
        }
        is_over
    }

    fn post_of(&self, qp: usize, from: u64, count: u32) -> Post {
        Post {
            qp,
            op: self.plan.op,
            from,
            count,
            size: self.size,
        }
    }

    /// Puts the message in its place, which is its own if each message is verified.
    fn make_message<Q: Queues>(
        &self,
        end: &mut PerfEndpoint<Q>,
        qp: usize,
        number: u64,
    ) -> Result<()> {
        if !self.plan.check {
            return Ok(());
        }
        let place = self.plan.place(qp, number);
        match self.plan.op {
            // The peer's memory has payload in each place from the start.
            Op::Read => end.wipe(place, self.size),
            Op::Send | Op::Write => {
                end.fill(self.plan, place, self.size, self.plan.content(qp, number))
            }
        }
    }

    fn one_message<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>) -> Result<bool> {
        let (number, goal) = self
            .flows
            .first()
            .map_or((0, 0), |flow| (flow.posted, flow.goal));
        if !self.waiting {
            if number == goal || self.is_over(end.queues.now()) {
                return Ok(false);
            }
            self.make_message(end, 0, number)?;
            if self.plan.op == Op::Write {
                mark(end, self.plan.place(0, number), self.size, number)?;
            }
            self.posted_at = end.queues.now();
            self.begun.get_or_insert(self.posted_at);
            end.post(self.plan, self.post_of(0, number, 1))?;
            (self.waiting, self.answered) = (true, false);
            if let Some(flow) = self.flows.first_mut() {
                flow.posted += 1;
            }
            return Ok(true);
        }
        let number = number.saturating_sub(1);
        let (mut sent, mut received) = (None, None);
        let polled = end.turn(&mut |completed| match completed {
            Completed::Sent { upto, .. } => sent = Some(upto),
            Completed::Received { bytes, .. } => received = Some(bytes),
        })?;
        if let (Some(upto), Some(flow)) = (sent, self.flows.first_mut()) {
            flow.completed = upto;
        }
        let place = self.plan.place(0, number);
        let is_answered = match self.plan.op {
            Op::Send => received.is_some(),
            Op::Write => is_marked(end, place, self.size, number)?,
            Op::Read => sent.is_some(),
        };
        if is_answered && !self.answered {
            self.answered = true;
            self.ended = end.queues.now();
            let took = (self.ended - self.posted_at).0;
            // A READ is a round trip by itself.
            let ways = if self.plan.op == Op::Read { 1 } else { 2 };
            self.samples.add(took / ways);
            self.completed += 1;
            if let Some(bytes) = received {
                ensure!(
                    bytes == self.size,
                    "{bytes} bytes arrived instead of {}",
                    self.size
                );
                let next = self.plan.place(0, number + 1);
                if self.plan.check {
                    self.verify(end, place, number, None)?;
                }
                if number + 1 < goal {
                    end.post_receive(0, next, self.size)?;
                }
            } else if self.plan.check {
                let last = (self.plan.op == Op::Write).then_some(marker(number));
                self.verify(end, place, number, last)?;
            }
        }
        let completed = self.flows.first().map_or(0, |flow| flow.completed);
        if self.answered && completed == number + 1 {
            self.waiting = false;
        }
        Ok(polled > 0 || is_answered)
    }

    fn verify<Q: Queues>(
        &mut self,
        end: &mut PerfEndpoint<Q>,
        place: usize,
        number: u64,
        last: Option<u8>,
    ) -> Result<()> {
        let content = match self.plan.op {
            Op::Read => 0,
            Op::Send | Op::Write => self.plan.content(0, number),
        };
        match end.is_right(self.plan, place, self.size, content, last)? {
            true => self.verified += 1,
            false => self.errors += 1,
        }
        Ok(())
    }

    fn stream<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>) -> Result<bool> {
        let mut posted = false;
        for qp in 0..self.flows.len() {
            let Some(flow) = self.flows.get(qp).copied() else {
                continue;
            };
            let room = u64::from(self.plan.depth) - (flow.posted - flow.completed);
            let list = u64::from(self.plan.post_list).min(flow.goal - flow.posted);
            if list == 0 || room < list {
                continue;
            }
            if self.plan.duration.is_some() && self.is_over(end.queues.now()) {
                break;
            }
            for number in flow.posted..flow.posted + list {
                self.make_message(end, qp, number)?;
            }
            let now = end.queues.now();
            self.begun.get_or_insert(now);
            self.posted += list;
            self.pace.post(now, self.posted);
            // At most the post list: 32 bits.
            end.post(self.plan, self.post_of(qp, flow.posted, list as u32))?;
            if let Some(flow) = self.flows.get_mut(qp) {
                flow.posted += list;
            }
            posted = true;
        }
        let mut done = Vec::new();
        let flows = &mut self.flows;
        let polled = end.turn(&mut |completed| {
            if let Completed::Sent { qp, upto } = completed
                && let Some(flow) = flows.get_mut(qp)
            {
                done.push((qp, flow.completed..upto));
                flow.completed = upto;
            }
        })?;
        if !done.is_empty() {
            self.count(end, &done)?;
        }
        Ok(posted || polled > 0)
    }

    /// Counts completions.
    fn count<Q: Queues>(
        &mut self,
        end: &mut PerfEndpoint<Q>,
        done: &[(usize, std::ops::Range<u64>)],
    ) -> Result<()> {
        self.ended = end.queues.now();
        for (qp, numbers) in done {
            self.completed += numbers.end - numbers.start;
            if self.plan.check && self.plan.op == Op::Read {
                for number in numbers.clone() {
                    self.verify(end, self.plan.place(*qp, number), number, None)?;
                }
            }
        }
        self.pace.complete(self.ended, self.completed);
        Ok(())
    }

    /// Verifies what is left, and returns the result of the run.
    ///
    /// # Errors
    /// Memory that cannot be read.
    pub fn finish<Q: Queues>(mut self, end: &mut PerfEndpoint<Q>) -> Result<Run> {
        let latency = self.plan.test == Test::Latency;
        let arrives = self.plan.op == Op::Read || latency;
        if arrives && !self.plan.check && self.completed > 0 {
            let number = self.flows.first().map_or(0, |flow| flow.goal);
            let number = number.saturating_sub(1);
            let marked = latency && self.plan.op == Op::Write;
            self.verify(end, 0, number, marked.then_some(marker(number)))?;
        }
        Ok(self.so_far())
    }

    /// The result so far of a run that failed, without the verification at the end.
    #[must_use]
    pub fn so_far(self) -> Run {
        Run {
            histogram: self.samples.histogram(),
            latency: Spread::of(self.samples),
            elapsed: self.begun.map_or(Ns(0), |begun| self.ended - begun),
            messages: self.completed,
            iterations: self.completed / self.plan.qps.max(1) as u64,
            best_part: self.pace.best(),
            verified: self.verified,
            errors: self.errors,
        }
    }
}

/// The last byte of a written message, which shows that it has arrived: it differs from the byte
/// before.
pub(super) const fn marker(number: u64) -> u8 {
    (number % 255) as u8 + 1
}

/// Marks a message before it is written.
pub(super) fn mark<Q: Queues>(
    end: &PerfEndpoint<Q>,
    place: usize,
    size: u32,
    number: u64,
) -> Result<()> {
    let memory = end.outgoing(place, size)?;
    Ok(memory.write(size as usize - 1, &[marker(number)])?)
}

/// Whether message `number` was written here.
pub(super) fn is_marked<Q: Queues>(
    end: &PerfEndpoint<Q>,
    place: usize,
    size: u32,
    number: u64,
) -> Result<bool> {
    let mut last = [0];
    end.incoming(place, size)?
        .read(size as usize - 1, &mut last)?;
    end.queues.sync_from_device();
    Ok(last == [marker(number)])
}
