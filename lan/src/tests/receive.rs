use super::*;
use crate::RxCounts;
use crate::testing::{Arriving, TAIL, plain};

fn arrives(fake: &Fake, frame: &Arriving) -> bool {
    fake.with(|device, memory| device.deliver(memory, frame))
}

fn next(port: &mut LanQueues<Fake>) -> Option<Vec<u8>> {
    let mut into = std::vec![0; 9728];
    let len = port.receive(&mut into)?;
    into.truncate(len);
    Some(into)
}

/// Frames of one to five buffers, for more laps of the ring than one.
#[test]
fn frames_of_every_number_of_buffers_come_in_order() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::new(9000));
    assert_eq!(port.max_frame(), 9022);
    let lengths = [
        14, 60, 61, 1514, 2047, 2048, 2049, 4096, 4097, 8192, 8193, 9022, 10240,
    ];
    const LAPS: u8 = if cfg!(miri) { 1 } else { 20 };
    for lap in 0..LAPS {
        for (seed, len) in (lap..).zip(lengths.into_iter().take(12)) {
            assert!(arrives(&fake, &plain(frame(len, seed))));
            assert_eq!(next(&mut port), Some(frame(len, seed)));
        }
        assert_eq!(next(&mut port), None);
    }
    let expected = RxCounts {
        frames: 12 * u64::from(LAPS),
        bytes: u64::from(LAPS) * lengths.into_iter().take(12).sum::<usize>() as u64,
        ..RxCounts::default()
    };
    assert_eq!(port.rx_counts(), expected);
    close(&fake, port);
}

/// All but one descriptor, cut to a multiple of eight, are the device's: 56 of 64.
#[test]
fn a_burst_fills_the_ring_and_the_tail_follows_in_eights() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    for _ in 0..if cfg!(miri) { 1 } else { 5 } {
        let mut sent = 0;
        while arrives(&fake, &plain(frame(100, sent))) {
            sent += 1;
        }
        assert!((56..64).contains(&sent), "{sent}");
        fake.device_mut().log.clear();
        for seed in 0..sent {
            assert_eq!(next(&mut port), Some(frame(100, seed)));
        }
        let log = fake.device().log.clone();
        let tails = log.iter().filter(|(off, _)| *off == TAIL);
        assert!(tails.clone().all(|(_, tail)| tail % 8 == 0 && *tail < 64));
        assert!((7..=8).contains(&tails.count()), "one write for eight");
    }
    close(&fake, port);
}

#[test]
fn a_frame_with_errors_is_dropped_and_counted() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::new(9000));
    let damaged = |bit: u32| Arriving {
        status: 1 << bit,
        ..plain(frame(3000, 1))
    };
    let tagged = Arriving {
        status1: 1 << 11,
        ..plain(frame(100, 2))
    };
    let other = Arriving {
        rxdid: 0x40,
        ..plain(frame(100, 3))
    };
    for bad in [
        damaged(2),
        damaged(10),
        damaged(13),
        tagged,
        other,
        plain(Vec::new()),
        plain(frame(13, 4)),
    ] {
        assert!(arrives(&fake, &bad));
    }
    // Checksum results are not errors of the frame.
    let checked = Arriving {
        status: 0xF8,
        ..plain(frame(100, 5))
    };
    assert!(arrives(&fake, &checked));
    assert_eq!(next(&mut port), Some(frame(100, 5)));
    let expected = RxCounts {
        frames: 1,
        bytes: 100,
        damaged: 2,
        too_long: 0,
        malformed: 2,
        tag_lost: 2,
        format: 1,
    };
    assert_eq!(port.rx_counts(), expected);
    close(&fake, port);
}

#[test]
fn a_frame_longer_than_the_buffer_is_dropped_whole() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::new(9000));
    assert!(arrives(&fake, &plain(frame(5000, 1))));
    assert!(arrives(&fake, &plain(frame(200, 2))));
    let mut into = [0; 200];
    assert_eq!(port.receive(&mut into), Some(200));
    assert_eq!(into[..], frame(200, 2));
    assert_eq!(port.rx_counts().too_long, 1);
    close(&fake, port);
}

/// More buffers than a frame can have: all of it is dropped, once, and what follows
/// is whole.
#[test]
fn a_chain_without_end_is_dropped_up_to_its_end() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    for buffers in [6, 10, 11, 23] {
        assert!(arrives(&fake, &plain(frame(2048 * buffers, 1))));
        assert!(arrives(&fake, &plain(frame(300, 2))));
        assert_eq!(next(&mut port), Some(frame(300, 2)));
    }
    assert_eq!(port.rx_counts().malformed, 4);
    close(&fake, port);
}

/// Half of a frame is not taken, and not looked at twice.
#[test]
fn half_a_frame_waits_for_the_other() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::new(9000));
    assert!(arrives(&fake, &plain(frame(4000, 1))));
    let ring = fake.device().context(32, 57) << 7;
    let second = ring + 32 + 8;
    let status = fake.word(second).unwrap();
    fake.with(|_, memory| memory.store(second, 0));
    assert_eq!(next(&mut port), None);
    assert_eq!(next(&mut port), None);
    fake.with(|_, memory| memory.store(second, status));
    assert_eq!(next(&mut port), Some(frame(4000, 1)));
    close(&fake, port);
}
