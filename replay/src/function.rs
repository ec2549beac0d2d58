//! One simulated function, driven by the lines of a recording.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use e810_backends::observed::{DeviceMemory, Observer as _};
use e810_card::config_space::ConfigSpace;
use e810_card::record::{from_hex, hex};
use e810_hal::regs::PFPE_WQEALLOC;
use e810_hal::{Iova, Ns, RegOffset};
use e810_sim::Sim;
use e810_sim_server::device::Device;
use e810_sim_server::messages::{DmaMap, MAP_READ, MAP_WRITE, SetIrqs};
use e810_sim_server::protocol::{Function as _, region_len};
use e810_trace::record::Record;
use e810_trace::{Answer, Answers, Event, Recorder, TraceFile};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};

/// Offset of the command register, and its bits for memory space and bus mastering.
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u8 = 6;
/// The byte that names an interrupt pin, which a proxy hides.
const INTERRUPT_PIN: u64 = 0x3d;

/// What a recorder writes, line by line.
#[derive(Clone, Debug, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn take(&self) -> Vec<u8> {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of configuration space that have the capability PCI Express, whose high byte of device control
/// has the bit that resets the function (PCI Express Base Specification).
const HEADER: usize = 256;
const EXPRESS: u16 = 0x10;
const CONTROL_HIGH: u64 = 9;
const FLR: u8 = 1 << 7;

/// Whether an access is one to configuration space.
fn is_in_config(offset: u64, bytes: usize) -> bool {
    let end = offset.checked_add(bytes as u64);
    end.is_some_and(|end| end <= region_len(VFIO_PCI_CONFIG_REGION_INDEX))
}

/// Messages of vectors that were sent and not asked for yet.
type Fired = Arc<Mutex<BTreeMap<u16, u64>>>;

/// A simulated function, its driver's memory, and what the device has written there.
#[derive(Debug)]
pub(crate) struct Function {
    device: Device,
    memory: DeviceMemory,
    recorder: Recorder<Sink>,
    sink: Sink,
    places: Answers,
    answers: BTreeMap<Answer, VecDeque<Event>>,
    /// Entries of completion queues.
    completions: BTreeMap<u32, u64>,
    /// Completions of send requests, by queue pair.
    sent: BTreeMap<u32, u64>,
    /// Receive requests with a completion, by queue pair.
    received: BTreeMap<u32, usize>,
    fired: Fired,
}

impl Function {
    pub(crate) fn new(sim: &Sim, number: u8) -> io::Result<Self> {
        let (device, _) = Device::of(sim, number);
        let fired = Fired::default();
        let sent = fired.clone();
        let hook = move |vector: e810_hal::Vector| {
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            *sent.entry(vector.get() as u16).or_default() += 1;
        };
        sim.set_interrupt_hook(number, Some(Box::new(hook)));
        let sink = Sink::default();
        let file = TraceFile::begin(sink.clone(), "replay", &[])?;
        let recorder = Recorder::new(0, Arc::new(Mutex::new(file)));
        Ok(Self {
            device,
            memory: DeviceMemory::default(),
            recorder,
            sink,
            places: Answers::default(),
            answers: BTreeMap::new(),
            completions: BTreeMap::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            fired,
        })
    }

    /// A driver comes, or is gone: as the proxy leaves the function to it.
    pub(crate) fn user(&mut self, now: Ns, is_there: bool) -> io::Result<()> {
        self.recorder
            .reset(now, &self.memory, Event::User { is_there });
        if !is_there {
            self.connect(false)?;
        }
        let mut command = [0];
        self.device
            .read(VFIO_PCI_CONFIG_REGION_INDEX, COMMAND, &mut command);
        let [command] = command;
        self.device.write(
            VFIO_PCI_CONFIG_REGION_INDEX,
            COMMAND,
            &[command & !MEMORY_AND_MASTER, 0],
        );
        self.device.reset();
        if is_there {
            self.connect(true)?;
        }
        Ok(())
    }

    /// The proxy has all vectors connected.
    fn connect(&mut self, is_on: bool) -> io::Result<()> {
        let (count, data) = match is_on {
            true => (self.device.vectors(), VFIO_IRQ_SET_DATA_EVENTFD),
            false => (0, VFIO_IRQ_SET_DATA_NONE),
        };
        // Nobody reads them: the simulator's hook has the messages.
        let null = || OpenOptions::new().write(true).open("/dev/null");
        let files: io::Result<Vec<File>> = (0..count).map(|_| null()).collect();
        let set = SetIrqs {
            argsz: size_of::<SetIrqs>() as u32,
            flags: data | VFIO_IRQ_SET_ACTION_TRIGGER,
            index: VFIO_PCI_MSIX_IRQ_INDEX,
            start: 0,
            count,
        };
        self.device.set_irqs(&set, files?);
        Ok(())
    }

    pub(crate) fn map(&mut self, at: u64, bytes: u64, is_writable: bool) -> io::Result<()> {
        let size = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let file = self.memory.insert_zeros(Iova(at), size)?;
        let map = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: MAP_READ | if is_writable { MAP_WRITE } else { 0 },
            offset: 0,
            address: at,
            size: bytes,
        };
        self.device.map(&map, Some(file));
        Ok(())
    }

    pub(crate) fn unmap(&mut self, now: Ns, at: u64, bytes: u64) {
        self.recorder.unmapped(now, &self.memory, Iova(at), bytes);
        self.memory.remove(Iova(at));
        self.device.unmap(at, bytes);
    }

    /// A reset by the transport; `is_done` if the access before it has reset the function. It must not be
    /// reset twice: the simulator draws what the reference leaves open at each reset.
    pub(crate) fn reset(&mut self, now: Ns, is_done: bool) {
        self.recorder.reset(now, &self.memory, Event::Reset);
        if !is_done {
            self.device.reset();
        }
    }

    pub(crate) fn read(&mut self, now: Ns, offset: RegOffset) -> u32 {
        self.recorder.look(now, &self.memory);
        let mut bytes = [0; 4];
        let at = offset.get().into();
        self.device.read(VFIO_PCI_BAR0_REGION_INDEX, at, &mut bytes);
        let value = u32::from_le_bytes(bytes);
        self.recorder.read(now, &self.memory, offset, value);
        value
    }

    pub(crate) fn write(&mut self, now: Ns, offset: RegOffset, value: u32) {
        self.recorder.write(now, &self.memory, offset, value);
        let at = offset.get().into();
        self.device
            .write(VFIO_PCI_BAR0_REGION_INDEX, at, &value.to_le_bytes());
    }

    /// Has the engine look for requests of a queue pair, as a doorbell does. No recording has this.
    pub(crate) fn ring(&mut self, qp: u32) {
        let at = PFPE_WQEALLOC.off().get().into();
        self.device
            .write(VFIO_PCI_BAR0_REGION_INDEX, at, &qp.to_le_bytes());
    }

    /// `bytes` of configuration space, as a proxy's driver sees them; nothing if they are not in it.
    pub(crate) fn config_read(&mut self, offset: u64, bytes: usize) -> String {
        if !is_in_config(offset, bytes) {
            return String::new();
        }
        let mut found = vec![0; bytes];
        self.device
            .read(VFIO_PCI_CONFIG_REGION_INDEX, offset, &mut found);
        let pin = INTERRUPT_PIN.checked_sub(offset);
        let pin = pin.and_then(|pin| found.get_mut(usize::try_from(pin).ok()?));
        if let Some(pin) = pin {
            *pin = 0;
        }
        hex(&found)
    }

    /// Writes configuration space. Whether that resets the function.
    pub(crate) fn config_write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if !is_in_config(offset, bytes.len()) {
            return false;
        }
        let mut space = vec![0; HEADER];
        self.device
            .read(VFIO_PCI_CONFIG_REGION_INDEX, 0, &mut space);
        let express = ConfigSpace(space).find(EXPRESS, false);
        let control = express.map(|found| u64::from(found.at) + CONTROL_HIGH);
        let byte = control.and_then(|at| bytes.get(usize::try_from(at.checked_sub(offset)?).ok()?));
        self.device
            .write(VFIO_PCI_CONFIG_REGION_INDEX, offset, bytes);
        byte.is_some_and(|byte| byte & FLR != 0)
    }

    /// Writes to memory what the driver wrote there, by a line of its. Whether all of it has a place.
    pub(crate) fn post(&self, event: &Event) -> bool {
        let Some(parts) = self.recorder.parts(event) else {
            return false;
        };
        let put = |parts: &[(u64, Vec<u8>)]| parts.iter().all(|(at, bytes)| self.put(*at, bytes));
        put(&parts) && put(&self.recorder.given(&self.memory, event))
    }

    /// The same, of the first `bytes` bytes of a line with one part.
    pub(crate) fn post_start(&self, event: &Event, bytes: usize) -> bool {
        let parts = self.recorder.parts(event).unwrap_or_default();
        let [(at, all)] = parts.as_slice() else {
            return false;
        };
        self.put(*at, all.get(..bytes).unwrap_or(all))
    }

    /// Writes bytes at an address of the driver's.
    pub(crate) fn put(&self, at: u64, bytes: &[u8]) -> bool {
        let mut there = 0;
        while let Some(rest) = bytes.get(there..).filter(|rest| !rest.is_empty()) {
            let Some(at) = at.checked_add(there as u64) else {
                return false;
            };
            match self.memory.write(Iova(at), rest) {
                0 => return false,
                written => there += written,
            }
        }
        true
    }

    /// The host context of the Control QP, whose address the driver is about to write.
    pub(crate) fn put_context(&self, at: u64, bytes: &str) -> bool {
        from_hex(bytes).is_some_and(|bytes| self.put(at, &bytes))
    }

    /// Learns what the device has written since.
    pub(crate) fn look(&mut self, now: Ns) {
        self.recorder.look(now, &self.memory);
        let lines = self.sink.take();
        for line in lines.split(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<Record>(line) else {
                continue;
            };
            if let Event::Cqe { cq, .. } = record.event {
                *self.completions.entry(cq).or_default() += 1;
            }
            if let Some(answer) = self.places.place(&record.event) {
                // A second half is where its first half is.
                if record.event.answer() == Some(answer) {
                    match answer {
                        Answer::Cqe(_, qp, true) => *self.sent.entry(qp).or_default() += 1,
                        Answer::Cqe(_, qp, false) => *self.received.entry(qp).or_default() += 1,
                        _ => {}
                    }
                }
                self.answers
                    .entry(answer)
                    .or_default()
                    .push_back(record.event);
            }
        }
    }

    /// How many entries a completion queue has that is followed.
    pub(crate) fn entries(&self, cq: u32) -> Option<u32> {
        self.recorder.entries_of(cq)
    }

    /// Entries that the device has written to a completion queue since it has its ring.
    pub(crate) fn completions(&self, cq: u32) -> u64 {
        self.completions.get(&cq).copied().unwrap_or(0)
    }

    /// Those of them that the recording does not have yet.
    pub(crate) fn completions_ahead(&self, cq: u32) -> u64 {
        let of_queue = |place: &Answer| matches!(place, Answer::Cqe(other, ..) if *other == cq);
        let ahead = self.answers.iter().filter(|(place, _)| of_queue(place));
        ahead.map(|(_, all)| all.len() as u64).sum()
    }

    /// A completion queue gets a new ring.
    pub(crate) fn new_ring(&mut self, cq: u32) {
        self.completions.remove(&cq);
    }

    /// Completions of send requests of a queue pair since.
    pub(crate) fn sent(&mut self, qp: u32) -> u64 {
        self.sent.remove(&qp).unwrap_or(0)
    }

    /// Receive requests of a queue pair that were completed since.
    pub(crate) fn received(&mut self, qp: u32) -> usize {
        self.received.remove(&qp).unwrap_or(0)
    }

    /// The next entry that the device has written there.
    pub(crate) fn answer(&mut self, place: Answer) -> Option<Event> {
        self.answers.get_mut(&place)?.pop_front()
    }

    /// The first entry there, which stays.
    pub(crate) fn has_answer(&self, place: Answer) -> bool {
        self.answers.get(&place).is_some_and(|all| !all.is_empty())
    }

    /// Whether the device has written an event or a completion that nobody asked for yet.
    pub(crate) fn has_event(&self) -> bool {
        self.answers.iter().any(|(place, all)| {
            let is_event = matches!(place, Answer::Cqe(..) | Answer::Ceqe(..) | Answer::Aeqe);
            is_event && !all.is_empty()
        })
    }

    /// Entries that nobody asked for, which are forgotten.
    pub(crate) fn left(&mut self) -> BTreeMap<Answer, VecDeque<Event>> {
        self.places = Answers::default();
        self.sent.clear();
        self.received.clear();
        self.completions.clear();
        take(&mut self.answers)
    }

    /// Takes a message of a vector.
    pub(crate) fn interrupt(&mut self, vector: u16) -> bool {
        let mut fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
        match fired.get_mut(&vector) {
            Some(count @ 1..) => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Messages that nobody asked for, which are forgotten.
    pub(crate) fn left_interrupts(&mut self) -> BTreeMap<u16, u64> {
        let mut left = take(&mut *self.fired.lock().unwrap_or_else(PoisonError::into_inner));
        left.retain(|_, count| *count > 0);
        left
    }
}
