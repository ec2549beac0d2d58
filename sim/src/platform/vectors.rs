//! Allocation of interrupt vectors by the host.
//!
//! As in a kernel, freeing a vector masks its entry of the MSI-X table, and allocating it unmasks
//! the entry. An entry that was never allocated is unmasked, which is the initial state of
//! [`msix`](crate::msix).

use crate::findings::kind;
use e810_hal::{InterruptVectors, Vector};

use super::SimPlatform;
use crate::function::EngineEnv;

/// Owner of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Holder {
    #[default]
    Nobody,
    Driver,
    /// The driver freed it.
    NobodyAnyMore,
}

/// One vector on the host's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostVector {
    holder: Holder,
    /// The CPU that the driver selected for the interrupt.
    cpu: Option<u32>,
}

impl EngineEnv<'_> {
    /// A vector fires. It is a driver error if the driver freed the vector with a cause still
    /// routed to it: the next owner of the vector gets the message.
    pub(crate) fn check_holder(&mut self, vector: u16) {
        let slot = self.state.host_vectors.get(usize::from(vector));
        if slot.is_some_and(|slot| slot.holder == Holder::NobodyAnyMore) {
            let text = format!("vector {vector} fires, and was given back");
            self.found(kind::VECTOR_FREED, text);
        }
    }
}

impl SimPlatform {
    /// The CPU that the driver selected for a vector that it owns.
    #[must_use]
    pub fn vector_cpu(&self, vector: Vector) -> Option<u32> {
        self.with(|env| {
            let slot = env.state.host_vectors.get(vector.get() as usize);
            slot.and_then(|slot| slot.cpu)
        })
    }
}

impl InterruptVectors for SimPlatform {
    fn vector_count(&self) -> u16 {
        self.with(|env| env.state.irq.count())
    }

    fn vector_alloc(&self) -> Option<Vector> {
        self.with(|env| {
            let mut slots = env.state.host_vectors.iter_mut().enumerate();
            let (index, slot) = slots.find(|(_, slot)| slot.holder != Holder::Driver)?;
            let vector = Vector::new(index as u16)?;
            let had = slot.holder == Holder::NobodyAnyMore;
            *slot = HostVector {
                holder: Holder::Driver,
                cpu: None,
            };
            if had {
                // An earlier message is not for the new owner; a message that waits in the table is
                // sent now.
                let _ = env.state.lines.take_one(vector);
                env.state.msix.set_mask(index as u16, false);
                env.check_messages();
            }
            Some(vector)
        })
    }

    fn vector_free(&self, vector: Vector) {
        self.with(|env| {
            let slot = env.state.host_vectors.get_mut(vector.get() as usize);
            match slot.filter(|slot| slot.holder == Holder::Driver) {
                Some(slot) => {
                    *slot = HostVector {
                        holder: Holder::NobodyAnyMore,
                        cpu: None,
                    };
                    env.state.msix.set_mask(vector.get() as u16, true);
                }
                None => {
                    let text = format!("{vector} was given back but not taken");
                    env.found(kind::VECTOR_FREE, text);
                }
            }
        });
    }

    fn vector_affinity(&self, vector: Vector, cpu: u32) {
        self.with(|env| {
            let slot = env.state.host_vectors.get_mut(vector.get() as usize);
            if let Some(slot) = slot.filter(|slot| slot.holder == Holder::Driver) {
                slot.cpu = Some(cpu);
            }
        });
    }
}
