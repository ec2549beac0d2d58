//! Memory regions and windows: STag contexts, access checks, translation to host memory.
//!
//! Every refusal is a [`Fault`] with the AE code of control-path 7.5; the order of the checks is
//! \[inf access_check_order\].

use super::contexts::{Context, Reader, Writer};
use super::device::Device;
use super::env::Env;
use super::fpm::Kind;
use super::word::{bit, bits, bits8, bits32, flag, mask, put};
use crate::rc::{Access, Fault, HostFault, Right};
use crate::wqe::AeCode;

/// Right to read locally, in ARIGHTS and STAGRIGHTS (data-path 6.2).
pub(crate) const LOCAL_READ: u8 = 1;
/// Right to write locally.
pub(crate) const LOCAL_WRITE: u8 = 2;
/// Right of the peer to read.
pub(crate) const REMOTE_READ: u8 = 4;
/// Right of the peer to write.
pub(crate) const REMOTE_WRITE: u8 = 8;
/// Right to bind windows to the region.
pub(crate) const BIND: u8 = 0x10;

/// PBLEs of a level-2 leaf.
const LEAF: u64 = 512;

/// Data of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    /// Type 1 ("wide").
    pub(crate) type1: bool,
    /// MW1_BIND_DONT_VLDT_KEY.
    pub(crate) any_key: bool,
    /// Index of the region it is bound to.
    pub(crate) parent: u32,
    /// QP that bound it.
    pub(crate) qp: u32,
}

/// Context of an STag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mr {
    pub(crate) window: Option<Window>,
    /// Registered or bound; an STag that is only allocated is not.
    pub(crate) valid: bool,
    pub(crate) key: u8,
    pub(crate) pd: u32,
    /// Address of the first byte (VA based), or its offset in the first page (zero based).
    pub(crate) start: u64,
    /// Bytes; for a region 0 means all memory (STAGLEN, control-path 4.10).
    pub(crate) len: u64,
    /// Maximum bytes of a fast registration, from ALLOC_STAG; 0 means no limit.
    pub(crate) most: u64,
    pub(crate) va_based: bool,
    pub(crate) rights: u8,
    /// REMACCENABLED.
    pub(crate) remote: bool,
    /// LPBLSIZE: 0 contiguous, 1 list, 3 list of lists.
    pub(crate) level: u8,
    /// HPAGESIZE: 0 4 KiB, 1 2 MiB, 2 1 GiB.
    pub(crate) page_size: u8,
    /// Address of the first page (level 0) or index of its PBLE.
    pub(crate) pages: u64,
    /// Windows bound to this region.
    pub(crate) bound: u32,
}

impl Mr {
    pub(crate) fn page_bytes(&self) -> u64 {
        page_bytes(self.page_size)
    }

    /// Position of byte `offset` counted from the start of the first page.
    fn position(&self, offset: u64) -> u64 {
        (self.start & (self.page_bytes() - 1)).wrapping_add(offset)
    }

    /// Lowest tagged offset, and the end of the tagged offsets.
    pub(super) fn limits(&self) -> (u64, u64) {
        let base = if self.va_based { self.start } else { 0 };
        if self.len == 0 && self.window.is_none() {
            // All memory.
            return (0, u64::MAX);
        }
        (base, base.saturating_add(self.len))
    }

    /// Offset of an address from the first byte, if the access lies inside the region.
    fn offset(&self, addr: u64, len: u64) -> Result<u64, AeCode> {
        let end = u128::from(addr) + u128::from(len);
        if end > 1 << 64 {
            return Err(AeCode::AMP_TO_WRAP);
        }
        let base = if self.va_based { self.start } else { 0 };
        let offset = addr.checked_sub(base);
        let all_memory = self.len == 0 && self.window.is_none();
        match offset {
            Some(offset)
                if all_memory || u128::from(offset) + u128::from(len) <= u128::from(self.len) =>
            {
                Ok(offset)
            }
            // A region of all memory has no lower end either.
            None if all_memory => Ok(addr.wrapping_sub(base)),
            _ => Err(AeCode::AMP_BOUNDS_VIOLATION),
        }
    }
}

/// Bytes of a page of HPAGESIZE `code`.
pub(crate) fn page_bytes(code: u8) -> u64 {
    match code {
        0 => 1 << 12,
        1 => 1 << 21,
        _ => 1 << 30,
    }
}

/// PBLEs that a list of this level names directly for `pages` pages: the leaf entries, or the
/// roots.
pub(crate) fn direct_pbles(level: u8, pages: u64) -> u64 {
    match level {
        0 => 0,
        1 => pages,
        _ => pages.div_ceil(LEAF),
    }
}

impl Context for Mr {
    const KIND: Kind = Kind::Mr;
    const WORDS: usize = 7;

    fn save(&self, words: &mut Writer<'_>) {
        let window = self.window.unwrap_or_default();
        words.put(self.start);
        words.put(self.len);
        words.put(self.pages);
        words.put(self.most);
        words.put(put(self.pd.into(), 31, 0) | put(self.bound.into(), 63, 32));
        words.put(put(window.parent.into(), 31, 0) | put(window.qp.into(), 63, 32));
        words.put(
            flag(self.valid, 0)
                | flag(self.window.is_some(), 1)
                | flag(window.type1, 2)
                | flag(window.any_key, 3)
                | flag(self.va_based, 4)
                | flag(self.remote, 5)
                | put(self.level.into(), 7, 6)
                | put(self.rights.into(), 12, 8)
                | put(self.page_size.into(), 15, 14)
                | put(self.key.into(), 23, 16),
        );
    }

    fn load(words: &mut Reader<'_>) -> Self {
        let start = words.take();
        let len = words.take();
        let pages = words.take();
        let most = words.take();
        let counts = words.take();
        let binding = words.take();
        let flags = words.take();
        Self {
            window: bit(flags, 1).then(|| Window {
                type1: bit(flags, 2),
                any_key: bit(flags, 3),
                parent: bits32(binding, 31, 0),
                qp: bits32(binding, 63, 32),
            }),
            valid: bit(flags, 0),
            key: bits8(flags, 23, 16),
            pd: bits32(counts, 31, 0),
            start,
            len,
            most,
            va_based: bit(flags, 4),
            rights: bits8(flags, 12, 8),
            remote: bit(flags, 5),
            level: bits8(flags, 7, 6),
            page_size: bits8(flags, 15, 14),
            pages,
            bound: bits32(counts, 63, 32),
        }
    }
}

/// Memory of a granted access: byte positions in a region.
#[derive(Clone, Debug)]
pub(crate) enum Grant {
    /// Nothing to move.
    Empty,
    /// STag 0: the address is the IOVA.
    Direct(u64),
    /// From this position on.
    Region(Mr, u64),
}

impl Device {
    /// Index of an STag in the MR table.
    ///
    /// Software puts random "driver bits" above the index (control-path 3.2, 4.10), so only the low
    /// max(ceil_log2(committed MRs), 14) bits of its index part count \[inf stag_index_bits\].
    pub(crate) fn stag_index(&self, index: u32) -> u64 {
        let count = self.hmc.count(Kind::Mr).max(1);
        let width = count.next_power_of_two().trailing_zeros().max(14);
        u64::from(index) & mask(width - 1, 0)
    }

    /// The context behind the index part of an STag; `None` if nothing is allocated there.
    pub(crate) fn stag(&mut self, index: u64, env: &mut dyn Env) -> Result<Option<Mr>, Fault> {
        if index >= self.hmc.count(Kind::Mr) {
            return Err(Fault::Stag(AeCode::AMP_BAD_STAG_INDEX));
        }
        let found = self.mrs.get(index, &mut self.hmc, env);
        self.reached(found, env).map_err(|_| HostFault.into())
    }

    /// A valid STag with the right key, and its index.
    pub(crate) fn valid_stag(&mut self, stag: u32, env: &mut dyn Env) -> Result<(u64, Mr), Fault> {
        let index = self.stag_index(stag >> 8);
        let mr = self
            .stag(index, env)?
            .ok_or(Fault::Stag(AeCode::AMP_UNALLOCATED_STAG))?;
        if !mr.valid {
            return Err(Fault::Stag(AeCode::AMP_INVALID_STAG));
        }
        if mr.key != bits8(stag.into(), 7, 0) {
            return Err(Fault::Stag(AeCode::AMP_BAD_STAG_KEY));
        }
        Ok((index, mr))
    }

    /// Stores the context of an STag that exists.
    pub(crate) fn put_stag(&mut self, index: u64, mr: Mr, env: &mut dyn Env) -> Result<(), Fault> {
        let stored = self.mrs.put(index, mr, &mut self.hmc, env);
        self.reached(stored, env).map_err(|_| HostFault.into())
    }

    /// Checks an access; `privileged` is PRIVEN of the QP.
    pub(crate) fn grant(
        &mut self,
        access: &Access,
        len: u64,
        privileged: bool,
        env: &mut dyn Env,
    ) -> Result<Grant, Fault> {
        let refuse = |code| Err(Fault::Stag(code));
        if len == 0 {
            // The architecture does not check keys when there is no data.
            return Ok(Grant::Empty);
        }
        if access.stag == 0 {
            // The local DMA STag of privileged QPs (data-path 5.1).
            let local = matches!(access.right, Right::LocalRead | Right::LocalWrite);
            return match (local && privileged, access.addr.checked_add(len)) {
                (false, _) => refuse(AeCode::STAG_ZERO_INVALID),
                (true, None) => refuse(AeCode::AMP_TO_WRAP),
                (true, Some(_)) => Ok(Grant::Direct(access.addr)),
            };
        }
        let (_, mr) = self.valid_stag(access.stag, env)?;
        if mr.pd != access.pd {
            return refuse(AeCode::AMP_BAD_PD);
        }
        if mr
            .window
            .is_some_and(|window| !window.type1 && window.qp != access.qpn)
        {
            return refuse(AeCode::AMP_BAD_QP);
        }
        let (right, remote) = match access.right {
            Right::LocalRead => (LOCAL_READ, false),
            Right::LocalWrite => (LOCAL_WRITE, false),
            Right::RemoteRead => (REMOTE_READ, true),
            Right::RemoteWrite => (REMOTE_WRITE, true),
        };
        if mr.rights & right == 0 || (remote && !mr.remote) {
            return refuse(AeCode::AMP_RIGHTS_VIOLATION);
        }
        let offset = mr.offset(access.addr, len).map_err(Fault::Stag)?;
        let Some(window) = mr.window else {
            let position = mr.position(offset);
            return Ok(Grant::Region(mr, position));
        };
        // The bytes of a window are those of its region.
        match self.stag(window.parent.into(), env)? {
            Some(parent) if parent.valid => {
                let position =
                    parent.position(mr.start.wrapping_sub(parent.start).wrapping_add(offset));
                Ok(Grant::Region(parent, position))
            }
            _ => refuse(AeCode::AMP_INVALID_STAG),
        }
    }

    /// IOVA of the first byte of the remaining grant, and the number of contiguous bytes there.
    pub(super) fn run(
        &mut self,
        grant: &Grant,
        done: u64,
        left: u64,
        env: &mut dyn Env,
    ) -> Result<(u64, u64), HostFault> {
        let (mr, position) = match grant {
            Grant::Empty => return Ok((0, left)),
            Grant::Direct(iova) => return Ok((iova.wrapping_add(done), left)),
            Grant::Region(mr, position) => (mr, position.wrapping_add(done)),
        };
        if mr.level == 0 {
            return Ok((mr.pages.wrapping_add(position), left));
        }
        let size = mr.page_bytes();
        let (page, inside) = (position / size, position % size);
        let first = match mr.level {
            1 => mr.pages + page,
            _ => {
                let root = self.hmc.pble(mr.pages + page / LEAF, env);
                let leaf = self.reached(root, env).map_err(|_| HostFault)?;
                bits(leaf, 27, 0) + page % LEAF
            }
        };
        let entry = self.hmc.pble(first, env);
        let address = self.reached(entry, env).map_err(|_| HostFault)?;
        Ok((address.wrapping_add(inside), left.min(size - inside)))
    }

    /// Reads the memory of a grant.
    pub(crate) fn read_grant(
        &mut self,
        grant: &Grant,
        out: &mut [u8],
        env: &mut dyn Env,
    ) -> Result<(), HostFault> {
        let mut done = 0;
        let mut rest = out;
        while !rest.is_empty() {
            let (iova, n) = self.run(grant, done, rest.len() as u64, env)?;
            let (now, later) = rest.split_at_mut_checked(n as usize).unwrap_or_default();
            env.read(iova, now).map_err(|_| HostFault)?;
            rest = later;
            done += n;
        }
        Ok(())
    }

    /// Writes the memory of a grant.
    pub(crate) fn write_grant(
        &mut self,
        grant: &Grant,
        data: &[u8],
        env: &mut dyn Env,
    ) -> Result<(), HostFault> {
        let mut done = 0;
        let mut rest = data;
        while !rest.is_empty() {
            let (iova, n) = self.run(grant, done, rest.len() as u64, env)?;
            let (now, later) = rest.split_at_checked(n as usize).unwrap_or_default();
            env.write(iova, now).map_err(|_| HostFault)?;
            rest = later;
            done += n;
        }
        Ok(())
    }
}
