//! The report as a picture: one curve over the message size.

use std::fmt::Write;

use super::PerfReport;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// A logarithmic axis, from and to exponents.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = values.fold((f64::MAX, f64::MIN), |(from, to), value| {
            (from.min(value), to.max(value))
        });
        let (from, to) = (from.floor(), to.ceil());
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to }
    }

    fn at(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }

    /// Every exponent, or every second if they are many.
    fn steps(&self) -> impl Iterator<Item = i32> {
        // Exponents of sizes and times: small numbers.
        let (from, to) = (self.from as i32, self.to as i32);
        let step = if to - from > 12 { 2 } else { 1 };
        (from..=to).filter(move |exponent| exponent % step == 0)
    }
}

/// A picture in SVG: latency in µs or bandwidth in MiB/s, both axes
/// logarithmic. `None` without figures, as in virtual time.
#[must_use]
pub fn svg(report: &PerfReport) -> Option<String> {
    // The 99th percentile, beside the typical latency.
    let tail = |row: &super::table::Row| {
        let tail = row.latency_ns.map(|latency| latency.p99 as f64 / 1e3);
        let place = (
            f64::from(row.bytes).log2(),
            tail.filter(|value| *value > 0.0)?.log10(),
        );
        Some(place)
    };
    let tails: Vec<(f64, f64)> = report.rows.iter().filter_map(tail).collect();
    let value = |row: &super::table::Row| match (row.latency_ns, row.bandwidth) {
        (Some(latency), _) => Some(latency.typical as f64 / 1e3),
        (None, Some(bandwidth)) => Some(bandwidth.average_mib_s),
        (None, None) => None,
    };
    let points: Vec<(f64, f64)> = report
        .rows
        .iter()
        .filter_map(|row| {
            Some((
                f64::from(row.bytes),
                value(row).filter(|value| *value > 0.0)?,
            ))
        })
        .map(|(bytes, value)| (bytes.log2(), value.log10()))
        .collect();
    points.first()?;
    let across = Axis::of(points.iter().map(|(x, _)| *x));
    let up = Axis::of(points.iter().chain(&tails).map(|(_, y)| *y));
    let x = |value: f64| LEFT + across.at(value) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - up.at(value) * (HEIGHT - TOP - BOTTOM);
    let unit = match report.test {
        "lat" => "t_typical, and 99% (dashed), µs",
        _ => "BW average, MiB/s",
    };
    let mut text = String::new();
    // Writing to a `String` does not fail.
    let _ = writeln!(
        text,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>
<text x="{LEFT}" y="24" font-size="15">e810 perf: {} {}, {} queue pair(s), {}</text>
<text x="{LEFT}" y="42">{unit}</text>
<text x="{}" y="{}" text-anchor="middle">bytes of a message</text>"##,
        report.op,
        report.test,
        report.qps,
        report.transport,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 14.0,
    );
    for step in across.steps() {
        let (at, bottom) = (x(step.into()), HEIGHT - BOTTOM);
        let _ = writeln!(
            text,
            r##"<path d="M{at:.1} {TOP}V{bottom}" stroke="#ddd"/><text x="{at:.1}" y="{}" text-anchor="middle">{}</text>"##,
            bottom + 18.0,
            bytes(step),
        );
    }
    for step in up.steps() {
        let at = y(step.into());
        let _ = writeln!(
            text,
            r##"<path d="M{LEFT} {at:.1}H{}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"##,
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            10f64.powi(step),
        );
    }
    let places: Vec<_> = points.iter().map(|(a, b)| (x(*a), y(*b))).collect();
    let line: Vec<_> = places
        .iter()
        .map(|(a, b)| format!("{a:.1},{b:.1}"))
        .collect();
    let _ = writeln!(
        text,
        r##"<polyline points="{}" fill="none" stroke="#06c" stroke-width="2"/>"##,
        line.join(" ")
    );
    if !tails.is_empty() {
        let tails: Vec<_> = tails
            .iter()
            .map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b)))
            .collect();
        let _ = writeln!(
            text,
            r##"<polyline points="{}" fill="none" stroke="#c60" stroke-width="2" stroke-dasharray="6 4"/>"##,
            tails.join(" ")
        );
    }
    for (a, b) in places {
        let _ = writeln!(
            text,
            r##"<circle cx="{a:.1}" cy="{b:.1}" r="3" fill="#06c"/>"##
        );
    }
    text.push_str("</svg>\n");
    Some(text)
}

/// 2 to a power, as a size.
fn bytes(exponent: i32) -> String {
    match exponent {
        0..10 => format!("{}", 1 << exponent),
        10..20 => format!("{}K", 1 << (exponent - 10)),
        20..31 => format!("{}M", 1 << (exponent - 20)),
        _ => format!("2^{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::op::Op;
    use crate::measure::perf::{Plan, Run, Test};
    use crate::measure::wait_mode::WaitMode;
    use e810_hal::Ns;

    #[test]
    fn a_point_for_each_size() {
        let plan = Plan {
            op: Op::Send,
            test: Test::Bandwidth,
            sizes: vec![2, 1024, 1 << 20],
            qps: 1,
            depth: 1,
            inline: 0,
            post_list: 1,
            iterations: 10,
            duration: None,
            seed: 1,
            check: false,
            wait_mode: WaitMode::BusyPoll,
            tuning: e810::Tuning::LINUX,
        };
        let mut report = PerfReport::new(&plan, "simulated", None);
        assert_eq!(svg(&report), None);
        for size in &plan.sizes {
            let run = Run {
                elapsed: Ns(1_000_000),
                messages: 10,
                ..Run::default()
            };
            report.add(&plan, *size, &run, true);
        }
        let text = svg(&report).unwrap();
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.contains("simulated") && text.contains(">1K<") && text.contains(">1M<"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(!text.contains("dasharray"), "bandwidth has no tail");
        let lat = Plan {
            test: Test::Latency,
            ..plan.clone()
        };
        let mut latencies = crate::measure::latency::Latencies::default();
        (1..=1000).for_each(|ns| latencies.add(ns * 100));
        let run = Run {
            latency: crate::measure::perf::Spread::of(latencies),
            ..Run::default()
        };
        let mut report = PerfReport::new(&lat, "simulated", None);
        for size in &lat.sizes {
            report.add(&lat, *size, &run, true);
        }
        let text = svg(&report).unwrap();
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(text.contains("99%") && text.contains("dasharray"), "{text}");
        let mut untimed = PerfReport::new(&plan, "simulated", None);
        untimed.add(&plan, 64, &Run::default(), false);
        assert_eq!(svg(&untimed), None);
    }
}
