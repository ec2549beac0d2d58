//! The loops of the LAN queues that `callgrind.sh` counts instructions in: a frame sent, a frame
//! received, a look at an empty queue.
//!
//! The device is one in memory: `count_doorbell` is what its registers cost, which
//! `callgrind.sh` takes off.

use std::hint::black_box;

use e810_hal::bus::{ItrIndex, RxQueueId, TxQueueId, Vector};
use e810_hal::regs::QTX_COMM_DBELL;
use e810_hal::testing::{FakeDevice, FakeMemory, FakePlatform};
use e810_hal::{Barrier, RegOffset};
use e810_lan::{Interrupt, LanInit, RxMemory, RxRing, TxMemory, TxRing};

/// Frames of a run: whole laps of the rings.
const FRAMES: u64 = 6400;

/// Registers of receive queue 0: QRX_CTRL, and the two words of QRX_CONTEXT that have the ring.
const CONTROL: u32 = 0x12_0000;
const RING: [u32; 2] = [0x28_2000, 0x28_4000];

/// Queues that are on when they are switched on.
#[derive(Default)]
struct Queues {
    control: u32,
    ring: [u32; 2],
}

impl Queues {
    /// Where the receive ring is.
    fn ring(&self) -> u64 {
        let [low, high] = self.ring.map(u64::from);
        (low | (high & 0x1FF_FFFF) << 32) << 7
    }
}

impl FakeDevice for Queues {
    fn read(&mut self, off: RegOffset) -> u32 {
        match off.get() {
            CONTROL => self.control & 1 | (self.control & 1) << 2,
            _ => 0,
        }
    }

    fn write(&mut self, off: RegOffset, value: u32, _: &FakeMemory, _: u64) {
        match (off.get(), RING) {
            (CONTROL, _) => self.control = value,
            (off, [low, _]) if off == low => self.ring[0] = value,
            (off, [_, high]) if off == high => self.ring[1] = value,
            _ => {}
        }
    }

    fn step(&mut self, _: &FakeMemory, _: u64) {}

    fn ordered(&mut self) {}

    fn complaints(&self) -> &[String] {
        &[]
    }
}

type Fake = FakePlatform<Queues>;

#[inline(never)]
#[unsafe(no_mangle)]
fn count_transmit(ring: &mut TxRing<Fake>, frame: &[u8]) -> bool {
    ring.transmit(frame).is_ok()
}

#[inline(never)]
#[unsafe(no_mangle)]
fn count_receive(ring: &mut RxRing<Fake>, into: &mut [u8]) -> Option<usize> {
    ring.receive(into)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn count_doorbell(fake: &Fake, queue: TxQueueId) {
    fake.to_device();
    QTX_COMM_DBELL.at(queue).set(fake, 1);
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let (kind, length) = what.split_once('_').unwrap_or((&what, "60"));
    let frame = vec![0x5A; length.parse().unwrap_or(60)];
    let fake = Fake::default();
    let init = LanInit::default();
    let (Some(tx), Some(rx), Some(vector), Some(timer)) = (
        TxQueueId::new(0),
        RxQueueId::new(0),
        Vector::new(0),
        ItrIndex::new(2),
    ) else {
        return;
    };
    let interrupt = Interrupt { vector, timer };
    let mut done = 0;
    match kind {
        "transmit" => {
            let Ok(memory) = TxMemory::new(&fake, &init) else {
                return;
            };
            let at = memory.ring().0;
            let mut ring = TxRing::start(fake.clone(), tx, memory, interrupt);
            for index in 0..FRAMES {
                done += u64::from(count_transmit(&mut ring, black_box(&frame)));
                let place = at + 16 * (index % u64::from(init.tx_entries)) + 8;
                fake.with(|_, memory| memory.store(place, 0xF));
            }
        }
        "receive" | "empty" => {
            let Ok(memory) = RxMemory::new(&fake, &init) else {
                return;
            };
            let Ok(mut ring) = RxRing::enable(fake.clone(), rx, memory, interrupt) else {
                return;
            };
            let at = fake.device().ring();
            let mut into = vec![0; init.max_frame()];
            for index in 0..FRAMES {
                if kind == "receive" {
                    let place = at + 32 * (index % u64::from(init.rx_entries));
                    fake.with(|_, memory| {
                        memory.store(place, 2 | (frame.len() as u64) << 32);
                        memory.store(place + 16, 0);
                        memory.store(place + 24, 0);
                        memory.store(place + 8, 3);
                    });
                }
                let got = count_receive(&mut ring, black_box(&mut into));
                done += u64::from(got.is_some() || kind == "empty");
            }
        }
        _ => {
            for _ in 0..FRAMES {
                count_doorbell(&fake, tx);
                done += 1;
            }
        }
    }
    // One that was refused or not received is none.
    println!("{}", if done == FRAMES { done } else { 0 });
}
