//! [`Env`] for tests of one engine: flat memory at an IOVA offset, registers in a map, manual time.

use crate::findings::{Class, Kind};
use std::collections::BTreeMap;

use crate::pe::{DmaFault, Env, OicrCause, PeReg};

const PAGE: u64 = 4096;

/// What the engine did and recorded.
#[derive(Debug)]
pub(in crate::pe) struct TestEnv {
    /// Allocated ranges: start → bytes.
    ranges: BTreeMap<u64, u64>,
    /// Pages written so far; the others read as zero.
    pages: BTreeMap<u64, Box<[u8; 4096]>>,
    next: u64,
    pub(in crate::pe) registers: BTreeMap<u32, u32>,
    pub(in crate::pe) now: u64,
    random: u64,
    pub(in crate::pe) findings: Vec<(Class, &'static str, String)>,
    pub(in crate::pe) frames: Vec<Vec<u8>>,
    pub(in crate::pe) ceqs: Vec<u16>,
    pub(in crate::pe) aeq_raised: u32,
    pub(in crate::pe) oicr: u32,
    /// Accesses refused.
    pub(in crate::pe) faults: u32,
    /// The LAN side knows no queue set, and no VSI.
    pub(in crate::pe) no_queue_set: bool,
    pub(in crate::pe) no_vsi: bool,
    /// What software does just before the device's next store to an address: the address, and a
    /// word with its own.
    pub(in crate::pe) before_store: Option<(u64, (u64, u64))>,
}

impl TestEnv {
    pub(in crate::pe) fn new(seed: u64) -> Self {
        Self {
            ranges: BTreeMap::new(),
            pages: BTreeMap::new(),
            next: 0x7_0000_0000,
            registers: BTreeMap::new(),
            now: 1_000,
            random: seed,
            findings: Vec::new(),
            frames: Vec::new(),
            ceqs: Vec::new(),
            aeq_raised: 0,
            oicr: 0,
            faults: 0,
            no_queue_set: false,
            no_vsi: false,
            before_store: None,
        }
    }

    /// Zeroed memory with a gap behind it.
    pub(in crate::pe) fn alloc(&mut self, bytes: u64, align: u64) -> u64 {
        let start = self.next.next_multiple_of(align);
        self.next = start + bytes + 3 * PAGE;
        self.ranges.insert(start, bytes);
        start
    }

    /// Zeroed memory at an address chosen by the caller.
    pub(in crate::pe) fn map(&mut self, start: u64, bytes: u64) {
        self.ranges.insert(start, bytes);
    }

    /// Removes memory from the device.
    pub(in crate::pe) fn unmap(&mut self, start: u64) {
        self.ranges.remove(&start).unwrap();
    }

    fn check(&mut self, iova: u64, bytes: usize, write: bool) -> Result<(), DmaFault> {
        let inside = self
            .ranges
            .range(..=iova)
            .next_back()
            .is_some_and(|(start, len)| iova + bytes as u64 <= start + len);
        if inside {
            return Ok(());
        }
        self.faults += 1;
        self.findings
            .push((Class::Fault, "dma", format!("{iova:#x} {bytes}")));
        Err(DmaFault {
            iova,
            bytes,
            write,
            reason: "not mapped",
        })
    }

    /// Parts of an access that lie in one page: (page, offset in it, bytes of the access).
    fn pieces(
        iova: u64,
        bytes: usize,
    ) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = iova + done as u64;
            let n = ((PAGE - at % PAGE) as usize).min(bytes - done);
            let range = done..done + n;
            done += n;
            (n > 0).then_some((at / PAGE, (at % PAGE) as usize, range))
        })
    }

    /// Reads memory, not as the device.
    pub(in crate::pe) fn peek(&self, iova: u64, into: &mut [u8]) {
        for (page, offset, range) in Self::pieces(iova, into.len()) {
            let part = &mut into[range];
            match self.pages.get(&page) {
                Some(page) => part.copy_from_slice(&page[offset..offset + part.len()]),
                None => part.fill(0),
            }
        }
    }

    /// Writes memory, not as the device.
    pub(in crate::pe) fn poke(&mut self, iova: u64, from: &[u8]) {
        for (page, offset, range) in Self::pieces(iova, from.len()) {
            let part = &from[range];
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; 4096]));
            page[offset..offset + part.len()].copy_from_slice(part);
        }
    }

    pub(in crate::pe) fn word(&self, iova: u64) -> u64 {
        let mut bytes = [0; 8];
        self.peek(iova, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub(in crate::pe) fn set_word(&mut self, iova: u64, value: u64) {
        self.poke(iova, &value.to_le_bytes());
    }

    pub(in crate::pe) fn set_words(&mut self, iova: u64, words: &[u64]) {
        for (n, word) in words.iter().enumerate() {
            self.set_word(iova + 8 * n as u64, *word);
        }
    }

    pub(in crate::pe) fn reg(&self, register: PeReg) -> u32 {
        self.registers.get(&(register as u32)).copied().unwrap_or(0)
    }

    /// Kinds of the findings so far, in order.
    pub(in crate::pe) fn kinds(&self) -> Vec<&'static str> {
        self.findings.iter().map(|(_, kind, _)| *kind).collect()
    }
}

impl Env for TestEnv {
    fn read(&mut self, iova: u64, into: &mut [u8]) -> Result<(), DmaFault> {
        self.check(iova, into.len(), false)?;
        self.peek(iova, into);
        Ok(())
    }

    fn write(&mut self, iova: u64, from: &[u8]) -> Result<(), DmaFault> {
        self.check(iova, from.len(), true)?;
        self.poke(iova, from);
        Ok(())
    }

    fn load(&mut self, iova: u64) -> Result<u64, DmaFault> {
        assert!(iova.is_multiple_of(8), "a word at {iova:#x}");
        self.check(iova, 8, false)?;
        Ok(self.word(iova))
    }

    fn store(&mut self, iova: u64, value: u64) -> Result<(), DmaFault> {
        assert!(iova.is_multiple_of(8), "a word at {iova:#x}");
        self.check(iova, 8, true)?;
        if let Some((_, (at, word))) = self.before_store.take_if(|(store, _)| *store == iova) {
            self.set_word(at, word);
        }
        self.set_word(iova, value);
        Ok(())
    }

    fn write_entry(&mut self, iova: u64, words: &[u64], valid_word: usize) -> Result<(), DmaFault> {
        assert!(valid_word < words.len());
        self.check(iova, words.len() * 8, true)?;
        self.set_words(iova, words);
        Ok(())
    }

    fn raise_ceq(&mut self, ceq: u16) {
        self.ceqs.push(ceq);
    }

    fn raise_aeq(&mut self) {
        self.aeq_raised += 1;
    }

    fn raise_oicr(&mut self, cause: OicrCause) {
        self.oicr |= 1 << cause as u32;
    }

    fn register(&mut self, register: PeReg) -> u32 {
        self.reg(register)
    }

    fn set_register(&mut self, register: PeReg, value: u32) {
        self.registers.insert(register as u32, value);
    }

    fn has_queue_set(&self, _handle: u16) -> bool {
        !self.no_queue_set
    }

    fn has_vsi(&self, _vsi: u16) -> bool {
        !self.no_vsi
    }

    fn transmit(&mut self, frame: Vec<u8>) {
        self.frames.push(frame);
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn finding(&mut self, kind: Kind, text: String) {
        self.findings.push((kind.class, kind.name, text));
    }

    fn random(&mut self) -> u64 {
        // xorshift64*: any distribution will do.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
