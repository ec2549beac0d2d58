//! Choices about counters. The sources have their names.

/// Where packets of a queue pair with counters of its own are counted (STAT_INDEX, control-path 5.2).
/// Existing drivers set them for no queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OwnCounters {
    /// There alone.
    Apart,
    /// With the function's, too.
    Both,
}

/// What octets of GATHER_STATS are (control-path 4.13).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Octets {
    /// Those of the IP datagrams.
    Datagrams,
    /// Those of the frames.
    Frames,
}

/// What the counters of sends and writes count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CountedSends {
    /// Messages, at their last packet.
    Messages,
    /// Packets.
    Packets,
}

/// Whether byte counters of ports and VSIs include the FCS. DPDK subtracts four bytes a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CountedFcs {
    /// They do.
    Included,
    /// They do not.
    LeftOut,
}
