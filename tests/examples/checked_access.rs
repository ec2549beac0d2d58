//! What it costs the simulator to check each access to memory of the program
//! (`Builder::checked_access`): RDMA WRITEs between two functions, one at a time, in virtual
//! time on one thread, with and without.
//!
//! ```text
//! cargo run --profile fast -p e810-tests --example checked_access -- [MESSAGES]
//! ```
//!
//! The path MTU is 4096: a message of 64 KiB is 16 packets, each read once and written once.

#![expect(clippy::expect_used, reason = "a run that goes wrong ends the program")]

use std::env;
use std::time::Instant;

use e810::{Data, Lan, MacAddr, Mtu, Op, Remote, VsiId, WcStatus};
use e810_sim::{DmaSegmentation, Mode, Sim};
use e810_tests::traffic::scenarios::A;
use e810_tests::traffic::verbs::done;
use e810_tests::traffic::{Pair, Setup, Side};

/// Nanoseconds a message of `bytes`, the least of five runs of `messages`.
fn measure(checked: bool, bytes: usize, messages: u32) -> f64 {
    let sim = Sim::builder()
        .functions(2)
        .seed(1)
        .mode(Mode::Virtual)
        .segmentation(DmaSegmentation::Contiguous)
        .checked_access(checked)
        .build();
    let setup = Setup {
        mtu: Mtu::Mtu4096,
        ..Setup::default()
    };
    let sides = [0, 1].map(|function| {
        let platform = sim.function(function);
        let lan = Lan {
            vsi: VsiId::new(platform.vsi()).expect("a VSI"),
            mac: MacAddr(platform.mac()),
            mtu: 9000,
        };
        Side::new(platform, lan, &setup)
    });
    let mut pair = Pair::connected(sides.into(), setup);
    let there = pair.side(1);
    let remote = Remote {
        addr: there.mr.address() + there.incoming() as u64,
        rkey: there.mr.rkey(),
    };
    let sges = [pair.side(0).sge(0, bytes)];
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..messages {
            let data = Data::Sges(&sges);
            let imm = None;
            let wc = done(&mut pair, A, Op::Write { data, remote, imm });
            assert_eq!(wc.status, WcStatus::Success);
        }
        let passed = start.elapsed().as_nanos() as f64;
        least = least.min(passed / f64::from(messages));
    }
    pair.close();
    assert_eq!(sim.findings(), []);
    least
}

fn main() {
    let messages = env::args()
        .nth(1)
        .map_or(5_000, |text| text.parse().expect("a number"));
    assert!(e810_sim::can_check_access(), "this kernel does not let it");
    println!("ns a WRITE, simulated: direct, checked, difference for each access");
    for bytes in [64, 4096, 65_536] {
        let accesses = 2.0 * (bytes as f64 / 4096.0).ceil();
        let [direct, checked] = [false, true].map(|on| measure(on, bytes, messages));
        let each = (checked - direct) / accesses;
        println!("{bytes:6} B  {direct:9.0}  {checked:9.0}  {each:7.0}");
    }
}
