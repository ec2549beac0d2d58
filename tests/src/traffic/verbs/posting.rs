//! Where a message's bytes go in a receive, and where they do not.

use e810::{Data, Op, Platform, Sge, WcStatus};

use super::super::scenarios::{A, B};
use super::super::{Pair, pattern};
use super::{done, send};

/// SGEs are filled first to last; what the message does not fill stays as it
/// was. An SGE of length 0 takes nothing (and does not mean 2^31 bytes).
pub fn filled_first_to_last(pair: &mut Pair<impl Platform>) {
    let into = pair.side(1).incoming();
    // (place, length) of each SGE, out of order in memory on purpose.
    let places = [(4000, 100), (0, 0), (1000, 700), (3000, 1)];
    let room: usize = places.iter().map(|(_, length)| length).sum();
    for (serial, size) in (1..).zip([0, 1, 99, 100, 101, 799, 800, room]) {
        let bytes = pattern(serial, size);
        let there = pair.side(1);
        there.buffer.write(into, &[0xA5; 5000]);
        let sges = places.map(|(at, length)| there.sge(into + at, length));
        there.post_recv(0, serial, &sges).expect("posted");
        let here = pair.side(0);
        here.buffer.write(0, &bytes);
        // Cut on the way out too, with empty pieces in between.
        let half = size / 2;
        let out = [
            here.sge(0, 0),
            here.sge(0, half),
            here.sge(half, 0),
            here.sge(half, size - half),
        ];
        assert_eq!(
            done(pair, A, send(Data::Sges(&out))).status,
            WcStatus::Success
        );
        let wc = pair.completions(1, 1)[0];
        assert_eq!((wc.status, wc.byte_len as usize), (WcStatus::Success, size));
        let mut left = bytes.as_slice();
        let mut expected = vec![0xA5; 5000];
        for (at, length) in places {
            let (now, later) = left.split_at(length.min(left.len()));
            expected[at..at + now.len()].copy_from_slice(now);
            left = later;
        }
        assert!(pair.side(1).buffer.read(into, 5000) == expected, "{size}");
    }
}

/// A receive without SGEs is for messages without bytes; so is a send.
pub fn without_bytes(pair: &mut Pair<impl Platform>) {
    for sges in [&[] as &[Sge], &[Sge::default()]] {
        for imm in [None, Some(9)] {
            for receive in [&[] as &[Sge], &[Sge::default(), Sge::default()]] {
                pair.side(1).post_recv(B.qp, 4, receive).expect("posted");
                let data = Data::Sges(sges);
                let wc = done(pair, A, Op::Send { data, imm });
                assert_eq!((wc.status, wc.byte_len), (WcStatus::Success, 0));
                let wc = pair.completions(1, 1)[0];
                assert_eq!((wc.status, wc.byte_len), (WcStatus::Success, 0));
                assert_eq!(wc.imm, imm.unwrap_or(0));
            }
        }
    }
    let wc = done(pair, A, Op::Nop);
    assert_eq!(
        (wc.status, wc.opcode),
        (WcStatus::Success, e810::WcOpcode::Nop)
    );
}
