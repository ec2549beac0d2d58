//! Two functions, and what happens to their connections.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use e810::{Remaining, Wc, WcOpcode};
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Connect, Listen};
use e810_connect::{Call, Grant, Happened, News, Phase, Service, Told};
use e810_hal::Clock;
use e810_sim::pe::FpmProfile;
use e810_sim::{MemoryCounts, Mode, Sim};

use super::side::{Known, POLLED, PORT, Side};

/// A run that does not come to its end within this has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// What was done.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) over: u64,
    pub(crate) refused: u64,
    pub(crate) no_queue_pair: u64,
    /// Answers that have come to the active side.
    pub(crate) answers: u64,
    /// Of the active side: from its question until its queue pair is in RTS.
    pub(crate) setups: Vec<Duration>,
}

pub(crate) struct Pair {
    sim: Sim,
    /// The active side, and the passive one.
    pub(crate) sides: [Side; 2],
    known: Known,
    pub(crate) done: Done,
    /// Connections stay; otherwise each carries one message each way, and ends.
    stay: bool,
}

impl Pair {
    pub(crate) fn new(qps: u32, stay: bool) -> Self {
        let sim = Sim::builder().functions(2).mode(Mode::Real);
        let sim = sim.profile(FpmProfile::card()).build();
        let sides = [0, 1].map(|number| Side::new(&sim, number, qps));
        let known: [(IpAddr, _); 2] = sides
            .each_ref()
            .map(|side| (side.ip, side.control.lan().mac));
        let mut pair = Self {
            sim,
            sides,
            known: Known(known),
            done: Done::default(),
            stay,
        };
        let listen = Listen {
            space: PortSpace::Tcp,
            port: PORT,
            address: pair.sides[1].ip,
            only_family: true,
            backlog: 1024,
            context: 0,
        };
        let mut local = pair.sides[1].local(&mut pair.known);
        local.call(&Call::Listen(listen)).expect("a listener");
        pair
    }

    /// Memory of the active side.
    pub(crate) fn memory(&self) -> MemoryCounts {
        self.sim.memory(0)
    }

    /// Asks for a connection; `false` when there is no queue pair.
    pub(crate) fn ask(&mut self) -> bool {
        let peer = (self.sides[1].ip, PORT).into();
        let side = &mut self.sides[0];
        let Some(mut connection) = side.connection(&mut self.known) else {
            self.done.no_queue_pair += 1;
            return false;
        };
        let ask = Connect::new(side.ip, peer);
        let asked = connection.connect(&mut side.local(&mut self.known), &ask);
        asked.expect("asked");
        side.keep(connection);
        true
    }

    /// What there is to do; `false` when that was nothing.
    pub(crate) fn turn(&mut self) -> bool {
        let mut has_worked = false;
        for n in 0..2 {
            for _ in 0..POLLED {
                let side = &mut self.sides[n];
                let now = side.platform.now();
                let happened = side
                    .manager
                    .progress(&mut side.control, &mut self.known, now);
                match happened.expect("queue pair 1") {
                    Happened::Told(told) => self.hear(n, &told),
                    Happened::More => {}
                    Happened::Nothing => break,
                }
                has_worked = true;
            }
            has_worked |= self.take_messages(n);
            let side = &mut self.sides[n];
            e810::progress(&mut side.control, &mut side.events, |_| {}).expect("progress");
        }
        if !has_worked {
            // The engine of a function works while its program polls.
            self.sides.iter().for_each(|side| side.platform.relax());
        }
        has_worked
    }

    /// Turns until `is_done`.
    pub(crate) fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_done(self) {
            assert!(began.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
            self.turn();
        }
    }

    fn hear(&mut self, n: usize, told: &Told) {
        let side = &mut self.sides[n];
        if matches!(told.news, News::Requested(_)) {
            let Some(mut connection) = side.connection(&mut self.known) else {
                // Its peer asks again.
                let ignored = side.local(&mut self.known).call(&Call::Release(told.id));
                ignored.expect("ignored");
                self.done.no_queue_pair += 1;
                return;
            };
            let mut local = side.local(&mut self.known);
            let accepted = connection.accept(&mut local, told, &Grant::default());
            accepted.expect("accepted");
            side.keep(connection);
            return;
        }
        let Some((mut connection, began)) = side.connections.remove(&told.id) else {
            return;
        };
        let heard = connection.hear(&mut side.local(&mut self.known), told);
        heard.expect("a step");
        match connection.phase() {
            Phase::Over | Phase::Refused(_) | Phase::Unreachable => {
                let is_over = connection.phase() == Phase::Over;
                self.done.refused += u64::from(!is_over);
                self.done.over += u64::from(n == 0 && is_over);
                let qp = connection.end(&mut side.local(&mut self.known));
                side.by_qp.remove(&qp.number().get());
                let destroyed = side.control.destroy_qp(qp);
                destroyed.map_err(|(_, error)| error).expect("destroyed");
            }
            phase => {
                side.connections.insert(told.id, (connection, began));
                if n == 0 && phase == Phase::Established {
                    self.done.setups.push(began.elapsed());
                    if !self.stay {
                        side.message(told.id);
                    }
                }
            }
        }
    }

    /// Takes completions: the passive side answers, the active side ends what does not stay.
    fn take_messages(&mut self, n: usize) -> bool {
        let side = &mut self.sides[n];
        let mut wcs = [Wc::default(); POLLED];
        let count = side.cq.poll(&mut wcs);
        for wc in &wcs[..count] {
            if wc.opcode != WcOpcode::Recv || !wc.status.is_success() {
                continue;
            }
            let Some(&id) = side.by_qp.get(&wc.qp_num) else {
                continue;
            };
            let Some((mut connection, began)) = side.connections.remove(&id) else {
                continue;
            };
            connection.arrived(&mut side.local(&mut self.known));
            if self.stay {
                side.receive(&mut connection);
            } else if n == 0 {
                let ended = connection.disconnect(&mut side.local(&mut self.known));
                ended.expect("an end");
            }
            side.connections.insert(id, (connection, began));
            if n == 1 {
                side.message(id);
            } else {
                self.done.answers += 1;
            }
        }
        count > 0
    }

    /// Ends what is left, and brings both functions down.
    pub(crate) fn close(mut self) {
        if self.stay {
            let side = &mut self.sides[0];
            let ids: Vec<_> = side.connections.keys().copied().collect();
            for id in ids {
                let (mut connection, began) = side.connections.remove(&id).expect("it was there");
                let ended = connection.disconnect(&mut side.local(&mut self.known));
                ended.expect("an end");
                side.connections.insert(id, (connection, began));
            }
        }
        self.until("connections are over", |pair| {
            pair.sides.iter().all(|side| side.connections.is_empty())
        });
        for side in self.sides {
            let mut control = side.control;
            side.manager.close(&mut control).1.expect("closed");
            let objects = Remaining {
                qps: [],
                ahs: [],
                cqs: [side.cq],
                mrs: [side.mr],
                pds: [side.pd],
            };
            control.shutdown_with(side.events, objects).expect("down");
        }
        assert_eq!(self.sim.findings(), []);
    }
}
