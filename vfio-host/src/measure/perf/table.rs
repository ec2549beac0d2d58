//! The report, in the columns of existing tools.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::{Bandwidth, CoreToCore, Plan, Run, Spread, Test};
use crate::measure::asked::Asked;
use crate::measure::ended::Ending;
use crate::measure::latency::Bucket;
use crate::output::wire::WireReport;

/// A line of the table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub bytes: u32,
    /// Messages on each queue pair; the average if the run was cut short.
    pub iterations: u64,
    /// One-way latency in nanoseconds; absent in virtual time and for `bw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Spread>,
    /// Histogram of one-way latencies; absent unless asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
    /// Bandwidth; absent in virtual time and for `lat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Payloads that were verified, here and (in this process) there.
    pub verified: u64,
    /// Payloads that were not as sent.
    pub errors: u64,
}

/// The JSON of `e810 perf`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PerfReport {
    /// What carried the messages; `simulated` is no card.
    pub transport: &'static str,
    /// The simulated wire; absent if this process does not simulate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireReport>,
    /// How it ended. If not `complete`, the last row may have fewer messages, and rows may be
    /// missing.
    #[serde(flatten)]
    pub ending: Ending,
    pub asked: Asked,
    /// `send`, `write` or `read`.
    pub op: &'static str,
    /// `lat` or `bw`.
    pub test: &'static str,
    /// Queue pairs.
    pub qps: usize,
    /// Messages outstanding on each.
    pub depth: u32,
    /// Messages of up to this many bytes go inline.
    pub inline: u32,
    /// Requests posted with one doorbell.
    pub post_list: u32,
    /// Every message had its own payload.
    pub check: bool,
    /// Time to pass a cache line from one processor to another, measured in the same run, in
    /// nanoseconds; for `lat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_to_core_ns: Option<CoreToCore>,
    /// Interrupts of the functions of this process; absent without `--events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// A line for each size.
    pub rows: Vec<Row>,
}

impl PerfReport {
    /// A report without lines.
    #[must_use]
    pub fn new(plan: &Plan, transport: &'static str, floor: Option<CoreToCore>) -> Self {
        Self {
            transport,
            wire: None,
            ending: Ending::COMPLETE,
            asked: Asked::default(),
            interrupts: None,
            op: plan.op.name(),
            test: plan.test.name(),
            qps: plan.qps,
            depth: plan.depth,
            inline: plan.inline,
            post_list: plan.post_list,
            check: plan.check,
            core_to_core_ns: floor,
            rows: Vec::new(),
        }
    }

    /// Adds the outcome of messages of `size` bytes; `timed` if times mean something.
    pub fn add(&mut self, plan: &Plan, size: u32, run: &Run, timed: bool) {
        let is = |test| timed && plan.test == test;
        self.rows.push(Row {
            bytes: size,
            iterations: run.iterations,
            latency_ns: run.latency.filter(|_| is(Test::Latency)),
            histogram: match timed {
                true => run.histogram.clone(),
                false => Vec::new(),
            },
            bandwidth: run.bandwidth(size).filter(|_| is(Test::Bandwidth)),
            verified: run.verified,
            errors: run.errors,
        });
    }

    /// Payloads that were not as sent.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.rows.iter().map(|row| row.errors).sum()
    }
}

/// How the table is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Comma-separated values instead of columns.
    pub csv: bool,
    /// Bandwidth in Gbit/s instead of MiB/s.
    pub gbits: bool,
    /// Characters of a line; `None` for no limit.
    pub width: Option<usize>,
}

/// A column: its full name, its short name, and the width of the latter.
struct Column {
    name: &'static str,
    short: &'static str,
    room: usize,
    /// It is printed even if there is hardly any room.
    needed: bool,
}

/// A table that is printed a row at a time.
#[derive(Debug)]
pub struct Table {
    layout: Layout,
    figures: Figures,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Figures {
    Latency,
    Bandwidth,
    Counts,
}

/// Width of a column if there is room.
const WIDE: usize = 16;

impl Table {
    /// A table for `test`; `timed` if times mean something.
    #[must_use]
    pub const fn new(test: Test, timed: bool, layout: Layout) -> Self {
        Self {
            layout,
            figures: match (timed, test) {
                (false, _) => Figures::Counts,
                (true, Test::Latency) => Figures::Latency,
                (true, Test::Bandwidth) => Figures::Bandwidth,
            },
        }
    }

    /// Whether times mean something.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.figures != Figures::Counts
    }

    fn columns(&self) -> Vec<Column> {
        let column = |name, short, room, needed| Column {
            name,
            short,
            room,
            needed,
        };
        let mut columns = vec![
            column("#bytes", "bytes", 7, true),
            column("#iterations", "iters", 8, false),
        ];
        columns.extend(match (self.figures, self.layout.gbits) {
            (Figures::Counts, _) => vec![column("verified", "verified", 8, true)],
            (Figures::Latency, _) => vec![
                column("t_min[usec]", "min[us]", 7, true),
                column("t_max[usec]", "max[us]", 9, true),
                column("t_typical[usec]", "typ[us]", 7, true),
                column("t_avg[usec]", "avg[us]", 8, true),
                column("t_stdev[usec]", "stdev", 8, false),
                column("99%[usec]", "99%[us]", 8, true),
                column("99.9%[usec]", "99.9%", 9, false),
            ],
            (Figures::Bandwidth, false) => vec![
                column("BW peak[MiB/sec]", "peak[MiB/s]", 11, true),
                column("BW average[MiB/sec]", "avg[MiB/s]", 11, true),
                column("MsgRate[Mpps]", "rate[Mpps]", 11, true),
            ],
            (Figures::Bandwidth, true) => vec![
                column("BW peak[Gb/sec]", "peak[Gb/s]", 11, true),
                column("BW average[Gb/sec]", "avg[Gb/s]", 11, true),
                column("MsgRate[Mpps]", "rate[Mpps]", 11, true),
            ],
        });
        columns
    }

    fn values(&self, row: &Row) -> Vec<String> {
        let us = |ns: f64| format!("{:.2}", ns / 1e3);
        let whole = |ns: u64| us(ns as f64);
        let mut values = vec![row.bytes.to_string(), row.iterations.to_string()];
        // A row without a message has no times.
        let nothing = |count: usize| vec!["-".to_owned(); count];
        values.extend(match self.figures {
            Figures::Counts => vec![row.verified.to_string()],
            Figures::Latency => match row.latency_ns {
                None => nothing(7),
                Some(latency) => vec![
                    whole(latency.min),
                    whole(latency.max),
                    whole(latency.typical),
                    us(latency.average),
                    us(latency.stdev),
                    whole(latency.p99),
                    whole(latency.p999),
                ],
            },
            Figures::Bandwidth => match row.bandwidth {
                None => nothing(3),
                Some(bandwidth) => {
                    let [peak, average] = match self.layout.gbits {
                        true => [bandwidth.peak_gbit_s, bandwidth.average_gbit_s],
                        false => [bandwidth.peak_mib_s, bandwidth.average_mib_s],
                    };
                    vec![
                        format!("{peak:.2}"),
                        format!("{average:.2}"),
                        format!("{:.6}", bandwidth.mpps),
                    ]
                }
            },
        });
        values
    }

    /// Prints the lines above the rows. `text` says what carries the messages, `label` what the
    /// figures are.
    ///
    /// # Errors
    /// Where it goes.
    pub fn head(
        &self,
        report: &PerfReport,
        text: &str,
        label: &str,
        out: &mut dyn Write,
    ) -> Result<()> {
        if !self.layout.csv {
            writeln!(out, "transport   {text}")?;
            if let Some(wire) = &report.wire {
                writeln!(out, "wire        {wire}")?;
            }
            writeln!(
                out,
                "{:<4} {:<6} {} queue pair(s), depth {}, inline {}, post list {} ({label})",
                report.op, report.test, report.qps, report.depth, report.inline, report.post_list
            )?;
            if let Some(unusual) = report.asked.unusual() {
                writeln!(out, "options     {unusual}")?;
            }
            if let Some(floor) = report.core_to_core_ns {
                writeln!(
                    out,
                    "floor       a cache line from processor {} to {}: min {} ns  p50 {} ns",
                    floor.cpus[0], floor.cpus[1], floor.min, floor.p50
                )?;
            }
        }
        let columns = self.columns();
        let names = columns.iter().map(|column| match self.is_narrow() {
            true => column.short.to_owned(),
            false => column.name.to_owned(),
        });
        self.line(&names.collect::<Vec<_>>(), out)
    }

    /// Prints a row.
    ///
    /// # Errors
    /// Where it goes.
    pub fn row(&self, row: &Row, out: &mut dyn Write) -> Result<()> {
        self.line(&self.values(row), out)
    }

    /// Prints the lines below the rows.
    ///
    /// # Errors
    /// Where it goes.
    pub fn foot(&self, report: &PerfReport, out: &mut dyn Write) -> Result<()> {
        let ending = &report.ending;
        if self.layout.csv {
            // A row that is marked as none, in fields that every header has.
            if let Some(why) = &ending.why {
                let why = why.replace('"', "\"\"").replace(['\r', '\n'], " ");
                writeln!(out, "#ended,{},\"{why}\"", ending.ended)?;
            }
            return Ok(());
        }
        if let Some(frames) = report.wire.as_ref().and_then(|wire| wire.frames) {
            writeln!(out, "frames      {frames}")?;
        }
        if let Some(interrupts) = report.interrupts {
            writeln!(
                out,
                "interrupts  {interrupts}, of the functions of this process"
            )?;
        }
        if ending.is_partial() {
            let (ended, by) = (ending.ended, ending.by());
            writeln!(out, "ended       {ended}: not all was measured{by}")?;
        }
        Ok(())
    }

    /// Whether the full names do not fit the line.
    fn is_narrow(&self) -> bool {
        let full = 11 + 13 + (self.columns().len() - 2) * (WIDE + 1);
        !self.layout.csv && self.layout.width.is_some_and(|width| width <= full)
    }

    fn line(&self, values: &[String], out: &mut dyn Write) -> Result<()> {
        let line = if self.layout.csv {
            values.join(",")
        } else if self.is_narrow() {
            self.narrow(values)
        } else {
            let rooms = [10, 12].into_iter().chain(std::iter::repeat(WIDE));
            let fields = values.iter().zip(rooms);
            fields.fold(String::new(), |line, (value, room)| {
                format!("{line} {value:<room$}")
            })
        };
        writeln!(out, "{}", line.trim_end())?;
        // So that the row is shown now.
        Ok(out.flush()?)
    }

    /// A line of short columns, without the optional ones if there is no room.
    fn narrow(&self, values: &[String]) -> String {
        let columns = self.columns();
        let room: usize = columns.iter().map(|column| column.room + 1).sum();
        let all = self.layout.width.is_none_or(|width| room <= width);
        let fields = columns.iter().zip(values);
        fields.filter(|(column, _)| all || column.needed).fold(
            String::new(),
            |line, (column, value)| {
                let room = column.room;
                format!("{line} {value:>room$}")
            },
        )
    }
}

/// Prints the histogram of a row.
///
/// # Errors
/// Where it goes.
pub fn histogram(row: &Row, out: &mut dyn Write) -> Result<()> {
    /// Characters of the longest bar.
    const BAR: f64 = 20.0;
    let Some(latency) = row.latency_ns else {
        return Ok(());
    };
    let us = |ns: u64| ns as f64 / 1e3;
    writeln!(
        out,
        "   p50 {:.2}  p90 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2} usec",
        us(latency.typical),
        us(latency.p90),
        us(latency.p99),
        us(latency.p999),
        us(latency.max)
    )?;
    writeln!(
        out,
        "   {:>10} {:>10} {:>10}",
        "from[usec]", "below", "messages"
    )?;
    let most = row.histogram.iter().map(|bucket| bucket.count).max();
    for bucket in &row.histogram {
        let share = bucket.count as f64 / most.unwrap_or(1) as f64;
        let bar = "#".repeat((share * BAR).ceil() as usize);
        writeln!(
            out,
            "   {:>10.3} {:>10.3} {:>10} {bar}",
            us(bucket.from_ns),
            us(bucket.below_ns),
            bucket.count
        )?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests;
