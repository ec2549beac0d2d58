//! The function, its objects, and their end.

use std::sync::OnceLock;

use e810::hmc::Capacity;
use e810::{
    Ah, ColdStart, Config, Control, Cq, Error, EventSet, FastMr, GidEntry, Lan, LanPort,
    LinkPolicy, MacAddr, Mr, Ns, Package, PackageSource, Pd, Qp, QpState, SharedBytes, VsiId, Wc,
    bring_up, bring_up_cold, v4,
};
use e810_hal::Clock as _;
use e810_sim::pe::CqpErrors;
use e810_sim::variation::QpEventContext;
use e810_sim::{Profile, Rng, Sim, SimPlatform, Variation, test_package};

use super::{Books, QUICK};
use crate::scenario::payload::Payload;

/// Own addresses, at indexes from 1 on.
pub(super) const ADDRESSES: u8 = 5;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) sim: Sim,
    pub(super) nic: SimPlatform,
    pub(super) is_cold: bool,
    pub(super) control: Control<SimPlatform>,
    pub(super) events: EventSet<SimPlatform>,
    pub(super) pd: Pd,
    pub(super) cqs: Vec<Cq<SimPlatform>>,
    pub(super) qps: Vec<Qp<SimPlatform>>,
    pub(super) mrs: Vec<Mr<SimPlatform>>,
    pub(super) fasts: Vec<FastMr<SimPlatform>>,
    pub(super) ahs: Vec<Ah>,
    pub(super) port: Option<LanPort<SimPlatform>>,
    pub(super) books: Books,
    /// Something was made late, whose memory stays with the device.
    pub(super) leaked: bool,
    /// Only a reset helps.
    pub(super) is_broken: bool,
}

/// Memory for all regions of all runs.
pub(super) fn memory() -> SharedBytes {
    static MEMORY: OnceLock<SharedBytes> = OnceLock::new();
    *MEMORY.get_or_init(|| Payload::pages(8).bytes())
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let is_cold = rng.below(3) == 0;
        let variation = Variation {
            qp_event_context: match rng.below(2) {
                0 => QpEventContext::Whole,
                _ => QpEventContext::Zero,
            },
            ..Variation::default()
        };
        let mut builder = Sim::builder().seed(seed).variation(variation);
        builder = match is_cold {
            true => builder.profile(Profile::small()).cold(),
            false => builder.profile(Profile::card()),
        };
        let sim = builder.build();
        let nic = sim.function(0);
        let (control, events, pd) = start(&nic, is_cold);
        Self {
            rng,
            sim,
            nic,
            is_cold,
            control,
            events,
            pd,
            cqs: Vec::new(),
            qps: Vec::new(),
            mrs: Vec::new(),
            fasts: Vec::new(),
            ahs: Vec::new(),
            port: None,
            books: Books::default(),
            leaked: false,
            is_broken: false,
        }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    pub(super) fn pause(&self, time: Ns) {
        self.nic.delay(time);
    }

    /// Nothing is refused or late any more.
    pub(super) fn is_well_again(&self) {
        self.sim.configure_engine(0, |config| {
            config.cqp_errors = CqpErrors::None;
            config.cqp_delay = QUICK;
        });
        self.sim.configure_firmware(0, |config| config.no_faults());
    }

    /// Takes events, does what is to be done, and polls.
    pub(super) fn serve(&mut self, turns: u32) {
        let mut wcs = [Wc::default(); 16];
        for _ in 0..turns {
            self.pause(Ns::from_us(50));
            for part in &mut self.events {
                let _ = part.poll(&mut |_| {});
            }
            let _ = self.control.progress();
            for cq in &mut self.cqs {
                let found = cq.poll(&mut wcs);
                for wc in wcs.iter().take(found) {
                    self.books.completed(wc);
                }
            }
        }
    }

    /// Notes an error of a call that makes something.
    pub(super) fn not_made(&mut self, error: &Error) -> String {
        self.leaked |= error.needs_reset();
        error.to_string()
    }

    /// The function is reset from outside, and started again.
    pub(super) fn reset(mut self) -> Self {
        self.nic.function_level_reset();
        for qp in self.qps.drain(..) {
            self.books.close(qp.number().get());
            qp.release_after_reset();
        }
        for cq in self.cqs.drain(..) {
            cq.release_after_reset();
        }
        for mr in self.mrs.drain(..) {
            mr.release_after_reset(&self.nic);
        }
        for mr in self.fasts.drain(..) {
            mr.release_after_reset(&self.nic);
        }
        self.ahs.clear();
        if let Some(port) = self.port.take() {
            port.release_after_reset();
        }
        self.control.release_after_reset(self.events);
        let (control, events, pd) = start(&self.nic, self.is_cold);
        Self {
            control,
            events,
            pd,
            is_broken: false,
            ..self
        }
    }

    /// Gives everything back; says what was wrong, then or before.
    pub(super) fn end(self) -> Vec<String> {
        let Self {
            mut control,
            mut books,
            sim,
            ..
        } = self;
        let is_stopped = control.progress().is_ok_and(|now| now.unstopped == 0);
        let mut left: Vec<String> = Vec::new();
        let mut ended = |what: &str, error: Option<Error>| {
            left.extend(error.map(|error| format!("{what}: {error}")));
        };
        if let Some(port) = self.port {
            ended(
                "port",
                control.close_lan(port).err().map(|(_, error)| error),
            );
        }
        for qp in self.qps {
            if qp.state() == QpState::Err && is_stopped {
                books.settled(qp.number().get());
            }
            ended(
                "queue pair",
                control.destroy_qp(qp).err().map(|(_, error)| error),
            );
        }
        for ah in self.ahs {
            ended(
                "handle",
                control.destroy_ah(ah).err().map(|(_, error)| error),
            );
        }
        for cq in self.cqs {
            ended(
                "completion queue",
                control.destroy_cq(cq).err().map(|(_, error)| error),
            );
        }
        for mr in self.mrs {
            ended("region", control.dereg_mr(mr).err().map(|(_, error)| error));
        }
        for mr in self.fasts {
            ended(
                "fast region",
                control.free_fast_mr(mr).err().map(|(_, error)| error),
            );
        }
        // Those of address handles that were made late stay.
        for gid in (1..=ADDRESSES).filter(|_| !self.leaked) {
            ended("address", control.remove_gid(gid).err());
        }
        ended(
            "domain",
            control.dealloc_pd(self.pd).err().map(|(_, error)| error),
        );
        ended(
            "shutdown",
            control
                .shutdown(self.events)
                .err()
                .map(|failed| failed.error),
        );
        let held = sim.memory(0);
        if !self.leaked && !held.nothing_held() {
            left.push(format!("{held:?}"));
        }
        // The device was refused the state, so it was destroyed or flushed in another.
        let findings = sim.take_findings().into_iter();
        let wrong = findings.filter(|one| !matches!(one.kind, "qp-destroy-state" | "flush-state"));
        left.extend(wrong.map(|one| format!("{one:?}")));
        left.extend(books.wrong);
        left
    }
}

fn start(nic: &SimPlatform, is_cold: bool) -> (Control<SimPlatform>, EventSet<SimPlatform>, Pd) {
    let capacity = Capacity {
        qps: 16,
        cqs: 12,
        mrs: 16,
        ahs: 6,
        arps: 8,
        mcast_groups: 4,
        pbles: 1024,
    };
    let device = if is_cold {
        let file = test_package();
        let package = Package::parse(&file).expect("a package");
        let cold = ColdStart {
            package: PackageSource::File(package),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let config = Config {
            capacity,
            ..Config::cold(1500)
        };
        bring_up_cold(nic.clone(), &config, &cold, &mut |_| {})
    } else {
        let lan = Lan {
            vsi: VsiId::new(nic.vsi()).expect("a VSI"),
            mac: MacAddr(nic.mac()),
            mtu: 1500,
        };
        let config = Config {
            capacity,
            ceqs: 2,
            spare_vectors: 1,
            ..Config::new(lan)
        };
        bring_up(nic.clone(), &config, &mut |_| {})
    };
    let (mut control, events) = device.expect("a device").split();
    for last in 1..=ADDRESSES {
        let address = GidEntry::untagged(v4(10, 0, 0, last));
        control.add_gid(address).expect("an address");
    }
    let pd = control.alloc_pd().expect("a domain");
    (control, events, pd)
}
