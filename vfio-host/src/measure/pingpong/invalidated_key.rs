//! A key of this side that each message of the peer invalidates.
//!
//! It belongs to a region that work requests register, as in storage protocols. After each message,
//! including the last one, the region is registered again. The device refuses that while the region
//! is still registered (`AMP_FASTREG_VALID_STAG`, control-path 7.5), so the run fails unless every
//! invalidation was carried out.

use anyhow::{Context, Result};
use e810::{AccessFlags, Control, FastMr, FastRegister, Wc, WcFlags};
use e810_backends::interrupts::HostPlatform;
use e810_hal::SharedBytes;

use crate::measure::endpoint::Endpoint;

/// Bytes of the key at the beginning of a message, little-endian: the sender's key, which the next
/// message to it must invalidate.
pub const KEY_BYTES: u32 = 4;

/// Pages of the region: memory of one page may span two.
const PAGES: u32 = 2;
/// Bytes of the region. Nobody accesses them, so they may be fewer than those of a message.
const BYTES: usize = 4096;

/// The key, and the peer's.
#[derive(Debug)]
pub(super) struct InvalidatedKey<P: HostPlatform> {
    region: FastMr<P>,
    memory: SharedBytes,
    /// The request that registers the region with its current key.
    request: FastRegister,
    /// The peer's key that the next message to it invalidates, if the peer has one.
    theirs: Option<u32>,
    /// Whether the last message has invalidated the key, according to its completion.
    is_invalidated: bool,
}

impl<P: HostPlatform> InvalidatedKey<P> {
    /// Makes the region and its first key, which is not registered yet.
    ///
    /// # Errors
    /// What the device refused.
    pub(super) fn new(endpoint: &mut Endpoint<P>, memory: SharedBytes) -> Result<Self> {
        let memory = memory.window(0, memory.len().min(BYTES))?;
        let mut region = endpoint.alloc_fast_mr(PAGES)?;
        let request = map(endpoint.control(), &mut region, memory)?;
        Ok(Self {
            region,
            memory,
            request,
            theirs: None,
            is_invalidated: false,
        })
    }

    /// The current key.
    pub(super) const fn key(&self) -> u32 {
        self.region.key()
    }

    /// The request that registers it.
    pub(super) const fn request(&self) -> FastRegister {
        self.request
    }

    /// The peer's key that the next message to it must invalidate.
    pub(super) const fn theirs(&self) -> Option<u32> {
        self.theirs
    }

    /// Sets the peer's key.
    pub(super) fn set_theirs(&mut self, key: u32) {
        self.theirs = Some(key);
    }

    /// Takes the completion of a message that arrived.
    pub(super) fn arrived(&mut self, wc: &Wc) {
        self.is_invalidated = names(wc, self.key());
    }

    /// Whether the last message has invalidated the key.
    pub(super) const fn is_invalidated(&self) -> bool {
        self.is_invalidated
    }

    /// Replaces the key that was invalidated.
    ///
    /// # Errors
    /// The control path refused it.
    pub(super) fn renew(&mut self, control: &mut Control<P>) -> Result<()> {
        control.unmap_fast_mr(&mut self.region)?;
        self.request = map(control, &mut self.region, self.memory)?;
        self.is_invalidated = false;
        Ok(())
    }

    /// Frees the region.
    ///
    /// # Errors
    /// The device refused it and keeps the memory, which is leaked.
    pub(super) fn free(self, control: &mut Control<P>) -> Result<()> {
        let freed = control.free_fast_mr(self.region);
        freed
            .map_err(|(_, error)| error)
            .context("the region whose keys were invalidated")
    }
}

fn map<P: HostPlatform>(
    control: &mut Control<P>,
    region: &mut FastMr<P>,
    memory: SharedBytes,
) -> Result<FastRegister> {
    // Without an access right, the peer could not invalidate it.
    Ok(control.map_fast_mr(region, memory, AccessFlags::REMOTE_READ)?)
}

/// Whether a completion says that the message invalidated `key`.
fn names(wc: &Wc, key: u32) -> bool {
    wc.flags.contains(WcFlags::WITH_INV) && wc.imm == key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_names_the_key_that_went() {
        let wc = |flags, imm| Wc {
            flags,
            imm,
            ..Wc::default()
        };
        assert!(names(&wc(WcFlags::WITH_INV, 0x1234), 0x1234));
        for other in [
            wc(WcFlags::WITH_INV, 0x1235),
            // Immediate data that looks like the key.
            wc(WcFlags::WITH_IMM, 0x1234),
            wc(WcFlags::empty(), 0x1234),
        ] {
            assert!(!names(&other, 0x1234), "{other:?}");
        }
    }
}
