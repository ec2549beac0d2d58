//! Addressing, ordering and faults of the link.

use super::*;

use std::sync::{Arc, Mutex};

const A: Mac = [2, 0, 0, 0, 0, 1];
const B: Mac = [2, 0, 0, 0, 0, 2];
const C: Mac = [2, 0, 0, 0, 0, 3];
const GROUP: Mac = [0x33, 0x33, 0, 0, 0, 1];

fn link(quality: Quality) -> Link {
    Link::new(vec![A, B, C], quality, Rng::new(5))
}

/// A frame to `to` with `tag` behind the Ethernet header.
fn frame(to: Mac, tag: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[..6].copy_from_slice(&to);
    frame[14] = tag;
    frame
}

/// All frames that arrive, in order: receiver and tag.
fn arrivals(link: &mut Link) -> Vec<(usize, u8)> {
    std::iter::from_fn(|| link.arrive(u64::MAX))
        .map(|(to, frame)| match to {
            To::Function(to) => (to, frame[14]),
            To::Back(_) | To::Uplink => panic!("nobody has set one"),
        })
        .collect()
}

#[test]
fn frames_go_to_whom_they_name() {
    let mut link = link(Quality::PERFECT);
    link.send(0, 0, frame(B, 1));
    link.send(0, 0, frame(A, 2));
    link.send(0, 1, frame(GROUP, 3));
    link.send(0, 1, frame([2; 6], 4));
    link.send(0, 1, vec![1, 2, 3]);
    assert_eq!(arrivals(&mut link), [(1, 1), (0, 2), (0, 3), (2, 3)]);
    let counts = link.counts();
    assert_eq!(
        (counts.sent, counts.delivered, counts.unroutable),
        (5, 4, 2)
    );
}

#[test]
fn a_frame_that_does_not_come_back_goes_out() {
    let out = Sender {
        loops: false,
        ..Sender::from(0)
    };
    let mut link = link(Quality::PERFECT);
    link.send(0, out, frame(A, 1));
    link.send(0, out, frame(B, 2));
    assert_eq!(arrivals(&mut link), [(1, 2)]);
    assert_eq!(link.counts().unroutable, 1);
    link.set_uplink(Some(Arc::new(|_: &[u8]| ())));
    link.send(0, out, frame(A, 3));
    let (to, bytes) = link.arrive(u64::MAX).unwrap();
    assert_eq!((to, bytes[14]), (To::Uplink, 3));
}

#[test]
fn a_frame_takes_its_time_and_frames_keep_their_order() {
    let mut link = link(Quality::PERFECT);
    for tag in 0..20 {
        link.send(u64::from(tag / 4), 0, frame(B, tag));
    }
    assert_eq!(link.next_due(), Some(1_000));
    assert_eq!(link.arrive(999), None);
    let tags: Vec<u8> = arrivals(&mut link).iter().map(|(_, tag)| *tag).collect();
    assert_eq!(tags, (0..20).collect::<Vec<u8>>());
    assert_eq!(link.next_due(), None);
}

#[test]
fn a_bad_wire_does_what_its_rates_say() {
    let sent = if cfg!(miri) { 50 } else { 2_000 };
    let run = |quality| {
        let mut link = link(quality);
        for n in 0..sent {
            link.send(n * 100, 0, frame(B, n as u8));
        }
        let arrived = arrivals(&mut link);
        (link.counts(), arrived)
    };
    let all = 1_000_000;
    let (counts, arrived) = run(Quality {
        loss: all,
        ..Quality::PERFECT
    });
    assert_eq!((counts.lost, arrived.len()), (sent, 0));
    let (counts, arrived) = run(Quality {
        duplicate: all,
        ..Quality::PERFECT
    });
    assert_eq!((counts.duplicated, arrived.len() as u64), (sent, 2 * sent));
    let (counts, arrived) = run(Quality {
        loss: 300_000,
        ..Quality::PERFECT
    });
    assert_eq!(counts.lost + arrived.len() as u64, sent);
    assert!(counts.lost > sent / 10 && counts.lost < sent / 2);
    let (counts, arrived) = run(Quality {
        reorder: 200_000,
        ..Quality::PERFECT
    });
    assert!(counts.reordered > 0);
    assert_eq!(arrived.len() as u64, sent);
    let (_, straight) = run(Quality::PERFECT);
    assert_ne!(arrived, straight);
    let same = run(Quality {
        reorder: 200_000,
        ..Quality::PERFECT
    });
    assert_eq!(same.1, arrived, "the seed decides");
}

#[test]
fn corruption_flips_one_bit_behind_the_addresses() {
    let mut link = link(Quality {
        corrupt: 1_000_000,
        ..Quality::PERFECT
    });
    let original = frame(B, 0);
    for _ in 0..20 {
        link.send(0, 0, original.clone());
    }
    // A frame with no body cannot be damaged.
    link.send(0, 0, original[..14].to_vec());
    let differing = |frame: &[u8]| -> u32 {
        let pairs = frame.iter().zip(&original);
        pairs.map(|(a, b)| (a ^ b).count_ones()).sum()
    };
    let mut damaged = 0;
    while let Some((_, frame)) = link.arrive(u64::MAX) {
        assert_eq!(frame[..14], original[..14]);
        damaged += differing(&frame);
    }
    assert_eq!(damaged, 20);
    assert_eq!(link.counts().corrupted, 20);
}

#[test]
fn a_hook_decides_and_a_capture_sees_what_was_sent() {
    let mut link = link(Quality::PERFECT);
    link.set_hook(Some(Box::new(|sent: Frame<'_>| match sent.bytes[14] {
        1 => Verdict::Drop,
        2 => Verdict::Duplicate,
        3 => Verdict::Delay(Ns(5_000)),
        4 => Verdict::Replace(frame(C, 40)),
        _ => Verdict::Pass,
    })));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    link.set_capture(Some(Box::new(move |frame: Frame<'_>| {
        log.lock()
            .unwrap()
            .push((frame.time, frame.from, frame.bytes[14]));
    })));
    for tag in 0..6 {
        link.send(7, 0, frame(B, tag));
    }
    let arrived = arrivals(&mut link);
    assert_eq!(arrived, [(1, 0), (1, 2), (1, 2), (2, 40), (1, 5), (1, 3)]);
    let expected: Vec<(Ns, Option<u8>, u8)> = (0..6).map(|tag| (Ns(7), Some(0), tag)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    // Of the frames from outside it sees those with a destination here.
    assert!(link.inject_frame(8, &frame(C, 9)));
    assert!(!link.inject_frame(8, &frame([2; 6], 9)));
    assert_eq!(arrivals(&mut link), [(2, 9)]);
    assert_eq!(seen.lock().unwrap().pop(), Some((Ns(8), None, 9)));
    link.set_hook(None);
    link.set_capture(None);
    link.send(8, 0, frame(B, 1));
    assert_eq!(arrivals(&mut link), [(1, 1)]);
    assert_eq!(seen.lock().unwrap().len(), 6);
}

#[test]
fn what_is_for_nobody_here_goes_out_and_what_comes_in_stays() {
    let mut link = link(Quality::PERFECT);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    link.set_uplink(Some(Arc::new(move |frame: &[u8]| {
        log.lock().unwrap().push(frame[14]);
    })));
    let mut here = Vec::new();
    let mut all = |link: &mut Link| {
        while let Some((to, frame)) = link.arrive(u64::MAX) {
            match to {
                To::Function(to) => here.push((to, frame[14])),
                To::Back(_) => panic!("no MAC is in loopback"),
                To::Uplink => link.deliver_to_uplink(&frame),
            }
        }
        std::mem::take(&mut here)
    };
    link.send(0, 0, frame(B, 1));
    link.send(0, 0, frame([2; 6], 2));
    link.send(0, 0, frame(GROUP, 3));
    assert_eq!(all(&mut link), [(1, 1), (1, 3), (2, 3)]);
    assert_eq!(*seen.lock().unwrap(), [2, 3]);
    assert!(link.inject_frame(5, &frame(C, 4)));
    assert!(link.inject_frame(5, &frame(GROUP, 5)));
    assert!(!link.inject_frame(5, &frame([2; 6], 6)));
    assert!(!link.inject_frame(5, &[2, 2]));
    assert_eq!(all(&mut link), [(2, 4), (0, 5), (1, 5), (2, 5)]);
    let counts = link.counts();
    assert_eq!((counts.uplinked, counts.from_outside), (2, 2));
    assert_eq!((counts.unroutable, counts.overrun), (0, 0));
    // In flight when the uplink is removed.
    link.send(9, 0, frame([2; 6], 7));
    link.set_uplink(None);
    assert_eq!(all(&mut link), []);
    assert_eq!(
        (seen.lock().unwrap().len(), link.counts().unroutable),
        (2, 1)
    );
    for _ in 0..MOST_IN_FLIGHT {
        assert!(link.inject_frame(10, &frame(A, 8)));
    }
    assert!(!link.inject_frame(10, &frame(A, 8)));
    assert_eq!(link.counts().overrun, 1);
}

#[test]
fn a_random_delay_lets_frames_overtake_and_never_exceeds_its_limit() {
    let mut link = link(Quality {
        jitter: Ns(10_000),
        ..Quality::PERFECT
    });
    for tag in 0..50 {
        link.send(0, 0, frame(B, tag));
    }
    assert!(link.next_due().is_some_and(|due| due >= 1_000));
    let mut tags = Vec::new();
    while let Some((_, frame)) = link.arrive(11_000) {
        tags.push(frame[14]);
    }
    assert_eq!(tags.len(), 50);
    assert!(!tags.is_sorted());
    tags.sort_unstable();
    assert_eq!(tags, (0..50).collect::<Vec<u8>>());
}

/// Each fault on half of all frames, so that every combination occurs.
#[test]
fn faults_compose() {
    let half = 500_000;
    let mut link = link(Quality {
        loss: half,
        duplicate: half,
        reorder: half,
        corrupt: half,
        jitter: Ns(100),
        ..Quality::PERFECT
    });
    let sent = 400;
    for n in 0..sent {
        // Far enough apart that no frame overtakes one with another number.
        let mut frame = frame(B, 0);
        frame[15..17].copy_from_slice(&(n as u16).to_be_bytes());
        link.send(n * 1_000_000, 0, frame);
    }
    // Both copies of each duplicated frame can be late and damaged.
    let mut seen = BTreeSet::new();
    let mut copies: Vec<(u64, u32)> = Vec::new();
    let mut arrived = 0;
    while let Some(due) = link.next_due() {
        let (_, frame) = link.arrive(due).unwrap();
        arrived += 1;
        let number = due / 1_000_000;
        let late = due % 1_000_000 >= 1_100;
        let ones: u32 = frame[17..].iter().map(|byte| byte.count_ones()).sum();
        let flags = u32::from(late) | ones << 1;
        match copies.last() {
            Some((last, first)) if *last == number => {
                seen.insert((*first, flags));
            }
            _ => copies.push((number, flags)),
        }
    }
    let counts = link.counts();
    assert_eq!(arrived, sent - counts.lost + counts.duplicated);
    assert_eq!(counts.delivered, arrived);
    // The copy that is not late comes first.
    for both in [
        (0, 0),
        (0, 1),
        (2, 1),
        (0, 3),
        (2, 3),
        (1, 1),
        (3, 3),
        (1, 3),
        (3, 1),
    ] {
        assert!(seen.contains(&both), "{both:?} in {seen:?}");
    }
}

#[test]
fn a_port_sends_one_frame_after_the_other() {
    let mut link = link(Quality {
        // A frame of 101 bytes plus 24 takes 1 µs.
        rate: Rate::new(1_000_000_000),
        latency: Ns(300),
        ..Quality::PERFECT
    });
    let frame = |to, tag| {
        let mut frame = frame(to, tag);
        frame.resize(101, 0);
        frame
    };
    link.send(0, 0, frame(B, 1));
    link.send(0, 0, frame(C, 2));
    // Another port, which is idle.
    link.send(100, 1, frame(C, 3));
    // A frame that the function's own switch loops back.
    link.send(100, 0, frame(A, 4));
    let mut arrived = Vec::new();
    while let Some(due) = link.next_due() {
        let (_, frame) = link.arrive(due).unwrap();
        arrived.push((due, frame[14]));
    }
    assert_eq!(arrived, [(400, 4), (1_300, 1), (1_400, 3), (2_300, 2)]);
    // A lost frame was sent too.
    link.set_quality(Quality {
        loss: 1_000_000,
        ..link.quality
    });
    link.send(10_000, 0, frame(B, 5));
    link.set_quality(Quality {
        loss: 0,
        ..link.quality
    });
    link.send(10_000, 0, frame(B, 6));
    assert_eq!(link.next_due(), Some(12_300));
    // 100 µs may be queued; then the engine waits.
    assert_eq!(link.port_ready_at(0), 0);
    for tag in 0..200 {
        link.send(12_000, 0, frame(B, tag));
    }
    assert_eq!(link.port_ready_at(0), 12_000 + 200_000 - 100_000);
    assert_eq!(link.port_ready_at(1), 0);
    link.set_quality(Quality::PERFECT);
    assert_eq!(link.port_ready_at(0), 0);
}
