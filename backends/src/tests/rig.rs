//! A mock transport that records its calls, and a function on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use e810_hal::{Access, Bus, DmaError, Ns, RegOffset};

use crate::*;

#[derive(Clone, Debug)]
pub(super) struct NoRegisters;

impl Bus for NoRegisters {
    fn read32(&self, _: RegOffset) -> u32 {
        u32::MAX
    }
    fn write32(&self, _: RegOffset, _: u32) {}
}

/// What the other side of a device would know.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) log: Vec<String>,
    /// IOVA to length, whether it has a file, and the access.
    pub(super) maps: BTreeMap<u64, (u64, bool, Access)>,
    /// IOVA to the address in this process.
    pub(super) addresses: BTreeMap<u64, u64>,
    pub(super) vectors: BTreeMap<u16, RawFd>,
    /// The CPU that each vector interrupts.
    pub(super) cpus: BTreeMap<u16, u32>,
    /// More vectors than these are refused.
    pub(super) most: Option<u16>,
    /// The choice of a CPU is refused.
    pub(super) refuse_cpus: bool,
    /// Vectors stay connected.
    pub(super) refuse_off: bool,
    /// No further mapping is made, for this reason.
    pub(super) refuse_map: Option<DmaError>,
}

#[derive(Debug)]
pub(super) struct Fake {
    pub(super) properties: Properties,
    pub(super) config: Mutex<Vec<u8>>,
    pub(super) books: Arc<Mutex<Books>>,
    pub(super) refuse_unmap: Arc<AtomicBool>,
    pub(super) shared: Option<transport::SharedAddresses>,
}

fn refused(during: &'static str) -> BackendError {
    BackendError::Refused {
        device: "fake".to_owned(),
        during,
        cause: "as told".to_owned(),
    }
}

// SAFETY: there is no device.
unsafe impl Transport for Fake {
    type Registers = NoRegisters;
    fn name(&self) -> &str {
        "fake"
    }
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn addresses(&self) -> Option<transport::SharedAddresses> {
        self.shared.clone()
    }
    fn registers(&self) -> NoRegisters {
        NoRegisters
    }
    fn failure(&self) -> Option<&BackendError> {
        None
    }
    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError> {
        let at = usize::from(offset);
        into.copy_from_slice(&self.config.lock().unwrap()[at..at + into.len()]);
        Ok(())
    }
    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), BackendError> {
        let at = usize::from(offset);
        self.config.lock().unwrap()[at..at + from.len()].copy_from_slice(from);
        let text = format!("config {offset:#x} = {from:x?}");
        self.books.lock().unwrap().log.push(text);
        Ok(())
    }
    fn reset(&self) -> Result<(), BackendError> {
        self.books.lock().unwrap().log.push("reset".to_owned());
        Ok(())
    }
    unsafe fn map(&self, region: &DmaRegion<'_>) -> Result<(), BackendError> {
        let mut books = self.books.lock().unwrap();
        if let Some(cause) = books.refuse_map {
            let device = "fake".to_owned();
            return Err(BackendError::NotMapped { device, cause });
        }
        let end = region.iova + region.bytes;
        let below = books.maps.range(..end).next_back();
        assert!(below.is_none_or(|(start, (len, ..))| start + len <= region.iova));
        let entry = (region.bytes, region.file.is_some(), region.access);
        books.maps.insert(region.iova, entry);
        let address = region.address.addr().get() as u64;
        books.addresses.insert(region.iova, address);
        Ok(())
    }
    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError> {
        if self.refuse_unmap.load(Ordering::Relaxed) {
            return Err(refused("unmap"));
        }
        let gone = self.books.lock().unwrap().maps.remove(&iova);
        assert_eq!(gone.map(|(len, ..)| len), Some(bytes));
        Ok(())
    }
    fn can_be_shared(&self) -> bool {
        true
    }
    fn files(&self) -> Result<transport::Files, BackendError> {
        let file = || File::open("/dev/null").unwrap().into();
        Ok(transport::Files {
            device: file(),
            container: file(),
            bar0: 0,
            config: 0,
        })
    }
    fn unmap_all(&self, first: u64, last: u64) -> Result<(), BackendError> {
        if self.refuse_unmap.load(Ordering::Relaxed) {
            return Err(refused("unmap"));
        }
        let text = format!("unmap all {first:#x} {last:#x}");
        self.books.lock().unwrap().log.push(text);
        Ok(())
    }
    fn connect_vectors(
        &self,
        first: u16,
        events: &[Option<BorrowedFd<'_>>],
    ) -> Result<(), BackendError> {
        let mut books = self.books.lock().unwrap();
        if !self.properties.vectors_grow && !books.vectors.is_empty() {
            return Err(refused("growing"));
        }
        let end = first + events.len() as u16;
        if books.most.is_some_and(|most| end > most) {
            return Err(refused("more vectors"));
        }
        for (vector, event) in (first..).zip(events) {
            match event {
                Some(fd) => books.vectors.insert(vector, fd.as_raw_fd()),
                None => books.vectors.remove(&vector),
            };
            // It is a new interrupt, which goes anywhere.
            books.cpus.remove(&vector);
        }
        Ok(())
    }
    fn send_vector_to(&self, vector: u16, cpu: u32) -> Result<(), BackendError> {
        let mut books = self.books.lock().unwrap();
        assert!(books.vectors.contains_key(&vector));
        if books.refuse_cpus {
            return Err(refused("choosing a CPU"));
        }
        books.cpus.insert(vector, cpu);
        Ok(())
    }
    fn disconnect_vectors(&self) -> Result<(), BackendError> {
        let mut books = self.books.lock().unwrap();
        if books.refuse_off {
            return Err(refused("disconnecting"));
        }
        books.vectors.clear();
        books.cpus.clear();
        books.log.push("vectors off".to_owned());
        Ok(())
    }
}

pub(super) struct Rig {
    pub(super) function: Function<Fake>,
    pub(super) books: Arc<Mutex<Books>>,
    pub(super) refuse_unmap: Arc<AtomicBool>,
}

impl Rig {
    pub(super) fn new(change: impl FnOnce(&mut Properties)) -> Self {
        Self::sharing(None, change)
    }

    pub(super) fn sharing(
        shared: Option<transport::SharedAddresses>,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let mut properties = Properties {
            iova_ranges: vec![(0x10_0000, 0xfedf_ffff), (0xfef0_0000, 0xff_ffff_ffff)],
            page: 4096,
            maps_any_memory: false,
            vectors: 4,
            vectors_grow: true,
        };
        change(&mut properties);
        let mut config = vec![0; 4096];
        config[..4].copy_from_slice(&[0x86, 0x80, 0x92, 0x15]);
        // Two extended capabilities, the second one the serial number.
        config[0x100..0x104].copy_from_slice(&0x1501_0001_u32.to_le_bytes());
        config[0x150..0x154].copy_from_slice(&0x0001_0003_u32.to_le_bytes());
        config[0x154..0x15c].copy_from_slice(&0x02e8_10ff_ff00_0003_u64.to_le_bytes());
        let (books, refuse_unmap) = (Arc::default(), Arc::default());
        let fake = Fake {
            properties,
            config: Mutex::new(config),
            books: Arc::clone(&books),
            refuse_unmap: Arc::clone(&refuse_unmap),
            shared,
        };
        Self {
            function: Function::open(fake, Options::default()).unwrap(),
            books,
            refuse_unmap,
        }
    }

    pub(super) fn fire(&self, vector: u16) {
        let fd = self.books.lock().unwrap().vectors[&vector];
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes; the descriptor is the function's event.
        let written = unsafe { libc::write(fd, one.as_ptr().cast(), 8) };
        assert_eq!(written, 8);
    }

    pub(super) fn fired(&self) -> Vec<u32> {
        let mut fired = Vec::new();
        self.function.wait_vectors(Ns(0), &mut fired).unwrap();
        fired.sort();
        fired.into_iter().map(|vector| vector.get()).collect()
    }

    pub(super) fn mapped(&self) -> usize {
        self.books.lock().unwrap().maps.len()
    }
}
