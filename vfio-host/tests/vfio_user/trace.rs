//! `--trace` on functions that another process serves.

use std::fs;

use e810_sim::Sim;
use e810_trace::{Event, Kinds, Trace, diff};

use super::processes::{E810, Served, folder, package};

/// The trace of a bring-up of a function that is served.
fn up() -> Trace {
    let served = Served::start_with(Sim::builder().cold());
    let folder = folder();
    let file = folder.as_path().join("trace");
    let end = E810::start(&[
        "up".to_owned(),
        format!("--device=vfio-user:{}", served.paths[0].display()),
        format!("--ddp={}", package().display()),
        format!("--trace={}", file.display()),
    ])
    .end();
    assert!(end.status.success(), "{end:?}");
    let _ = served.left(0, 1);
    assert_eq!(served.sim.findings(), []);
    Trace::parse(&fs::read(&file).unwrap()).unwrap()
}

#[test]
fn a_served_function_is_traced() {
    let (one, other) = (up(), up());
    let is_interrupt = |event: &Event| matches!(event, Event::Interrupts { .. });
    // `up` measures how long one takes.
    assert!(one.records.iter().any(|record| is_interrupt(&record.event)));
    assert_eq!(diff(("one", &one), ("other", &other), Kinds::ALL), "");
}
