//! The side that responds.

use anyhow::{Result, ensure};
use e810_hal::Ns;

use super::client::{is_marked, mark, marker};
use super::endpoint::{Completed, Post};
use super::{PerfEndpoint, Plan, Run, Test};
use crate::measure::op::Op;
use crate::measure::queues::Queues;

/// The side that answers, in a run of one size. For READs, and for WRITEs without an answer, the
/// device does everything.
pub struct Server<'a> {
    plan: &'a Plan,
    size: u32,
    /// Messages to expect, by queue pair.
    goals: Vec<u64>,
    /// Messages received, by queue pair.
    received: Vec<u64>,
    sent: u64,
    verified: u64,
    errors: u64,
}

impl<'a> Server<'a> {
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
        if plan.op == Op::Send {
            let first = plan.iterations.min(plan.depth.into());
            for qp in 0..plan.qps {
                for number in 0..first {
                    end.post_receive(qp, plan.place(qp, number), size)?;
                }
            }
        }
        Ok(Self {
            plan,
            size,
            goals: vec![plan.iterations; plan.qps],
            received: vec![0; plan.qps],
            sent: 0,
            verified: 0,
            errors: 0,
        })
    }

    /// Whether it has nothing more to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let answers = self.plan.test == Test::Latency && self.plan.op != Op::Read;
        let mut through = self.received.iter().zip(&self.goals);
        (!answers || self.sent >= self.goal(0))
            && (self.plan.op != Op::Send || through.all(|(received, goal)| received >= goal))
    }

    /// The other side has posted these numbers of messages, and no more come.
    pub fn stop_at(&mut self, posted: &[u64]) {
        for (goal, posted) in self.goals.iter_mut().zip(posted) {
            *goal = (*goal).min(*posted);
        }
    }

    fn goal(&self, qp: usize) -> u64 {
        self.goals.get(qp).copied().unwrap_or_default()
    }

    /// Runs a turn; returns whether anything happened.
    ///
    /// # Errors
    /// A completion that failed, an asynchronous error, or a refused request.
    pub fn turn<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>) -> Result<bool> {
        let mut arrived = Vec::new();
        let mut sent = None;
        let polled = end.turn(&mut |completed| match completed {
            Completed::Received { qp, bytes } => arrived.push((qp, bytes)),
            Completed::Sent { upto, .. } => sent = Some(upto),
        })?;
        self.sent = sent.unwrap_or(self.sent);
        for (qp, bytes) in arrived.iter().copied() {
            ensure!(
                bytes == self.size,
                "{bytes} bytes arrived instead of {}",
                self.size
            );
            self.receive(end, qp)?;
        }
        let mut happened = polled > 0;
        let latency = self.plan.test == Test::Latency;
        if latency && self.plan.op == Op::Write {
            happened |= self.written(end)?;
        }
        Ok(happened)
    }

    fn receive<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>, qp: usize) -> Result<()> {
        let Some(received) = self.received.get_mut(qp) else {
            return Ok(());
        };
        let number = *received;
        *received += 1;
        let place = self.plan.place(qp, number);
        if self.plan.check {
            let content = self.plan.content(qp, number);
            self.verify(end, place, content, None)?;
        }
        let next = number + u64::from(self.plan.depth);
        if next < self.plan.iterations {
            end.post_receive(qp, self.plan.place(qp, next), self.size)?;
        }
        if self.plan.test == Test::Latency {
            self.answer(end, number)?;
        }
        Ok(())
    }

    /// Whether the next message was written.
    fn written<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>) -> Result<bool> {
        let number = self.received.first().copied().unwrap_or_default();
        let place = self.plan.place(0, number);
        // The previous answer must be sent before the next one is made.
        if number == self.goal(0)
            || self.sent < number
            || !is_marked(end, place, self.size, number)?
        {
            return Ok(false);
        }
        if self.plan.check {
            let content = self.plan.content(0, number);
            self.verify(end, place, content, Some(marker(number)))?;
        }
        if let Some(received) = self.received.first_mut() {
            *received += 1;
        }
        self.answer(end, number)?;
        Ok(true)
    }

    fn answer<Q: Queues>(&mut self, end: &mut PerfEndpoint<Q>, number: u64) -> Result<()> {
        let place = self.plan.place(0, number);
        if self.plan.check {
            let content = self.plan.content(0, number);
            end.fill(self.plan, place, self.size, content)?;
        }
        if self.plan.op == Op::Write {
            mark(end, place, self.size, number)?;
        }
        let post = Post {
            qp: 0,
            op: self.plan.op,
            from: number,
            count: 1,
            size: self.size,
        };
        end.post(self.plan, post)
    }

    fn verify<Q: Queues>(
        &mut self,
        end: &mut PerfEndpoint<Q>,
        place: usize,
        content: u64,
        last: Option<u8>,
    ) -> Result<()> {
        match end.is_right(self.plan, place, self.size, content, last)? {
            true => self.verified += 1,
            false => self.errors += 1,
        }
        Ok(())
    }

    /// Verifies what is left, and returns the result of the run.
    ///
    /// # Errors
    /// Memory that cannot be read.
    pub fn finish<Q: Queues>(mut self, end: &mut PerfEndpoint<Q>) -> Result<Run> {
        let plan = self.plan;
        let last = self.goal(0).saturating_sub(1);
        let marked = (plan.test == Test::Latency && plan.op == Op::Write).then_some(marker(last));
        let streamed = plan.op == Op::Write && plan.test == Test::Bandwidth;
        if plan.check && streamed {
            // A WRITE completes nothing here, so the last ones are verified in memory.
            for qp in 0..plan.qps {
                let goal = self.goal(qp);
                for number in goal.saturating_sub(plan.depth.into())..goal {
                    let place = plan.place(qp, number);
                    self.verify(end, place, plan.content(qp, number), None)?;
                }
            }
        } else if !plan.check && plan.op != Op::Read && self.goals.iter().any(|goal| *goal > 0) {
            self.verify(end, 0, 0, marked)?;
        }
        Ok(Run {
            iterations: self.goals.iter().sum::<u64>() / plan.qps.max(1) as u64,
            ..self.so_far()
        })
    }

    /// As [`Client::so_far`](super::Client::so_far).
    #[must_use]
    pub fn so_far(self) -> Run {
        let messages = self.received.iter().sum();
        Run {
            elapsed: Ns(0),
            messages,
            iterations: messages / self.plan.qps.max(1) as u64,
            verified: self.verified,
            errors: self.errors,
            ..Run::default()
        }
    }
}
