//! Test bed: two QPs, a link with configurable faults, and time.

use std::net::Ipv4Addr;

use super::node::{Node, PD};
use super::post::{Post, Sge, Software};
use crate::rc::{
    Mode, Outcome, PathMtu, QpConfig, QpRcState, RETRANSMIT_NS, RNR_TIMER_CODE, handle_packet,
    poll, timer,
};
use crate::wire::{Addresses, Packet, Path};

/// One end of the connection.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub(super) state: QpRcState,
    pub(super) node: Node,
    pub(super) software: Software,
}

impl End {
    pub(super) fn post(&mut self, post: &Post) -> u16 {
        self.software.post(&mut self.node, post)
    }

    pub(super) fn receive(&mut self, sges: &[Sge]) -> u16 {
        self.software.receive(&mut self.node, sges)
    }

    /// Polls until nothing more is sent.
    pub(super) fn poll(&mut self) {
        let mut calls = 0;
        while poll(&mut self.state, &mut self.node) {
            calls += 1;
            assert!(calls < 10_000, "poll never ends");
        }
    }

    /// Polls and returns the sent frames.
    pub(super) fn emit(&mut self) -> Vec<Vec<u8>> {
        self.poll();
        std::mem::take(&mut self.node.out)
    }

    pub(super) fn take_in(&mut self, frame: &[u8]) -> Outcome {
        handle_packet(
            &mut self.state,
            &Packet::parse(frame).unwrap(),
            &mut self.node,
        )
    }
}

/// How the link treats frames, in permille.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct LinkFaults {
    pub(super) loss: u64,
    pub(super) duplication: u64,
    pub(super) reordering: u64,
}

/// A small deterministic generator (xorshift64*).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

pub(super) struct Testbed {
    pub(super) a: End,
    pub(super) b: End,
    pub(super) link_faults: LinkFaults,
    random: Random,
    /// Frames in flight: `true` is for frames to `b`.
    link: Vec<(bool, Vec<u8>)>,
    /// Stores and restores both states after every call.
    pub(super) stored: bool,
    /// Frames put on the link.
    pub(super) frames: usize,
}

pub(super) const SQ: u32 = 64;
pub(super) const RQ: u32 = 64;
pub(super) const SLOT: u8 = 2;
pub(super) const WINDOW: u32 = 256;
/// The value that existing drivers use for ACKCREDITS.
pub(super) const CREDITS: u8 = 0x1E;

pub(super) fn config(own: u8, peer: u8, mtu: PathMtu) -> QpConfig {
    QpConfig {
        qpn: 0x100 + u32::from(own),
        dest_qpn: 0x100 + u32::from(peer),
        pd: PD,
        pkey: 0xFFFF,
        path: Path {
            src_mac: [2, 0, 0, 0, 0, own],
            dst_mac: [2, 0, 0, 0, 0, peer],
            ip: Addresses::V4 {
                src: Ipv4Addr::new(10, 0, 0, own),
                dst: Ipv4Addr::new(10, 0, 0, peer),
            },
            ..Path::default()
        },
        mtu,
        sq_quanta: SQ,
        rq_quanta: RQ,
        rq_slot_quanta: SLOT,
        ord: 8,
        ird: 8,
        retry: 7,
        rnr_retry: 7,
        window: WINDOW,
        retransmit_ns: RETRANSMIT_NS,
        credits: CREDITS,
        rnr_timer: RNR_TIMER_CODE,
        obeys_credits: true,
        blames_read: false,
        read_ok: true,
        write_ok: true,
    }
}

fn end(config: QpConfig, send_psn: u32, receive_psn: u32, seed: u8) -> End {
    config.validate().unwrap();
    let mut state = QpRcState::new(config);
    state.set_receive_psn(receive_psn);
    state.set_send_psn(send_psn);
    state.set_mode(Mode::Rts);
    let mut node = Node::new(config.sq_quanta, config.rq_quanta, config.ird);
    node.fill(seed);
    End {
        state,
        node,
        software: Software::new(usize::from(config.rq_slot_quanta)),
    }
}

impl Testbed {
    pub(super) fn new(mtu: PathMtu) -> Self {
        Self::with_psns(mtu, 0x12_3456, 0x65_4321)
    }

    pub(super) fn with_psns(mtu: PathMtu, psn_a: u32, psn_b: u32) -> Self {
        Self {
            a: end(config(1, 2, mtu), psn_a, psn_b, 0xA5),
            b: end(config(2, 1, mtu), psn_b, psn_a, 0x3C),
            link_faults: LinkFaults::default(),
            random: Random::new(1),
            link: Vec::new(),
            stored: false,
            frames: 0,
        }
    }

    pub(super) fn with_link_faults(mut self, link_faults: LinkFaults, seed: u64) -> Self {
        self.link_faults = link_faults;
        self.random = Random::new(seed);
        for end in [&mut self.a, &mut self.b] {
            end.state.config.retry = 63;
        }
        self
    }

    fn chance(&mut self, permille: u64) -> bool {
        permille != 0 && self.random.below(1000) < permille
    }

    fn store(&mut self) {
        if self.stored {
            for end in [&mut self.a, &mut self.b] {
                let bytes = end.state.to_bytes();
                let state = QpRcState::from_bytes(&bytes).unwrap();
                assert_eq!(state, end.state);
                end.state = state;
            }
        }
    }

    /// One poll of either end; its frames go on the link, which loses some and doubles some.
    fn poll_once(&mut self) -> bool {
        let mut more = false;
        for to_b in [true, false] {
            let end = if to_b { &mut self.a } else { &mut self.b };
            more |= poll(&mut end.state, &mut end.node);
            for frame in std::mem::take(&mut end.node.out) {
                self.frames += 1;
                if self.chance(self.link_faults.loss) {
                    continue;
                }
                if self.chance(self.link_faults.duplication) {
                    self.link.push((to_b, frame.clone()));
                }
                self.link.push((to_b, frame));
            }
            self.store();
        }
        more
    }

    fn deliver_one(&mut self) -> bool {
        if self.link.is_empty() {
            return false;
        }
        let index = if self.chance(self.link_faults.reordering) {
            self.random.below(self.link.len() as u64) as usize
        } else {
            0
        };
        let (to_b, frame) = self.link.remove(index);
        let end = if to_b { &mut self.b } else { &mut self.a };
        end.take_in(&frame);
        self.store();
        true
    }

    /// Lets time pass until the next deadline; `false` if there is none.
    fn wait(&mut self) -> bool {
        let deadlines = [self.a.state.next_deadline(), self.b.state.next_deadline()];
        let Some(at) = deadlines.into_iter().flatten().min() else {
            return false;
        };
        for end in [&mut self.a, &mut self.b] {
            end.node.now = end.node.now.max(at);
            timer(&mut end.state, &mut end.node);
        }
        self.store();
        true
    }

    /// Runs until nothing happens any more.
    pub(super) fn run(&mut self) {
        for _ in 0..1_000_000 {
            if !self.poll_once() && !self.deliver_one() && !self.wait() {
                return;
            }
        }
        panic!("no end: {:?} {:?}", self.a.state, self.b.state);
    }

    /// Runs until both ends wait for a timer.
    pub(super) fn settle(&mut self) {
        while self.poll_once() || self.deliver_one() {}
    }
}
