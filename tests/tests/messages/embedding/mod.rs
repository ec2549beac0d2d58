//! The program of docs/embedding.md, run.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use e810_backends::buffer::Payload;
use e810_hal::{Clock, Ns};
use e810_sim::{Profile, Sim, test_package};

include!("side.rs");

include!("least.rs");

#[test]
fn the_document_has_what_is_run_here() {
    let document = include_str!("../../../../docs/embedding.md");
    for (file, text) in [
        ("side.rs", include_str!("side.rs")),
        ("least.rs", include_str!("least.rs")),
    ] {
        assert!(
            document.contains(text),
            "docs/embedding.md has to have {file}"
        );
    }
}

#[test]
fn a_message_arrives() {
    pass(&Config::cold(1500));
}

#[test]
fn the_least_suffices() {
    pass(&LEAST);
}

/// Passes a message between two functions that are brought up so.
fn pass(config: &Config) {
    let builder = Sim::builder().functions(2).profile(Profile::small());
    let sim = builder.cold().build();
    let file = test_package();
    let package = PackageSource::File(Package::parse(&file).unwrap());
    let memory = [0, 1].map(|number| sim.function(number).payload(4096).unwrap());
    let mut sides = [0, 1].map(|number| {
        let start = ColdStart {
            package,
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let nic = sim.function(number);
        let device = bring_up_cold(nic, config, &start, &mut |_| {}).unwrap();
        make(device, memory[usize::from(number)].bytes()).unwrap()
    });
    let infos = [0, 1].map(|n: usize| sides[n].qp.info(&sides[n].control, 0).unwrap());
    for (side, peer) in sides.iter_mut().zip(infos.iter().rev()) {
        connect(side, peer).unwrap();
    }
    memory[0].bytes().write(0, b"all of it").unwrap();
    receive(&mut sides[1]).unwrap();
    send(&mut sides[0], 9).unwrap();
    let clock = sim.function(0);
    for (side, bytes) in sides.iter_mut().rev().zip([9, 0]) {
        let wc = (0..10_000).find_map(|_| {
            clock.delay(Ns::from_us(1));
            turn(side).unwrap()
        });
        let wc = wc.unwrap();
        assert_eq!(wc.status, WcStatus::Success);
        assert!(bytes == 0 || wc.byte_len == bytes);
    }
    let mut arrived = [0; 9];
    memory[1].bytes().read(2048, &mut arrived).unwrap();
    assert_eq!(&arrived, b"all of it");
    for side in sides {
        end(side).unwrap();
    }
    assert!(sim.findings().is_empty());
}
