//! `e810 pingpong`: addresses and datagrams.

use serde_json::{Value, json};

use super::{capture, good};

fn run(words: &str) -> anyhow::Result<String> {
    super::run(&format!("pingpong --virtual --json {words}"))
}

fn report(words: &str) -> Value {
    let out =
        run(&format!("--iters 20 {words}")).unwrap_or_else(|error| panic!("{words}: {error:#}"));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["verified"], 20, "{words}");
    report
}

fn refused(words: &str) -> String {
    format!("{:#}", run(words).unwrap_err())
}

/// The Ethernet frames of a run.
fn frames(words: &str) -> Vec<Vec<u8>> {
    let (_, frames) = capture(|file| report(&format!("{words} {file}")));
    assert!(frames.len() > 40, "{}", frames.len());
    frames
}

#[test]
fn addresses_and_tags_are_in_the_frames() {
    for frame in frames("--ip 192.0.2.1 --peer-ip 192.0.2.2 --vlan 7 --priority 5") {
        assert_eq!(frame.get(12..18).unwrap(), [0x81, 0, 5 << 5, 7, 8, 0]);
        let ends = frame.get(18 + 12..18 + 20).unwrap();
        let one_way = [192, 0, 2, 1, 192, 0, 2, 2];
        let other_way = [192, 0, 2, 2, 192, 0, 2, 1];
        assert!(ends == one_way || ends == other_way, "{ends:?}");
    }
    let longest = |words| frames(words).iter().map(Vec::len).max().unwrap();
    let (small, large) = (
        longest("--gid-index 0 --size 4000 --path-mtu 512"),
        longest("--gid-index 0 --size 4000 --path-mtu 1024"),
    );
    assert_eq!(large - small, 512);
    assert!((512 + 14 + 40..512 + 14 + 40 + 64).contains(&small));
}

#[test]
fn messages_go_between_the_addresses_given() {
    report("--ip 192.0.2.1 --peer-ip 192.0.2.2");
    report("--ip 2001:db8::1,192.0.2.1 --peer-ip 2001:db8::2,192.0.2.2");
    report("--ip 2001:db8::1,192.0.2.1 --peer-ip 2001:db8::2,192.0.2.2 --gid-index 2");
    report("--gid-index 0");
    report("--vlan 7 --priority 5 --path-mtu 256 --size 1000");
    report("--priority 3 --op read --path-mtu 512 --size 5000");
    report("--priority 3 --op send-inv --path-mtu 512 --size 5000");
}

/// One completion at a time, and an interrupt for each.
#[test]
fn waiting_for_events_takes_an_interrupt_for_each_completion() {
    for (words, each) in [
        ("--op send", 4),
        ("--op write", 2),
        ("--op read", 1),
        // Registrations of keys complete while messages are on their way.
        ("--op send-inv", 4),
        ("--transport ud", 2),
    ] {
        let interrupts = report(&format!("--events {words}"))["interrupts"].clone();
        let interrupts = interrupts.as_u64().unwrap();
        // A few for what comes once, in the beginning.
        assert!(
            (20 * each..=20 * each + 4).contains(&interrupts),
            "{words}: {interrupts}"
        );
    }
    assert_eq!(report("--op send").get("interrupts"), None);
}

#[test]
fn addresses_that_do_not_fit_are_one_line() {
    for (words, part) in [
        ("--ip 10.8.10.2", "--peer-ip"),
        ("--ip 2001:db8::1", "family"),
        ("--ip 224.0.0.1", "224.0.0.1"),
        (
            "--ip 10.0.0.1/24,10.0.0.1/16",
            "--ip 10.0.0.1/24,10.0.0.1/16",
        ),
        ("--peer-ip 10.0.0.1,10.0.0.1", "--peer-ip 10.0.0.1,10.0.0.1"),
        ("--gid-index 3", "--gid-index 3"),
        ("--gid-index 0 --vlan 9", "--vlan"),
        ("--ip 10.0.0.300", "10.0.0.300"),
        ("--vlan 4095", "4095"),
        ("--priority 8", "8"),
        ("--path-mtu 1500", "1500"),
    ] {
        let error = refused(words);
        assert!(error.contains(part), "{words}: {error}");
    }
}

#[test]
fn datagrams_arrive_on_a_bad_wire_too() {
    let good = report("--transport ud --size 4096");
    assert_eq!((&good["service"], &good["lost"]), (&"ud".into(), &0.into()));
    report("--transport ud --size 1 --vlan 5");
    let bad = "--transport ud --size 512 --iters 300 --faults loss=10%,dup=5%,reorder=5%,corrupt=2%,delay=100us";
    let out = run(bad).unwrap();
    let bad: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&bad["verified"], &bad["errors"]), (&300.into(), &0.into()));
    // Of 600 datagrams, 12 % get lost.
    assert!((20..200).contains(&bad["lost"].as_u64().unwrap()), "{bad}");
    let out = run("--transport ud --iters 1 --faults loss=100%");
    let error = format!("{:#}", out.unwrap_err());
    assert!(error.contains("message 0 was not answered"), "{error}");
    assert!(refused("--transport ud --size 4097").contains("--path-mtu"));
    assert!(refused("--transport ud --op read").contains("--transport rc"));
    assert!(refused("--group 239.1.2.3").contains("use it with --transport ud"));
    assert!(refused("--transport ud --group 192.0.2.1").contains("224.0.0.0/4"));
    assert!(report("").get("lost").is_none());
}

/// Connections hide what a bad wire does: the counts of its frames do not.
#[test]
fn what_became_of_frames_is_said_where_the_wire_has_faults() {
    let faults = "--iters 300 --size 5000 --faults loss=2%,dup=3%,reorder=3%,corrupt=1%";
    for command in ["pingpong", "perf", "perf --test bw"] {
        let words = format!("{command} --virtual {faults}");
        let report: Value = serde_json::from_str(&good(&format!("{words} --json"))).unwrap();
        let frames = &report["wire"]["frames"];
        let count = |name: &str| frames[name].as_u64().unwrap_or_else(|| panic!("{report}"));
        for name in ["lost", "duplicated", "reordered", "corrupted"] {
            assert!((1..count("sent") / 4).contains(&count(name)), "{frames}");
        }
        // The same seed is the same run.
        let line = format!(
            "\nframes      {} sent; of these the wire lost {}, duplicated {}, reordered {}, corrupted {}\n",
            count("sent"),
            count("lost"),
            count("duplicated"),
            count("reordered"),
            count("corrupted")
        );
        assert!(good(&words).contains(&line), "{words}: {line}");
        let without = good(&format!("{command} --virtual --iters 30"));
        assert!(!without.contains("frames"), "{without}");
    }
}

/// The keys to invalidate that the frames of a run name, in order, and the lengths of the last
/// packets of SENDs without one.
fn invalidated(words: &str) -> (Vec<u32>, usize) {
    let (mut keys, mut without) = (Vec::new(), 0);
    for frame in frames(&format!("--ip 192.0.2.1 --peer-ip 192.0.2.2 {words}")) {
        // Ethernet, IPv4, UDP; then the base transport header and what extends it.
        let bth = frame.get(14 + 20 + 8..).unwrap();
        match bth[0] {
            // SEND last and only, with invalidate.
            0x16 | 0x17 => keys.push(u32::from_be_bytes(bth[12..16].try_into().unwrap())),
            0x02 | 0x04 => without += 1,
            _ => {}
        }
    }
    (keys, without)
}

#[test]
fn each_message_invalidates_a_key_that_was_not_there_before() {
    for size in ["", "--size 4", "--size 9000"] {
        let (keys, without) = invalidated(&format!("--op send-inv {size}"));
        assert_eq!((keys.len(), without), (40, 0), "{size}");
        // One region on each side, by turns; its index stays, and its key changes.
        for side in [0, 1] {
            let of_side: Vec<_> = keys.iter().skip(side).step_by(2).collect();
            let mut different = of_side.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), 20, "{of_side:x?}");
            assert!(of_side.iter().all(|key| **key >> 8 == *of_side[0] >> 8));
        }
    }
    let (keys, without) = invalidated("--op send");
    assert_eq!((keys.len(), without), (0, 40));
    let error = refused("--op send-inv --size 3");
    assert!(error.contains("--op send-inv --size 3"), "{error}");
    let error = refused("--op send-inv --transport ud");
    assert!(error.contains("--transport rc"), "{error}");
}

#[test]
fn the_mtu_of_simulated_functions_can_be_given() {
    let longest = |words: &str| {
        let frames = frames(&format!("--size 4096 {words}"));
        frames.iter().map(Vec::len).max().unwrap()
    };
    // An Ethernet header is not counted; what is left over of 1500 is too little
    // for a path MTU of 2048.
    let small = longest("--mtu 1500");
    assert!((1024..1514).contains(&small), "{small}");
    assert!(longest("") > 4096);
    let error = refused("--mtu 100");
    assert!(error.contains("100 bytes is below 256"), "{error}");
    let error = refused("--mtu 1500 --path-mtu 4096");
    assert!(error.contains("give a larger --mtu"), "{error}");
}

#[test]
fn the_wire_is_what_the_device_says() {
    let wire = |words: &str| report(words)["wire"].clone();
    let virtual_time = json!({ "latency_ns": 1000, "rate_bits_per_second": null });
    assert_eq!(wire(""), virtual_time);
    let mut delayed = wire("--faults delay=1us");
    let frames = delayed.as_object_mut().unwrap().remove("frames");
    assert_eq!(frames.unwrap()["lost"], 0);
    assert_eq!(delayed, virtual_time);
    let named = json!({ "latency_ns": 2000, "rate_bits_per_second": 25_000_000_000_u64 });
    assert_eq!(wire("--device sim:rate=25G,latency=2us"), named);
    let text = good("pingpong --iters 5");
    let line = "\nwire        latency 0 ns, rate not limited\n";
    assert!(text.contains(line), "{text}");
    // No message is faster, on a busy machine too: 1000 bytes take 8 ms.
    for (device, least) in [
        ("sim:latency=3ms", 3_000_000),
        ("sim:rate=1M", 8_000_000),
        ("sim:rate=1M,latency=3ms", 11_000_000),
    ] {
        let words = format!("pingpong --iters 3 --size 1000 --json --device {device}");
        let report: Value = serde_json::from_str(&good(&words)).unwrap();
        let fastest = report["latency_ns"]["min"].as_u64().unwrap();
        assert!(fastest >= least, "{device}: {fastest}");
    }
    let error = refused("--device sim --peer sim:rate=1G");
    assert!(error.contains("the same options"), "{error}");
}
