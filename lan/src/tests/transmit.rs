use super::*;
use crate::{Error, MIN_FRAME, STALLED_AFTER, TxCounts};
use e810_hal::{Clock, Ns};

#[test]
fn frames_leave_as_they_are_and_short_ones_padded() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    let lengths = [14, 15, 17, 59, 60, 61, 64, 1514, 1522];
    for (seed, len) in (0..).zip(lengths) {
        port.transmit(&frame(len, seed)).unwrap();
    }
    let sent = fake.device().sent.clone();
    assert_eq!(sent.len(), lengths.len());
    for (seed, (len, sent)) in (0..).zip(lengths.iter().zip(&sent)) {
        assert_eq!(sent[..*len], frame(*len, seed));
        assert_eq!(sent.len(), (*len).max(60));
        assert!(sent[*len..].iter().all(|byte| *byte == 0));
    }
    assert_eq!(port.outstanding(), 0);
    let bytes = lengths.iter().sum::<usize>() as u64;
    let expected = TxCounts {
        frames: 9,
        bytes,
        done: 9,
        refused: 0,
    };
    assert_eq!(port.tx_counts(), expected);
    close(&fake, port);
}

/// What was in a buffer before does not leave with a shorter frame.
#[test]
fn padding_is_zero_in_every_lap() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    for _ in 0..64 {
        port.transmit(&[0xAA; 200]).unwrap();
    }
    for _ in 0..64 {
        port.transmit(&[0xBB; 20]).unwrap();
    }
    for sent in &fake.device().sent[64..] {
        assert_eq!((&sent[..20], &sent[20..]), (&[0xBB; 20][..], &[0; 40][..]));
    }
    close(&fake, port);
}

#[test]
fn lengths_are_checked() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    for len in [0, 13, 1523, 20_000] {
        let refused = port.transmit(&frame(len, 0)).unwrap_err();
        let (min, max) = (MIN_FRAME, 1522);
        let expected = Error::FrameLength {
            bytes: len,
            min,
            max,
        };
        assert_eq!(refused, expected);
    }
    assert!(fake.device().sent.is_empty());
    close(&fake, port);
}

/// A device that reports nothing is full after 59 of 64: the tail never gets near the
/// head. Then it reports, out of turn once, and the ring goes around many times.
#[test]
fn a_full_ring_refuses_until_something_is_reported() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    fake.device_mut().done = None;
    for seed in 0..59 {
        port.transmit(&frame(60, seed)).unwrap();
    }
    let full = Err(Error::Full { frames: 59 });
    assert_eq!(port.transmit(&frame(60, 0)), full);
    assert_eq!(port.outstanding(), 59);
    // The second one is done: the first is not, so nothing is.
    fake.with(|device, memory| {
        let second = device.unreported.remove(1).unwrap();
        memory.store(second, 0xF);
    });
    assert_eq!(port.transmit(&frame(60, 0)), full);
    // Other types are not "done", whatever is set beside them.
    fake.with(|device, memory| memory.store(device.unreported[0], !1));
    assert_eq!(port.transmit(&frame(60, 0)), full);
    // Done is done, whatever is set beside it.
    fake.with(|device, memory| {
        device.done = Some(u64::MAX);
        device.report(memory);
    });
    assert_eq!(port.outstanding(), 0);
    for seed in 0..200 {
        port.transmit(&frame(100, seed)).unwrap();
    }
    assert_eq!(port.tx_counts().refused, 3);
    assert_eq!(fake.device().sent.len(), 259);
    assert_eq!(fake.device().sent[258], frame(100, 199));
    close(&fake, port);
}

/// A ring that stays full hangs after a time; one frame that leaves begins that anew.
#[test]
fn a_ring_that_stays_full_is_stalled() {
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    fake.device_mut().done = None;
    let fill = |port: &mut LanQueues<Fake>| loop {
        if let Err(error) = port.transmit(&frame(60, 0)) {
            return error;
        }
    };
    for _ in 0..2 {
        assert_eq!(fill(&mut port), Error::Full { frames: 59 });
        fake.delay(STALLED_AFTER - Ns::from_ms(1));
        assert_eq!(fill(&mut port), Error::Full { frames: 59 });
        fake.delay(Ns::from_ms(1));
        let limit = STALLED_AFTER;
        assert_eq!(fill(&mut port), Error::Stalled { frames: 59, limit });
        fake.with(|device, memory| {
            let first = device.unreported.pop_front().unwrap();
            memory.store(first, 0xF);
        });
    }
    assert_eq!(fill(&mut port), Error::Full { frames: 59 });
    fake.with(|device, memory| {
        device.done = Some(0xF);
        device.report(memory);
    });
    close(&fake, port);
}

#[test]
fn memory_is_as_much_as_said() {
    for mtu in [68, 1500, 9000] {
        let (fake, init) = (Fake::default(), LanInit::new(mtu));
        let (tx, rx) = (
            TxMemory::new(&fake, &init).unwrap(),
            RxMemory::new(&fake, &init).unwrap(),
        );
        assert_eq!(tx.bytes() + rx.bytes(), init.dma_bytes());
        tx.release();
        rx.release();
        fake.assert_clean();
    }
}

#[test]
fn without_memory_nothing_is_left() {
    for number in 0..2 {
        let fake = Fake::default();
        fake.fail_allocation(number);
        assert!(TxMemory::new(&fake, &LanInit::default()).is_err());
        fake.fail_allocation(number);
        assert!(RxMemory::new(&fake, &LanInit::default()).is_err());
        fake.assert_clean();
    }
    let fake = Fake::default();
    assert!(TxMemory::new(&fake, &LanInit::new(10)).is_err());
    assert!(RxMemory::new(&fake, &LanInit::new(10)).is_err());
    assert_eq!(fake.allocations(), 0);
}
