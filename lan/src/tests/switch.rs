use super::*;
use crate::testing::{
    CONTEXT, CONTROL, DYN_CTL, FORMAT, INTERVAL, RX_CAUSE, Switch, TAIL, TX_CAUSE,
};
use crate::{Error, RxLeft};
use e810_hal::WaitError;

/// The registers of lan-path 1.1, steps 9 to 12, and of 1.3, in their order.
#[test]
fn registers_are_written_in_the_prescribed_order() {
    let fake = Fake::default();
    // Bits of QRXFLXP_CNTXT that have no name are kept.
    fake.device_mut().registers.insert(FORMAT, 0x8000_0005);
    let port = port(&fake, &LanInit::default());
    let log = core::mem::take(&mut fake.device_mut().log);
    let contexts = (0..8).map(|word| CONTEXT + 0x2000 * word);
    let order: Vec<u32> = [INTERVAL, TX_CAUSE, FORMAT]
        .into_iter()
        .chain(contexts)
        .chain([TAIL, TAIL, INTERVAL, RX_CAUSE, CONTROL, DYN_CTL])
        .collect();
    assert_eq!(log.iter().map(|(off, _)| *off).collect::<Vec<_>>(), order);
    let value = |off| fake.device().get(off);
    assert_eq!(value(FORMAT), 0x8000_0B02);
    assert_eq!(
        (value(TX_CAUSE), value(RX_CAUSE)),
        (0x4000_1002, 0x4000_1002)
    );
    assert_eq!((value(INTERVAL), value(DYN_CTL)), (4, 0xC000_0018));
    let tails: Vec<u32> = log
        .iter()
        .filter(|(off, _)| *off == TAIL)
        .map(|(_, v)| *v)
        .collect();
    assert_eq!(tails, [0, 56]);
    let field = |lo, width| fake.device().context(lo, width);
    assert_eq!(
        (field(89, 13), field(102, 7), field(174, 14)),
        (64, 16, 1526)
    );

    close(&fake, port);
    let log: Vec<u32> = fake.device().log.iter().map(|(off, _)| *off).collect();
    assert_eq!(log, [RX_CAUSE, TX_CAUSE, CONTROL]);
    assert_eq!(
        (value(TX_CAUSE), value(RX_CAUSE), value(CONTROL)),
        (0, 0, 0)
    );
}

/// A driver before has left the queue on: its memory must not be written to.
#[test]
fn a_queue_that_is_on_is_switched_off_first() {
    let fake = Fake::default();
    fake.device_mut().registers.insert(CONTROL, 5);
    let port = port(&fake, &LanInit::default());
    let log = fake.device().log.clone();
    let first = log
        .iter()
        .position(|(off, value)| (*off, *value & 1) == (CONTROL, 0));
    let context = log.iter().position(|(off, _)| *off == CONTEXT);
    assert!(first.unwrap() < context.unwrap());
    close(&fake, port);
}

#[test]
fn a_queue_that_does_not_come_on_gives_its_memory_back_once_it_is_off() {
    let fake = Fake::default();
    fake.device_mut().switch = Switch::NeverOn;
    let failed = rx(&fake, &LanInit::default()).unwrap_err();
    assert!(matches!(
        failed.error,
        Error::Wait(WaitError::Timeout { label, .. }) if label.contains("QRX_CTRL")
    ));
    assert_eq!(fake.device().get(RX_CAUSE), 0);
    memory_of(failed).release();
    fake.assert_clean();
}

#[test]
fn a_queue_that_stays_on_keeps_its_memory_and_is_switched_off_later() {
    let fake = Fake::default();
    let ring = rx(&fake, &LanInit::default()).unwrap();
    fake.device_mut().switch = Switch::Stuck;
    let (ring, error) = ring.disable().unwrap_err();
    assert!(matches!(error, Error::Wait(WaitError::Timeout { .. })));
    assert_eq!(fake.alive().0, 2, "ring and buffers");
    fake.device_mut().switch = Switch::After(0);
    ring.disable().unwrap().release();
    fake.assert_clean();
}

fn memory_of(failed: NotEnabled<Fake>) -> RxMemory<Fake> {
    match failed.left {
        RxLeft::Memory(memory) => memory,
        RxLeft::Queue(_) => panic!("it may be on: {}", failed.error),
    }
}

#[test]
fn a_device_that_is_gone_is_said_so() {
    let fake = Fake::default();
    fake.device_mut().gone = true;
    let failed = rx(&fake, &LanInit::default()).unwrap_err();
    assert!(matches!(
        failed.error,
        Error::Wait(WaitError::DeviceGone { .. })
    ));
    memory_of(failed).release();
    fake.assert_clean();
    let fake = Fake::default();
    let port = port(&fake, &LanInit::default());
    fake.device_mut().gone = true;
    let (tx, rx) = port.into_rings();
    assert!(rx.disable().is_err());
    drop(tx);
}

#[test]
fn after_a_reset_all_memory_comes_back() {
    let fake = Fake::default();
    let port = port(&fake, &LanInit::default());
    // A PF reset clears QRX_CTRL.
    fake.device_mut().registers.insert(CONTROL, 0);
    port.release_after_reset();
    fake.assert_clean();
}

/// The write-back is asked for again while nothing comes, but not at every look.
#[test]
fn write_back_is_asked_for_now_and_then() {
    use e810_hal::{Clock, Ns};
    let fake = Fake::default();
    let mut port = port(&fake, &LanInit::default());
    fake.device_mut().log.clear();
    for _ in 0..1000 {
        assert_eq!(port.receive(&mut [0; 64]), None);
        fake.delay(Ns::from_us(10));
    }
    let log = fake.device().log.clone();
    assert!(log.iter().all(|write| *write == (DYN_CTL, 0xC000_0018)));
    assert_eq!(log.len(), 19, "10 ms, every 500 µs");
    close(&fake, port);
}
