//! The HMC: what is committed is backed, what is backed is reachable, and
//! whatever fails on the way is undone.

mod failures;
mod layout;
mod lists;

use e810_cqp::hmc::{Backing, Capacity, FpmQuery, Hmc, Plan};
use e810_cqp::{Config, Cqp, Result};

use crate::ccq_config;
use crate::fake::{Fake, Script, pf, scripted};

/// A capacity that keeps the tests short.
const SMALL: Capacity = Capacity {
    qps: 8,
    cqs: 8,
    mrs: 64,
    ahs: 8,
    arps: 8,
    mcast_groups: 8,
    pbles: 4096,
};

/// PBLEs that fill segments of their own.
const MANY_PBLES: Capacity = Capacity {
    pbles: 700_000,
    ..Capacity::DEFAULT
};

fn ask(cqp: &mut Cqp<Fake>, capacity: Capacity, backing: Backing) -> Result<Hmc<Fake>> {
    let query = FpmQuery::ask(cqp)?;
    let plan = Plan::new(&query, &capacity, backing)?;
    Hmc::create(cqp, &query, &plan)
}

fn machine(script: Script) -> (Fake, Cqp<Fake>) {
    let fake = scripted(script);
    let cqp = Cqp::create(fake.clone(), Config::new(pf())).unwrap();
    (fake, cqp)
}

fn made(capacity: Capacity, backing: Backing) -> (Fake, Cqp<Fake>, Hmc<Fake>) {
    let (fake, mut cqp) = machine(Script::default());
    let hmc = ask(&mut cqp, capacity, backing).unwrap();
    (fake, cqp, hmc)
}

fn close(fake: &Fake, mut cqp: Cqp<Fake>, hmc: Hmc<Fake>) {
    hmc.destroy(&mut cqp).unwrap();
    assert!(fake.device().segments.is_empty());
    cqp.destroy().unwrap();
    fake.assert_clean();
}

fn attach(cqp: &mut Cqp<Fake>) -> Result<()> {
    cqp.attach_ccq(ccq_config())
}
