//! What a person reads of a report.

use super::*;

const HEAD: &str = r#"{"kind":"report","version":1,"program":"e810 0","device":"vfio:0000:3b:00.0","transport":"vfio","level":1,"identities":false}"#;

fn of(lines: &str) -> String {
    page(&Document::parse(format!("{HEAD}\n{lines}").as_bytes()).unwrap())
}

#[test]
fn what_a_reset_leaves_is_listed() {
    let text = of(r#"{"kind":"state","state":"as-found"}
{"kind":"register","name":"KEPT","offset":0,"values":[["0x00000005",1]]}
{"kind":"register","name":"ZERO","offset":0,"values":[["0x00000000",1]]}
{"kind":"register","name":"GONE","offset":0,"values":[["0x00000001",1],["0x00000002",1]]}
{"kind":"register","name":"GLINT_CTL","offset":0,"values":[["0x22220000",1]]}
{"kind":"state","state":"opened"}
{"kind":"register","name":"KEPT","offset":0,"values":[["0x00000005",1]]}
{"kind":"register","name":"ZERO","offset":0,"values":[["0x00000000",1]]}
{"kind":"register","name":"GONE","offset":0,"values":[["0x00000000",2]]}
{"kind":"end","complete":true}
"#);
    assert!(
        text.contains("1 kept a value that is not 0: KEPT\n    1 changed: GONE"),
        "{text}"
    );
    assert!(text.contains("GLINT_CTL: 0x22220000 as found"), "{text}");
    assert!(text.contains("ended       complete"), "{text}");
}

#[test]
fn connections_of_a_command_are_counted() {
    let text = of(
        r#"{"kind":"connections","command":"pingpong","function":"function 0","device":"sim","manager":{"total":3,"states":{"ESTABLISHED":2,"TIMEWAIT":1},"total_listeners":1,"counters":{"repeated":4,"rejected":{"NO_QP":1,"TIMEOUT":1},"dropped":{"stray":5}}}}
{"kind":"connections","command":"perf","function":"function 1","device":"sim"}
"#,
    );
    for line in [
        "connections pingpong, function 0 (sim): connections 3 (2 ESTABLISHED, 1 TIMEWAIT), listeners 1, messages repeated 4, requests rejected 2, datagrams dropped 5",
        "connections perf, function 1 (sim): no connection manager",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn how_it_ended_is_said() {
    let text = of(r#"{"kind":"next","what":"read GLNVM_ULD"}
"#);
    assert!(text.contains("died at: read GLNVM_ULD"), "{text}");
    let text = of(
        r#"{"kind":"end","complete":false,"why":"the device is gone"}
"#,
    );
    assert!(text.contains("early: the device is gone"), "{text}");
    assert!(of("{\"kind\":\"lo").contains("the file is cut"));
    let text = of(
        r#"{"kind":"absent","what":"registers as found","why":"lockdown"}
{"kind":"config","bytes":"zz"}
{"kind":"fact","name":"aer_dev_fatal","text":"DLP 0\nTOTAL_ERR_FATAL 2"}
"#,
    );
    for line in [
        "not read    registers as found: lockdown",
        "config      configuration space: not hexadecimal",
        "aer_dev_fatal: TOTAL_ERR_FATAL 2",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
