//! Captures of every packet that a reliable connection can put on the wire, for
//! `tests/pcap/run`, which has them judged by somebody else.
//!
//! ```text
//! cargo run -p e810-tests --example pcap_frames -- FOLDER
//! ```
//!
//! Each [`Scene`] becomes NAME.pcap, and NAME.expect with the BTH opcodes and AETH
//! syndromes that have to be in it. A new operation is a new scene, or one more
//! line in [`every_request`]. Datagrams come from the engine's own tests, see the
//! script.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a capture that cannot be made ends the program"
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex};

use e810::{Data, Op, QpType, Remote, SendFlags, SendWr, Sge, Vlan, WcStatus};
use e810_hal::Ns;
use e810_sim::pcap::Writer;
use e810_sim::{Quality, Sim, SimPlatform};
use e810_tests::traffic::scenarios::{A, B, KINDS, many, scenarios};
use e810_tests::traffic::{Buffer, Pair, Setup, Transfer, Watched};

type Sides = Pair<Watched<SimPlatform>>;

/// One capture.
struct Scene {
    name: String,
    setup: Setup,
    quality: Quality,
    /// BTH opcodes that it has.
    opcodes: &'static [u8],
    /// AETH syndromes that it has.
    syndromes: &'static [u8],
    run: fn(&mut Sides),
}

/// SEND, WRITE and READ of one and of several packets, with immediate data and
/// with invalidation; acknowledges.
const EVERY: &[u8] = &[
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x16, 0x17,
];
/// An acknowledge with the credits of the context that existing drivers write (ACKCREDITS 0x1E).
const ACK: u8 = 0x1e;
/// RNR NAK that asks for 0.64 ms.
const NOT_READY: u8 = 0x2c;
const NAK_SEQUENCE: u8 = 0x60;
const NAK_INVALID_REQUEST: u8 = 0x61;
const NAK_REMOTE_ACCESS: u8 = 0x62;
const NAK_REMOTE_OPERATION: u8 = 0x63;
/// A key of no region.
const NO_KEY: u32 = 0x00FF_F000 << 8 | 1;

fn scenes() -> Vec<Scene> {
    let plain = Scene {
        name: "ipv4".to_owned(),
        setup: Setup::default(),
        quality: Quality::PERFECT,
        opcodes: EVERY,
        syndromes: &[ACK],
        run: every_request,
    };
    let ipv6 = Setup {
        ipv6: true,
        ..plain.setup
    };
    let vlan = Some(Vlan {
        id: 0xABC,
        priority: 5,
    });
    // One try each, so that a refused request ends soon.
    let refused = Scene {
        name: "".to_owned(),
        opcodes: &[0x11],
        ..plain
    };
    let worst = Quality {
        loss: 30_000,
        duplicate: 30_000,
        reorder: 30_000,
        corrupt: 30_000,
        ..Quality::PERFECT
    };
    vec![
        Scene {
            name: "ipv6".to_owned(),
            setup: ipv6,
            ..plain
        },
        Scene {
            name: "vlan".to_owned(),
            setup: Setup {
                vlan,
                ..plain.setup
            },
            ..plain
        },
        Scene {
            name: "vlan-ipv6".to_owned(),
            setup: Setup { vlan, ..ipv6 },
            ..plain
        },
        Scene {
            name: "retransmission".to_owned(),
            quality: worst,
            opcodes: &[0x01, 0x07, 0x0c, 0x0e, 0x11],
            syndromes: &[ACK, NAK_SEQUENCE],
            run: |pair| {
                for round in 0..40 {
                    for kind in KINDS {
                        pair.transfer(A, &Transfer::new(kind, 20_000 + round));
                    }
                }
                many(pair, 300, 4);
            },
            ..plain
        },
        Scene {
            name: "not-ready".to_owned(),
            opcodes: &[0x04, 0x11],
            syndromes: &[ACK, NOT_READY],
            run: not_ready,
            ..plain
        },
        Scene {
            name: "invalid-request".to_owned(),
            syndromes: &[NAK_INVALID_REQUEST],
            run: |pair| {
                receive(pair, 10);
                send(pair, 100);
                fails(pair, WcStatus::RemInvReqErr);
            },
            ..refused
        },
        Scene {
            name: "remote-access".to_owned(),
            syndromes: &[NAK_REMOTE_ACCESS],
            run: |pair| {
                let sge = pair.sides[0].sge(0, 100);
                let remote = Remote {
                    rkey: NO_KEY,
                    ..pair.remote(A, 0)
                };
                let op = Op::Write {
                    data: Data::Sges(&[sge]),
                    remote,
                    imm: None,
                };
                post(pair, op, SendFlags::empty());
                fails(pair, WcStatus::RemAccessErr);
            },
            ..refused
        },
        Scene {
            name: "remote-operation".to_owned(),
            syndromes: &[NAK_REMOTE_OPERATION],
            run: |pair| {
                let sge = Sge {
                    lkey: NO_KEY,
                    ..pair.sides[1].sge(0, 4096)
                };
                pair.sides[1].post_recv(0, 1, &[sge]).expect("a receive");
                send(pair, 100);
                fails(pair, WcStatus::RemOpErr);
            },
            ..refused
        },
        plain,
    ]
}

/// Posts one request of the first side.
fn post(pair: &mut Sides, op: Op<'_>, flags: SendFlags) {
    let request = SendWr {
        wr_id: 1,
        op,
        flags: flags | SendFlags::SIGNALED,
    };
    pair.sides[0].post_send(0, &[request]).expect("a request");
}

fn send(pair: &mut Sides, bytes: usize) {
    let sge = pair.sides[0].sge(0, bytes);
    let data = Data::Sges(&[sge]);
    post(pair, Op::Send { data, imm: None }, SendFlags::empty());
}

fn receive(pair: &mut Sides, bytes: usize) {
    let sge = pair.sides[1].sge(pair.sides[1].incoming(), bytes);
    pair.sides[1].post_recv(0, 1, &[sge]).expect("a receive");
}

/// Waits for the request's completion, then takes whatever else comes.
fn fails(pair: &mut Sides, status: WcStatus) {
    let done = pair.completions(0, 1);
    assert_eq!(done[0].status, status);
    pair.during(Ns::from_ms(20));
    let _ = pair.sides[1].take();
}

fn not_ready(pair: &mut Sides) {
    send(pair, 100);
    pair.during(Ns::from_ms(5));
    receive(pair, 4096);
    for side in 0..2 {
        assert_eq!(pair.completions(side, 1)[0].status, WcStatus::Success);
    }
}

/// Every request of a reliable connection at lengths around the packet's.
fn every_request(pair: &mut Sides) {
    for size in [0, 1, 2, 3, 4, 1023, 1024, 1025, 2048, 5000] {
        for kind in KINDS {
            for from in [A, B] {
                pair.transfer(from, &Transfer::new(kind, size));
            }
        }
        for kind in &KINDS[..2] {
            let imm = Some(0x0102_0304);
            pair.transfer(
                A,
                &Transfer {
                    imm,
                    ..Transfer::new(*kind, size)
                },
            );
        }
        solicited(pair, size);
        invalidating(pair, size, SendFlags::empty());
        invalidating(pair, size, SendFlags::SOLICITED);
    }
}

fn solicited(pair: &mut Sides, bytes: usize) {
    let sges = [pair.sides[0].sge(0, bytes)];
    let remote = pair.remote(A, pair.sides[1].incoming());
    let data = Data::Sges(&sges);
    for imm in [None, Some(7)] {
        receive(pair, 8192);
        post(pair, Op::Send { data, imm }, SendFlags::SOLICITED);
        succeeds(pair);
    }
    receive(pair, 8192);
    let imm = Some(8);
    post(pair, Op::Write { data, remote, imm }, SendFlags::SOLICITED);
    succeeds(pair);
}

fn invalidating(pair: &mut Sides, bytes: usize, flags: SendFlags) {
    let memory = Buffer::new(4096);
    let there = &mut pair.sides[1];
    let mr = there
        .control
        .reg_mr(&there.pd, memory.bytes(), Setup::ACCESS);
    let mr = mr.expect("a region");
    receive(pair, 8192);
    let sge = pair.sides[0].sge(0, bytes);
    let data = Data::Sges(&[sge]);
    let rkey = mr.rkey();
    post(pair, Op::SendInv { data, rkey }, flags);
    succeeds(pair);
    let gone = pair.sides[1].control.dereg_mr(mr);
    gone.map_err(|(_, error)| error).expect("deregistered");
}

fn succeeds(pair: &mut Sides) {
    for side in [0, 1] {
        assert_eq!(pair.completions(side, 1)[0].status, WcStatus::Success);
    }
}

fn record(folder: &Path, scene: &Scene) {
    let sim = Sim::builder().functions(2).seed(1).build();
    let file = File::create(folder.join(format!("{}.pcap", scene.name))).expect("a file");
    let writer = Writer::new(BufWriter::new(file)).expect("a capture");
    let shared = Arc::new(Mutex::new((writer, 0_u64)));
    let sink = Arc::clone(&shared);
    sim.set_capture(Some(Box::new(move |frame| {
        let mut shared = sink.lock().expect("nobody panicked");
        shared.0.frame(frame.time, frame.bytes).expect("written");
        shared.1 += 1;
    })));
    let mut pair = Pair::simulated(&sim, scene.setup);
    sim.set_quality(scene.quality);
    (scene.run)(&mut pair);
    pair.finish(&sim);
    sim.set_capture(None);
    let mut shared = shared.lock().expect("nobody panicked");
    shared.0.flush().expect("written");

    let mut expected = format!("frames {}\n", shared.1);
    for (what, values) in [("opcode", scene.opcodes), ("syndrome", scene.syndromes)] {
        for value in values {
            writeln!(expected, "{what} {value:#04x}").expect("a string");
        }
    }
    fs::write(folder.join(format!("{}.expect", scene.name)), expected).expect("written");
}

fn main() {
    let folder = std::env::args_os().nth(1).expect("a folder");
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).expect("the folder");
    for scene in scenes().into_iter().chain(of_every_backend()) {
        record(folder, &scene);
    }
}

/// What every backend runs, datagrams among it: a capture each.
fn of_every_backend() -> impl Iterator<Item = Scene> {
    const DATAGRAM: &[u8] = &[0x64];
    // Where every send fails, nothing is on the wire.
    let silent = ["a failed datagram", "datagrams longer than a packet"];
    let scenarios = scenarios().into_iter();
    let loud = scenarios.filter(move |scenario| !silent.contains(&scenario.name));
    (1..).zip(loud).map(|(n, scenario)| Scene {
        name: format!("scenario-{n:02}-{}", scenario.name.replace(' ', "-")),
        setup: scenario.setup,
        quality: Quality::PERFECT,
        opcodes: match scenario.setup.qp_type {
            QpType::Ud => DATAGRAM,
            _ => &[],
        },
        syndromes: &[],
        run: scenario.run,
    })
}
