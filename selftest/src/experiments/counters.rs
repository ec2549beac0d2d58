//! What counters count.

use anyhow::{Context, Result, bail};
use e810::{Counter, LanInit, Mtu, QpInit};
use e810_hal::{Bus as _, RegOffset};

use super::STOPS;
use crate::bench::Engine;
use crate::experiment::{Experiment, Risk, Seen};

/// Sends one message from the first of a pair to the second.
fn message(engine: &mut Engine<'_>, cq: usize, [from, to]: [usize; 2], bytes: u32) -> Result<()> {
    engine.receive(to)?;
    engine.send_bytes(from, bytes)?;
    engine.completions(cq, 2)?;
    Ok(())
}

pub(super) const OWN_COUNTERS: Experiment = Experiment {
    name: "own_counters",
    assumes: "packets of a queue pair with counters of its own are not in the function's counters",
    does: "sends a message from such a queue pair, and reads the function's counters",
    values: &["Apart", "Both"],
    if_not: "`e810 monitor` shows traffic of queue pairs with own counters twice.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let own = engine.qp_with(cq, |init| QpInit {
                counters: true,
                ..init
            })?;
            let pair = [own, engine.qp(cq)?];
            engine.connect(pair, None)?;
            let grown = engine.counted(|engine| message(engine, cq, pair, 100))?;
            if engine.counted_by(own)?.get(Counter::RdmaTxSends) != 1 {
                bail!("the queue pair's own counters do not count its message");
            }
            Ok(match grown.get(Counter::RdmaTxSends) {
                0 => Seen::Value("Apart"),
                1 => Seen::Value("Both"),
                other => Seen::Other(format!("{other} sends for one")),
            })
        })
    },
};

/// Bytes of a message, and of the datagrams that it takes: IPv6, UDP, BTH and ICRC around it, and an
/// acknowledge with its AETH.
const BYTES: u32 = 1000;
const DATAGRAM: u64 = 40 + 8 + 12 + 4 + BYTES as u64;
const ACKNOWLEDGE: u64 = 40 + 8 + 12 + 4 + 4;
/// Bytes around a datagram, with and without the FCS.
const AROUND: [u64; 2] = [14, 18];

pub(super) const OCTETS: Experiment = Experiment {
    name: "octets",
    assumes: "octets of the engine's counters are those of IP datagrams, without the Ethernet header",
    does: "sends a message, and compares octets and packets",
    values: &["Datagrams", "Frames"],
    if_not: "Octets in `e810 stat` and `e810 monitor` are those of frames.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let pair = engine.pair(cq)?;
            let grown = engine.counted(|engine| message(engine, cq, pair, BYTES))?;
            let octets = grown.get(Counter::Ip6TxOctets);
            let packets = grown.get(Counter::Ip6TxPackets);
            if packets != 2 {
                bail!("{packets} packets were counted for a message and its acknowledge");
            }
            let datagrams = DATAGRAM + ACKNOWLEDGE;
            let frames = AROUND.map(|around| datagrams + around * packets);
            Ok(if octets == datagrams {
                Seen::Value("Datagrams")
            } else if frames.contains(&octets) {
                Seen::Value("Frames")
            } else {
                Seen::Other(format!("{octets} octets in {packets} packets"))
            })
        })
    },
};

pub(super) const COUNTED_SENDS: Experiment = Experiment {
    name: "counted_sends",
    assumes: "the engine counts a send once, however many packets it takes",
    does: "sends a message of three packets, and reads the counter of sends",
    values: &["Messages", "Packets"],
    if_not: "`e810 stat` and `e810 monitor` count packets, not messages.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let pair = [engine.qp(cq)?, engine.qp(cq)?];
            engine.connect(pair, Some(Mtu::Mtu512))?;
            let grown = engine.counted(|engine| message(engine, cq, pair, 3 * 512))?;
            Ok(match grown.get(Counter::RdmaTxSends) {
                1 => Seen::Value("Messages"),
                3 => Seen::Value("Packets"),
                other => Seen::Other(format!("{other} sends for a message of three packets")),
            })
        })
    },
};

/// GLV_GOTC of VSI 0, low half, and the distance of the next one (lan-path 13).
const GLV_GOTC: u32 = 0x30_0000;
const GLV_GOTC_NEXT: u32 = 8;
/// Frames that are sent, and bytes of each, without FCS.
const FRAMES: u32 = 8;
const FRAME: usize = 100;

pub(super) const COUNTED_FCS: Experiment = Experiment {
    name: "counted_fcs",
    assumes: "byte counters of a VSI include the four bytes of the FCS",
    does: "sends frames of 100 bytes to the function's own address, and reads GLV_GOTC",
    values: &["Included", "LeftOut"],
    if_not: "Bytes of ports in `e810 stat` and `e810 monitor` are four fewer for each frame.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let lan = engine.control.lan();
            let at = GLV_GOTC + GLV_GOTC_NEXT * lan.vsi.get();
            let at = RegOffset::try_new(at).context("the VSI has no counter")?;
            let mut port = engine.control.open_lan(&LanInit::new(1500))?;
            let before = bench.device().read32(at);
            let frame = engine.own_frame(FRAME);
            let mut sent = Ok(());
            for _ in 0..FRAMES {
                sent = sent.and_then(|()| port.transmit(&frame));
            }
            let waited = engine.wait(STOPS);
            let grown = bench.device().read32(at).wrapping_sub(before);
            if let Err((_, error)) = engine.control.close_lan(port) {
                return Err(error.into());
            }
            sent?;
            waited?;
            let length = FRAME as u32;
            Ok(if grown == FRAMES * (length + 4) {
                Seen::Value("Included")
            } else if grown == FRAMES * length {
                Seen::Value("LeftOut")
            } else {
                Seen::Other(format!("{grown} bytes for {FRAMES} frames of {length}"))
            })
        })
    },
};
