//! Connections of programs: one connection manager for all, on queue pair 1, from the first call on.

use std::thread;
use std::time::{Duration, Instant};

use e810::{Control, QpAttr, QpState, Qpn};
use e810_backends::interrupts::HostPlatform;
use e810_cm::Reason;
use e810_connect::{Answer, Call, News};
use e810_hal::Ns;
use e810_node::connections::{Connections, Has, Program};

use super::objects::Objects;
use super::{Owner, ProgramId, State};
use crate::lock;
use crate::messages::{Connecting, Held, Refused, Resource};

/// The completion vector of its datagrams.
const VECTOR: u16 = 0;

type Answered = Result<Box<Answer>, e810_connect::Refused>;

const fn of(program: ProgramId) -> Program {
    Program(program.0)
}

/// What a program has more of after a call.
fn more_by(call: &Call<'_>) -> Held {
    Held {
        connections: matches!(call, Call::Connect(_)).into(),
        listeners: matches!(call, Call::Listen(_)).into(),
        ..Held::default()
    }
}

impl<P: HostPlatform> Owner<P> {
    /// A program's call of the connection manager.
    pub(super) fn connecting(
        &self,
        state: &mut State<P>,
        program: ProgramId,
        asked: &Connecting,
    ) -> Result<Answered, Refused> {
        let call = asked.call.call();
        let call = call.ok_or_else(|| Refused::unexpected("no call of the connection manager"))?;
        // One that nobody has harms nobody: some programs connect without a queue pair, and name what
        // they like. Who gets that number later ends such a connection.
        if let Some(number) = call.queue_pair()
            && self.is_qp_of_another(program, number)
        {
            return Err(Refused::no_such("queue pair", number));
        }
        self.ledger.check(program, &more_by(&call))?;
        let State {
            control,
            connections,
            ..
        } = state;
        let manager = match connections {
            Some(manager) => manager,
            none => {
                let opened = Connections::open(&self.platform, control, VECTOR);
                none.insert(opened.map_err(|error| Refused::no_connections(&error))?)
            }
        };
        let resolver = lock(&self.resolver);
        let answer = manager.call(control, resolver.neighbours(), of(program), &call);
        drop(resolver);
        self.note(state, program);
        // Datagrams go at once. If that fails, the function's thread finds out, too.
        let _ = self.progress_connections(state);
        Ok(answer.map(Box::new))
    }

    /// Waits until the datagrams of connections are on the wire, at most for `limit`; returns whether they
    /// are. Of a function whose process ends next, peers would not hear the end of a connection.
    pub fn let_datagrams_leave(&self, program: ProgramId, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let mut state = self.turn(program);
            let _ = self.progress_connections(&mut state);
            let manager = state.connections.as_mut();
            let have_left = !manager.is_some_and(Connections::is_sending);
            if have_left || Instant::now() >= until {
                return have_left;
            }
            drop(state);
            thread::yield_now();
        }
    }

    /// Whether a queue pair is another program's.
    fn is_qp_of_another(&self, program: ProgramId, number: u32) -> bool {
        let names = lock(&self.names);
        let name = names.qps.get(&number);
        name.is_some_and(|name| name.program != program)
    }

    /// A program has a new queue pair with this number.
    pub(super) fn qp_made(&self, state: &mut State<P>, program: ProgramId, number: u32) {
        if let Some(manager) = &mut state.connections {
            manager.made(of(program), number);
            let _ = self.progress_connections(state);
        }
    }

    /// How much a program has may have changed.
    fn note(&self, state: &mut State<P>, program: ProgramId) {
        let has = state.connections.as_ref().map(|all| all.has(of(program)));
        if let Some(objects) = state.objects.get_mut(&program) {
            objects.meets(has.unwrap_or_default());
            self.ledger.set_held(program, objects.held(), 0);
        }
    }

    /// Takes and sends datagrams, and tells programs what follows. Returns when to do it again at the
    /// latest; `None`: when a datagram comes.
    ///
    /// # Errors
    /// Queue pair 1 has failed.
    pub(super) fn progress_connections(&self, state: &mut State<P>) -> anyhow::Result<Option<Ns>> {
        let State {
            control,
            connections: Some(manager),
            objects,
            ..
        } = state
        else {
            return Ok(None);
        };
        let resolver = lock(&self.resolver);
        let mut at = manager.progress(control, resolver.neighbours())?;
        let mut refuses = false;
        for (program, objects) in objects {
            while let Some(told) = manager.next(of(*program)) {
                objects.meets(manager.has(of(*program)));
                self.ledger.set_held(*program, objects.held(), 0);
                // It counts already.
                let is_beyond = || self.ledger.is_beyond(*program, Resource::Connections);
                if matches!(told.news, News::Requested(_)) && is_beyond() {
                    let refusal = Call::Reject(told.id, Reason::NO_RESOURCES, &[]);
                    for call in [refusal, Call::Release(told.id)] {
                        let _ = manager.call(control, resolver.neighbours(), of(*program), &call);
                    }
                    objects.meets(manager.has(of(*program)));
                    self.ledger.set_held(*program, objects.held(), 0);
                    refuses = true;
                    continue;
                }
                self.tell(*program, |program| program.connection(told));
            }
        }
        if refuses {
            at = manager.progress(control, resolver.neighbours())?;
        }
        Ok(at)
    }

    /// A program is gone: its connections end, and their peers are told.
    pub(super) fn end_connections(
        &self,
        state: &mut State<P>,
        program: ProgramId,
        objects: &mut Objects<P>,
    ) {
        let State {
            control,
            connections,
            ..
        } = state;
        if let Some(manager) = connections {
            manager.gone(of(program), &mut |qpn| objects.stop(control, qpn));
            objects.meets(Has::default());
            let _ = self.progress_connections(state);
        }
    }
}

impl<P: HostPlatform> Objects<P> {
    /// It has so many connections.
    pub(super) const fn meets(&mut self, has: Has) {
        self.meets = has;
    }

    /// No more messages come from a queue pair, or to it.
    fn stop(&mut self, control: &mut Control<P>, qpn: Qpn) {
        let to_error = QpAttr {
            state: Some(QpState::Err),
            ..QpAttr::default()
        };
        if let Some(qp) = self.qps.get_mut(&qpn.get()) {
            // It is destroyed next, also if the device refuses.
            let _ = control.modify_qp(&mut qp.control, &to_error);
        }
    }
}
