//! All families in one table.

use crate::bus::RegOffset;

use super::info::{Element, RegInfo, Space};
use super::{
    adminq, gl_reset, glhmc, glhmc_objects, glint, glpe, lan_queue, msix, pe_filter, pfgen, pfhmc,
    pfint, pfpe, prtmac, switch, vf,
};

const FAMILIES: [&[RegInfo]; 16] = [
    adminq::TABLE,
    gl_reset::TABLE,
    glhmc::TABLE,
    glhmc_objects::TABLE,
    glint::TABLE,
    glpe::TABLE,
    lan_queue::TABLE,
    msix::TABLE,
    pe_filter::TABLE,
    pfgen::TABLE,
    pfhmc::TABLE,
    pfint::TABLE,
    pfpe::TABLE,
    prtmac::TABLE,
    switch::TABLE,
    vf::TABLE,
];

/// Every register defined here, for tracers, device models and tests.
pub static ALL: &[RegInfo] = &JOINED;

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler: an index out of range would not compile"
)]
const COUNT: usize = {
    let mut count = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler: an index out of range would not compile"
)]
static JOINED: [RegInfo; COUNT] = {
    let mut joined = [FAMILIES[0][0]; COUNT];
    let (mut next, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].len() {
            joined[next] = FAMILIES[family][row];
            next += 1;
            row += 1;
        }
        family += 1;
    }
    joined
};

/// The register of BAR0 at `off`, by name; `None` for offsets this driver does
/// not know.
#[must_use]
pub fn find(off: RegOffset) -> Option<Element> {
    ALL.iter()
        .filter(|register| register.space == Space::Bar0)
        .find_map(|register| register.element_at(off.get()))
}
