//! Interrupt moderation: what each setting saves, and what it costs.
//!
//! ```text
//! cargo run --release -p e810-tests --example moderation -- [--json FILE] [--svg FILE]
//! ```
//!
//! A peer sends at a given rate, a program sleeps until an interrupt comes. All
//! in virtual time: waits follow from the rules of the timers, the time a
//! program takes to wake (2 µs) and to look at a completion (100 ns).

#![expect(
    clippy::expect_used,
    reason = "an example that cannot go on ends by a panic"
)]

use std::fmt::Write;

use e810::{Adaptive, CqModeration};
use e810_tests::moderation::{Arrivals, Figures, Load, Setting, measure};

/// Messages a second, name, messages before those that count, and those.
const RATES: [(u32, &str, usize, usize); 3] = [
    (1_000, "1 k/s", 300, 2_000),
    (100_000, "100 k/s", 10_000, 20_000),
    (1_000_000, "1 M/s", 20_000, 40_000),
];

const fn fixed(count: u16, period_us: u16) -> Setting {
    Setting::Queue(CqModeration::Fixed { count, period_us })
}

/// Settings; the first is what the others are held against. Those of a curve
/// are next to each other, and say so.
fn settings() -> Vec<(String, Setting, bool)> {
    let mut all = vec![("none".to_owned(), Setting::Queue(CqModeration::Off), true)];
    for period in [2, 4, 8, 16, 32, 50, 64] {
        all.push((format!("{period} µs"), fixed(0, period), true));
    }
    for (count, period) in [(8, 50), (16, 50), (32, 50)] {
        all.push((
            format!("{count} completions or {period} µs"),
            fixed(count, period),
            false,
        ));
    }
    for limit in [20, 48] {
        all.push((format!("INTRL {limit} µs"), Setting::Limit(limit), false));
    }
    let adaptive = |by| Setting::Queue(CqModeration::Adaptive(by));
    all.push(("adaptive".to_owned(), adaptive(Adaptive::Load), false));
    let dim = adaptive(Adaptive::Dim);
    all.push(("adaptive, Linux' rules".to_owned(), dim, false));
    all
}

/// One line of the table.
struct Row {
    setting: String,
    rate: u32,
    arrivals: Arrivals,
    on_curve: bool,
    figures: Figures,
    /// Against no moderation, in µs.
    added: [f64; 3],
}

impl Row {
    /// Mean, median and 99th percentile of the wait, in µs.
    fn waits(figures: &Figures) -> [f64; 3] {
        [
            figures.mean() / 1e3,
            figures.percentile(50) as f64 / 1e3,
            figures.percentile(99) as f64 / 1e3,
        ]
    }

    fn per_interrupt(&self, count: u64) -> f64 {
        count as f64 / self.figures.interrupts as f64
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for arrivals in [Arrivals::Even, Arrivals::Random] {
        for (rate, _, before, counted) in RATES {
            let load = Load {
                rate,
                arrivals,
                before,
                counted,
            };
            let mut pure = None;
            for (setting, value, on_curve) in settings() {
                let figures = measure(value, load, 1);
                let waits = Row::waits(&figures);
                let pure = *pure.get_or_insert(waits);
                let mut added = [0.0; 3];
                for ((added, wait), pure) in added.iter_mut().zip(waits).zip(pure) {
                    *added = wait - pure;
                }
                rows.push(Row {
                    setting,
                    rate,
                    arrivals,
                    on_curve,
                    figures,
                    added,
                });
            }
        }
    }
    rows
}

fn table(rows: &[Row]) {
    for arrivals in [Arrivals::Even, Arrivals::Random] {
        for (rate, name, _, counted) in RATES {
            println!("\n{name}, {arrivals:?}, {counted} messages\n");
            println!(
                "| setting | interrupts / 1000 | writes / interrupt | reads | added mean | added p50 | added p99, µs |"
            );
            println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
            let rows = rows.iter();
            for row in rows.filter(|row| (row.rate, row.arrivals) == (rate, arrivals)) {
                let [mean, median, high] = row.added;
                println!(
                    "| {} | {:.2} | {:.2} | {} | {mean:.2} | {median:.2} | {high:.2} |",
                    row.setting,
                    row.figures.per_thousand(),
                    row.per_interrupt(row.figures.writes),
                    row.figures.reads,
                );
            }
        }
    }
}

fn json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let [mean, median, high] = Row::waits(&row.figures);
            serde_json::json!({
                "setting": row.setting,
                "rate": row.rate,
                "arrivals": format!("{:?}", row.arrivals).to_lowercase(),
                "completions": row.figures.completions,
                "interrupts": row.figures.interrupts,
                "register_writes": row.figures.writes,
                "register_reads": row.figures.reads,
                "interrupts_per_1000": row.figures.per_thousand(),
                "wait_us": { "mean": mean, "p50": median, "p99": high },
                "added_us": { "mean": row.added[0], "p50": row.added[1], "p99": row.added[2] },
            })
        })
        .collect();
    serde_json::to_string_pretty(&rows).expect("numbers and names")
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// The axes: added latency in µs, and interrupts for 1000 completions as powers
/// of ten.
const ACROSS: f64 = 70.0;
const UP: (f64, f64) = (1.0, 3.1);
const COLOURS: [&str; 3] = ["#888", "#06c", "#c40"];

fn x(us: f64) -> f64 {
    LEFT + us.clamp(0.0, ACROSS) / ACROSS * (WIDTH - LEFT - RIGHT)
}

fn y(per_thousand: f64) -> f64 {
    let share = (per_thousand.log10() - UP.0) / (UP.1 - UP.0);
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

/// Interrupts for 1000 completions over the added 99th percentile: fixed periods
/// as a curve for each rate, adaptive moderation as a square, everything else as
/// a dot. Random arrivals: with even ones most points coincide.
fn svg(rows: &[Row]) -> String {
    let mut text = String::new();
    // A String takes whatever is written to it.
    let _ = writeln!(
        text,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>
<text x="{LEFT}" y="20" font-size="15">Interrupt moderation, random arrivals, virtual time</text>
<text x="{LEFT}" y="40">interrupts / 1000 completions; curves: 0 to 64 µs, squares: adaptive, dots: INTRL and counts</text>
<text x="{}" y="{}" text-anchor="middle">added latency, 99th percentile, µs</text>"##,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 14.0,
    );
    let bottom = HEIGHT - BOTTOM;
    for us in (0..=70).step_by(10) {
        let at = x(f64::from(us));
        let _ = writeln!(
            text,
            r##"<path d="M{at:.1} {TOP}V{bottom}" stroke="#ddd"/><text x="{at:.1}" y="{}" text-anchor="middle">{us}</text>"##,
            bottom + 18.0
        );
    }
    for per_thousand in [10, 20, 50, 100, 200, 500, 1000] {
        let at = y(f64::from(per_thousand));
        let _ = writeln!(
            text,
            r##"<path d="M{LEFT} {at:.1}H{}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{per_thousand}</text>"##,
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for (place, ((rate, name, ..), colour)) in RATES.into_iter().zip(COLOURS).enumerate() {
        let here = |row: &&Row| (row.rate, row.arrivals) == (rate, Arrivals::Random);
        let rows: Vec<&Row> = rows.iter().filter(here).collect();
        let at = |row: &Row| (x(row.added[2]), y(row.figures.per_thousand()));
        let line: Vec<String> = rows
            .iter()
            .filter(|row| row.on_curve)
            .map(|row| at(row))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            text,
            r##"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"##,
            line.join(" ")
        );
        for row in rows {
            let (x, y) = at(row);
            let title = &row.setting;
            let _ = if title == "adaptive" {
                writeln!(
                    text,
                    r##"<rect x="{:.1}" y="{:.1}" width="10" height="10" fill="none" stroke="{colour}" stroke-width="2"><title>{title}, {name}</title></rect>"##,
                    x - 5.0,
                    y - 5.0
                )
            } else {
                writeln!(
                    text,
                    r##"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"><title>{title}, {name}</title></circle>"##
                )
            };
        }
        let at = TOP + 32.0 + 14.0 * place as f64;
        let _ = writeln!(
            text,
            r##"<text x="{}" y="{at}" text-anchor="end" fill="{colour}">{name}</text>"##,
            WIDTH - RIGHT - 8.0
        );
    }
    text.push_str("</svg>\n");
    text
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut json_file, mut svg_file) = (None, None);
    while let Some(argument) = arguments.next() {
        let file = match argument.as_str() {
            "--json" => &mut json_file,
            "--svg" => &mut svg_file,
            other => {
                eprintln!("{other}: give --json FILE or --svg FILE");
                std::process::exit(2);
            }
        };
        *file = Some(arguments.next().expect("a file behind it"));
    }
    let rows = rows();
    table(&rows);
    for (file, text) in [(json_file, json(&rows)), (svg_file, svg(&rows))] {
        if let Some(file) = file {
            std::fs::write(&file, text).expect("the file is written");
        }
    }
}
