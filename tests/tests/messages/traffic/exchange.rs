//! What the tests share.

use e810::Mtu;
use e810_sim::Sim;

pub(crate) use e810_tests::traffic::scenarios::{A, B, KINDS, around, many, send};

pub(crate) const MTUS: [Mtu; 5] = [
    Mtu::Mtu256,
    Mtu::Mtu512,
    Mtu::Mtu1024,
    Mtu::Mtu2048,
    Mtu::Mtu4096,
];

pub(crate) fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}
