//! A key of this side that each message of the peer invalidates.
//!
//! It belongs to a region that work requests register, as storage protocols make the keys which
//! their peer takes back. A registration of what is still registered is refused by the device
//! (`AMP_FASTREG_VALID_STAG`, control-path 7.5), and there is one after each message, the last
//! one too: so the run fails unless every invalidation was carried out.

use anyhow::{Context, Result};
use e810::{AccessFlags, Control, FastMr, FastRegister, Wc, WcFlags};
use e810_backends::interrupts::HostPlatform;
use e810_hal::SharedBytes;

use crate::measure::endpoint::Endpoint;

/// Bytes of a key at the beginning of a message, little-endian: the sender's, which the next
/// message to it is to invalidate.
pub const KEY_BYTES: u32 = 4;

/// Pages of the region: what fits one may begin in another.
const PAGES: u32 = 2;
/// Bytes of it. Nobody reaches for them, so they need not be as many as a message has.
const BYTES: usize = 4096;

/// The key, and the peer's.
#[derive(Debug)]
pub(super) struct InvalidatedKey<P: HostPlatform> {
    region: FastMr<P>,
    memory: SharedBytes,
    /// What registers the region with the key it has now.
    request: FastRegister,
    /// The peer's key that the next message to it invalidates; a peer may have none.
    theirs: Option<u32>,
    /// Whether the message that came last has invalidated the key, as its completion says.
    is_invalidated: bool,
}

impl<P: HostPlatform> InvalidatedKey<P> {
    /// One with its first key, which is not registered yet.
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

    /// The key of now.
    pub(super) const fn key(&self) -> u32 {
        self.region.key()
    }

    /// What registers it.
    pub(super) const fn request(&self) -> FastRegister {
        self.request
    }

    /// The peer's key that the next message to it is to invalidate.
    pub(super) const fn theirs(&self) -> Option<u32> {
        self.theirs
    }

    /// The peer has named its key.
    pub(super) fn set_theirs(&mut self, key: u32) {
        self.theirs = Some(key);
    }

    /// A message has come.
    pub(super) fn arrived(&mut self, wc: &Wc) {
        self.is_invalidated = names(wc, self.key());
    }

    /// Whether the message that came last has invalidated the key.
    pub(super) const fn is_invalidated(&self) -> bool {
        self.is_invalidated
    }

    /// Makes another key in place of the one that was invalidated.
    ///
    /// # Errors
    /// What the control path refused.
    pub(super) fn renew(&mut self, control: &mut Control<P>) -> Result<()> {
        control.unmap_fast_mr(&mut self.region)?;
        self.request = map(control, &mut self.region, self.memory)?;
        self.is_invalidated = false;
        Ok(())
    }

    /// Gives the region back.
    ///
    /// # Errors
    /// The device's refusal: it keeps the memory, which is leaked.
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
    // Without a right of the peer's it could not invalidate it either.
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
