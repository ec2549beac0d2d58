//! Virtual time: no thread and no queue. The driver's calls make time pass, and a write takes
//! effect before it returns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use e810_hal::{Ns, RegOffset};

use super::deliver;
use crate::machine::Machine;

/// Virtual time that one register access takes.
const ACCESS: Ns = Ns(100);

/// The machine in virtual time.
#[derive(Debug)]
pub(super) struct VirtualTime {
    machine: Mutex<Machine>,
    /// Copy of the time that can be read without the lock.
    now: AtomicU64,
}

impl VirtualTime {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine: Mutex::new(machine),
            now: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) -> Ns {
        Ns(self.now.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        // A panic inside the model is a bug of its own; what it left is still good enough to clean
        // up with.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the machine and delivers the resulting interrupts.
    pub(super) fn with_machine<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        self.undisturbed(|machine| {
            machine.disturb();
            f(machine)
        })
    }

    /// As [`with_machine`](Self::with_machine), for what makes no event due earlier.
    fn undisturbed<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        let mut machine = self.lock();
        let result = f(&mut machine);
        self.now.store(machine.now().0, Ordering::Relaxed);
        let fired = machine.take_fired();
        drop(machine);
        deliver(fired);
        result
    }

    pub(super) fn delay(&self, time: Ns) {
        self.undisturbed(|machine| machine.advance(time));
    }

    pub(super) fn read32(&self, function: usize, off: RegOffset) -> u32 {
        self.undisturbed(|machine| {
            machine.advance(ACCESS);
            machine.read32(function, off)
        })
    }

    pub(super) fn write32(&self, function: usize, off: RegOffset, value: u32) {
        self.with_machine(|machine| {
            machine.write32(function, off, value);
            machine.advance(ACCESS);
        });
    }
}
