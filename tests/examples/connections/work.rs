//! What happens to the connections of a function.

use std::net::SocketAddr;
use std::time::Duration;

use e810::{Wc, WcOpcode};
use e810_cm::machine::Connect;
use e810_connect::{Call, Grant, Happened, News, Phase, Service, Told};
use e810_hal::Clock;

use super::side::{POLLED, Side};

/// What was done.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) refused: u64,
    pub(crate) no_queue_pair: u64,
    /// Answers that have come to the active side.
    pub(crate) answers: u64,
    /// Of the active side: from its question until its queue pair is in RTS.
    pub(crate) setups: Vec<Duration>,
}

impl Side {
    /// Asks for a connection; `false` when there is no queue pair.
    pub(crate) fn ask(&mut self, peer: SocketAddr) -> bool {
        let Some(mut connection) = self.connection() else {
            self.done.no_queue_pair += 1;
            return false;
        };
        let ask = Connect::new(self.ip, peer);
        let asked = connection.connect(&mut self.local(), &ask);
        asked.expect("asked");
        self.keep(connection);
        true
    }

    /// What there is to do.
    pub(crate) fn turn(&mut self) {
        let mut has_worked = false;
        for _ in 0..POLLED {
            let now = self.platform.now();
            let happened = self
                .manager
                .progress(&mut self.control, &mut self.known, now);
            match happened.expect("queue pair 1") {
                Happened::Told(told) => self.hear(&told),
                Happened::More => {}
                Happened::Nothing => break,
            }
            has_worked = true;
        }
        has_worked |= self.take_messages();
        e810::progress(&mut self.control, &mut self.events, |_| {}).expect("progress");
        if !has_worked {
            // The engine of a function works while its program polls.
            self.platform.relax();
        }
    }

    fn hear(&mut self, told: &Told) {
        if matches!(told.news, News::Requested(_)) {
            let Some(mut connection) = self.connection() else {
                // Its peer is refused.
                let ignored = self.local().call(&Call::Release(told.id));
                ignored.expect("ignored");
                self.done.no_queue_pair += 1;
                return;
            };
            let accepted = connection.accept(&mut self.local(), told, &Grant::default());
            accepted.expect("accepted");
            self.keep(connection);
            return;
        }
        let Some((mut connection, began)) = self.connections.remove(&told.id) else {
            return;
        };
        let heard = connection.hear(&mut self.local(), told);
        heard.expect("a step");
        match connection.phase() {
            Phase::Over | Phase::Refused(_) | Phase::Unreachable => {
                self.done.refused += u64::from(connection.phase() != Phase::Over);
                let qp = connection.end(&mut self.local());
                self.by_qp.remove(&qp.number().get());
                let destroyed = self.control.destroy_qp(qp);
                destroyed.map_err(|(_, error)| error).expect("destroyed");
            }
            phase => {
                self.connections.insert(told.id, (connection, began));
                if self.is_active && phase == Phase::Established {
                    self.done.setups.push(began.elapsed());
                    if !self.stay {
                        self.message(told.id);
                    }
                }
            }
        }
    }

    /// Takes completions: the passive side answers, the active side ends what does not stay.
    fn take_messages(&mut self) -> bool {
        let mut wcs = [Wc::default(); POLLED];
        let count = self.cq.poll(&mut wcs);
        for wc in &wcs[..count] {
            if wc.opcode != WcOpcode::Recv || !wc.status.is_success() {
                continue;
            }
            let Some(&id) = self.by_qp.get(&wc.qp_num) else {
                continue;
            };
            let Some((mut connection, began)) = self.connections.remove(&id) else {
                continue;
            };
            connection.arrived(&mut self.local());
            if self.stay {
                self.receive(&mut connection);
            } else if self.is_active {
                let ended = connection.disconnect(&mut self.local());
                ended.expect("an end");
            }
            self.connections.insert(id, (connection, began));
            match self.is_active {
                true => self.done.answers += 1,
                false => self.message(id),
            }
        }
        count > 0
    }

    /// Ends all connections.
    pub(crate) fn disconnect(&mut self) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            let (mut connection, began) = self.connections.remove(&id).expect("it was there");
            let ended = connection.disconnect(&mut self.local());
            ended.expect("an end");
            self.connections.insert(id, (connection, began));
        }
    }
}
