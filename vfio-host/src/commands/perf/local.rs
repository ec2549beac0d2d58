//! A run with both sides in this process, on two threads or in turn on one.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

use anyhow::{Context, Result};
use e810_backends::interrupts::HostPlatform;

use super::rows::Sink;
use super::{Measure, Patience};
use crate::measure::endpoint::Endpoint;
use crate::measure::perf::{Client, PerfEndpoint, Run, Server, Test};
use crate::pci_functions::workload::RunContext;

/// What the client's thread tells the server's.
#[derive(Debug, Default)]
struct FromClient {
    /// How many messages come on each queue pair, if the run is cut short.
    posted: Mutex<Option<Vec<u64>>>,
    has_posted: AtomicBool,
    /// Everything that the client has posted is completed, and `posted` is final.
    is_through: AtomicBool,
    has_failed: AtomicBool,
}

impl FromClient {
    fn cut_short(&self, posted: Vec<u64>) {
        let mut place = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(posted);
        self.has_posted.store(true, Ordering::Release);
    }

    /// Takes what [`FromClient::cut_short`] set.
    fn posted(&self) -> Option<Vec<u64>> {
        if !self.has_posted.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut place = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }
}

impl<S: Sink> Measure<'_, S> {
    /// A run of one size.
    pub(super) fn both<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut PerfEndpoint<Endpoint<P>>; 2],
        size: u32,
        context: RunContext<'_>,
    ) -> Result<Run> {
        let mut server = Server::prepare(answer, self.plan, size)?;
        let mut client = Client::prepare(ask, self.plan, size)?;
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        // Latency is lower when nothing crosses between processors. Virtual time belongs to one
        // thread.
        let threads =
            self.plan.test == Test::Bandwidth && processors > 1 && !self.pair.virtual_time;
        let sides = [&mut *ask, &mut *answer];
        let done = match threads {
            true => self.on_two_threads(sides, &mut client, &mut server, size, context),
            false => self.in_turn(sides, &mut client, &mut server, size, context),
        };
        if let Err(error) = done {
            let there = server.so_far();
            let mut run = client.so_far();
            run.verified += there.verified;
            run.errors += there.errors;
            return Err(self.cut(size, &run, error));
        }
        let there = server.finish(answer)?;
        let mut run = client.finish(ask)?;
        run.verified += there.verified;
        run.errors += there.errors;
        Ok(run)
    }

    /// Runs both sides in turn.
    fn in_turn<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut PerfEndpoint<Endpoint<P>>; 2],
        client: &mut Client<'_>,
        server: &mut Server<'_>,
        size: u32,
        context: RunContext<'_>,
    ) -> Result<()> {
        let mut patience = Patience::default();
        while !client.is_done() || !server.is_done() {
            if self.stop.is_asked() {
                client.stop();
            }
            // Tell the other side at once that nothing more comes.
            if let Some(posted) = client.cut_short() {
                server.stop_at(&posted);
            }
            let asked = client.turn(ask).context("on the initiator's side")?;
            let answered = server.turn(answer).context("on the responder's side")?;
            patience.turn(ask, asked || answered, context.watch)?;
            if patience.is_due() {
                self.rows.at(size, client.completed());
            }
            if !asked && !answered {
                ask.queues.relax();
                answer.queues.relax();
            }
        }
        Ok(())
    }

    /// Runs the server on a thread and the client on this one. A failure of one ends both.
    fn on_two_threads<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut PerfEndpoint<Endpoint<P>>; 2],
        client: &mut Client<'_>,
        server: &mut Server<'_>,
        size: u32,
        context: RunContext<'_>,
    ) -> Result<()> {
        let from_client = FromClient::default();
        thread::scope(|scope| {
            let serving = scope.spawn(|| serve(answer, server, &from_client));
            let has_served = || serving.is_finished();
            let measured = self.measure(ask, client, size, context, &from_client, has_served);
            if measured.is_err() {
                from_client.has_failed.store(true, Ordering::Release);
            }
            let served = serving.join();
            served
                .unwrap_or_else(|panicked| panic::resume_unwind(panicked))
                .context("on the responder's side")?;
            measured.context("on the initiator's side")
        })
    }

    /// Runs the client until both sides are done or the other thread has failed.
    fn measure<P: HostPlatform>(
        &self,
        ask: &mut PerfEndpoint<Endpoint<P>>,
        client: &mut Client<'_>,
        size: u32,
        context: RunContext<'_>,
        from_client: &FromClient,
        has_served: impl Fn() -> bool,
    ) -> Result<()> {
        let mut patience = Patience::default();
        let mut is_said = false;
        while !has_served() {
            if self.stop.is_asked() {
                client.stop();
            }
            let happened = client.turn(ask)?;
            if !is_said && let Some(posted) = client.cut_short() {
                from_client.cut_short(posted);
                is_said = true;
            }
            if client.is_done() {
                from_client.is_through.store(true, Ordering::Release);
            }
            patience.turn(ask, happened, context.watch)?;
            if patience.is_due() {
                self.rows.at(size, client.completed());
            }
            if !happened {
                ask.queues.sleep()?;
            }
        }
        Ok(())
    }
}

/// Runs the server until it has everything that the client has posted and the client has all its
/// completions.
fn serve<P: HostPlatform>(
    answer: &mut PerfEndpoint<Endpoint<P>>,
    server: &mut Server<'_>,
    from_client: &FromClient,
) -> Result<()> {
    while !from_client.has_failed.load(Ordering::Acquire) {
        // In this order: `posted` is set before the client is done.
        let is_through = from_client.is_through.load(Ordering::Acquire);
        if let Some(posted) = from_client.posted() {
            server.stop_at(&posted);
        }
        if is_through && server.is_done() {
            break;
        }
        if !server.turn(answer)? {
            answer.queues.sleep()?;
        }
    }
    Ok(())
}
