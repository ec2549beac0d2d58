//! `e810 stat` and `--counters`: what is counted is what crosses the wire.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{capture, good};

/// What a function that sends `frames` has to count, by the names of the sender's
/// counters.
fn count(frames: &[&[u8]]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut add = |name: &str, n: u64| *counts.entry(name.to_owned()).or_default() += n;
    for frame in frames {
        let tag = if frame[12..14] == [0x81, 0] { 4 } else { 0 };
        let ip = &frame[14 + tag..];
        let (family, header) = if ip[0] >> 4 == 4 {
            ("IP4", 20)
        } else {
            ("IP6", 40)
        };
        add(&format!("{family}TXPKTS"), 1);
        // The frame is the Ethernet header and the datagram.
        add(&format!("{family}TXOCTS"), ip.len() as u64);
        add("UDPTXPKTS", 1);
        // RC and UD differ in the upper three bits.
        match ip[header + 8] & 0x1F {
            2..=5 | 22 | 23 => add("RDMATXSNDS", 1),
            8..=11 => add("RDMATXWRS", 1),
            12 => add("RDMATXRDS", 1),
            _ => {}
        }
    }
    counts
}

/// Counters that are not 0.
fn counted(report: &Value, function: usize, direction: &str) -> BTreeMap<String, u64> {
    let counters = report["counters"][function].as_object().unwrap();
    assert_eq!(counters.len(), 46);
    counters
        .iter()
        .map(|(name, value)| (name.clone(), value.as_u64().unwrap()))
        .filter(|(name, value)| *value > 0 && name.contains(direction))
        .collect()
}

fn as_received(sent: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    sent.iter()
        .map(|(name, value)| (name.replace("TX", "RX"), *value))
        .collect()
}

/// The counters of a run, with what crossed the wire: sent by each function.
fn run_counted(words: &str) -> (Value, [BTreeMap<String, u64>; 2]) {
    let (out, frames) = capture(|file| {
        good(&format!(
            "pingpong --virtual --json --iters 40 {file} {words}"
        ))
    });
    let from = |n: u8| {
        let sent = frames.iter().filter(|frame| frame[11] == n);
        let sent: Vec<&[u8]> = sent.map(Vec::as_slice).collect();
        assert!(sent.len() >= 40, "{words}");
        count(&sent)
    };
    (serde_json::from_str(&out).unwrap(), [from(0), from(1)])
}

#[test]
fn counters_are_what_crossed_the_wire() {
    for (words, name, messages) in [
        ("--size 3000 --path-mtu 1024", "RDMATXSNDS", 40),
        ("--op write --size 20000 --gid-index 0", "RDMATXWRS", 40),
        ("--op read --size 9000 --vlan 9", "RDMATXRDS", 40),
        ("--transport ud --size 100", "RDMATXSNDS", 40),
    ] {
        // Of the function, and of its only queue pair.
        for whose in ["--counters", "--qp-counters"] {
            let (report, sent) = run_counted(&format!("{whose} {words}"));
            for (function, sent) in sent.iter().enumerate() {
                assert_eq!(counted(&report, function, "TX"), *sent, "{words}");
                let received = as_received(sent);
                assert_eq!(counted(&report, 1 - function, "RX"), received, "{words}");
            }
            assert_eq!(sent[0].get(name), Some(&messages), "{words}");
        }
    }
}

#[test]
fn what_the_wire_loses_was_sent_and_is_not_received() {
    let (report, sent) = run_counted("--counters --size 3000 --path-mtu 256 --faults loss=5%");
    let mut lost = 0;
    for (function, sent) in sent.iter().enumerate() {
        assert_eq!(counted(&report, function, "TX"), *sent);
        let received = counted(&report, 1 - function, "RX");
        lost += sent["UDPTXPKTS"] - received["UDPRXPKTS"];
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn a_function_tells_its_port_addresses_and_counters() {
    let report: Value = serde_json::from_str(&good("stat --json")).unwrap();
    assert_eq!(
        (&report["state"], &report["mtu"]),
        (&"active".into(), &9000.into())
    );
    assert_eq!(report["path_mtu"], 4096);
    assert_eq!(report["gids"][0]["address"], "fe80::e8:10ff:fe00:0");
    let counters = report["counters"].as_object().unwrap();
    assert_eq!(counters.len(), 46);
    assert!(
        counters.values().all(|value| value == 0),
        "nothing was sent"
    );
    let text = good("stat");
    for part in ["port 0      active", "GID 0       fe80::", "all 46 are 0"] {
        assert!(text.contains(part), "{text}");
    }
    let text = good("pingpong --virtual --iters 3 --counters");
    assert!(text.contains("counters of function 1\n"), "{text}");
    assert!(text.contains("  RDMATXSNDS         3\n"), "{text}");
}

#[test]
fn limits_have_the_names_of_the_field() {
    let report: Value = serde_json::from_str(&good("stat -v --json")).unwrap();
    let device = &report["device"];
    let number = |name: &str| device[name].as_u64().unwrap_or_else(|| panic!("{name}"));
    for name in ["max_qp", "max_cq", "max_mr", "max_pd", "max_ah", "max_cqe"] {
        assert!(number(name) > 0, "{name}");
    }
    // 4 KiB, 2 MiB and 1 GiB.
    assert_eq!(number("page_size_cap"), 0x4020_1000);
    assert_eq!((number("max_inline_data"), number("max_srq")), (101, 0));
    assert_eq!(device["node_guid"], "00e8:10ff:fe00:0000");
    assert!(device["package"].is_string() && device.get("pcie").is_none());
    let text = good("stat --verbose");
    for name in device.as_object().unwrap().keys() {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        assert!(line.is_some(), "{name} is not in {text}");
    }
    // Nobody else is bothered.
    let plain: Value = serde_json::from_str(&good("stat --json")).unwrap();
    assert!(plain.get("device").is_none());
    assert!(good("stat").ends_with("counters of the function\n  all 46 are 0\n"));
}
