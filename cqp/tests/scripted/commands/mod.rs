//! The CQP: order, laps, both kinds of completion, and everything that can go
//! wrong with them.

mod late;
mod law;
mod life;
mod order;
mod waits;

use e810_cqp::op::{ArpChange, ManageArp};
use e810_cqp::{Config, Cqp};

use crate::ccq_config;
use crate::fake::{Fake, Script, pf, scripted};

fn small() -> Config {
    Config {
        entries: 8,
        ..Config::new(pf())
    }
}

fn create(script: Script) -> (Fake, Cqp<Fake>) {
    let fake = scripted(script);
    let cqp = Cqp::create(fake.clone(), small()).unwrap();
    (fake, cqp)
}

fn with_ccq(script: Script) -> (Fake, Cqp<Fake>) {
    let (fake, mut cqp) = create(script);
    fake.device_mut().static_announced = true;
    cqp.attach_ccq(ccq_config()).unwrap();
    (fake, cqp)
}

fn arp(index: u16) -> ManageArp {
    ManageArp {
        index,
        change: ArpChange::Delete,
    }
}

fn close(fake: &Fake, mut cqp: Cqp<Fake>) {
    if cqp.has_ccq() {
        cqp.detach_ccq().unwrap();
    }
    cqp.destroy().unwrap();
    fake.assert_clean();
}
