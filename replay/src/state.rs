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

    /// The driver has posted this.
    pub(crate) fn sent(&mut self, event: &Event) {
        if let Event::Wqe {
            qp,
            queue: WorkQueue::Send,
            ..
        } = event
        {
            self.not_rung.insert(*qp);
        }
    }
}

/// The completion queue that gets a new ring by a command, which begins at its first entry.
pub(crate) fn new_ring(event: &Event) -> Option<u32> {
    let Event::CqpCommand { bytes, .. } = event else {
        return None;
    };
    let header = *words_from_hex(bytes)?.get(3)?;
    let opcode = Opcode::from_code((header >> 32 & 0x3F) as u8);
    let is_new = matches!(opcode, Opcode::CreateCq | Opcode::ModifyCq);
    is_new.then_some((header & 0x7_FFFF) as u32)
}
