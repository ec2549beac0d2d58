//! What commands print: the JSON of scripts and the text of people.

use e810::MacAddr;
use serde::Serialize;

use crate::commands::stat::Counters;
use crate::measure::latency::Summary;

/// The JSON of `e810 pingpong`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PingpongReport {
    /// What carried the packets: `simulated` in this process, or `vfio-user`.
    pub transport: &'static str,
    /// `rc` or `ud`.
    pub service: &'static str,
    /// `send`, `write` or `read`.
    pub op: &'static str,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Iterations; fewer than were asked for when a signal ended the run.
    pub iterations: u64,
    /// Iterations whose every byte was as expected.
    pub verified: u64,
    /// Iterations that differed.
    pub errors: u64,
    /// Datagrams that were sent again; absent where nothing gets lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Interrupts of the functions of this process; absent where they are not
    /// waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// What the counters of each function of this process have grown by, the
    /// asking one first; absent unless asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counters>,
    /// Latencies; absent in virtual time, which measures nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Summary>,
    /// Messages with payload per second, both directions together; absent in
    /// virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<f64>,
}

/// One stage in the JSON of `e810 up`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StageReport {
    /// Name of the stage.
    pub name: &'static str,
    /// Time it took, in nanoseconds.
    pub ns: u64,
    /// Register reads.
    pub register_reads: u64,
    /// Register writes.
    pub register_writes: u64,
    /// CQP commands.
    pub commands: u64,
    /// AdminQ commands.
    pub admin_commands: u64,
}

/// Memory of one kind of HMC object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ObjectReport {
    /// Name of the object.
    pub name: String,
    /// Objects committed.
    pub count: u64,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes backed when everything is backed at once.
    pub linux_count: u64,
    /// Bytes that Linux' formula takes for this object on the same table.
    pub linux_bytes: u64,
}

/// The LAN side of a function that was started cold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LanReport {
    /// Ethernet address.
    pub mac: String,
    /// Hardware number of its VSI.
    pub vsi: u32,
    /// Logical number of its port.
    pub port: u8,
    /// Version of the package that the card works with.
    pub package: String,
    /// Whether this function brought it; otherwise another one had.
    pub package_loaded: bool,
    /// Speed of the link in Mbit/s; 0 when it is not known.
    pub link_mbps: u32,
    /// Error correction that was negotiated; of no meaning without a link.
    pub link_fec: &'static str,
}

/// The JSON of `e810 up`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UpReport {
    /// How the engine was reached: `simulated` in this process, or `vfio-user`.
    pub transport: &'static str,
    /// The stages, in order.
    pub stages: Vec<StageReport>,
    /// The LAN side; absent when it was ready before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan: Option<LanReport>,
    /// Host memory given to the HMC with everything backed at once.
    pub hmc_bytes: u64,
    /// The same when objects are backed on demand.
    pub hmc_bytes_on_demand: u64,
    /// What Linux' formula takes on the same table.
    pub hmc_bytes_linux: u64,
    /// Object by object.
    pub hmc_objects: Vec<ObjectReport>,
    /// Time of all stages, in nanoseconds.
    pub total_ns: u64,
    /// A register read, there and back; absent on the simulator in this
    /// process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register_read_ns: Option<Summary>,
    /// From the register write that makes a vector fire to the thread that
    /// waits for it; as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<Summary>,
}

/// An Ethernet address as it is written.
#[must_use]
pub fn mac(mac: MacAddr) -> String {
    let [a, b, c, d, e, f] = mac.0;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// `bytes` with a binary unit.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if bytes >= size {
            return format!("{:.1} {unit}", bytes as f64 / size as f64);
        }
    }
    format!("{bytes} B")
}

/// The speed of a link in words; 0 is one that is not known.
#[must_use]
pub fn link_speed(mbps: u32) -> String {
    match mbps {
        0 => "speed not known".to_owned(),
        mbps => format!("{} Gbit/s", f64::from(mbps) / 1e3),
    }
}

/// `ns` with a unit that leaves few digits.
#[must_use]
pub fn human_ns(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 19), "1.5 MiB");
        assert_eq!(human_ns(9_999), "9999 ns");
        assert_eq!(human_ns(10_500), "10.5 µs");
        assert_eq!(human_ns(12_000_000), "12.0 ms");
    }
}
