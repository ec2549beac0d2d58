//! Random calls of which the device refuses some and answers others late: CI runs more of them
//! (`tests/examples/trials.rs`).

use e810_tests::trials;

#[test]
fn calls_that_are_refused_or_late_end_well() {
    for seed in (1..8).chain([124, 129, 171, 10_029]) {
        if let Err(failure) = trials::run(seed) {
            panic!("seed {seed}: {:?}\n{:#?}", failure.wrong, failure.calls);
        }
    }
}
