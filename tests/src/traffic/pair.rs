//! Two devices that are up and connected, or one with itself.

use e810::{
    ColdStart, Config, Data, Device, DroppedWrs, Lan, LinkPolicy, MacAddr, Op, Package,
    PackageSource, Path, Platform, QpAttr, QpType, Ready, SendFlags, SendWr, StageError, VsiId, Wc,
    bring_up_cold,
};
use e810_hal::Ns;
use e810_sim::pe::LeftBehind;
use e810_sim::{Sim, SimPlatform};

use super::verbs::datagrams::QKEY;
use super::{Setup, Side, Watched};

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Index of the side.
    pub side: usize,
    /// Index of the queue pair on it.
    pub qp: usize,
}

/// What a run did: equal for two runs with one seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Time at its end.
    pub time: Ns,
    /// Register writes, DMA reads, DMA writes and frames of each side.
    pub counts: Vec<[u64; 4]>,
}

/// Sides with connected queue pairs.
#[derive(Debug)]
pub struct Pair<P: Platform> {
    /// Two, or one when looped back.
    pub sides: Vec<Side<P>>,
    pub(super) setup: Setup,
    pub(super) serial: u64,
}

/// A device that is up, and its platform.
type Up = (
    Device<Watched<SimPlatform>, Ready<Watched<SimPlatform>>>,
    Watched<SimPlatform>,
);

/// How long anything may take: far above any retry time.
const LIMIT: Ns = Ns::from_ms(60_000);

fn lan_of(function: &SimPlatform) -> Lan {
    Lan {
        vsi: VsiId::new(function.vsi()).expect("a VSI"),
        mac: MacAddr(function.mac()),
        // Every path MTU of RoCEv2 fits.
        mtu: 9000,
    }
}

impl Pair<Watched<SimPlatform>> {
    /// Functions 0 and 1 of a simulator, connected.
    #[must_use]
    pub fn simulated(sim: &Sim, setup: Setup) -> Self {
        let side = |function| {
            let platform = sim.function(function);
            let lan = lan_of(&platform);
            Side::new(Watched::new(platform), lan, &setup)
        };
        Self::connected(vec![side(0), side(1)], setup)
    }

    /// As [`Pair::simulated`], on functions that begin cold: the first one loads
    /// the package, the second finds it.
    #[must_use]
    pub fn cold(sim: &Sim, setup: Setup) -> Self {
        Self::try_cold(sim, setup).expect("up")
    }

    /// As [`Pair::cold`], on functions that may be too small for it, or refuse it.
    ///
    /// # Errors
    /// That of the bring-up; the other function is shut down then.
    pub fn try_cold(sim: &Sim, setup: Setup) -> Result<Self, StageError> {
        let (first, platform) = Self::device(sim, 0, setup)?;
        let second = match Self::device(sim, 1, setup) {
            Ok(second) => second,
            Err(error) => {
                let (control, events) = first.split();
                let down = control.shutdown(events).map_err(|failed| failed.error);
                down.expect("shut down");
                return Err(error);
            }
        };
        let first = Side::on(first, platform, &setup);
        let second = Side::on(second.0, second.1, &setup);
        Ok(Self::connected(vec![first, second], setup))
    }

    /// As [`Pair::looped_back`], on a function that begins cold: its switch has
    /// to give its own frames back.
    #[must_use]
    pub fn cold_looped_back(sim: &Sim, setup: Setup) -> Self {
        let (device, platform) = Self::device(sim, 0, setup).expect("up");
        Self::connected(vec![Side::on(device, platform, &setup)], setup)
    }

    fn device(sim: &Sim, function: u8, setup: Setup) -> Result<Up, StageError> {
        let file = e810_sim::test_package();
        let start = ColdStart {
            package: PackageSource::File(Package::parse(&file).expect("a package")),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let platform = Watched::new(sim.function(function));
        // Every path MTU of RoCEv2 fits.
        let config = setup.config(Config::cold(9000).lan);
        let device = bring_up_cold(platform.clone(), &config, &start, &mut |_| {})?;
        Ok((device, platform))
    }

    /// Function 0 of a simulator, its queue pairs connected two by two.
    #[must_use]
    pub fn looped_back(sim: &Sim, setup: Setup) -> Self {
        let platform = sim.function(0);
        let lan = lan_of(&platform);
        let side = Side::new(Watched::new(platform), lan, &setup);
        Self::connected(vec![side], setup)
    }

    /// Gives everything back and checks that nothing is left and nothing was
    /// found.
    pub fn finish(self, sim: &Sim) -> Report {
        let functions = 0..self.sides.len() as u8;
        self.close();
        for function in functions.clone() {
            let held = sim.memory(function);
            assert!(held.nothing_held(), "function {function} holds {held:?}");
            assert_eq!(sim.left_behind(function), LeftBehind::default());
        }
        assert_eq!(sim.findings(), []);
        let counts = functions
            .map(|function| {
                let stats = sim.stats(function);
                [
                    stats.register_writes,
                    stats.dma_reads,
                    stats.dma_writes,
                    stats.frames_sent,
                ]
            })
            .collect();
        Report {
            time: sim.now(),
            counts,
        }
    }
}

impl<P: Platform> Pair<P> {
    /// Connects queue pair `n` of the first side with `n` of the second; with
    /// one side, each even one with the next.
    #[must_use]
    pub fn connected(sides: Vec<Side<P>>, setup: Setup) -> Self {
        let mut pair = Self {
            sides,
            setup,
            serial: 0,
        };
        for qp in 0..setup.queue_pairs {
            for side in 0..pair.sides.len() {
                pair.connect(End { side, qp });
            }
        }
        pair
    }

    /// The other end of a connection.
    #[must_use]
    pub fn peer(&self, end: End) -> End {
        if self.sides.len() == 1 {
            End {
                side: 0,
                qp: end.qp ^ 1,
            }
        } else {
            End {
                side: 1 - end.side,
                qp: end.qp,
            }
        }
    }

    pub fn side(&mut self, side: usize) -> &mut Side<P> {
        self.sides.get_mut(side).expect("a side")
    }

    /// First PSN that an end sends.
    #[must_use]
    pub fn psn(end: End) -> u32 {
        // Near the end, so that it wraps early.
        0xFF_FFF0 + end.side as u32 * 4 + (end.qp as u32 & 3)
    }

    /// Takes an end from RESET to RTS.
    pub fn connect(&mut self, end: End) {
        for attr in self.steps(end) {
            let side = self.side(end.side);
            let qp = side.qps.get_mut(end.qp).expect("a QP");
            side.control.modify_qp(qp, &attr).expect("a transition");
        }
    }

    /// The three changes from RESET to RTS.
    #[must_use]
    pub fn steps(&mut self, end: End) -> [QpAttr; 3] {
        let (setup, peer) = (self.setup, self.peer(end));
        if setup.qp_type == QpType::Ud {
            return [
                QpAttr::ud_to_init(QKEY),
                QpAttr::ud_to_rtr(),
                QpAttr::ud_to_rts(Self::psn(end)),
            ];
        }
        let there = self.side(peer.side);
        let (ip, mac) = (there.ip(), there.control.lan().mac);
        let priority = setup.vlan.map_or(0, |vlan| vlan.priority);
        let number = there.qps.get(peer.qp).expect("a peer").number();
        let path = Path {
            priority,
            ..Path::new(self.side(end.side).gid, ip, mac)
        };
        [
            QpAttr::to_init(Setup::ACCESS),
            QpAttr::to_rtr(path, setup.mtu, number, Self::psn(peer)),
            setup.to_rts(Self::psn(end)),
        ]
    }

    /// What it was set up with.
    #[must_use]
    pub const fn setup(&self) -> Setup {
        self.setup
    }

    /// Destroys a queue pair and makes a new one in its place, in RESET.
    pub fn renew(&mut self, end: End) {
        self.renew_counted(end);
    }

    /// The same; gives what the old one had outstanding.
    pub fn renew_counted(&mut self, end: End) -> DroppedWrs {
        let side = self.side(end.side);
        let old = side.qps.remove(end.qp);
        let discarded = side.control.destroy_qp(old).map_err(|(_, e)| e);
        side.add_qp();
        let new = side.qps.pop().expect("the new one");
        side.qps.insert(end.qp, new);
        discarded.expect("QP")
    }

    /// Posts a receive (`wr_id` 1) on the second side's first queue pair, and sends
    /// it an empty message (`wr_id` 2), signaled and with `flags` besides.
    pub fn message(&mut self, flags: SendFlags) {
        self.side(1).post_recv(0, 1, &[]).expect("a receive");
        let op = Op::Send {
            data: Data::Inline(&[]),
            imm: None,
        };
        let request = SendWr {
            wr_id: 2,
            op,
            flags: flags | SendFlags::SIGNALED,
        };
        self.side(0).post_send(0, &[request]).expect("a send");
    }

    /// Polls everything once; lets time pass when there was nothing.
    pub fn pump(&mut self) {
        let mut found = false;
        for side in &mut self.sides {
            found |= side.poll_cqs();
        }
        if !found {
            for side in &mut self.sides {
                side.progress();
                side.platform.relax();
            }
        }
    }

    /// Polls until `end` says so.
    pub fn until(&mut self, what: &str, mut end: impl FnMut(&mut Self) -> bool) {
        let start = self.now();
        while !end(self) {
            let waited = self.now() - start;
            assert!(waited < LIMIT, "{what}: not within {LIMIT}");
            self.pump();
        }
    }

    /// Polls for that long.
    pub fn during(&mut self, time: Ns) {
        let start = self.now();
        while self.now() - start < time {
            self.pump();
        }
    }

    /// Waits for `count` completions of a side and takes them.
    pub fn completions(&mut self, side: usize, count: usize) -> Vec<Wc> {
        self.until(&format!("{count} completions"), |pair| {
            pair.side(side).done.len() >= count
        });
        let done = self.side(side).take();
        assert_eq!(done.len(), count, "{done:?}");
        done
    }

    /// Time of the first side.
    #[must_use]
    pub fn now(&self) -> Ns {
        let first = self.sides.first().expect("a side");
        first.platform.now()
    }

    /// Gives everything back.
    pub fn close(self) {
        for side in self.sides {
            side.close();
        }
    }
}
