//! Memory that the device may still write is never freed, and that is said.
//!
//! A process of its own: the logger is that of the whole process, and the warnings of other
//! tests would be counted.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, helpers included"
)]

use std::sync::{Mutex, PoisonError};

use e810::{Config, Control, Error, Lan, MacAddr, QpCaps, QpInit, VsiId, bring_up};
use e810_sim::pe::CqpErrors;
use e810_sim::{Sim, SimPlatform};
use log::{LevelFilter, Log, Metadata, Record};

/// Opcodes of the CQP.
const CREATE_QP: u8 = 0x00;
const CREATE_CQ: u8 = 0x03;
const MODIFY_CQ: u8 = 0x04;

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

/// What fails half-way is undone in order: as much memory as before, and nothing to warn of.
fn creations_that_fail(sim: &Sim, control: &mut Control<SimPlatform>) {
    let pd = control.alloc_pd().unwrap();
    let mut cq = control.create_cq(16, 0).unwrap();
    let caps = QpCaps::default();
    let largest = QpCaps {
        max_send_wr: 4063,
        max_recv_wr: 4063,
        max_send_sge: 13,
        max_recv_sge: 13,
        max_inline: 0,
    };
    let held = sim.memory(0).dma_blocks;
    let same = |what: &str| assert_eq!(sim.memory(0).dma_blocks, held, "{what}");
    let refuse = |opcode| {
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::Opcode(opcode));
    };
    for round in 0..3 {
        refuse(CREATE_QP);
        assert!(control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps)).is_err());
        same("a queue pair that the device refuses");
        refuse(CREATE_CQ);
        assert!(control.create_cq(16, 0).is_err());
        same("a completion queue that it refuses");
        refuse(MODIFY_CQ);
        assert!(control.resize_cq(&mut cq, 64 + round).is_err());
        same("a ring that it refuses");
    }
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
    // Until there is no room for requests, and until there are no numbers.
    for caps in [largest, caps] {
        let mut all = Vec::new();
        while let Ok(qp) = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps)) {
            all.push(qp);
        }
        assert!(!all.is_empty());
        for qp in all {
            control.destroy_qp(qp).unwrap();
        }
        let kept = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps));
        assert!(matches!(kept, Err(Error::NotForgotten { destroyed: 1.. })));
        cq.forget_gone();
        same("all that there are, and one more");
    }
    control.destroy_cq(cq).unwrap();
    control.dealloc_pd(pd).unwrap();
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
    let (mut control, events) = device.split();
    creations_that_fail(&sim, &mut control);
    control.shutdown(events).unwrap();
    assert_eq!(reported(), 0, "all was given back");

    let device = bring_up(nic, &Config::new(lan), &mut |_| {}).unwrap();
    let held = sim.memory(0).dma_blocks as usize;
    assert!(held > 10);
    drop(device);
    assert_eq!(sim.memory(0).dma_blocks as usize, held, "nothing was freed");
    assert_eq!(reported(), held, "a line for each block");
    assert_eq!(sim.findings(), []);
}
