//! The JSON of `e810 pingpong`.

use serde::Serialize;

use crate::measure::latency::Summary;
use crate::output::asked::Asked;
use crate::output::counters::Counters;
use crate::output::ended::Ended;
use crate::output::wire::WireReport;

/// The JSON of `e810 pingpong`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PingpongReport {
    /// What carried the packets: `simulated` in this process, or `vfio-user`.
    pub transport: &'static str,
    /// The simulated wire; absent where it is not of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireReport>,
    /// How it ended: where it is not `complete`, there are fewer iterations than were asked for.
    pub ended: Ended,
    /// What it was asked for.
    pub asked: Asked,
    /// `rc` or `ud`.
    pub service: &'static str,
    /// `send`, `write` or `read`.
    pub op: &'static str,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Iterations that were done.
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
