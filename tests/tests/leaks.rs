//! Memory that the device may still write is never freed, and that is said.
//!
//! A process of its own: the logger is that of the whole process, and the warnings of other
//! tests would be counted.

use std::sync::{Mutex, PoisonError};

use e810::{Config, Lan, MacAddr, VsiId, bring_up};
use e810_sim::Sim;
use log::{LevelFilter, Log, Metadata, Record};

/// Every warning of the process; this file has one test.
struct Warnings(Mutex<Vec<String>>);

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

impl Log for Warnings {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record.args().to_string());
    }
    fn flush(&self) {}
}

fn reported() -> usize {
    let lines = std::mem::take(&mut *WARNINGS.0.lock().unwrap_or_else(PoisonError::into_inner));
    let leaks = lines
        .iter()
        .filter(|line| line.contains("of DMA memory at"));
    leaks.count()
}

#[test]
fn a_device_that_is_dropped_keeps_its_memory_and_says_so() {
    log::set_logger(&WARNINGS).unwrap();
    log::set_max_level(LevelFilter::Warn);
    let sim = Sim::builder().build();
    let nic = sim.function(0);
    let lan = Lan {
        vsi: VsiId::new(nic.vsi()).unwrap(),
        mac: MacAddr(nic.mac()),
        mtu: 1500,
    };
    let device = bring_up(nic.clone(), &Config::new(lan), &mut |_| {}).unwrap();
    device.shutdown().unwrap();
    assert_eq!(reported(), 0, "all was given back");

    let device = bring_up(nic, &Config::new(lan), &mut |_| {}).unwrap();
    let held = sim.memory(0).dma_blocks as usize;
    assert!(held > 10);
    drop(device);
    assert_eq!(sim.memory(0).dma_blocks as usize, held, "nothing was freed");
    assert_eq!(reported(), held, "a line for each block");
    assert_eq!(sim.findings(), []);
}
