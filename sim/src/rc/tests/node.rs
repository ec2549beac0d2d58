//! [`Host`] in memory for tests: regions with STags, two rings, and a record of the engine's calls.

use std::collections::BTreeMap;

use crate::rc::{
    Access, AsyncEvent, Fault, Host, HostFault, Invalidator, READ_ENTRY_WORDS, ReceiveCompletion,
    Right, Ring, SendCompletion,
};
use crate::wqe::{AeCode, Lints, Operation};

/// Local STag of the region that every node has.
pub(super) const LKEY: u32 = 0x100;

/// Remote STag of the same memory.
pub(super) const RKEY: u32 = 0x200;

/// First address of that memory, and its length.
pub(super) const BASE: u64 = 0x7000_0000;
pub(super) const SIZE: usize = 1 << 20;

/// Protection domain of the QPs.
pub(super) const PD: u32 = 5;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stag {
    pub(super) pd: u32,
    pub(super) rights: Vec<Right>,
    pub(super) valid: bool,
}

/// One side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) now: u64,
    pub(super) memory: Vec<u8>,
    pub(super) stags: BTreeMap<u32, Stag>,
    pub(super) sq: Vec<u64>,
    pub(super) rq: Vec<u64>,
    pub(super) reads: Vec<[u64; READ_ENTRY_WORDS]>,
    pub(super) sent: Vec<SendCompletion>,
    pub(super) received: Vec<ReceiveCompletion>,
    pub(super) events: Vec<AsyncEvent>,
    pub(super) lints: Vec<(Ring, u16, Lints)>,
    pub(super) invalidated: Vec<(u32, Invalidator)>,
    pub(super) local_operations: usize,
    pub(super) out: Vec<Vec<u8>>,
    /// Memory accesses fail as if the IOMMU refused them.
    pub(super) broken_memory: bool,
    pub(super) broken_rings: bool,
    pub(super) broken_cq: bool,
    /// Where each access takes long: what was read ahead, by address.
    pub(super) ahead: Option<BTreeMap<u64, Vec<u8>>>,
    /// Payload was read so often, ahead or on its own.
    pub(super) payload_reads: usize,
    /// What software does to its send queue and memory when the next frame has been sent.
    pub(super) meanwhile: Option<(Vec<u64>, Vec<u8>)>,
}

impl Node {
    pub(super) fn new(sq_quanta: u32, rq_quanta: u32, ird: u16) -> Self {
        let stag = |rights: &[Right]| Stag {
            pd: PD,
            rights: rights.to_vec(),
            valid: true,
        };
        Self {
            now: 0,
            memory: vec![0; SIZE],
            stags: BTreeMap::from([
                (LKEY, stag(&[Right::LocalRead, Right::LocalWrite])),
                (RKEY, stag(&[Right::RemoteRead, Right::RemoteWrite])),
            ]),
            sq: vec![0; sq_quanta as usize * 4],
            rq: vec![0; rq_quanta as usize * 4],
            reads: vec![[0; READ_ENTRY_WORDS]; usize::from(ird) * 2],
            sent: Vec::new(),
            received: Vec::new(),
            events: Vec::new(),
            lints: Vec::new(),
            invalidated: Vec::new(),
            local_operations: 0,
            out: Vec::new(),
            broken_memory: false,
            broken_rings: false,
            broken_cq: false,
            ahead: None,
            payload_reads: 0,
            meanwhile: None,
        }
    }

    /// Memory from an offset on.
    pub(super) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.memory[offset..offset + len]
    }

    /// Fills memory with bytes that depend on their position and owner.
    pub(super) fn fill(&mut self, seed: u8) {
        // Filling all of it takes seconds under Miri.
        let len = if cfg!(miri) { 128 } else { SIZE };
        for (index, byte) in self.memory.iter_mut().enumerate().take(len) {
            *byte = (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ seed;
        }
    }

    fn locate(&self, access: Access, len: usize) -> Result<usize, Fault> {
        let refuse = |code| Err(Fault::Stag(code));
        let Some(stag) = self.stags.get(&access.stag) else {
            return refuse(AeCode::AMP_BAD_STAG_INDEX);
        };
        if !stag.valid {
            return refuse(AeCode::AMP_INVALID_STAG);
        }
        if stag.pd != access.pd {
            return refuse(AeCode::AMP_BAD_PD);
        }
        if !stag.rights.contains(&access.right) {
            return refuse(AeCode::AMP_RIGHTS_VIOLATION);
        }
        let Some(end) = access.addr.checked_add(len as u64) else {
            return refuse(AeCode::AMP_TO_WRAP);
        };
        if access.addr < BASE || end > BASE + SIZE as u64 {
            return refuse(AeCode::AMP_BOUNDS_VIOLATION);
        }
        if self.broken_memory {
            return Err(HostFault.into());
        }
        Ok((access.addr - BASE) as usize)
    }

    fn ring(&self, ring: Ring) -> &[u64] {
        match ring {
            Ring::Send => &self.sq,
            Ring::Receive => &self.rq,
        }
    }
}

impl Host for Node {
    fn now_ns(&self) -> u64 {
        self.now
    }

    fn load_ring(&mut self, ring: Ring, offset: u32) -> Result<u64, HostFault> {
        assert_eq!(offset % 8, 0);
        if self.broken_rings {
            Err(HostFault)
        } else {
            Ok(self.ring(ring)[offset as usize / 8])
        }
    }

    fn read_ring(&mut self, ring: Ring, offset: u32, words: &mut [u64]) -> Result<(), HostFault> {
        assert!(
            offset % 256 + words.len() as u32 * 8 <= 256,
            "crosses a chunk"
        );
        let at = offset as usize / 8;
        words.copy_from_slice(&self.ring(ring)[at..at + words.len()]);
        Ok(())
    }

    fn load_read(&mut self, slot: u16) -> Result<[u64; READ_ENTRY_WORDS], HostFault> {
        Ok(self.reads[usize::from(slot)])
    }

    fn store_read(&mut self, slot: u16, entry: [u64; READ_ENTRY_WORDS]) -> Result<(), HostFault> {
        self.reads[usize::from(slot)] = entry;
        Ok(())
    }

    fn check(&mut self, access: Access, len: u32) -> Result<(), Fault> {
        assert_ne!(len, 0, "an empty access needs no check");
        self.locate(access, len as usize).map(|_| ())
    }

    fn read(&mut self, access: Access, out: &mut [u8]) -> Result<(), Fault> {
        assert!(!out.is_empty());
        let at = self.locate(access, out.len())?;
        let ahead = self.ahead.as_ref().and_then(|ahead| {
            let (start, bytes) = ahead.range(..=access.addr).next_back()?;
            let offset = (access.addr - start) as usize;
            bytes.get(offset..offset + out.len())
        });
        match ahead {
            Some(bytes) => out.copy_from_slice(bytes),
            None => {
                self.payload_reads += 1;
                out.copy_from_slice(&self.memory[at..at + out.len()]);
            }
        }
        Ok(())
    }

    fn reads_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    fn read_ahead(&mut self, access: Access, len: u32) {
        let Ok(at) = self.locate(access, len as usize) else {
            return;
        };
        self.payload_reads += 1;
        let bytes = self.bytes(at, len as usize).to_vec();
        let ahead = self.ahead.get_or_insert_default();
        ahead.insert(access.addr, bytes);
    }

    fn forget_ahead(&mut self) {
        let ahead = self.ahead.as_mut();
        ahead.map(BTreeMap::clear).unwrap_or_default();
    }

    fn write(&mut self, access: Access, data: &[u8]) -> Result<(), Fault> {
        assert!(!data.is_empty());
        let at = self.locate(access, data.len())?;
        self.memory[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn invalidate(&mut self, stag: u32, by: Invalidator) -> Result<(), Fault> {
        let found = self
            .stags
            .get_mut(&stag)
            .ok_or(Fault::Stag(AeCode::AMP_BAD_STAG_INDEX))?;
        if by == Invalidator::Remote && !found.rights.contains(&Right::RemoteWrite) {
            return Err(Fault::Stag(AeCode::AMP_INVALIDATE_NO_REMOTE_ACCESS_RIGHTS));
        }
        found.valid = false;
        self.invalidated.push((stag, by));
        Ok(())
    }

    fn local_operation(&mut self, operation: &Operation) -> Result<(), Fault> {
        self.local_operations += 1;
        match operation {
            Operation::BindWindow { .. } => Err(Fault::Stag(AeCode::AMP_MWBIND_BIND_DISABLED)),
            Operation::FastRegister { .. } => Ok(()),
            other => panic!("{other:?} is not a local operation"),
        }
    }

    fn complete_send(&mut self, completion: &SendCompletion) -> Result<(), HostFault> {
        if self.broken_cq {
            return Err(HostFault);
        }
        self.sent.push(*completion);
        Ok(())
    }

    fn complete_receive(&mut self, completion: &ReceiveCompletion) -> Result<(), HostFault> {
        if self.broken_cq {
            return Err(HostFault);
        }
        self.received.push(*completion);
        Ok(())
    }

    fn report(&mut self, event: AsyncEvent) {
        self.events.push(event);
    }

    fn transmit(&mut self, frame: Vec<u8>) {
        self.out.push(frame);
        if let Some((sq, memory)) = self.meanwhile.take() {
            (self.sq, self.memory) = (sq, memory);
        }
    }

    fn lint(&mut self, ring: Ring, wqe_index: u16, lints: Lints) {
        self.lints.push((ring, wqe_index, lints));
    }
}
