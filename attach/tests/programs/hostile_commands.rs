//! Commands of all kinds in any order, with any numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use e810::{
    AccessFlags, AttrMask, CqPlace, CqRingPlace, Iova, MacAddr, Mtu, Path, QpAttr, QpCaps, QpPlace,
    QpState, QpType, Qpn,
};
use e810_attach::messages::{
    AllocPd, Answer, AttachMcast, BeginReset, Command, CreateAh, CreateCq, CreateQp, DeallocPd,
    DeregMr, DestroyAh, DestroyCq, DestroyQp, DetachMcast, FinishReset, Forgotten, MayUse, Memory,
    ModifyQp, Operation as _, QueryDevice, QueryGids, QueryPkey, QueryPort, QueryQp, RegMr, Reopen,
    ReregMr, ResizeCq, Resource, TakeBack, Token,
};
use e810_attach::owner::{AskedLimits, Owner};
use e810_backends::HostDevice;

use crate::hostile::Raw;
use crate::talk::{message, pair};
use crate::{Scenario, with_function};

pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.next() >> 16) as usize % most
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    pub(crate) fn odd(&mut self) -> u64 {
        let odd = [
            0,
            1,
            2,
            3,
            7,
            8,
            31,
            32,
            127,
            255,
            4095,
            4096,
            65_535,
            1 << 20,
            (1 << 24) - 1,
            1 << 24,
            u64::from(u32::MAX),
            1 << 46,
            1 << 63,
            u64::MAX,
        ];
        self.of(&odd)
    }

    fn perhaps<T>(&mut self, one: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(12) == 0).then(|| one(self))
    }

    fn ip(&mut self) -> IpAddr {
        let last = self.below(256) as u8;
        match self.below(10) {
            0 | 6 => Ipv4Addr::new(224, 0, 0, last).into(),
            1 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, last.into()).into(),
            2 => Ipv4Addr::UNSPECIFIED.into(),
            3 => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::new(10, 8, 1, 1 + last % 4).into(),
        }
    }

    fn path(&mut self) -> Path {
        let mut path = Path::new(
            self.of(&[1, 1, 1, 1, 1, 0, 2, 255]),
            self.ip(),
            MacAddr(self.of(&[[0; 6], [0xff; 6], [2, 0, 0, 0, 0, 1]])),
        );
        path.hop_limit = self.odd() as u8;
        path.flow_label = self.perhaps(Self::odd).unwrap_or(0) as u32;
        path.priority = self.of(&[0, 0, 0, 0, 7, 8, 255]);
        path
    }

    fn access(&mut self) -> AccessFlags {
        AccessFlags::from_bits_truncate(self.next() as u8)
    }

    fn attr(&mut self) -> Box<QpAttr> {
        let states = [
            QpState::Reset,
            QpState::Init,
            QpState::Rtr,
            QpState::Rts,
            QpState::Sqd,
            QpState::Sqe,
            QpState::Err,
        ];
        let number = |draw: &mut Self| Qpn::new(draw.odd() as u32 & 0xff_ffff).unwrap();
        // As a rule a good one, of which something is changed.
        let path = self.path();
        let base = match self.below(5) {
            0 => QpAttr::to_init(AccessFlags::REMOTE_WRITE),
            1 => QpAttr::to_rtr(path, Mtu::Mtu1024, number(self), 7),
            2 => QpAttr::to_rts(7),
            3 => QpAttr::to_error(),
            _ => QpAttr::to_sqd(true),
        };
        Box::new(QpAttr {
            state: self.perhaps(|draw| draw.of(&states)).or(base.state),
            cur_state: self.perhaps(|draw| draw.of(&states)).filter(|_| false),
            qkey: self.perhaps(|draw| draw.odd() as u32).or(base.qkey),
            access: self.perhaps(Self::access).or(base.access),
            pkey_index: base.pkey_index,
            port: base.port,
            path_mtu: base.path_mtu,
            max_dest_rd_atomic: self
                .perhaps(|draw| draw.odd() as u8)
                .or(base.max_dest_rd_atomic),
            max_rd_atomic: self.perhaps(|draw| draw.odd() as u8).or(base.max_rd_atomic),
            retry_cnt: self.perhaps(|draw| draw.odd() as u8).or(base.retry_cnt),
            ..base
        })
    }
}

/// What a program has, most likely.
#[derive(Default)]
struct Known {
    pds: Vec<u32>,
    cqs: Vec<u32>,
    qps: Vec<u32>,
    ahs: Vec<u32>,
    mrs: Vec<u32>,
    gone: Vec<u32>,
    rings: u64,
}

const RINGS: u64 = 8 << 20;

impl Known {
    fn place(&self, draw: &mut Draw) -> Iova {
        let within = draw.below(RINGS as usize / 2) as u64;
        Iova(match draw.below(24) {
            0 => draw.odd(),
            1 => self.rings + within,
            _ => self.rings + (within & !4095),
        })
    }

    fn command(&self, draw: &mut Draw) -> Command {
        let number = |draw: &mut Draw, all: &[u32]| match draw.below(12) {
            0 => draw.odd() as u32,
            _ if all.is_empty() => 1,
            _ => draw.of(all),
        };
        let memory = |draw: &mut Draw| Memory {
            address: match draw.below(3) {
                0 => draw.odd() as usize,
                1 => 4096,
                _ => std::ptr::from_ref(self).addr(),
            },
            length: match draw.below(2) {
                0 => draw.odd() as usize,
                _ => 4096,
            },
        };
        let pd = number(draw, &self.pds);
        let cq = number(draw, &self.cqs);
        let qp = number(draw, &self.qps);
        match draw.below(30) {
            0 | 1 => AllocPd {}.command(),
            2 => DeallocPd { number: pd }.command(),
            3 | 4 => RegMr {
                pd,
                memory: memory(draw),
                iova: match draw.below(3) {
                    0 => draw.odd(),
                    _ => 4096,
                },
                access: match draw.below(3) {
                    0 => draw.access(),
                    _ => AccessFlags::LOCAL_WRITE,
                },
            }
            .command(),
            5 => ReregMr {
                key: number(draw, &self.mrs),
                pd: draw.perhaps(|_| pd),
                access: draw.perhaps(Draw::access),
                memory: draw.perhaps(memory),
                iova: draw.perhaps(Draw::odd),
            }
            .command(),
            6 => DeregMr {
                key: number(draw, &self.mrs),
            }
            .command(),
            7..=9 => CreateCq {
                place: CqPlace {
                    ring: CqRingPlace {
                        entries: draw.of(&[4, 8, 64, 64, 64, 64, 64, 1000, 3, 1, 1 << 20, 1 << 30]),
                        ring: self.place(draw),
                    },
                    shadow: self.place(draw),
                },
                vector: draw.of(&[0, 0, 0, 1, 64, 65_535]),
                token: Token(draw.odd()),
            }
            .command(),
            10 => ResizeCq {
                number: cq,
                place: CqRingPlace {
                    entries: draw.of(&[4, 8, 64, 128, 3, 1, 1 << 20]),
                    ring: self.place(draw),
                },
            }
            .command(),
            11 => DestroyCq { number: cq }.command(),
            12..=14 => CreateQp {
                pd,
                qp_type: draw.of(&[
                    QpType::Rc,
                    QpType::Rc,
                    QpType::Rc,
                    QpType::Rc,
                    QpType::Ud,
                    QpType::Ud,
                    QpType::Gsi,
                    QpType::Uc,
                ]),
                send_cq: cq,
                recv_cq: number(draw, &self.cqs),
                caps: QpCaps {
                    max_send_wr: match draw.below(12) {
                        0 => draw.odd() as u32,
                        _ => 32,
                    },
                    max_recv_wr: match draw.below(12) {
                        0 => draw.odd() as u32,
                        _ => 32,
                    },
                    max_send_sge: match draw.below(12) {
                        0 => draw.odd() as u32,
                        _ => 1,
                    },
                    max_recv_sge: match draw.below(12) {
                        0 => draw.odd() as u32,
                        _ => 1,
                    },
                    max_inline: match draw.below(12) {
                        0 => draw.odd() as u32,
                        _ => 0,
                    },
                },
                signal_all: draw.below(2) == 0,
                token: Token(draw.odd()),
                place: QpPlace {
                    sq: self.place(draw),
                    rq: self.place(draw),
                },
            }
            .command(),
            15..=18 => ModifyQp {
                number: self
                    .qps
                    .last()
                    .copied()
                    .filter(|_| draw.below(3) > 0)
                    .unwrap_or(qp),
                attr: draw.attr(),
            }
            .command(),
            19 => QueryQp {
                number: qp,
                mask: AttrMask::from_bits_truncate(draw.next() as _),
            }
            .command(),
            20 | 21 => BeginReset {
                number: qp,
                attr: Box::default(),
            }
            .command(),
            22 => Reopen { number: qp }.command(),
            23 => FinishReset { number: qp }.command(),
            24 => DestroyQp { number: qp }.command(),
            25 => Forgotten {
                number: number(draw, &self.gone),
            }
            .command(),
            26 => CreateAh {
                pd,
                path: draw.path(),
            }
            .command(),
            27 => DestroyAh {
                number: number(draw, &self.ahs),
            }
            .command(),
            28 => match draw.below(2) {
                0 => AttachMcast {
                    qp,
                    group: draw.ip(),
                }
                .command(),
                _ => DetachMcast {
                    qp,
                    group: draw.ip(),
                }
                .command(),
            },
            _ => match draw.below(6) {
                0 => QueryDevice {}.command(),
                1 => QueryPort {
                    port: draw.odd() as u8,
                }
                .command(),
                2 => QueryGids {}.command(),
                3 => QueryPkey {
                    port: 1,
                    index: draw.odd() as u16,
                }
                .command(),
                4 => TakeBack { iova: draw.odd() }.command(),
                _ => MayUse {
                    place: QpPlace {
                        sq: self.place(draw),
                        rq: self.place(draw),
                    },
                }
                .command(),
            },
        }
    }

    fn note(&mut self, command: &Command, answer: &Answer) {
        match (command, answer) {
            (_, Answer::AllocPd(number)) => self.pds.push(*number),
            (_, Answer::RegMr(key) | Answer::ReregMr(key)) => self.mrs.push(*key),
            (_, Answer::CreateCq(granted)) => self.cqs.push(granted.number()),
            (_, Answer::CreateQp((granted, _))) => self.qps.push(granted.number().get()),
            (_, Answer::CreateAh(number)) => self.ahs.push(*number),
            (Command::DestroyQp(asked), Answer::DestroyQp(_)) => self.gone.push(asked.number),
            _ => {}
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().unwrap())
}

/// How many objects a program can have now: completion queues, queue pairs, addresses of peers.
fn capacity<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D) -> [usize; 3] {
    let mut raw = Raw::new(owner, function);
    let (rings, _memory) = raw.lend(RINGS as usize);
    let pd = raw.ask(AllocPd {}).unwrap();
    let mut cqs = Vec::new();
    while let Ok(cq) = raw.cq(rings, 64, rings + 4096) {
        cqs.push(cq);
    }
    let qps = (0..).find(|_| raw.qp(pd, cqs[0], QpType::Rc, rings).is_err());
    let ahs = (0..u32::from(u16::MAX)).find(|n| {
        let [_, _, a, b] = n.to_be_bytes();
        let mac = MacAddr([2, 0, 0, 1, a, b]);
        let path = Path::new(1, Ipv4Addr::new(10, 8, a, b).into(), mac);
        raw.ask(CreateAh { pd, path }).is_err()
    });
    raw.end();
    [cqs.len(), qps.unwrap(), ahs.unwrap() as usize]
}

#[derive(Clone, Copy)]
struct AnyOrder;

impl Scenario for AnyOrder {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let [mut a, mut b] = pair(owner, function);
        let before = owner.programs();
        // As a server has them, but for what is counted here.
        let counted = [Resource::Qps, Resource::Cqs, Resource::Ahs];
        owner.limit(&AskedLimits {
            program: counted.map(|resource| (resource, u64::MAX)).to_vec(),
            ..AskedLimits::default()
        });
        let room = capacity(owner, function);
        let (first, seeds) = (number("E810_HOSTILE_FIRST", 1), number("E810_HOSTILE", 20));
        let mut good = std::collections::BTreeMap::<&str, [u64; 2]>::new();
        for seed in first..first + seeds {
            let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut raw = Raw::new(owner, function);
            raw.lend_process();
            let (rings, _memory) = raw.lend(RINGS as usize);
            let mut known = Known {
                rings,
                ..Known::default()
            };
            for turn in 0..300 {
                let command = known.command(&mut draw);
                let name = command.name();
                let text = format!("{command:?}");
                match raw.answered(command.clone()) {
                    None => {
                        println!("seed {seed}, turn {turn}: the server is gone after {text}");
                        break;
                    }
                    Some(Ok(answer)) => {
                        good.entry(name).or_default()[0] += 1;
                        known.note(&command, &answer);
                    }
                    Some(Err(_)) => {
                        good.entry(name).or_default()[1] += 1;
                    }
                }
            }
            raw.end();
            message(&mut a, &mut b, seed);
            message(&mut b, &mut a, seed);
            assert_eq!(owner.programs(), before, "seed {seed}");
        }
        println!("{good:?}");
        assert_eq!(capacity(owner, function), room);
    }
}

#[test]
fn commands_in_any_order_harm_nobody() {
    with_function(AnyOrder);
}
