//! Prepares a device so that a recorded command can run.

use crate::pe::aeq::Aeq;
use crate::pe::ah::AddressHandle;
use crate::pe::arp::Arp;
use crate::pe::ceq::Ceq;
use crate::pe::config::Config;
use crate::pe::contexts::Cache;
use crate::pe::cq::{Arm, Cq};
use crate::pe::cqp::command::Command;
use crate::pe::cqp::set;
use crate::pe::device::Device;
use crate::pe::fpm::{COMMIT_BYTES, FpmProfile, Layout};
use crate::pe::hmc::Sd;
use crate::pe::mr::{Mr, Window};
use crate::pe::multicast_group::MulticastGroup;
use crate::pe::qp::{HOST_WORDS, Qp, QpType, State};
use crate::pe::ring::Memory;
use crate::pe::tables::Node;
use crate::pe::tests::env::TestEnv;
use crate::pe::word::{bits, bits8, bits16, bits32};
use crate::rc::{Mode, QpRcState};
use crate::variation::{ErrorRefused, FlushStyle, NothingToFlush, Variation};

/// A device large enough for every id in the recordings, with one range of memory.
pub(super) fn device(env: &mut TestEnv) -> Device {
    let config = Config {
        profile: FpmProfile::card(),
        variation: Variation {
            flush: FlushStyle::PerQueue,
            // Nothing is posted on these queue pairs, and they are idle.
            nothing_to_flush: NothingToFlush::Done,
            error_refused: ErrorRefused::Never,
            ..Variation::default()
        },
        ..Config::default()
    };
    let mut device = Device::new(config, 1);
    let mut buffer = [0; COMMIT_BYTES[0] / 8];
    let ids = [
        (0, 262_144),
        (8, 524_288),
        (32, 4_096),
        (48, 524_288),
        (96, 4_096),
        (104, 131_072),
        (112, 1 << 28),
    ];
    let handed_out = [
        (24, 4_096),
        (56, 256),
        (64, 32),
        (72, 2_048),
        (80, 256),
        (128, 256),
        (136, 32),
    ];
    for (offset, count) in ids.into_iter().chain(handed_out) {
        buffer[offset / 8] = count;
    }
    let layout = Layout::commit(FpmProfile::card(), &buffer).unwrap();
    let base = 0x100_0000_0000;
    env.map(base, layout.sds() << 21);
    for sd in 0..layout.sds() {
        device.hmc.set_sd(
            sd,
            Some(Sd {
                direct: true,
                address: base + (sd << 21),
                pages: 512,
            }),
        );
    }
    device.hmc.commit(layout);
    device.hmc.announced = true;
    device
}

/// A CQ on CEQ 0, as Linux makes them.
pub(super) fn some_cq(shadow: u64) -> Cq {
    Cq {
        memory: Memory::Contiguous(0x5_0000_0000),
        shadow,
        context: 0,
        size: 64,
        threshold: 32,
        ceq: Some(0),
        check_overflow: true,
        mask_events: true,
        producer: 0,
        polarity: true,
        consumer: 0,
        used: 0,
        resizes: 0,
        arm_seq: 0,
        arm: Arm::Off,
        due: false,
        solicited: false,
        unacknowledged: 0,
        stopped: false,
        users: 0,
    }
}

/// Steps of a driver before this command.
pub(super) fn prepare(
    device: &mut Device,
    env: &mut TestEnv,
    c: &Command,
    mut host: [u64; HOST_WORDS],
) {
    let header = c.header();
    if c.opcode() <= 1 && set(c, 45) {
        // The recorded contexts belong to other QPs; with VQ these words are PBLE indexes.
        (host[1], host[2]) = (0x4321, 0x4331);
    }
    // Contexts and buffers are at their recorded addresses.
    for at in [c.q(16), c.q(32)] {
        env.map(at & !0xFFF, 8192);
    }
    env.set_words(c.q(16), &host);
    env.map(host[1], 0x1_0000);
    if matches!(c.opcode(), 0x00 | 0x03) {
        // The shadow area.
        env.map(c.q(40) & !0xFFF, 8192);
    }
    if matches!(c.opcode(), 0x03 | 0x16 | 0x19) {
        // The queue's memory, which the device reads page by page.
        for page in 0..2048 {
            env.map((c.q(32) & !0xFFF) + 4096 * page, 8192);
        }
    }
    let (send, receive) = (bits32(host[17], 24, 0), bits32(host[17], 56, 32));
    let hmc = &mut device.hmc;
    if matches!(c.opcode(), 0x00..=0x02 | 0x13 | 0x22 | 0x29 | 0x2a) {
        for cq in [send, receive] {
            device
                .cqs
                .create(cq.into(), some_cq(0x2_0000_0000), hmc, env)
                .unwrap();
        }
    }
    if matches!(c.opcode(), 0x01 | 0x02 | 0x13 | 0x22 | 0x29 | 0x2a) {
        let kind = QpType::new(bits8(header, 50, 48)).unwrap_or(QpType::RoceRc);
        let mut qp = Qp::new(kind, host, set(c, 45), c.q(40));
        // The state before this one.
        qp.other_state = match bits8(header, 62, 60) {
            4 => State::Idle,
            2 if kind == QpType::RoceRc => State::Rtr,
            1 => State::Idle,
            _ => State::Rts,
        };
        qp.suspended = c.opcode() == 0x2a;
        if kind == QpType::RoceRc && c.opcode() == 0x01 {
            let mut rc = QpRcState::new(qp.rc_config(1, &Config::default()).unwrap());
            rc.set_mode(match qp.other_state {
                State::Idle => Mode::Idle,
                State::Rtr => Mode::Rtr,
                _ => Mode::Rts,
            });
            qp.rc = Some(Box::new(rc));
        }
        device
            .qps
            .create(bits(header, 23, 0), Box::new(qp), hmc, env)
            .unwrap();
    }
    match c.opcode() {
        0x03 => drop(device.ceqs.insert(
            bits16(header, 31, 22) | bits16(header, 59, 54) << 10,
            Ceq::new(Memory::Contiguous(0), 1),
        )),
        0x04 | 0x05 => device
            .cqs
            .create(bits(header, 18, 0), some_cq(c.q(40)), hmc, env)
            .unwrap(),
        0x0d => {
            let index = bits(c.q(16), 31, 8) & 0x7_FFFF;
            let mr = Mr {
                window: (!set(c, 43)).then(Window::default),
                valid: false,
                key: 0,
                pd: bits32(c.q(8), 63, 46),
                start: 0,
                len: 0,
                most: 0,
                va_based: true,
                rights: 0,
                remote: false,
                level: 0,
                page_size: 0,
                pages: 0,
                bound: 0,
            };
            device.mrs.create(index, mr, hmc, env).unwrap();
        }
        0x0e => drop(device.tables.local_macs.insert(bits8(header, 5, 0), None)),
        0x0f if !set(c, 42) => {
            let entry = Arp {
                mac: 1,
                permanent: true,
                reach_max: 0,
            };
            device
                .arps
                .create(bits(header, 11, 0), entry, hmc, env)
                .unwrap();
        }
        0x11 if set(c, 62) => drop(device.tables.push_pages.insert(bits16(header, 15, 0), 0)),
        0x15 if set(c, 62) => drop(device.tables.pm_functions.insert(bits16(header, 15, 0), 8)),
        0x18 => drop(
            device
                .ceqs
                .insert(bits16(header, 9, 0), Ceq::new(Memory::Contiguous(0), 2048)),
        ),
        0x1b => device.aeq = Some(Aeq::new(Memory::Contiguous(0), 2048)),
        0x1d | 0x1e => {
            let ah = AddressHandle {
                head: [0; 3],
                flags: 0,
                addresses: [0; 4],
            };
            device
                .ahs
                .create(bits(header, 23, 0), ah, hmc, env)
                .unwrap();
        }
        0x27 | 0x28 => {
            let group = MulticastGroup {
                words: [0; 5],
                flags: 0,
                members: [0; 8],
            };
            device
                .groups
                .create(bits(header, 12, 0), group, hmc, env)
                .unwrap();
        }
        0x25 if bits8(header, 62, 61) == 0 => {
            let mut add = *c;
            add.0[3] |= 1 << 61;
            device.manage_quad_hash(&add, env).unwrap();
        }
        0x2c => {
            let (id, above) = (bits16(header, 13, 0), bits16(header, 29, 16));
            let node = |parent, queue_set| Node {
                parent,
                queue_set,
                enabled: true,
                vsi: 0,
                class: 0,
                weight: 1,
                priority: 1,
            };
            if above != id {
                device.tables.nodes.insert(above, node(0, None));
            }
            if bits(header, 55, 52) != 0 {
                let set = set(c, 61).then_some(1);
                device.tables.nodes.insert(id, node(above, set));
            }
        }
        0x2d | 0x2e if !set(c, 62) => drop(
            device
                .tables
                .statistics_instances
                .insert(bits8(header, 6, 0)),
        ),
        _ => {}
    }
}

/// Removes every object, but not the backing.
pub(super) fn clear(device: &mut Device, epoch: u32) {
    device.qps = Cache::new(epoch);
    device.cqs = Cache::new(epoch);
    device.mrs = Cache::new(epoch);
    device.arps = Cache::new(epoch);
    device.ahs = Cache::new(epoch);
    device.groups = Cache::new(epoch);
    device.ceqs.clear();
    device.aeq = None;
    device.tables = Default::default();
}
