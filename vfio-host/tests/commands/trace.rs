//! `--trace` and `e810 trace`.

use std::fs;

use e810_trace::{Event, Trace};

use super::{good, run, temporary_folder};

#[test]
fn every_command_that_opens_a_device_is_traced() {
    let folder = temporary_folder();
    for (name, words, devices) in [
        ("up", "up", 1),
        ("stat", "stat", 1),
        ("report", "report", 1),
        ("pingpong", "pingpong --virtual -n 5", 2),
        ("perf", "perf --virtual --size 64 -n 5", 2),
    ] {
        let file = folder.as_path().join(name);
        good(&format!("{words} --trace {}", file.display()));
        let trace = Trace::parse(&fs::read(&file).unwrap()).unwrap();
        let is_device = |event: &Event| matches!(event, Event::Device { name } if name == "sim");
        let named = trace.records.iter().filter(|r| is_device(&r.event)).count();
        assert_eq!(named, devices, "{name}");
        for device in 0..devices {
            let mut of = trace.records.iter().filter(|r| r.device as usize == device);
            assert!(
                of.any(|record| matches!(record.event, Event::CqpCommand { .. })),
                "{name} {device}"
            );
        }
        let last = &trace.records.last().unwrap().event;
        assert!(matches!(last, Event::End { complete: true, .. }), "{name}");
    }
}

#[test]
fn a_trace_is_shown_and_compared() {
    let folder = temporary_folder();
    let path = |name: &str| folder.as_path().join(name).display().to_string();
    let (one, other) = (path("one"), path("other"));
    for file in [&one, &other] {
        good(&format!("up --trace {file}"));
    }
    let text = good(&format!("trace show {one}"));
    assert!(text.contains("AQ Command: opcode 0x0001"), "{text}");
    let text = good(&format!("trace show --only cqp {one}"));
    assert!(!text.contains("AQ Command"), "{text}");
    assert!(text.contains("WQE: CEQ_CREATE WQE"), "{text}");
    assert_eq!(
        good(&format!("trace diff {one} {other}")),
        "no difference\n"
    );
    // One line less: the answer to Get Version.
    let lines = fs::read_to_string(&other).unwrap();
    let reply = lines.lines().find(|line| line.contains("adminq-reply"));
    fs::write(&other, lines.replace(&format!("{}\n", reply.unwrap()), "")).unwrap();
    let error = run(&format!("trace diff {one} {other}")).unwrap_err();
    assert_eq!(error.to_string(), "the traces differ");
    assert_eq!(
        good(&format!("trace diff --only cqp {one} {other}")),
        "no difference\n"
    );
}

#[test]
fn what_cannot_be_traced_is_refused() {
    let error = run("up --trace /dev/full").unwrap_err();
    assert!(
        format!("{error:#}").starts_with("--trace /dev/full: "),
        "{error:#}"
    );
    let error = run("up --trace /nowhere/file").unwrap_err();
    assert!(
        format!("{error:#}").starts_with("--trace /nowhere/file: "),
        "{error:#}"
    );
    let error = run("report --passive --trace x").unwrap_err();
    assert!(
        error.to_string().contains("level 0 opens no device"),
        "{error}"
    );
}

#[test]
fn other_files_are_no_traces() {
    let folder = temporary_folder();
    let file = folder.as_path().join("report");
    good(&format!("report --level 1 --out {}", file.display()));
    let error = run(&format!("trace show {}", file.display())).unwrap_err();
    assert!(
        format!("{error:#}").contains("this is no trace of `--trace`"),
        "{error:#}"
    );
}
