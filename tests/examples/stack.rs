//! How much stack a cold bring-up and the shutdown need, with the simulator
//! underneath: `cargo run --release -p e810-tests --example stack`.
//!
//! Each size is tried in a process of its own, because one that is too small ends
//! it. The figure is an upper bound: the simulator, and the standard library's
//! threads, use the same stack.

use std::process::{Command, ExitCode};
use std::thread;

use e810::{ColdStart, Config, LinkPolicy, Package, PackageSource, bring_up_cold};
use e810_hal::Ns;
use e810_sim::Sim;

/// Sizes that are tried, in KiB.
const SIZES: [usize; 10] = [512, 384, 256, 192, 128, 96, 64, 48, 32, 24];

fn main() -> ExitCode {
    if let Some(kib) = std::env::args().nth(1) {
        return match kib.parse() {
            Ok(kib) => up_and_down(kib),
            Err(_) => {
                eprintln!("{kib} is no number of KiB");
                ExitCode::from(2)
            }
        };
    }
    let Ok(this) = std::env::current_exe() else {
        eprintln!("this program does not know where it is");
        return ExitCode::FAILURE;
    };
    for kib in SIZES {
        let tried = Command::new(&this).arg(kib.to_string()).output();
        let enough = tried.is_ok_and(|tried| tried.status.success());
        println!(
            "{kib:>4} KiB  {}",
            if enough { "enough" } else { "not enough" }
        );
    }
    ExitCode::SUCCESS
}

fn up_and_down(kib: usize) -> ExitCode {
    let sim = Sim::builder().cold().build();
    let nic = sim.function(0);
    let thread = thread::Builder::new().stack_size(kib << 10).spawn(|| {
        let file = e810_sim::test_package();
        let package = Package::parse(&file).map_err(|error| error.to_string())?;
        let start = ColdStart {
            package: PackageSource::File(package),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let device = bring_up_cold(nic, &Config::cold(9000), &start, &mut |_| {});
        let device = device.map_err(|error| error.to_string())?;
        device.shutdown().map_err(|error| error.to_string())
    });
    let ended = thread.map(thread::JoinHandle::join);
    match ended {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        other => {
            eprintln!("{other:?}");
            ExitCode::FAILURE
        }
    }
}
