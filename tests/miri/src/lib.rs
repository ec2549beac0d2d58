//! One whole bring-up and one verified message of each kind, in little memory.
//!
//! Small enough for an interpreter that checks every access, on machines of
//! either byte order:
//!
//! ```text
//! export MIRIFLAGS=-Zmiri-disable-stacked-borrows    # it visits every word of 2 MiB at each access
//! cargo +nightly miri test -p e810-miri
//! cargo +nightly miri test -p e810-miri --target s390x-unknown-linux-gnu
//! ```

#![cfg(test)]

use e810::{Mtu, QpCaps};
use e810_sim::{Profile, Sim};
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};

/// A message of each kind, of more than one packet, from either side.
#[test]
fn a_send_a_write_and_a_read() {
    let sim = Sim::builder()
        .functions(2)
        .seed(1)
        .profile(Profile::small())
        .build();
    let setup = Setup {
        caps: QpCaps {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline: 32,
        },
        cqe: 16,
        buffer: 2 * 4096,
        mtu: Mtu::Mtu256,
        frugal: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        for side in [0, 1] {
            pair.transfer(End { side, qp: 0 }, &Transfer::new(kind, 600));
        }
    }
    pair.finish(&sim);
}
