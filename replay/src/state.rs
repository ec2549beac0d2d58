//! What is known of a function beside the simulator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use e810_card::record::words_from_hex;
use e810_cqp::Opcode;
use e810_trace::record::WorkQueue;
use e810_trace::{Answer, Answers, Event};

/// What is known of a function beside the simulator.
#[derive(Debug)]
pub(crate) struct State {
    /// Its lines, and how many of them are done.
    pub(crate) lines: Vec<usize>,
    pub(crate) at: usize,
    /// The host context of the Control QP, and the upper half of its address.
    pub(crate) context: Option<String>,
    pub(crate) context_high: u32,
    /// The access before has reset the function.
    pub(crate) is_reset: bool,
    /// The vectors of LAN receive queues.
    pub(crate) vectors: BTreeMap<u32, u16>,
    /// Vectors whose message was cleared, and whether the device had written an event here that the
    /// recorded one wrote later.
    pub(crate) cleared: BTreeMap<u16, bool>,
    pub(crate) places: Answers,
    /// Places of requests without a completion, by queue pair and queue. Those of a send queue are not
    /// told one by one.
    pub(crate) posted: BTreeMap<(u32, WorkQueue), VecDeque<u32>>,
    /// The last shadow areas of queue pairs.
    pub(crate) shadows: BTreeMap<Answer, usize>,
    /// How far the driver is in completion queues: the index, and how many entries it has taken.
    pub(crate) taken: BTreeMap<u32, (u32, u64)>,
    /// Entries that the recording does not have.
    pub(crate) lost: BTreeMap<(String, u32), u64>,
    /// Queue pairs with requests whose doorbell has not come.
    pub(crate) not_rung: BTreeSet<u32>,
    /// The completion queues of the send queues of queue pairs.
    pub(crate) send_cqs: BTreeMap<u32, u32>,
    /// How many completions of send requests the device owes queue pairs.
    pub(crate) owed: BTreeMap<u32, u64>,
}

impl State {
    pub(crate) fn new(lines: Vec<usize>) -> Self {
        Self {
            lines,
            at: 0,
            context: None,
            context_high: 0,
            is_reset: false,
            vectors: BTreeMap::new(),
            cleared: BTreeMap::new(),
            places: Answers::default(),
            posted: BTreeMap::new(),
            shadows: BTreeMap::new(),
            taken: BTreeMap::new(),
            lost: BTreeMap::new(),
            not_rung: BTreeSet::new(),
            send_cqs: BTreeMap::new(),
            owed: BTreeMap::new(),
        }
    }

    /// Whether the recording may lack an entry there, which is then passed over.
    pub(crate) fn was_lost(&mut self, place: Answer) -> bool {
        let (what, number) = match place {
            Answer::AdminqReply => ("AdminQ replies".to_owned(), 0),
            Answer::AdminqEvent => ("AdminQ events".to_owned(), 0),
            Answer::CqpReply(opcode) => ("CQP replies".to_owned(), opcode.into()),
            Answer::Cqe(cq, ..) => ("CQ".to_owned(), cq),
            Answer::Ceqe(ceq, _) => ("CEQ".to_owned(), ceq),
            Answer::Aeqe => ("AEQ".to_owned(), 0),
            Answer::Lan(WorkQueue::Send, number) => ("LAN SQ".to_owned(), number),
            Answer::Lan(WorkQueue::Receive, number) => ("LAN RQ".to_owned(), number),
            Answer::QpShadow(_) => return true,
        };
        match self.lost.get_mut(&(what, number)) {
            Some(count @ 1..) => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// How far the driver is in a completion queue: the index, and how many entries it has taken.
    pub(crate) fn taken(&self, cq: u32) -> (u32, u64) {
        self.taken.get(&cq).copied().unwrap_or_default()
    }

    /// The driver has posted this.
    pub(crate) fn sent(&mut self, event: &Event) {
        match event {
            Event::Wqe {
                qp,
                queue: WorkQueue::Send,
                bytes,
                ..
            } => {
                self.not_rung.insert(*qp);
                let header = word(bytes, WQE_HEADER).unwrap_or(0);
                if header & SIGNALED != 0 {
                    *self.owed.entry(*qp).or_default() += 1;
                }
            }
            Event::CqpCommand { memory, .. } => {
                let Some((opcode @ (Opcode::CreateQp | Opcode::DestroyQp), header)) =
                    command(event)
                else {
                    return;
                };
                let qp = (header & 0xFF_FFFF) as u32;
                self.owed.remove(&qp);
                self.send_cqs.remove(&qp);
                let context = memory.first().filter(|_| opcode == Opcode::CreateQp);
                if let Some(numbers) = context.and_then(|found| word(&found.bytes, CQ_NUMBERS)) {
                    self.send_cqs.insert(qp, (numbers & 0x1FF_FFFF) as u32);
                }
            }
            _ => {}
        }
    }

    /// Nothing that was posted is there any more.
    pub(crate) fn forget_posted(&mut self) {
        self.posted.clear();
        self.taken.clear();
        self.not_rung.clear();
        self.owed.clear();
    }
}

/// The word of a send request with its header, and the bit that asks for a completion (data-path 1.2).
const WQE_HEADER: usize = 3;
const SIGNALED: u64 = 1 << 62;
/// The word of a context with TXCMPLQNUM (control-path 5.2).
const CQ_NUMBERS: usize = 17;

/// A word of a line's bytes.
fn word(bytes: &str, index: usize) -> Option<u64> {
    words_from_hex(bytes)?.get(index).copied()
}

/// The opcode of a command of the Control QP, and its header.
fn command(event: &Event) -> Option<(Opcode, u64)> {
    let Event::CqpCommand { bytes, .. } = event else {
        return None;
    };
    let header = word(bytes, 3)?;
    Some((Opcode::from_code((header >> 32 & 0x3F) as u8), header))
}

/// The completion queue that gets a new ring by a command, which begins at its first entry.
pub(crate) fn new_ring(event: &Event) -> Option<u32> {
    let (opcode, header) = command(event)?;
    let is_new = matches!(opcode, Opcode::CreateCq | Opcode::ModifyCq);
    is_new.then_some((header & 0x7_FFFF) as u32)
}
