//! Recently granted accesses: where the bytes behind an STag are.
//!
//! The checks of an access through an STag ([`Device::grant`]) and its translation to an IOVA go
//! through contexts and page lists. Their result stays valid until a command, a work request or the
//! HMC changes something it depends on, and all of these have a generation. A recent grant is used
//! without the checks while the generation is the same. Every other access takes the checked path,
//! and refusals always do. The IOMMU translates each access in either case.

use super::device::Device;
use super::env::Env;
use super::mr::Grant;
use crate::rc::{Access, Fault, HostFault, Right};

/// Grants kept for each right, a power of two: some pages of some regions.
const KEPT: usize = 256;
/// Values of [`Right`].
const RIGHTS: usize = Right::RemoteWrite as usize + 1;

/// Bytes that may be accessed: those of one page or of one contiguous region.
#[derive(Clone, Copy, Debug)]
struct Range {
    generation: u64,
    qpn: u32,
    pd: u32,
    stag: u32,
    right: Right,
    /// Tagged offset of the first byte, and bytes.
    first: u64,
    len: u64,
    /// IOVA of the first byte.
    iova: u64,
}

impl Range {
    /// The IOVA of an access of `len` bytes, if it lies inside.
    fn iova(&self, access: &Access, len: u64, generation: u64) -> Option<u64> {
        let from = access.addr.wrapping_sub(self.first);
        let inside = from <= self.len && len <= self.len - from;
        let same = self.generation == generation
            && self.stag == access.stag
            && self.right == access.right
            && self.pd == access.pd
            && self.qpn == access.qpn;
        (inside && same).then(|| self.iova.wrapping_add(from))
    }
}

/// The kept grants. Grants for sending from a page and for receiving into it have separate slots.
#[derive(Debug)]
pub(crate) struct Grants(Box<[[Option<Range>; KEPT]]>);

impl Default for Grants {
    fn default() -> Self {
        Self(vec![[None; KEPT]; RIGHTS].into())
    }
}

/// The slot of a grant: neighbouring pages, and regions, have separate slots. Which pages of one
/// region share a slot does not depend on its address, so DMA counts do not depend on it either.
fn place(access: &Access) -> usize {
    let index = (access.addr >> 12) ^ u64::from(access.stag >> 8) << 2;
    (index ^ u64::from(access.qpn) << 3) as usize % KEPT
}

impl Device {
    /// Changes whenever something changes that a grant depends on.
    fn grants_generation(&self) -> u64 {
        // Both only grow, so their sum is the same only if both are.
        self.mrs.generation().wrapping_add(self.hmc.generation())
    }

    /// The IOVA of an access that was granted recently.
    fn recent_grant(&self, access: &Access, len: u64) -> Option<u64> {
        let Grants(kept) = &self.grants;
        if !self.config.shortcuts {
            return None;
        }
        let kept = kept.get(access.right as usize)?;
        let range = kept.get(place(access))?.as_ref()?;
        range.iova(access, len, self.grants_generation())
    }

    /// Keeps the page, or the contiguous region, in which a granted access begins.
    fn keep_grant(&mut self, access: &Access, grant: &Grant, env: &mut dyn Env) {
        let Grant::Region(region, position) = grant else {
            return;
        };
        let Ok((_, named)) = self.valid_stag(access.stag, env) else {
            return;
        };
        let Ok((iova, _)) = self.run(grant, 0, 1, env) else {
            return;
        };
        let (lowest, end) = named.limits();
        let (from, to) = match region.level {
            0 => (lowest, end),
            _ => {
                let size = region.page_bytes();
                let page = access.addr.wrapping_sub(position % size);
                if page > access.addr {
                    // The page begins below address 0.
                    return;
                }
                (page.max(lowest), page.saturating_add(size).min(end))
            }
        };
        let range = Range {
            generation: self.grants_generation(),
            qpn: access.qpn,
            pd: access.pd,
            stag: access.stag,
            right: access.right,
            first: from,
            len: to.saturating_sub(from),
            iova: iova.wrapping_sub(access.addr.wrapping_sub(from)),
        };
        let Grants(kept) = &mut self.grants;
        let kept = kept.get_mut(access.right as usize);
        if let Some(slot) = kept.and_then(|kept| kept.get_mut(place(access))) {
            *slot = Some(range);
        }
    }

    /// Checks an access without making it.
    pub(crate) fn check_access(
        &mut self,
        access: &Access,
        len: u64,
        privileged: bool,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        if self.recent_grant(access, len).is_some() {
            return Ok(());
        }
        self.grant(access, len, privileged, env).map(drop)
    }

    /// Reads memory through an STag.
    pub(crate) fn read_access(
        &mut self,
        access: &Access,
        out: &mut [u8],
        privileged: bool,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        let len = out.len() as u64;
        if let Some(iova) = self.recent_grant(access, len) {
            return Ok(env.read(iova, out).map_err(|_| HostFault)?);
        }
        let grant = self.grant(access, len, privileged, env)?;
        self.read_grant(&grant, out, env)?;
        self.keep_grant(access, &grant, env);
        Ok(())
    }

    /// Reads memory ahead that an STag gives access to, in one page; does nothing if it does not.
    pub(crate) fn read_access_ahead(
        &mut self,
        access: &Access,
        len: u64,
        privileged: bool,
        env: &mut dyn Env,
    ) {
        let iova = self.recent_grant(access, len).or_else(|| {
            let grant = self.grant(access, len, privileged, env).ok()?;
            let (iova, bytes) = self.run(&grant, 0, len, env).ok()?;
            (bytes == len).then_some(iova)
        });
        if let Some(iova) = iova {
            env.read_ahead(iova, len as usize);
        }
    }

    /// Writes memory through an STag.
    pub(crate) fn write_access(
        &mut self,
        access: &Access,
        data: &[u8],
        privileged: bool,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        let len = data.len() as u64;
        if let Some(iova) = self.recent_grant(access, len) {
            return Ok(env.write(iova, data).map_err(|_| HostFault)?);
        }
        let grant = self.grant(access, len, privileged, env)?;
        self.write_grant(&grant, data, env)?;
        self.keep_grant(access, &grant, env);
        Ok(())
    }
}
