//! Memory of the device changes under driver and simulator while messages pass:
//! contexts, queues, shadow areas, pages of the HMC, page lists.

use e810::{
    AccessFlags, Config, Control, Data, EventSet, GidEntry, Lan, MacAddr, Mtu, Notify, Op, Path,
    QpAttr, RecvWr, Remote, SendFlags, SendWr, Sge, Wc, bring_up, v4,
};
use e810_hal::bus::VsiId;
use e810_hal::{Bus, Ns, RegOffset, SharedBytes};
use e810_sim::{Mode, Sim, SimPlatform};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;
use e810_tests::traffic::Watched;

use super::random::{Random, each};

type Platform = Watched<SimPlatform>;

/// Payload of each side, used by one seed after the other.
const PAGES: usize = 4;

struct Party {
    platform: Platform,
    control: Control<Platform>,
    events: EventSet<Platform>,
    objects: Objects<Platform>,
    gid: u8,
    memory: SharedBytes,
}

impl Party {
    fn new(sim: &Sim, function: u8, memory: SharedBytes) -> Self {
        let nic = sim.function(function);
        let lan = Lan {
            vsi: VsiId::new(8 + u16::from(function)).unwrap(),
            mac: MacAddr(nic.mac()),
            mtu: 9000,
        };
        let platform = Watched::new(nic);
        let device = bring_up(platform.clone(), &Config::new(lan), &mut |_| {}).unwrap();
        let (mut control, events) = device.split();
        let mut objects = Objects::default();
        objects.make(&mut control, memory, 0).unwrap();
        let gid = GidEntry::untagged(v4(10, 8, 10, 1 + function));
        let gid = control.add_gid(gid).unwrap();
        Self {
            platform,
            control,
            events,
            objects,
            gid,
            memory,
        }
    }

    /// Changes a word of its memory: mostly one that is not zero.
    fn corrupt(&self, random: &mut Random) {
        let blocks = self.platform.blocks();
        let block = random.one_of(&blocks);
        let words = block.words();
        let mut at = random.index(words);
        if !random.rarely(8) {
            let tried = (0..words.min(4096)).map(|step| (at + step) % words);
            at = { tried }.find(|at| block.get(*at) != 0).unwrap_or(at);
        }
        let old = block.get(at);
        let new = match random.below(7) {
            0 => random.next(),
            1 => u64::MAX,
            2 => 0,
            3 => old ^ 0xFF << (8 * random.below(8)),
            // Another part of what may be an address.
            4 => old.wrapping_add(random.below(words as u64) * 8),
            _ => old ^ 1 << random.below(64),
        };
        block.set(at, new);
    }

    /// A turn of its program; completions and counters that it got.
    fn turn(&mut self, sim: &Sim, random: &mut Random, far: (u32, u64)) -> [u64; 2] {
        let Objects { cq, mr, qp, .. } = &mut self.objects;
        let (cq, mr, qp) = (
            cq.as_mut().unwrap(),
            mr.as_ref().unwrap(),
            qp.as_mut().unwrap(),
        );
        let sges = [Sge {
            addr: self.memory.address(),
            length: random.one_of(&[0, 1, 64, 1000, 5000, 16384]),
            lkey: mr.lkey(),
        }];
        let (rkey, addr) = far;
        let remote = Remote { addr, rkey };
        let _ = qp.post_recv(&[RecvWr {
            wr_id: 1,
            sges: &sges,
        }]);
        let data = Data::Sges(&sges);
        let op = match random.below(4) {
            0 => Op::Write {
                data,
                imm: None,
                remote,
            },
            1 => Op::Read {
                into: &sges,
                remote,
            },
            2 => Op::Send {
                data: Data::Inline(&[b"hello"]),
                imm: Some(7),
            },
            _ => Op::Send { data, imm: None },
        };
        let _ = qp.post_send(&[SendWr {
            wr_id: 2,
            op,
            flags: SendFlags::SIGNALED,
        }]);
        if random.rarely(4) {
            sim.run(Ns(random.below(2_000_000)));
        }
        if random.rarely(3) {
            let doorbell = RegOffset::new(0x7F_0000 + random.below(64) as u32 * 4);
            self.platform.write32(doorbell, random.next() as u32);
        }
        for part in &mut self.events {
            let _ = part.poll(&mut |_| {});
        }
        let _ = self.control.progress();
        let completions = cq.poll(&mut [Wc::default(); 8]) as u64;
        if random.rarely(2) {
            let _ = cq.arm(Notify::Any);
        }
        if random.rarely(30) {
            let _ = self.control.resize_cq(cq, 20 + random.below(50) as u32);
        }
        let counted = random.rarely(20) && self.control.gather_stats().is_ok();
        if random.rarely(40) {
            let _ = self.control.modify_qp(qp, &QpAttr::to_error());
        }
        [completions, counted.into()]
    }
}

fn connect(parties: &mut [Party; 2]) {
    let ends = [0, 1].map(|side: usize| {
        let Party {
            control, objects, ..
        } = &parties[side];
        (control.lan().mac, objects.qp.as_ref().unwrap().number())
    });
    for (side, party) in parties.iter_mut().enumerate() {
        let (mac, number) = ends[1 - side];
        let path = Path::new(party.gid, v4(10, 8, 10, 2 - side as u8), mac);
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        for attr in [
            QpAttr::to_init(access),
            QpAttr::to_rtr(path, Mtu::Mtu1024, number, 0xFF_FFF0),
            QpAttr::to_rts(0xFF_FFF0),
        ] {
            // Refused where memory has changed before.
            let _ = party
                .control
                .modify_qp(party.objects.qp.as_mut().unwrap(), &attr);
        }
    }
}

/// Completions, counters gathered, and findings.
fn one(seed: u64, memory: [SharedBytes; 2]) -> [u64; 3] {
    let mut random = Random::new(seed);
    let builder = Sim::builder().functions(2).seed(seed);
    let sim = builder.mode(Mode::Virtual).vectors(8).build();
    let mut parties = [0, 1].map(|side| Party::new(&sim, side, memory[usize::from(side)]));
    if random.rarely(4) {
        for _ in 0..random.below(5) {
            parties[random.index(2)].corrupt(&mut random);
        }
    }
    connect(&mut parties);
    let keys = [0, 1].map(|side: usize| {
        let region = parties[side].objects.mr.as_ref().unwrap();
        (region.rkey(), memory[side].address())
    });
    let mut sums = [0; 3];
    for _ in 0..random.below(60) + 5 {
        for _ in 0..random.one_of(&[0, 0, 1, 1, 2, 5]) {
            parties[random.index(2)].corrupt(&mut random);
        }
        for (side, party) in parties.iter_mut().enumerate() {
            let [completions, counted] = party.turn(&sim, &mut random, keys[1 - side]);
            sums[0] += completions;
            sums[1] += counted;
        }
        sim.run(Ns(random.below(500_000)));
    }
    sums[2] = sim.finding_counts().iter().map(|(_, _, n)| n).sum();
    for party in parties {
        let Party {
            platform,
            control,
            events,
            objects,
            ..
        } = party;
        platform.platform().function_level_reset();
        objects.release_after_reset(&platform);
        control.release_after_reset(events);
    }
    sums
}

#[test]
fn memory_that_changes_is_met_with_errors_alone() {
    let memory = [(); 2].map(|()| Payload::pages(PAGES).bytes());
    let [completions, counted, found] = each(20, |seed| one(seed, memory));
    assert!(
        completions > 0 && found > 0,
        "{completions} completions, {counted} times counters, {found} findings"
    );
}
