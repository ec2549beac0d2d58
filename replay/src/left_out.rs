//! What is not compared, and why.

use e810_cqp::Opcode;
use e810_hal::RegOffset;
use e810_trace::Answer;

/// Counters of frames (lan-path 13): the name, where they begin, and how many bytes they are, for all
/// ports or VSIs.
const COUNTERS: &[(&str, u32, u32)] = &[
    ("GLPRT_GORC", 0x38_0000, PORTS),
    ("GLPRT_PRC by size", 0x38_0900, 7 * PORTS),
    ("GLPRT_GOTC", 0x38_0B40, PORTS),
    ("GLPRT_PTC by size", 0x38_0B80, 7 * PORTS),
    ("GLPRT_UPTC", 0x38_11C0, PORTS),
    ("GLPRT_MPTC", 0x38_1200, PORTS),
    ("GLPRT_BPTC", 0x38_1240, PORTS),
    ("GLPRT_UPRC", 0x38_1300, PORTS),
    ("GLPRT_MPRC", 0x38_1340, PORTS),
    ("GLPRT_BPRC", 0x38_1380, PORTS),
    ("GLV_GOTC", 0x30_0000, VSIS),
    ("GLV_UPTC", 0x30_A000, VSIS),
    ("GLV_MPTC", 0x30_C000, VSIS),
    ("GLV_BPTC", 0x30_E000, VSIS),
    ("GLV_GORC", 0x3B_0000, VSIS),
    ("GLV_UPRC", 0x3B_2000, VSIS),
    ("GLV_MPRC", 0x3B_4000, VSIS),
    ("GLV_BPRC", 0x3B_6000, VSIS),
];
const _: () = assert!(COUNTERS.len() <= 20);

/// A counter of 64 bits for each of eight ports, and for each of 768 VSIs.
const PORTS: u32 = 8 * 8;
const VSIS: u32 = 8 * 768;

/// Why they are left out.
pub(crate) const FRAMES: &str =
    "counts frames by size and destination, which are contents that no recording has";

/// Why what two recordings do not have alike is left out.
pub(crate) const DIFFERS: &str = "other values in another recording of the same";

/// The name of a register that is not compared.
pub(crate) fn register(offset: RegOffset) -> Option<&'static str> {
    let offset = offset.get();
    let is_in = |(_, first, bytes): &&(&str, u32, u32)| (*first..first + bytes).contains(&offset);
    COUNTERS.iter().find(is_in).map(|(name, ..)| *name)
}

/// The name of answers that are not compared, and why.
pub(crate) fn answer(place: Answer) -> Option<(&'static str, &'static str)> {
    (place == Answer::CqpReply(Opcode::GatherStats.code())).then_some((
        "replies to GATHER_STATS",
        "they count packets, and how many acknowledgements go depends on when a peer takes messages",
    ))
}
