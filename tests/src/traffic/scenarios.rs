//! Scenarios that every backend runs: the same sources on the simulator, on
//! functions that another process serves, and on functions bound to vfio-pci.

#![expect(
    clippy::indexing_slicing,
    reason = "helpers of tests: a side that is not there ends the test"
)]

use e810::{Data, Op, Platform, QpCaps, SendFlags, SendWr, Vlan, WcStatus};

use super::{End, Kind, Pair, Room, Setup, Transfer, pattern, verbs};

/// Queue pair 0 of the first side.
pub const A: End = End { side: 0, qp: 0 };
/// Queue pair 0 of the second side.
pub const B: End = End { side: 1, qp: 0 };
/// Every operation.
pub const KINDS: [Kind; 3] = [Kind::Send, Kind::Write, Kind::Read];

/// What is done with two devices that are up and connected.
#[derive(Debug)]
pub struct Scenario<P: Platform> {
    pub name: &'static str,
    /// What the devices are set up with.
    pub setup: Setup,
    /// What is done; it ends with nothing outstanding.
    pub run: fn(&mut Pair<P>),
}

/// Name, set-up, and what is done.
type Row<P> = (&'static str, Setup, fn(&mut Pair<P>));

#[must_use]
pub fn scenarios<P: Room>() -> Vec<Scenario<P>> {
    let many_sges = QpCaps {
        max_send_sge: 13,
        max_recv_sge: 13,
        ..Setup::default().caps
    };
    let list: Vec<Row<P>> = vec![
        ("sizes around a packet", Setup::default(), |pair| {
            around(1024, pair, [A, B]);
        }),
        (
            "IPv6",
            Setup {
                ipv6: true,
                ..Setup::default()
            },
            |pair| {
                around(1024, pair, [A, B]);
            },
        ),
        (
            "a tagged path",
            Setup {
                vlan: Some(Vlan {
                    id: 4094,
                    priority: 7,
                }),
                ..Setup::default()
            },
            |pair| around(1024, pair, [A, B]),
        ),
        ("immediate data", Setup::default(), immediate_data),
        (
            "inline of every length and cut",
            Setup {
                caps: many_sges,
                ..Setup::default()
            },
            inline_of_every_length_and_cut,
        ),
        (
            "every number of SGEs",
            Setup {
                caps: many_sges,
                ..Setup::default()
            },
            every_number_of_sges,
        ),
        ("rings that wrap", small(), |pair| {
            // SQ of 512 quanta, RQ of 64 slots, CQ of some 256 entries.
            many(pair, 5000, 1);
            many(pair, 600, 7);
        }),
    ];
    list.into_iter()
        .chain(of_verbs())
        .map(|(name, setup, run)| Scenario { name, setup, run })
        .collect()
}

/// Those of [`verbs`].
fn of_verbs<P: Room>() -> Vec<Row<P>> {
    let datagrams = verbs::datagrams::setup();
    let tagged = Setup {
        vlan: Some(Vlan { id: 8, priority: 3 }),
        ..datagrams
    };
    let ipv6 = Setup {
        ipv6: true,
        ..datagrams
    };
    let fast = Setup {
        fast_register: true,
        ..Setup::default()
    };
    let plain = Setup::default();
    vec![
        (
            "several queues on a channel",
            verbs::channels::setup(),
            verbs::channels::several_queues,
        ),
        (
            "unacknowledged events",
            verbs::channels::setup(),
            verbs::channels::unacknowledged,
        ),
        (
            "tasks that wait",
            verbs::channels::setup(),
            verbs::channels::tasks,
        ),
        ("datagrams", datagrams, verbs::datagrams::messages),
        ("datagrams over IPv6", ipv6, verbs::datagrams::messages),
        ("tagged datagrams", tagged, verbs::datagrams::messages),
        (
            "an unknown sender",
            datagrams,
            verbs::datagrams::an_unknown_sender,
        ),
        (
            "an unknown sender of IPv6",
            ipv6,
            verbs::datagrams::an_unknown_sender,
        ),
        (
            "an unknown sender on a VLAN",
            tagged,
            verbs::datagrams::an_unknown_sender,
        ),
        ("Q_Keys", datagrams, verbs::datagrams::keys),
        (
            "datagrams without a place",
            datagrams,
            verbs::datagrams::too_long_for_the_receive,
        ),
        (
            "datagrams longer than a packet",
            datagrams,
            verbs::datagrams::longer_than_a_packet,
        ),
        ("groups", datagrams, verbs::datagrams::groups),
        ("groups of IPv6", ipv6, verbs::datagrams::groups),
        ("groups on a VLAN", tagged, verbs::datagrams::groups),
        (
            "a failed datagram",
            datagrams,
            verbs::datagrams::a_failed_send,
        ),
        ("fast registration", fast, verbs::memory::fast_registration),
        (
            "every completion error",
            verbs::errors::setup(),
            verbs::errors::every_completion_error,
        ),
        (
            "receives filled first to last",
            plain,
            verbs::posting::filled_first_to_last,
        ),
        (
            "messages without bytes",
            plain,
            verbs::posting::without_bytes,
        ),
        ("zero-based regions", plain, verbs::memory::zero_based),
        ("re-registration", plain, verbs::memory::re_registration),
        ("stale keys", plain, verbs::memory::stale_keys),
        (
            "rights of a queue pair",
            plain,
            verbs::memory::queue_pair_rights,
        ),
        (
            "completion queues resized under load",
            plain,
            verbs::queues::resized_under_load,
        ),
        ("a drained send queue", plain, verbs::queues::drained),
        (
            "a new path while the send queue is drained",
            plain,
            verbs::queues::new_path_while_drained,
        ),
        (
            "queue pairs that end with nothing posted",
            plain,
            verbs::endings::with_nothing_posted,
        ),
        ("a queue pair begun anew", plain, verbs::queues::begun_anew),
        (
            "begun anew on two completion queues",
            verbs::queues::separate(),
            verbs::queues::begun_anew,
        ),
        (
            "completion vectors that come and go",
            plain,
            verbs::vectors::added_and_removed,
        ),
        (
            "interrupts that wait",
            verbs::moderation::setup(),
            verbs::moderation::settings,
        ),
    ]
}

fn inline_of_every_length_and_cut(pair: &mut Pair<impl Platform>) {
    for size in 0..=101 {
        for kind in [Kind::Send, Kind::Write] {
            for imm in [None, Some(0x0102_0304)] {
                let transfer = Transfer {
                    inline: true,
                    imm,
                    pieces: 1 + size % 13,
                    ..Transfer::new(kind, size)
                };
                pair.transfer(A, &transfer);
            }
        }
    }
}

fn immediate_data(pair: &mut Pair<impl Platform>) {
    for imm in [0, 1, 0x1234_5678, u32::MAX] {
        for kind in [Kind::Send, Kind::Write] {
            for size in [0, 1, 1024, 5000] {
                for from in [A, B] {
                    let transfer = Transfer {
                        imm: Some(imm),
                        ..Transfer::new(kind, size)
                    };
                    pair.transfer(from, &transfer);
                }
            }
        }
    }
}

fn every_number_of_sges(pair: &mut Pair<impl Platform>) {
    for pieces in 1..=13 {
        for kind in KINDS {
            for size in [100, 9000] {
                let transfer = Transfer {
                    pieces,
                    offset: 64 + pieces,
                    ..Transfer::new(kind, size)
                };
                pair.transfer(A, &transfer);
            }
        }
        for imm in [Some(7), None] {
            let transfer = Transfer {
                pieces,
                imm,
                ..Transfer::new(Kind::Write, 2500)
            };
            pair.transfer(B, &transfer);
        }
    }
}

/// Rings of the smallest size.
#[must_use]
pub fn small() -> Setup {
    Setup {
        caps: QpCaps {
            max_send_wr: 60,
            max_recv_wr: 60,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        },
        cqe: 128,
        ..Setup::default()
    }
}

/// All three operations, at sizes around one packet, both ways.
pub fn around(mtu: usize, pair: &mut Pair<impl Platform>, ends: [End; 2]) {
    for size in [0, 1, mtu - 1, mtu, mtu + 1] {
        for kind in KINDS {
            for from in ends {
                pair.transfer(from, &Transfer::new(kind, size));
            }
        }
    }
}

/// Posts one SEND of a part of the outgoing half.
pub fn send(
    pair: &mut Pair<impl Platform>,
    from: End,
    wr_id: u64,
    offset: usize,
    size: usize,
    signaled: bool,
) {
    let side = pair.side(from.side);
    let sge = side.sge(offset, size);
    let request = SendWr {
        wr_id,
        op: Op::Send {
            data: Data::Sges(&[sge]),
            imm: None,
        },
        flags: match signaled {
            true => SendFlags::SIGNALED,
            false => SendFlags::empty(),
        },
    };
    side.post_send(from.qp, &[request]).expect("posted");
}

/// Many messages through small queues: every ring wraps many times. Of `every`
/// sends one is signaled.
pub fn many(pair: &mut Pair<impl Platform>, messages: u64, every: u64) {
    const SLOT: usize = 1024;
    const AHEAD: u64 = 48;
    let incoming = pair.sides[1].incoming();
    let (mut posted, mut sent, mut received) = (0u64, 0u64, 0u64);
    let size = |n: u64| 1 + (n * 37 % SLOT as u64) as usize;
    let offset = |n: u64| (n % AHEAD) as usize * SLOT;
    pair.until("all messages", |pair| {
        while posted < messages && posted < sent.min(received) + AHEAD {
            let n = posted;
            let sge = pair.sides[1].sge(incoming + offset(n), SLOT);
            pair.sides[1].post_recv(0, n, &[sge]).expect("posted");
            let bytes = pattern(n, size(n));
            pair.sides[0].buffer.write(offset(n), &bytes);
            let signaled = n % every == every - 1 || n + 1 == messages;
            send(pair, A, n, offset(n), size(n), signaled);
            posted += 1;
        }
        for wc in pair.side(0).take() {
            assert_eq!(wc.status, WcStatus::Success);
            assert!(wc.wr_id % every == every - 1 || wc.wr_id + 1 == messages);
            assert!(wc.wr_id >= sent, "in order, each once");
            sent = wc.wr_id + 1;
        }
        for wc in pair.side(1).take() {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, received));
            assert_eq!(wc.byte_len as usize, size(received));
            let arrived = pair.sides[1]
                .buffer
                .read(incoming + offset(received), size(received));
            assert!(arrived == pattern(received, size(received)), "{received}");
            received += 1;
        }
        sent == messages && received == messages
    });
}
