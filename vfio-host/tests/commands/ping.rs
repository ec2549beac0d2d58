//! `e810 ping`: between two functions of this process.

use serde_json::Value;

use super::{good, run};

fn report(words: &str) -> Value {
    serde_json::from_str(&good(&format!("ping --json -i 0.02 {words}"))).unwrap()
}

#[test]
fn the_other_function_answers() {
    for words in [
        "-c 3",
        "-c 3 10.8.10.2 -s 0",
        "-c 3 -s 8000 --ip 192.0.2.1/24 --peer-ip 192.0.2.2/24 192.0.2.2",
        "-c 3 --vlan 7",
        "-c 3 --ip 2001:db8::1/64 --peer-ip 2001:db8::2/64",
        // Another network, behind a gateway that the other function is too.
        "-c 3 --ip 192.0.2.1/24 --gateway 192.0.2.254 --peer-ip 198.51.100.1,192.0.2.254 198.51.100.1",
    ] {
        let report = report(words);
        assert_eq!(report["received"], 3, "{words}: {report}");
        assert_eq!(report["transmitted"], 3, "{words}: {report}");
        let times = &report["round_trip_ns"];
        assert!(times["min"].as_u64().unwrap() > 0, "{report}");
        assert!(times["min"].as_u64() <= times["max"].as_u64(), "{report}");
    }
    let text = good("ping -c 2 -i 0.02");
    assert!(
        text.contains("64 bytes from 10.8.10.2: seq=2 time="),
        "{text}"
    );
    assert!(text.contains("2 requests, 2 replies, 0% lost"), "{text}");
}

#[test]
fn no_reply_has_a_cause() {
    for (words, cause) in [
        ("10.8.10.77", "neither ARP nor neighbour discovery"),
        (
            "2001:db8::1",
            "no address of the function has a route there",
        ),
        ("--mtu 1500 -s 1500", "too long for the path"),
        ("--ip 192.0.2.1/24 198.51.100.1", "--gateway"),
    ] {
        let error = run(&format!("ping -c 1 {words}")).unwrap_err().to_string();
        assert!(error.contains(cause), "{words}: {error}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for (words, complaint) in [
        ("--warm", "--warm"),
        ("--device sim:wire=x", "is missing"),
        (
            "--device sim:wire=x --peer-ip 192.0.2.1 192.0.2.1",
            "--peer-ip",
        ),
        ("239.1.2.3", "not the address of one host"),
        ("--gateway 192.0.2.1", "in no network of --ip"),
        ("--ip 192.0.2.1 --gateway 192.0.2.2", "prefix length"),
        (
            "--ip 192.0.2.1/24 --gateway 192.0.2.2,192.0.2.3",
            "one of each family",
        ),
        ("--ip 192.0.2.1/40", "the prefix length is 0 to 32"),
    ] {
        let error = format!("{:#}", run(&format!("ping -c 1 {words}")).unwrap_err());
        assert!(error.contains(complaint), "{words}: {error}");
    }
}
