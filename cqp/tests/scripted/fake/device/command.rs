//! What the device does for a command.

use super::Device;
use super::queue::{Ccq, Taken};
use super::words::store;
use e810_hal::testing::FakeMemory;

impl Device {
    pub(super) fn execute(&mut self, taken: &Taken, memory: &FakeMemory) -> bool {
        let q = taken.wqe;
        match taken.op() {
            0x03 if q[3] & 0x7_FFFF == 0 => self.create_ccq(q),
            0x05 if q[3] & 0x7_FFFF == 0 => {
                self.ccq = None;
                true
            }
            0x12 => {
                let room = ((q[3] & 0xFFFF_FFFF) / 8) as usize;
                let list: Vec<u64> = self.script.features.iter().copied().take(room).collect();
                store(memory, q[4], &list)
            }
            0x1f => self.update_segments(q, memory),
            0x20 => store(memory, q[4], &self.script.fpm.clone()),
            0x21 => self.commit(q, memory),
            0x2b => {
                self.static_announced = true;
                true
            }
            _ => true,
        }
    }

    fn create_ccq(&mut self, q: [u64; 8]) -> bool {
        if q[4] & 255 != 0 || q[5] & 63 != 0 || !self.static_announced {
            self.complain(format!("CCQ {q:x?}"));
        }
        self.ccq = Some(Ccq {
            base: q[4],
            entries: q[0],
            shadow: q[5],
            head: 0,
            polarity: true,
            unasked: 0,
        });
        true
    }
}
