//! Messages with a peer in another process.

use anyhow::{Result, bail};
use e810_backends::interrupts::HostPlatform;
use serde_json::{Map, Value, json};

use super::{Messages, grown};
use crate::cli::ServiceArg;
use crate::handshake::{DURATION, Done, Link, Program, Role, seconds_term};
use crate::measure::pingpong::{Outcome, PingpongEndpoint, datagram, remote};
use crate::output::progress::Progress;
use crate::pci_functions::peer::{self, PeerWatch};
use crate::pci_functions::workload::RunContext;

impl Messages<'_> {
    /// The parameters that both processes must share.
    fn terms(&self) -> Map<String, Value> {
        let duration = self.plan.duration;
        let terms = [
            ("command", json!("pingpong")),
            ("--transport", json!(self.service.name())),
            ("--op", json!(self.plan.op.name())),
            ("--size", json!(self.plan.size)),
            (
                "--iters",
                json!(duration.is_none().then_some(self.plan.iterations)),
            ),
            (DURATION, json!(duration.map(seconds_term))),
            ("--seed", json!(self.plan.seed)),
            ("--group", json!(self.group)),
        ];
        let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
        terms.into_iter().map(owned).collect()
    }

    /// Exchanges messages with a peer that is connected.
    pub(super) fn with_peer<P: HostPlatform>(
        &self,
        role: Role,
        side: &mut PingpongEndpoint<P>,
        link: &mut Link,
        context: RunContext<'_>,
    ) -> Result<()> {
        let (path, mtu, theirs) =
            peer::exchange_params(self.pair, &mut side.endpoint, link, self.terms(), &|| {
                context.idle(self.stop)
            })?;
        side.connect(theirs, path, mtu)?;
        self.use_group(role, side, &path)?;
        match self.service {
            ServiceArg::Rc => remote::prepare(side)?,
            ServiceArg::Ud => datagram::prepare(side)?,
        }
        let before = self.counters([&mut *side])?;
        let link_program = link.program();
        link.ready()?;
        let peer_watch = PeerWatch::new(context, link);
        let is_asking = role == Role::Client;
        let watch = || {
            if !is_asking {
                // The side that answers can end the run only by leaving.
                self.stop.check()?;
            }
            peer_watch.watch()
        };
        let is_over = |number| match is_asking {
            true => self.stop.is_asked(),
            false => last_of(&peer_watch).is_some_and(|posted| number >= posted),
        };
        let mut progress = Progress::new();
        let (plan, shown) = (&self.plan, &mut progress);
        let mut outcome = Outcome::default();
        let exchanged = match (self.service, role) {
            (ServiceArg::Rc, role) => {
                let content = match link_program {
                    Program::E810 => remote::Content::Own,
                    Program::IbvRcPingpong => remote::Content::Echoed,
                };
                let ended_by: (&dyn Fn(u64) -> bool, _) = (&is_over, &mut outcome);
                remote::run((role, content), side, plan, shown, &watch, ended_by)
            }
            (ServiceArg::Ud, Role::Client) => {
                let mut idle = |side: &mut PingpongEndpoint<P>| {
                    watch()?;
                    side.endpoint.sleep()
                };
                let ended_by = (self.stop, &mut outcome);
                datagram::ask(side, plan, shown, &mut idle, ended_by)
            }
            (ServiceArg::Ud, Role::Server) => {
                let mut responder = datagram::Responder::new(plan);
                let answered = answer_datagrams(&mut responder, side, &peer_watch, &watch);
                outcome = responder.outcome();
                answered
            }
        };
        progress.clear();
        outcome.interrupts = side.endpoint.interrupts();
        // A message whose payload was checked counts as done, even if its answer was not sent.
        let received = outcome.verified + outcome.errors;
        outcome.iterations = outcome.iterations.max(received);
        let ended = exchanged.and_then(|()| {
            if is_asking && outcome.iterations < self.plan.iterations {
                link.stop(vec![outcome.iterations], self.stop.stopped_by())?;
            }
            link.done(Done {
                verified: outcome.verified,
                errors: outcome.errors,
            })?;
            let theirs = link.finish()?;
            if theirs.errors > 0 {
                bail!(
                    "the peer found {} of {} messages different from what was sent",
                    theirs.errors,
                    outcome.iterations
                );
            }
            // No more messages come now.
            outcome.counters = grown(&before, &self.counters([&mut *side])?);
            Ok(link.check_complete()?)
        });
        self.done_with(outcome, context);
        ended
    }
}

/// Answers datagrams until the peer is done. The last answer may be lost, so only the peer knows
/// the end.
fn answer_datagrams<P: HostPlatform>(
    responder: &mut datagram::Responder,
    side: &mut PingpongEndpoint<P>,
    peer_watch: &PeerWatch<'_>,
    watch: &dyn Fn() -> Result<()>,
) -> Result<()> {
    while !peer_watch.peer_is_through() {
        if responder.turn(side)? == 0 {
            watch()?;
            if let Some(posted) = last_of(peer_watch) {
                responder.stop_at(posted);
            }
            side.endpoint.sleep()?;
        }
    }
    responder.check_all()
}

/// Messages that the peer has posted, if there will be no more.
fn last_of(peer_watch: &PeerWatch<'_>) -> Option<u64> {
    peer_watch.stopped()?.first().copied()
}
