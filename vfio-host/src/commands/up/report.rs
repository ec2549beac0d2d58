//! The JSON of `e810 up`.

use serde::Serialize;

use crate::measure::latency::Summary;

/// One stage in the JSON of `e810 up`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StageReport {
    pub name: &'static str,
    /// Time it took, in nanoseconds.
    pub ns: u64,
    pub register_reads: u64,
    pub register_writes: u64,
    /// CQP commands.
    pub commands: u64,
    /// AdminQ commands.
    pub admin_commands: u64,
}

/// Memory of one kind of HMC object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ObjectReport {
    pub name: String,
    /// Objects committed.
    pub count: u64,
    pub object_bytes: u64,
    /// Bytes backed when everything is backed at once.
    pub bytes: u64,
    /// Objects that Linux' formula commits.
    pub linux_count: u64,
    /// Bytes that Linux' formula takes for them, from the same table.
    pub linux_bytes: u64,
}

/// The LAN side of a function that was started cold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LanReport {
    /// Ethernet address.
    pub mac: String,
    /// Hardware number of its VSI.
    pub vsi: u32,
    /// The card's port, from 0, as the firmware counts.
    pub port: u8,
    /// Version of the package that the card works with.
    pub package: String,
    /// Whether this function loaded it; otherwise another one had.
    pub package_loaded: bool,
    /// Speed of the link in Mbit/s; 0 when it is not known.
    pub link_mbps: u32,
    /// Error correction that was negotiated; meaningless without a link.
    pub link_fec: &'static str,
}

/// The JSON of `e810 up`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UpReport {
    /// How the engine was reached: `simulated` in this process, or `vfio-user`.
    pub transport: &'static str,
    /// The stages, in order.
    pub stages: Vec<StageReport>,
    /// The LAN side; absent if it was up already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan: Option<LanReport>,
    /// Host memory given to the HMC with everything backed at once.
    pub hmc_bytes: u64,
    /// The same when objects are backed on demand.
    pub hmc_bytes_on_demand: u64,
    /// What Linux' formula takes for the same table.
    pub hmc_bytes_linux: u64,
    pub hmc_objects: Vec<ObjectReport>,
    /// Time of all stages, in nanoseconds.
    pub total_ns: u64,
    /// A register read, there and back; absent on the simulator in this
    /// process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register_read_ns: Option<Summary>,
    /// From the register write that makes a vector fire to the thread that waits for it; absent as
    /// above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<Summary>,
}
