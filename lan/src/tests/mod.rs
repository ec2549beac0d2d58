//! Both queues against a device in plain memory.

mod any_bytes;
mod receive;
mod switch;
mod transmit;

use std::vec::Vec;

use e810_hal::Vector;
use e810_hal::bus::{ItrIndex, RxQueueId, TxQueueId};

use crate::testing::{Fake, RX_QUEUE, TX_QUEUE, VECTOR};
use crate::{Interrupt, LanInit, LanQueues, NotEnabled, RxMemory, RxRing, TxMemory, TxRing};

fn interrupt() -> Interrupt {
    Interrupt {
        vector: Vector::new(VECTOR).unwrap(),
        timer: ItrIndex::new(2).unwrap(),
    }
}

fn tx(fake: &Fake, init: &LanInit) -> TxRing<Fake> {
    let memory = TxMemory::new(fake, init).unwrap();
    fake.device_mut().tx = Some((memory.ring().0, memory.entries().into()));
    let queue = TxQueueId::new(TX_QUEUE).unwrap();
    TxRing::start(fake.clone(), queue, memory, interrupt())
}

fn rx(fake: &Fake, init: &LanInit) -> Result<RxRing<Fake>, NotEnabled<Fake>> {
    let memory = RxMemory::new(fake, init).unwrap();
    let queue = RxQueueId::new(RX_QUEUE).unwrap();
    RxRing::enable(fake.clone(), queue, memory, interrupt())
}

fn port(fake: &Fake, init: &LanInit) -> LanQueues<Fake> {
    let tx = tx(fake, init);
    let rx = rx(fake, init).unwrap();
    LanQueues::new(fake.clone(), tx, rx, interrupt())
}

fn close(fake: &Fake, port: LanQueues<Fake>) {
    let (tx, rx) = port.into_rings();
    rx.unbind();
    tx.unbind();
    rx.disable().unwrap().release();
    tx.stop().release();
    fake.assert_clean();
}

/// A frame of `len` bytes that are not all alike.
fn frame(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(7) ^ seed).collect()
}
