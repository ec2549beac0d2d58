//! `e810 perf`.

use clap::Parser;
use e810_host::cli::Cli;
use serde_json::Value;

use super::{good, temporary_folder};

fn run(words: &str) -> anyhow::Result<String> {
    super::run(&format!("perf {words}"))
}

fn report(words: &str) -> Value {
    serde_json::from_str(&good(&format!("perf {words} --json"))).unwrap()
}

/// The one row of a run in virtual time.
fn row(words: &str) -> Value {
    let report = report(&format!("--virtual {words}"));
    let rows = report["rows"].as_array().unwrap();
    let [row] = &rows[..] else {
        panic!("one row: {report}")
    };
    assert_eq!(row["errors"], 0, "{words}");
    for time in ["latency_ns", "bandwidth"] {
        assert!(row.get(time).is_none(), "{words}: {row}");
    }
    assert!(report.get("core_to_core_ns").is_none());
    row.clone()
}

#[test]
fn every_operation_is_verified() {
    // The last payload, at each end where one arrives.
    for (words, verified) in [
        ("--test lat --op send", 2),
        ("--test lat --op write", 2),
        ("--test lat --op read", 1),
        ("--test bw --op send", 1),
        ("--test bw --op write", 1),
        ("--test bw --op read", 1),
    ] {
        for size in ["1", "64", "5000"] {
            let row = row(&format!("{words} --size {size} --iters 300"));
            assert_eq!(row["verified"], verified, "{words} {size}");
            assert_eq!((&row["iterations"]), &300);
        }
    }
}

/// As many as help says, each with its queues.
#[test]
fn there_are_as_many_queue_pairs_as_are_asked_for() {
    for words in [
        "--qps 256 --depth 64 --iters 4",
        "--qps 64 --depth 1024 --iters 4",
    ] {
        let report = report(&format!("--virtual --test bw {words}"));
        assert_eq!(report["rows"][0]["errors"], 0, "{report}");
        assert_eq!(report["ended"], "complete");
    }
}

#[test]
fn a_report_says_what_it_was_asked_for() {
    let words = "--virtual --events --moderation 4/50us --tuning flow-control --mtu 1500 --path-mtu 512 --seed 9";
    let with = report(&format!("--iters 30 {words}"));
    let asked = serde_json::json!({
        "iterations": 30, "duration_s": null, "seed": 9, "events": true, "moderation": "4/50us",
        "tuning": "flow-control", "mtu": 1500, "path_mtu": 512,
    });
    assert_eq!(with["asked"], asked);
    assert_eq!(
        (&with["version"], &with["report"]),
        (&1.into(), &"perf".into())
    );
    assert!(with["interrupts"].as_u64().unwrap() > 0, "{with}");
    let text = good(&format!("perf --iters 30 {words}"));
    for line in [
        "options     events, moderation 4/50us, tuning flow-control, MTU 1500, path MTU 512",
        "of the functions of this process",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let without = report("--virtual --iters 30");
    assert_eq!(without["asked"]["events"], false);
    assert!(without.get("interrupts").is_none(), "{without}");
}

#[test]
fn each_message_is_verified_if_asked_for() {
    let queues = "--qps 3 --depth 8 --post-list 4 --iters 50";
    for (words, verified) in [
        ("--test lat --op send --iters 40".to_owned(), 80),
        ("--test lat --op write --iters 600".to_owned(), 1200),
        ("--test lat --op read --iters 40".to_owned(), 40),
        (format!("--test bw --op send {queues}"), 150),
        (format!("--test bw --op read {queues}"), 150),
        // The receiver of a WRITE gets no completion: the last of each place.
        (format!("--test bw --op write {queues}"), 24),
    ] {
        for more in ["--size 1000", "--size 100 --inline 101", "--size 1"] {
            if words.contains("read") && more.contains("inline") {
                continue;
            }
            let row = row(&format!("--check {words} {more}"));
            assert_eq!(row["verified"], verified, "{words} {more}");
        }
    }
}

#[test]
fn all_sizes_are_measured_in_real_time() {
    let folder = temporary_folder();
    let file = folder.as_path().join("bw.svg");
    let bw = report(&format!(
        "--test bw --op write --all --iters 4 --plot {}",
        file.display()
    ));
    assert_eq!(bw["transport"], "simulated");
    let rows = bw["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows
        .iter()
        .map(|row| row["bytes"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=23).map(|power| 1 << power).collect();
    assert_eq!(sizes, expected);
    for row in rows {
        let figure = |name: &str| row["bandwidth"][name].as_f64().unwrap();
        assert!(figure("average_mib_s") > 0.0 && figure("mpps") > 0.0);
        assert!(figure("peak_mib_s") >= figure("average_mib_s"));
        assert_eq!(row["verified"], 1);
    }
    let picture = std::fs::read_to_string(file).unwrap();
    assert_eq!(picture.matches("<circle").count(), 23);
    let lat = report("--test lat --iters 100");
    let latency = &lat["rows"][0]["latency_ns"];
    assert!(latency["min"].as_u64() <= latency["typical"].as_u64());
    assert!(latency["typical"].as_u64() <= latency["max"].as_u64());
    assert!(latency["min"].as_u64().unwrap() > 0);
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(lat["core_to_core_ns"]["p50"].as_u64().unwrap() > 0);
    }
}

#[test]
fn the_text_has_the_columns_of_existing_tools_and_says_simulated() {
    let lat = run("--test lat --iters 50").unwrap();
    let columns = [
        "#bytes",
        "#iterations",
        "t_min[usec]",
        "t_max[usec]",
        "t_typical[usec]",
        "t_avg[usec]",
        "t_stdev[usec]",
        "99%[usec]",
        "99.9%[usec]",
    ];
    let header = lat.lines().find(|line| line.contains("#bytes")).unwrap();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), columns);
    assert!(lat.contains("simulated"), "{lat}");
    assert_eq!(
        lat.lines().last().unwrap().split_whitespace().count(),
        columns.len()
    );
    let bw = run("--test bw --iters 50").unwrap();
    for column in ["BW peak[MiB/sec]", "BW average[MiB/sec]", "MsgRate[Mpps]"] {
        assert!(bw.contains(column), "{bw}");
    }
    let untimed = run("--virtual --test bw --iters 50").unwrap();
    assert!(
        untimed.contains("no times") && !untimed.contains("sec]"),
        "{untimed}"
    );
}

#[test]
fn what_does_not_fit_together_is_one_line() {
    for (words, part) in [
        ("--test lat --qps 2", "--test bw"),
        ("--test lat --depth 4", "--test bw"),
        ("--test bw --depth 4 --post-list 8", "--depth"),
        ("--test bw --check --size 8388608 --depth 4096", "--depth"),
        ("--virtual --plot x.svg", "--virtual"),
        ("--plot x.svg --listen 127.0.0.1:0", "connects"),
        ("--listen 127.0.0.1:0", "e810 sim"),
    ] {
        let error = format!("{:#}", run(words).unwrap_err());
        assert!(error.contains(part), "{words}: {error}");
    }
}

#[test]
fn a_plot_that_cannot_be_is_known_before_the_measuring() {
    let words = "e810 perf --test bw --iters 10 --plot /nonexistent/x.svg";
    let cli = Cli::try_parse_from(words.split(' ')).unwrap();
    let mut out = Vec::new();
    let error = e810_host::run(&cli, &mut out).unwrap_err();
    assert!(
        format!("{error:#}").contains("--plot /nonexistent/x.svg"),
        "{error:#}"
    );
    // Nothing was measured: neither a head nor a row.
    assert_eq!(String::from_utf8(out).unwrap(), "");
}

#[test]
fn a_duration_ends_a_run_and_figures_have_other_forms() {
    let start = std::time::Instant::now();
    let lat = report("--duration 1 --histogram");
    assert!(start.elapsed() >= std::time::Duration::from_secs(1));
    let row = &lat["rows"][0];
    let buckets = row["histogram"].as_array().unwrap();
    let counted: u64 = buckets
        .iter()
        .map(|bucket| bucket["count"].as_u64().unwrap())
        .sum();
    assert_eq!(row["iterations"], counted);
    assert_ne!(counted, 0);
    let text = run("--iters 50 --histogram").unwrap();
    assert!(
        text.contains("p99.9") && text.contains("from[usec]"),
        "{text}"
    );
    let bw = report("--test bw --size 1K --iters 50");
    let bandwidth = &bw["rows"][0]["bandwidth"];
    let figure = |name: &str| bandwidth[name].as_f64().unwrap();
    let gbits = figure("average_mib_s") * f64::from(1 << 20) * 8.0 / 1e9;
    assert!((figure("average_gbit_s") - gbits).abs() < 1e-9);
    assert!(
        run("--test bw --report-gbits --iters 50")
            .unwrap()
            .contains("BW average[Gb/sec]")
    );
    let csv = run("--test bw --csv --iters 50 --size 64").unwrap();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "#bytes,#iterations,BW peak[MiB/sec],BW average[MiB/sec],MsgRate[Mpps]"
    );
    assert!(lines[1].starts_with("64,50,") && lines.len() == 2, "{csv}");
}
