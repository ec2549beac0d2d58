//! Two functions.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use e810::Remaining;
use e810_cm::ip::PortSpace;
use e810_cm::machine::Listen;
use e810_connect::{Call, Service};
use e810_sim::pe::FpmProfile;
use e810_sim::{MemoryCounts, Mode, Sim};

use super::side::{Known, Side};

const PORT: u16 = 7471;
/// A run that does not come to its end within this has failed.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Pair {
    sim: Sim,
    /// The active side, and the passive one.
    pub(crate) sides: [Side; 2],
    /// Where the passive side listens.
    pub(crate) there: SocketAddr,
}

impl Pair {
    /// `stay`: connections do; otherwise each carries one message each way, and ends.
    pub(crate) fn new(qps: u32, stay: bool) -> Self {
        let sim = Sim::builder().functions(2).mode(Mode::Real);
        let sim = sim.profile(FpmProfile::card()).build();
        let mut sides = [0, 1].map(|number| Side::new(&sim, number, qps, stay));
        let known = sides.iter().map(|side| (side.ip, side.control.lan().mac));
        let known: Vec<_> = known.collect();
        for side in &mut sides {
            side.known = Known(known.clone());
        }
        let listen = Listen {
            space: PortSpace::Tcp,
            port: PORT,
            address: sides[1].ip,
            only_family: true,
            backlog: 1024,
            context: 0,
        };
        let listened = sides[1].local().call(&Call::Listen(listen));
        listened.expect("a listener");
        let there = (sides[1].ip, PORT).into();
        Self { sim, sides, there }
    }

    /// Memory of the active side.
    pub(crate) fn memory(&self) -> MemoryCounts {
        self.sim.memory(0)
    }

    /// Both work until `is_done`.
    pub(crate) fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_done(self) {
            assert!(began.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
            self.sides.iter_mut().for_each(Side::turn);
        }
    }

    /// Waits until all connections are over, and brings both functions down.
    pub(crate) fn close(mut self) {
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
