//! A server's observations: as text for people, as JSON for scripts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use e810_sim::{Accesses, BringUp};
use e810_sim_wire::LinkReport;
use serde::Serialize;

/// Everything since the server was started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ServerReport {
    /// The functions, in the order of their sockets.
    pub functions: Vec<FunctionReport>,
    /// The wire to other processes, if there is one.
    pub link: Option<LinkReport>,
    /// The first findings: what the drivers did that a card would not have tolerated, or that they
    /// must not do.
    pub findings: Vec<FindingReport>,
    /// The number of all findings.
    pub findings_in_all: u64,
}

/// Counts of one function.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FunctionReport {
    /// The socket on which it was served.
    pub socket: String,
    /// Users that came and left.
    pub users: u64,
    pub register_reads: u64,
    /// Register writes, doorbells included.
    pub register_writes: u64,
    /// CQP commands executed.
    pub commands: u64,
    /// Frames put on the wire.
    pub frames_sent: u64,
    /// Frames taken from the wire.
    pub frames_received: u64,
    /// Interrupt messages that the device sent.
    pub interrupts: u64,
    /// Those that reached a user.
    pub interrupts_delivered: u64,
    /// The most DMA mappings that existed at once.
    pub most_dma_maps: u64,
    /// DMA mappings that could not be made.
    pub refused_dma_maps: u64,
    /// Interrupt settings without a meaning.
    pub refused_irqs: u64,
    /// Users that were disconnected because a file that they had given became shorter.
    pub cut_files: u64,
    /// DMA accesses that were refused; each is a finding too.
    pub dma_faults: u64,
    /// Requests that ended because the function was stopped while they ran.
    pub stopped: u64,
    /// Function-level resets, including those between two users.
    pub function_resets: u64,
    /// Resets of the PF through its registers.
    pub pf_resets: u64,
    /// Requests for an event of a completion queue, without those that were ignored.
    pub arms: u64,
    /// Requests that were ignored: their ARM_SEQ_NUM was not new.
    pub arms_repeated: u64,
    /// Entries written to completion event queues.
    pub ceqes: u64,
    /// Bytes of memory that the user shares with the device now.
    pub dma_bytes: u64,
    /// Register accesses and commands since the start, across resets.
    #[serde(flatten)]
    pub accesses: AccessReport,
    /// The cost of each bring-up, from a reset until the engine is ready.
    pub bring_ups: Vec<BringUpReport>,
    /// AdminQ commands that were refused: opcode and code as text, how often.
    pub refused_commands: BTreeMap<String, u64>,
}

/// Register accesses and commands by kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AccessReport {
    /// Reads by register.
    pub reads_of: BTreeMap<String, u64>,
    /// Writes by register; those of the doorbell page are DB_WQE_ALLOC and DB_CQ_ARM.
    pub writes_of: BTreeMap<String, u64>,
    /// AdminQ commands by opcode.
    pub adminq_of: BTreeMap<String, u64>,
    /// CQP commands by opcode.
    pub cqp_of: BTreeMap<String, u64>,
}

impl From<&Accesses> for AccessReport {
    fn from(counted: &Accesses) -> Self {
        let named = |of: &BTreeMap<&'static str, u64>| {
            let named = of.iter().map(|(name, count)| ((*name).to_owned(), *count));
            named.collect::<BTreeMap<_, _>>()
        };
        let adminq = counted.adminq.iter();
        let cqp = counted.cqp.iter();
        Self {
            reads_of: named(&counted.register_reads),
            writes_of: named(&counted.register_writes),
            adminq_of: adminq
                .map(|(opcode, count)| (format!("{opcode:#06x}"), *count))
                .collect(),
            cqp_of: cqp
                .map(|(opcode, count)| (format!("{opcode:#04x}"), *count))
                .collect(),
        }
    }
}

/// The cost of one bring-up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct BringUpReport {
    /// Register reads in all.
    pub reads: u64,
    /// Register writes in all.
    pub writes: u64,
    /// AdminQ commands in all.
    pub adminq: u64,
    /// CQP commands in all.
    pub cqp: u64,
    /// Bytes of host memory behind the engine's objects.
    pub hmc_bytes: u64,
    #[serde(flatten)]
    pub accesses: AccessReport,
}

impl From<&BringUp> for BringUpReport {
    fn from(cost: &BringUp) -> Self {
        let counted = &cost.accesses;
        Self {
            reads: counted.register_reads.values().sum(),
            writes: counted.register_writes.values().sum(),
            adminq: counted.adminq.values().sum(),
            cqp: counted.cqp.values().sum(),
            hmc_bytes: cost.hmc_bytes,
            accesses: counted.into(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FindingReport {
    /// The function concerned.
    pub function: u8,
    /// A stable short name.
    pub kind: String,
    /// The whole finding, for a person.
    pub text: String,
}

impl ServerReport {
    /// Writes the text for people.
    ///
    /// # Errors
    /// The error of writing.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (index, function) in self.functions.iter().enumerate() {
            writeln!(out, "function {index} on {}", function.socket)?;
            let rows = [
                ("users", function.users),
                ("register reads", function.register_reads),
                ("register writes", function.register_writes),
                ("commands", function.commands),
                ("frames sent", function.frames_sent),
                ("frames received", function.frames_received),
                ("interrupts", function.interrupts),
                ("  delivered", function.interrupts_delivered),
                ("DMA maps at most", function.most_dma_maps),
                ("  refused", function.refused_dma_maps),
                ("DMA faults", function.dma_faults),
                ("stopped", function.stopped),
                ("function resets", function.function_resets),
                ("PF resets", function.pf_resets),
            ];
            for (name, count) in rows {
                writeln!(out, "  {name:<18} {count:>12}")?;
            }
            for cost in &function.bring_ups {
                writeln!(
                    out,
                    "  bring-up: {} reads, {} writes, {} AdminQ and {} CQP commands, {} bytes of HMC",
                    cost.reads, cost.writes, cost.adminq, cost.cqp, cost.hmc_bytes
                )?;
            }
            for (command, count) in &function.refused_commands {
                writeln!(out, "  refused: {command}, {count} times")?;
            }
        }
        if let Some(link) = &self.link {
            match &link.wire {
                None => writeln!(out, "wire from {} to {}", link.local, link.peer)?,
                Some(name) => writeln!(out, "wire {name} from {} to {}", link.local, link.peer)?,
            }
            let rows = [
                ("sent", link.sent),
                ("  not taken", link.not_sent),
                ("received", link.received),
                ("  for nobody here", link.not_ours),
                ("  from strangers", link.strangers),
                ("  no frame", link.no_frame),
                ("  too long", link.too_long),
                ("  truncated", link.truncated),
                ("receive errors", link.receive_errors),
            ];
            let of_segment = [
                ("sent to all", link.sent_to_all),
                ("sent by ring", link.sent_by_ring),
                ("received by ring", link.received_by_ring),
                ("own addresses", link.own_addresses),
            ];
            let of_segment = of_segment.into_iter().filter(|_| link.wire.is_some());
            for (name, count) in rows.into_iter().chain(of_segment) {
                writeln!(out, "  {name:<18} {count:>12}")?;
            }
            let overflows = link.receive_overflows;
            let overflows =
                overflows.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
            writeln!(out, "  {:<18} {overflows:>12}", "buffer full")?;
        }
        writeln!(out, "findings             {:>12}", self.findings_in_all)?;
        for finding in &self.findings {
            writeln!(out, "  {}", finding.text)?;
        }
        Ok(())
    }
}
