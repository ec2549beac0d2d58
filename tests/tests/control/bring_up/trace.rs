//! The same seed gives the same registers in the same order.

use e810::bring_up;
use e810_sim::middleware::{Layered, Trace};
use expect_test::expect;

use crate::bring_up::world::{assert_as_found, builder, config};

/// Every register access of a bring-up and its shutdown.
fn accesses(seed: u64) -> (Vec<String>, Vec<String>) {
    let sim = builder().seed(seed).build();
    let trace = Trace::new();
    let nic = Layered::new(sim.function(0), trace.clone());
    let device = bring_up(nic, &config(&sim.function(0)), &mut |_| {}).unwrap();
    let up = trace.take();
    device.shutdown().unwrap();
    assert_as_found(&sim);
    (up, trace.take())
}

#[test]
fn a_seed_decides_everything() {
    let first = accesses(11);
    assert_eq!(first, accesses(11));
    let mut different = 0;
    for seed in 12..20 {
        different += u32::from(accesses(seed) != first);
    }
    assert!(different > 0, "memory comes at other addresses");
}

/// The writes as lines; addresses, which differ between seeds, are left out, and runs of one
/// register are counted.
fn writes(lines: &[String]) -> String {
    let mut rows: Vec<(String, u32)> = Vec::new();
    for line in lines {
        let Some(write) = line.strip_prefix("write ") else {
            continue;
        };
        let (register, value) = write.split_once(' ').unwrap();
        let text = match register {
            "PFPE_CCQPHIGH" | "PFPE_CCQPLOW" if value != "0x0" => format!("{register} address"),
            "PFPE_CQPDB" => register.to_owned(),
            _ => write.to_owned(),
        };
        match rows.last_mut() {
            Some((last, times)) if *last == text => *times += 1,
            _ => rows.push((text, 1)),
        }
    }
    let row = |(text, times): &(String, u32)| match times {
        1 => format!("{text}\n"),
        _ => format!("{text}, {times} times\n"),
    };
    rows.iter().map(row).collect()
}

#[test]
fn registers_are_written_in_this_order() {
    let (up, down) = accesses(7);
    expect![[r#"
        PFPE_CQPTAIL 0x0
        PFPE_CQPDB
        PFPE_CCQPSTATUS 0x0
        PFPE_CCQPHIGH address
        PFPE_CCQPLOW address
        PFPE_CQPDB, 7 times
        GLINT_RATE(1) 0x0
        GLINT_CEQCTL(0) 0x40000001
        GLINT_DYN_CTL(1) 0x3
        PFPE_CQARM 0x0
        PFPE_CQPDB
        GLINT_RATE(2) 0x0
        GLINT_CEQCTL(1) 0x40000002
        GLINT_DYN_CTL(2) 0x3
        PFPE_CQPDB
        GLINT_RATE(3) 0x0
        GLINT_CEQCTL(2) 0x40000003
        GLINT_DYN_CTL(3) 0x3
        PFPE_CQPDB
        GLINT_RATE(4) 0x0
        GLINT_CEQCTL(3) 0x40000004
        GLINT_DYN_CTL(4) 0x3
        PFPE_CQPDB
        PFINT_AEQCTL 0x40001800
        GLINT_DYN_CTL(0) 0x1b
    "#]]
    .assert_eq(&writes(&up));
    expect![[r#"
        PFINT_AEQCTL 0x1800
        GLINT_DYN_CTL(0) 0x0
        PFINT_AEQCTL 0x0
        PFPE_CQPDB
        GLINT_CEQCTL(3) 0x4
        GLINT_DYN_CTL(4) 0x0
        GLINT_RATE(4) 0x0
        PFPE_CQPDB
        GLINT_CEQCTL(2) 0x3
        GLINT_DYN_CTL(3) 0x0
        GLINT_RATE(3) 0x0
        PFPE_CQPDB
        GLINT_CEQCTL(1) 0x2
        GLINT_DYN_CTL(2) 0x0
        GLINT_RATE(2) 0x0
        PFPE_CQPDB
        GLINT_CEQCTL(0) 0x1
        GLINT_DYN_CTL(1) 0x0
        GLINT_RATE(1) 0x0
        PFPE_CQPDB, 3 times
        PFPE_CCQPHIGH 0x0
        PFPE_CCQPLOW 0x0
    "#]]
    .assert_eq(&writes(&down));
}
