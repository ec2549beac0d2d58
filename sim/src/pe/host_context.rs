//! The host context of a QP: its fields (control-path 5.2), the fields that each command takes, and
//! the bits that are ignored.

use std::net::Ipv6Addr;

use super::config::Config;
use super::qp::{HOST_WORDS, Qp, QpType, State};
use super::ring::Memory;
use super::stag_wqe::Allowed;
use super::word::{bit, bits, bits8, bits16, bits32, mask};
use crate::rc::{
    BadMtu, ConfigError, PathMtu, QpConfig, RETRANSMIT_NS, RNR_TIMER_CODE, retransmit_ns,
};
use crate::variation::{AckCredits, AckTime, ReadSink, SendCredits};
use crate::wire::{Addresses, Path};

/// AETH credit code "not limited".
const UNLIMITED: u8 = 31;

/// The parts of the host context that a command names (flags of q24, control-path 4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pieces {
    pub(crate) ord: bool,
    /// TOECTXVALID.
    pub(crate) tcp: bool,
    pub(crate) cq_numbers: bool,
    pub(crate) mac: bool,
    pub(crate) arp_index: bool,
}

impl Pieces {
    pub(crate) fn new(header: u64) -> Self {
        Self {
            ord: bit(header, 42),
            tcp: bit(header, 43),
            cq_numbers: bit(header, 47),
            mac: bit(header, 51),
            arp_index: bit(header, 59),
        }
    }
}

/// A host context value that the device cannot work with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadContext {
    #[error("SNDMSS: {0}")]
    Mtu(#[from] BadMtu),
    #[error(transparent)]
    Ring(#[from] ConfigError),
    #[error("IRDSIZE code {0}; codes are 0 to 4")]
    Ird(u8),
}

impl Qp {
    fn word(&self, offset: usize) -> u64 {
        self.host.get(offset / 8).copied().unwrap_or(0)
    }

    /// TXCQNUM.
    pub(crate) fn send_cq(&self) -> u32 {
        bits32(self.word(136), 24, 0)
    }

    /// RXCQNUM.
    pub(crate) fn receive_cq(&self) -> u32 {
        bits32(self.word(136), 56, 32)
    }

    /// QPCOMPCTX.
    pub(crate) fn completion_context(&self) -> u64 {
        self.word(168)
    }

    /// QSHANDLE.
    pub(crate) fn queue_set(&self) -> u16 {
        bits16(self.word(176), 25, 16)
    }

    /// STAT_INDEX, if USESTATSINSTANCE is set.
    pub(crate) fn statistics_instance(&self) -> Option<u8> {
        bit(self.word(160), 26).then(|| bits8(self.word(144), 6, 0))
    }

    /// ARPIDX.
    pub(crate) fn arp_index(&self) -> u16 {
        bits16(self.word(48), 63, 48)
    }

    /// PDIDXHI and PDIDX.
    pub(crate) fn pd(&self) -> u32 {
        bits32(self.word(56), 63, 48) | bits32(self.word(0), 21, 20) << 16
    }

    /// Memory of the send queue.
    pub(crate) fn send_memory(&self) -> Memory {
        Memory::new(self.mapped, self.word(8), self.word(8))
    }

    /// Memory of the receive queue.
    pub(crate) fn receive_memory(&self) -> Memory {
        Memory::new(self.mapped, self.word(16), self.word(16))
    }

    /// SQSIZE in quanta.
    pub(crate) fn send_quanta(&self) -> u32 {
        4 << bits(self.word(24), 15, 12)
    }

    /// RQSIZE in quanta.
    pub(crate) fn receive_quanta(&self) -> u32 {
        4 << bits(self.word(24), 11, 8)
    }

    /// RQWQESIZE in quanta: 1, 2, 4 or 8.
    pub(crate) fn receive_slot_quanta(&self) -> u32 {
        1 << bits(self.word(0), 9, 8)
    }

    /// STag operations that the context allows work requests.
    pub(crate) fn allowed(&self, qpn: u32) -> Allowed {
        Allowed {
            qpn,
            pd: self.pd(),
            privileged: bit(self.word(160), 25),
            fast_register: bit(self.word(160), 24),
            bind: bit(self.word(160), 23),
        }
    }

    /// Takes the parts of a new host context that a MODIFY_QP to `next` names.
    ///
    /// The flags name CQ numbers, MAC, ARP index, ORD and, on iWARP, the TCP part. Nothing names
    /// the rest, and Linux relies on it being taken (5.5), so taking it is \[inf context_taken\].
    /// There are exceptions, because later rebuilds of the same context by Linux still hold the old
    /// values: ring geometry is taken at creation only, the path MTU and the expected PSN on the
    /// way to RTR, and the send PSNs on the way from RTR to RTS.
    pub(crate) fn take(&mut self, new: &[u64; HOST_WORDS], pieces: Pieces, next: State) {
        let to_rtr = next == State::Rtr || (next == State::Rts && self.state() == State::Idle);
        let to_rts = next == State::Rts && !matches!(self.state(), State::Rts | State::Sqd);
        let roce = matches!(self.kind, QpType::RoceRc | QpType::RoceUd);
        for (n, (old, new)) in self.host.iter_mut().zip(new).enumerate() {
            let offset = n * 8;
            let mut kept = match offset {
                0 => mask(9, 8),
                8 | 16 => u64::MAX,
                24 => mask(15, 8),
                48 => {
                    (if to_rtr { 0 } else { mask(29, 16) })
                        | if pieces.arp_index { 0 } else { mask(63, 48) }
                }
                80 | 96 if roce && !to_rts => u64::MAX,
                88 if roce && !to_rtr => u64::MAX,
                136 if !pieces.cq_numbers => u64::MAX,
                152 if !pieces.mac => u64::MAX,
                160 if !pieces.ord => mask(7, 0),
                208 if !pieces.arp_index => u64::MAX,
                _ => 0,
            };
            // The TCP part of an iWARP context (5.2, last paragraph).
            if !roce && !pieces.tcp && matches!(offset, 32 | 40 | 48 | 72..=120 | 184..=208) {
                kept = u64::MAX;
            }
            *old = *old & kept | new & !kept;
        }
    }

    /// The part of the context that the RC engine needs, with overrides for some of it.
    pub(crate) fn rc_config(&self, qpn: u32, choices: &Config) -> Result<QpConfig, BadContext> {
        let limits = &choices.transport;
        let credits = match choices.variation.ack_credits {
            AckCredits::OfContext => bits8(self.word(56), 24, 20),
            AckCredits::Unlimited => UNLIMITED,
        };
        let ird_code = bits8(self.word(160), 18, 16);
        let ird = [2, 8, 32, 64, 128]
            .get(usize::from(ird_code))
            .copied()
            .ok_or(BadContext::Ird(ird_code))?;
        let config = QpConfig {
            qpn,
            dest_qpn: bits32(self.word(64), 23, 0),
            pd: self.pd(),
            pkey: bits16(self.word(56), 47, 32),
            path: self.path(),
            mtu: PathMtu::try_from(bits16(self.word(48), 29, 16))?,
            sq_quanta: self.send_quanta(),
            rq_quanta: self.receive_quanta(),
            rq_slot_quanta: 1 << bits(self.word(0), 9, 8),
            ord: bits8(self.word(160), 7, 0),
            ird,
            retry: bits8(self.word(128), 53, 48),
            rnr_retry: bits8(self.word(128), 56, 54),
            // With an empty window nothing would ever be sent.
            window: limits
                .window
                .unwrap_or(bits32(self.word(112), 55, 32))
                .max(1),
            retransmit_ns: limits.ack_timeout.map_or_else(
                || ack_time(choices, bits8(self.word(128), 63, 57)),
                |time| time.0,
            ),
            credits: limits.ack_credits.unwrap_or(credits) & 0x1F,
            blames_read: choices.variation.read_sink == ReadSink::Request,
            obeys_credits: choices.variation.send_credits == SendCredits::Obeyed,
            rnr_timer: limits.rnr_timer.unwrap_or(RNR_TIMER_CODE) & 0x1F,
            read_ok: bit(self.word(160), 21),
            write_ok: bit(self.word(160), 20),
        };
        config.validate()?;
        Ok(config)
    }

    /// Addresses of outbound packets. The destination MAC comes from the ARP table when a packet is
    /// sent.
    fn path(&self) -> Path {
        // Words 0 and 1 of the address are in the later qword; the first of each pair is in the
        // high half.
        let v6 = |low: usize| {
            Ipv6Addr::from_bits(u128::from(self.word(low + 8)) << 64 | u128::from(self.word(low)))
        };
        let ip = if bit(self.word(0), 3) {
            Addresses::V4 {
                src: bits32(self.word(184), 31, 0).into(),
                dst: bits32(self.word(32), 31, 0).into(),
            }
        } else {
            Addresses::V6 {
                src: v6(184),
                dst: v6(32),
            }
        };
        Path {
            src_mac: mac_bytes(bits(self.word(152), 63, 16)),
            dst_mac: [0; 6],
            vlan: bit(self.word(0), 5).then(|| bits16(self.word(48), 47, 32)),
            ip,
            tos: bits8(self.word(24), 31, 24),
            ttl: bits8(self.word(24), 7, 0),
            flow_label: bits32(self.word(56), 19, 0),
            src_port: bits16(self.word(24), 47, 32),
            dst_port: bits16(self.word(24), 63, 48),
        }
    }

    /// PSNNXT and EPSN.
    pub(crate) fn psns(&self) -> (u32, u32) {
        (bits32(self.word(80), 23, 0), bits32(self.word(88), 23, 0))
    }
}

impl Qp {
    /// PSNMAX and PSNUNA.
    pub(crate) fn send_psns(&self) -> [u32; 2] {
        let word = self.word(96);
        [bits32(word, 23, 0), bits32(word, 55, 32)]
    }

    /// LSN.
    pub(crate) fn send_limit(&self) -> u32 {
        bits32(self.word(80), 55, 32)
    }

    /// DCQCNENABLE.
    pub(crate) fn handles_congestion(&self) -> bool {
        bit(self.word(160), 22)
    }
}

/// The octets of a MAC number: the first is in \[47:40\].
pub(crate) fn mac_bytes(number: u64) -> [u8; 6] {
    let [_, _, octets @ ..] = number.to_be_bytes();
    octets
}

/// Bits that a RoCE context defines (column R of control-path 5.2).
#[rustfmt::skip]
const ROCE_BITS: [u64; HOST_WORDS] = [
    mask(3, 3) | mask(6, 5) | mask(9, 8) | mask(11, 11) | mask(21, 19) | mask(25, 25) | mask(41, 28) | mask(47, 47)
        | mask(63, 60),
    u64::MAX, u64::MAX, !mask(23, 16), u64::MAX, u64::MAX, mask(29, 16) | mask(63, 32),
    mask(24, 0) | mask(63, 32), mask(23, 0) | mask(63, 32), 0, mask(23, 0) | mask(55, 32), mask(23, 0),
    mask(23, 0) | mask(55, 32), 0, mask(55, 32), 0, mask(46, 32) | mask(63, 48), mask(24, 0) | mask(56, 32),
    mask(6, 0), mask(63, 16), mask(7, 0) | mask(28, 16) | mask(31, 31), u64::MAX, mask(25, 0),
    u64::MAX, u64::MAX, mask(39, 32) | mask(63, 52), mask(16, 0), 0, 0, 0, 0, 0,
];

/// Undefined bits that are set in a RoCE host context: byte offset of the word, and the bits.
pub(crate) fn undefined_bits(host: &[u64; HOST_WORDS]) -> Option<(usize, u64)> {
    host.iter()
        .zip(&ROCE_BITS)
        .position(|(word, defined)| word & !defined != 0)
        .map(|n| {
            (
                n * 8,
                host.get(n).unwrap_or(&0) & !ROCE_BITS.get(n).unwrap_or(&0),
            )
        })
}

/// The acknowledge time of an RTOMIN.
fn ack_time(choices: &Config, rtomin: u8) -> u64 {
    match choices.variation.ack_time {
        AckTime::Proportional => retransmit_ns(rtomin),
        AckTime::Fixed => RETRANSMIT_NS,
    }
}
