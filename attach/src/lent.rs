//! The files that a program lends the device, and the queues that lie in them. While the device may
//! use a queue, its file is not given back: what the device writes later would go to whoever has
//! its address next.

use std::collections::BTreeMap;
use std::mem;

use e810::{CqPlace, CqRingPlace, QpPlace};
use e810_backends::HostDevice;
use e810_backends::memory::MappedMemory;
use e810_hal::{Iova, Mapping};

use crate::messages::{Answer, Command, Kind, Refused};
use crate::owner::Taken;

/// Where a queue, or a part of one, begins, and how many bytes it has.
pub(crate) type Span = (Iova, u64);

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct LentFiles<P: HostDevice> {
    /// By I/O address.
    files: BTreeMap<u64, Lent<P>>,
    /// The files of each queue, by their addresses; a completion queue's ring comes first.
    queues: BTreeMap<Queue, Vec<u64>>,
}

/// A file of the program that the device reaches until this is dropped.
#[derive(Debug)]
pub(crate) struct Lent<P: HostDevice> {
    pub(crate) platform: P,
    pub(crate) mapping: Mapping,
    pub(crate) bytes: u64,
    /// Where the program has it.
    pub(crate) address: Option<u64>,
    pub(crate) _memory: MappedMemory,
    pub(crate) _room: Taken,
    /// Parts of queues in it.
    pub(crate) parts: u32,
}

impl<P: HostDevice> Drop for Lent<P> {
    fn drop(&mut self) {
        self.platform.dma_unmap(self.mapping);
    }
}

/// A queue that the device has, or may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Queue {
    Cq(u32),
    Qp(u32),
    /// Those whose creation was not answered, by the addresses of their rings.
    UnansweredCq(u64),
    UnansweredQp(u64, u64),
}

/// What a command does to the memory of queues.
#[derive(Debug)]
pub(crate) enum Use {
    CreateCq(CqPlace),
    ResizeCq(u32, CqRingPlace),
    DestroyCq(u32),
    CreateQp(QpPlace, [Span; 2]),
    DestroyQp(u32),
    /// Whether the device may still use a queue pair whose creation it did not answer.
    Unanswered(QpPlace),
    Nothing,
}

impl Use {
    /// # Errors
    /// Sizes beyond the device's.
    pub(crate) fn by(command: &Command) -> Result<Self, Refused> {
        Ok(match command {
            Command::CreateCq(new) => Self::CreateCq(new.place),
            Command::ResizeCq(asked) => Self::ResizeCq(asked.number, asked.place),
            Command::DestroyCq(asked) => Self::DestroyCq(asked.number),
            Command::CreateQp(new) => Self::CreateQp(new.place, new.place.spans(&new.caps)?),
            Command::DestroyQp(asked) => Self::DestroyQp(asked.number),
            Command::MayUse(asked) => Self::Unanswered(asked.place),
            _ => Self::Nothing,
        })
    }

    /// Where the device will read or write.
    pub(crate) fn spans(&self) -> Vec<Span> {
        match self {
            Self::CreateCq(place) => place.spans().to_vec(),
            Self::ResizeCq(_, place) => vec![place.span()],
            Self::CreateQp(_, spans) => spans.to_vec(),
            Self::DestroyCq(_) | Self::DestroyQp(_) | Self::Unanswered(_) | Self::Nothing => {
                Vec::new()
            }
        }
    }
}

impl<P: HostDevice> Default for LentFiles<P> {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }
}

impl<P: HostDevice> LentFiles<P> {
    pub(crate) fn insert(&mut self, iova: Iova, file: Lent<P>) {
        self.files.insert(iova.0, file);
    }

    /// The program wants the file at this address back.
    ///
    /// # Errors
    /// There is none; queues are in it.
    pub(crate) fn remove(&mut self, iova: u64) -> Result<Lent<P>, Refused> {
        match self.files.get(&iova) {
            Some(file) if file.parts > 0 => Err(Refused::holds_queues()),
            _ => self.files.remove(&iova).ok_or_else(Refused::no_such_file),
        }
    }

    /// Whether all of it is in one file.
    pub(crate) fn holds(&self, span: &Span) -> bool {
        self.file_of(span).is_some()
    }

    /// The address of the file that holds all of it.
    fn file_of(&self, &(start, bytes): &Span) -> Option<u64> {
        let (from, file) = self.files.range(..=start.0).next_back()?;
        let room = file.bytes.saturating_sub(start.0 - from);
        (bytes <= room).then_some(*from)
    }

    /// A command has been carried out, or refused.
    pub(crate) fn note(&mut self, used: Use, answered: &Result<Answer, Refused>) {
        let may_use = matches!(answered, Err(refused) if refused.kind == Kind::MayUseMemory);
        match (used, answered) {
            (Use::CreateCq(place), Ok(Answer::CreateCq(granted))) => {
                self.enter(Queue::Cq(granted.number()), &place.spans());
            }
            (Use::CreateCq(place), Err(_)) if may_use => {
                self.enter(Queue::UnansweredCq(place.ring.ring.0), &place.spans());
            }
            (Use::ResizeCq(number, place), Ok(Answer::ResizeCq(Some(_)))) => {
                self.move_ring(number, &place.span());
            }
            // It has one of the two rings until it is destroyed.
            (Use::ResizeCq(number, place), Err(_)) if may_use => {
                self.enter(Queue::Cq(number), &[place.span()]);
            }
            (Use::DestroyCq(number), Ok(_)) => self.leave(Queue::Cq(number)),
            (Use::CreateQp(_, spans), Ok(Answer::CreateQp((granted, _)))) => {
                self.enter(Queue::Qp(granted.number().get()), &spans);
            }
            (Use::CreateQp(place, spans), Err(_)) if may_use => {
                self.enter(unanswered(place), &spans);
            }
            (Use::DestroyQp(number), Ok(_)) => self.leave(Queue::Qp(number)),
            (Use::Unanswered(place), Ok(Answer::MayUse(false))) => {
                self.leave(unanswered(place));
            }
            _ => {}
        }
    }

    /// These parts of a queue are in use.
    fn enter(&mut self, queue: Queue, spans: &[Span]) {
        for span in spans {
            // None is in a file of the owner's own programs.
            if let Some(at) = self.file_of(span) {
                self.queues.entry(queue).or_default().push(at);
                self.count(at, 1);
            }
        }
    }

    /// The device has the queue no more.
    fn leave(&mut self, queue: Queue) {
        for at in self.queues.remove(&queue).unwrap_or_default() {
            self.count(at, -1);
        }
    }

    /// A completion queue has another ring.
    fn move_ring(&mut self, number: u32, span: &Span) {
        let Some(at) = self.file_of(span) else {
            return;
        };
        let parts = self.queues.get_mut(&Queue::Cq(number));
        if let Some(ring) = parts.and_then(|parts| parts.first_mut()) {
            let old = mem::replace(ring, at);
            self.count(at, 1);
            self.count(old, -1);
        }
    }

    fn count(&mut self, at: u64, change: i32) {
        if let Some(file) = self.files.get_mut(&at) {
            file.parts = file.parts.saturating_add_signed(change);
        }
    }
}

const fn unanswered(place: QpPlace) -> Queue {
    Queue::UnansweredQp(place.sq.0, place.rq.0)
}
