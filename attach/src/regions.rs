//! The regions of a program that maps its memory for the device itself. The owner hears of I/O
//! addresses only.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex;

use e810::{AccessFlags, Platform, SharedBytes};
use e810_hal::{Access, DmaError, Mapping};

use crate::lock;
use crate::messages::{Answer, Command, Kind, Memory, Refused, RegMr, ReregMr};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Regions<P> {
    platform: P,
    /// By key.
    live: Mutex<HashMap<u32, Region>>,
}

#[derive(Debug)]
struct Region {
    memory: Memory,
    /// The address of its first byte for peers and requests.
    named: u64,
    access: AccessFlags,
    mapping: Mapping,
}

/// How the device has to reach the memory.
const fn device(access: AccessFlags) -> Access {
    match access.contains(AccessFlags::LOCAL_WRITE) {
        true => Access::ReadWrite,
        false => Access::Read,
    }
}

impl<P: Platform> Regions<P> {
    /// Of a program with this platform.
    pub(crate) fn new(platform: P) -> Self {
        Self {
            platform,
            live: Mutex::default(),
        }
    }

    /// Has a command carried out by `ask`, with I/O addresses in it.
    pub(crate) fn call(
        &self,
        command: Command,
        ask: impl FnOnce(Command) -> Result<Answer, Refused>,
    ) -> Result<Answer, Refused> {
        match command {
            Command::RegMr(new) => self.register(new, ask),
            Command::ReregMr(asked) => self.change(asked, ask),
            Command::DeregMr(asked) => {
                let answer = ask(Command::DeregMr(asked.clone()))?;
                // The device no longer has the region. If the kernel does not unmap its memory,
                // the owner does when the program is gone.
                if let Some(region) = lock(&self.live).remove(&asked.key) {
                    self.platform.dma_unmap(region.mapping);
                }
                Ok(answer)
            }
            command => ask(command),
        }
    }

    fn register(
        &self,
        new: RegMr,
        ask: impl FnOnce(Command) -> Result<Answer, Refused>,
    ) -> Result<Answer, Refused> {
        let region = self.map(new.memory, new.iova, new.access)?;
        let (memory, iova) = self.at(&region)?;
        let asked = RegMr {
            memory,
            iova,
            ..new
        };
        match ask(Command::RegMr(asked)) {
            Ok(Answer::RegMr(key)) => {
                lock(&self.live).insert(key, region);
                Ok(Answer::RegMr(key))
            }
            answered => {
                self.unmap_unless_used(region, &answered);
                answered
            }
        }
    }

    fn change(
        &self,
        asked: ReregMr,
        ask: impl FnOnce(Command) -> Result<Answer, Refused>,
    ) -> Result<Answer, Refused> {
        let key = asked.key;
        let old = match lock(&self.live).get(&key) {
            Some(old) => (old.memory, old.named, old.access),
            None => return Err(Refused::no_such("memory region", key)),
        };
        let (memory, named, access) = old;
        let new_access = asked.access.unwrap_or(access);
        let (new_memory, new_named) = match asked.memory {
            Some(memory) => (memory, asked.iova.unwrap_or(memory.address as u64)),
            None => (memory, named),
        };
        let is_elsewhere = asked.memory.is_some() || device(new_access) != device(access);
        if !is_elsewhere {
            let answer = ask(Command::ReregMr(asked))?;
            if let (Answer::ReregMr(new), mut live) = (&answer, lock(&self.live))
                && let Some(region) = live.remove(&key)
            {
                let region = Region {
                    access: new_access,
                    ..region
                };
                live.insert(*new, region);
            }
            return Ok(answer);
        }
        let region = self.map(new_memory, new_named, new_access)?;
        let (memory, iova) = self.at(&region)?;
        let asked = ReregMr {
            memory: Some(memory),
            iova: Some(iova),
            ..asked
        };
        match ask(Command::ReregMr(asked)) {
            Ok(Answer::ReregMr(new)) => {
                let old = {
                    let mut live = lock(&self.live);
                    let old = live.remove(&key);
                    live.insert(new, region);
                    old
                };
                if let Some(old) = old {
                    self.platform.dma_unmap(old.mapping);
                }
                Ok(Answer::ReregMr(new))
            }
            Err(lost) if lost.kind == Kind::MrLost => {
                // The device may still have either memory: both stay mapped until the program is
                // gone.
                lock(&self.live).remove(&key);
                Err(lost)
            }
            answered => {
                self.unmap_unless_used(region, &answered);
                answered
            }
        }
    }

    fn map(&self, memory: Memory, named: u64, access: AccessFlags) -> Result<Region, Refused> {
        let Memory { address, length } = memory;
        let dma = |error| Refused::from(e810::Error::Dma(error));
        let start = NonNull::new(address as *mut u8).ok_or_else(|| {
            dma(DmaError::NotAccessible {
                address: 0,
                bytes: length,
                access: device(access),
            })
        })?;
        // SAFETY: by registering memory a program promises that it owns it until it deregisters it,
        // and the only references to it are the program's. If it breaks that promise, the kernel's
        // pinning keeps the pages. Nothing here reads or writes through the window.
        let bytes = unsafe { SharedBytes::new(start, length) };
        let mapping = self.platform.dma_map(bytes, device(access)).map_err(dma)?;
        Ok(Region {
            memory,
            named,
            access,
            mapping,
        })
    }

    /// Where the device has the region, and what its first byte is called.
    fn at(&self, region: &Region) -> Result<(Memory, u64), Refused> {
        let segment = self.platform.dma_segment(&region.mapping, 0);
        let (Some(segment), 1) = (segment, region.mapping.segments) else {
            self.platform.dma_unmap(region.mapping);
            return Err(Refused::unexpected("memory in several pieces"));
        };
        let memory = Memory {
            address: segment.iova.0 as usize,
            length: region.memory.length,
        };
        let named = match region.access.contains(AccessFlags::ZERO_BASED) {
            // It is named by offsets, and has no other address.
            true => segment.iova.0,
            false => region.named,
        };
        Ok((memory, named))
    }

    /// A command about a new region failed. Where the device may have carried it out all the same,
    /// the memory stays mapped until the program is gone.
    fn unmap_unless_used(&self, region: Region, answered: &Result<Answer, Refused>) {
        let may_be_used = match answered {
            Ok(_) => true,
            Err(refused) => matches!(refused.kind, Kind::MayUseMemory | Kind::Gone),
        };
        if !may_be_used {
            self.platform.dma_unmap(region.mapping);
        }
    }
}
