//! The same work for the library and for our data path, on equal rings.
//!
//! One batch posts 64, the harness completes 64 as the device would, then 64
//! are polled; only the phase that a [`Row`] names is timed or counted.

mod library;
mod ours;
mod pointers;
mod verbs;

pub use library::LibrarySide;
pub use ours::OurSide;
pub use verbs::VerbsSide;

/// Operations of a batch.
pub const BATCH: usize = 64;
/// Quanta of the send ring, slots of the receive ring, entries of the CQ.
pub const RING: u64 = 1024;
/// Bytes of an inline request.
pub const INLINE_BYTES: usize = 32;

/// A request that is posted alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Single {
    /// SEND of one SGE.
    Send,
    /// RDMA WRITE of one SGE.
    Write,
    /// SEND of [`INLINE_BYTES`].
    Inline,
}

impl Single {
    /// Quanta it takes in the ring.
    #[must_use]
    pub const fn quanta(self) -> u64 {
        match self {
            Self::Send | Self::Write => 1,
            Self::Inline => 2,
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// Post a request, doorbell included.
    Post(Single),
    /// Post a list of this many SENDs with one doorbell.
    Chain(usize),
    /// Post a receive.
    Recv,
    /// Poll completions of sends, this many a call.
    PollSend(usize),
    /// Poll completions of receives, this many a call.
    PollRecv(usize),
    /// Poll an empty CQ.
    Empty,
}

/// All rows, with their names.
pub const ROWS: &[(&str, Row)] = &[
    ("post SEND, 1 SGE", Row::Post(Single::Send)),
    ("post RDMA WRITE, 1 SGE", Row::Post(Single::Write)),
    ("post inline SEND, 32 B", Row::Post(Single::Inline)),
    ("post SEND, chain of 1", Row::Chain(1)),
    ("post SEND, chain of 4, per WR", Row::Chain(4)),
    ("post SEND, chain of 16, per WR", Row::Chain(16)),
    ("post SEND, chain of 64, per WR", Row::Chain(64)),
    ("post receive, 1 SGE", Row::Recv),
    ("poll SQ CQE, 1 a call", Row::PollSend(1)),
    ("poll SQ CQE, 16 a call, per CQE", Row::PollSend(16)),
    ("poll RQ CQE, 1 a call", Row::PollRecv(1)),
    ("poll RQ CQE, 16 a call, per CQE", Row::PollRecv(16)),
    ("poll an empty CQ", Row::Empty),
];

/// One of those that do the work. Methods do [`BATCH`] operations and say
/// whether all went as they should.
pub trait Contestant {
    fn name(&self) -> &'static str;
    /// The function that a row's calls go through, by its symbol.
    fn symbol(&self, row: Row) -> &'static str;
    /// Posts requests one by one.
    fn post(&mut self, what: Single) -> bool;
    /// Posts lists of `length` SENDs.
    fn post_chains(&mut self, length: usize) -> bool;
    fn post_recv(&mut self) -> bool;
    /// Plays the device: completes what was posted last, sends of `quanta`
    /// each.
    fn complete_sends(&mut self, quanta: u64);
    /// Completes the receives that were posted last.
    fn complete_recvs(&mut self);
    /// Polls once for at most `at_once`; how many there were.
    fn poll_some(&mut self, at_once: usize) -> usize;
    /// Polls all completions, at most `at_once` a call.
    #[inline(never)]
    fn poll(&mut self, at_once: usize) -> bool {
        let mut left = BATCH;
        while left > 0 {
            let got = self.poll_some(at_once);
            if got == 0 || got > left {
                return false;
            }
            left -= got;
        }
        true
    }
    /// Polls the CQ while nothing is there.
    #[inline(never)]
    fn poll_empty(&mut self) -> bool {
        let mut got = 0;
        for _ in 0..BATCH {
            got |= self.poll_some(1);
        }
        got == 0
    }
    /// Polls one batch and compares every completion: `wr_id` from 0 on,
    /// success.
    fn poll_and_check(&mut self) -> bool;
}

/// The phase of a batch that a row names.
pub type Phase = fn(&mut dyn Contestant, Row) -> bool;

/// One batch of `row`; `timed` is given the phase that it names, to run it.
pub fn batch(
    row: Row,
    side: &mut dyn Contestant,
    timed: &mut dyn FnMut(&mut dyn Contestant, Phase) -> bool,
) -> bool {
    match row {
        Row::Post(_) | Row::Chain(_) => {
            let posted = timed(side, |side, row| match row {
                Row::Post(what) => side.post(what),
                Row::Chain(length) => side.post_chains(length),
                _ => false,
            });
            side.complete_sends(quanta(row));
            posted && side.poll(16)
        }
        Row::Recv => {
            let posted = timed(side, |side, _| side.post_recv());
            side.complete_recvs();
            posted && side.poll(16)
        }
        Row::PollSend(_) => {
            let posted = side.post_chains(BATCH);
            side.complete_sends(1);
            posted && timed(side, poll)
        }
        Row::PollRecv(_) => {
            let posted = side.post_recv();
            side.complete_recvs();
            posted && timed(side, poll)
        }
        Row::Empty => timed(side, |side, _| side.poll_empty()),
    }
}

fn poll(side: &mut dyn Contestant, row: Row) -> bool {
    match row {
        Row::PollSend(at_once) | Row::PollRecv(at_once) => side.poll(at_once),
        _ => false,
    }
}

const fn quanta(row: Row) -> u64 {
    match row {
        Row::Post(what) => what.quanta(),
        _ => 1,
    }
}

/// Runs a few batches of every kind and compares every completion; over twice
/// round each ring.
#[must_use]
pub fn rehearse(side: &mut dyn Contestant) -> bool {
    let laps = 2 * RING as usize / BATCH + 3;
    let kinds = [Single::Send, Single::Write, Single::Inline];
    let mut lengths = [1, 4, 16, 64].into_iter().cycle().take(laps);
    lengths.all(|chain| {
        let sends = kinds.iter().all(|&what| {
            let posted = side.post(what);
            side.complete_sends(what.quanta());
            posted && side.poll_and_check()
        });
        let chains = side.post_chains(chain);
        side.complete_sends(1);
        let chains = chains && side.poll_and_check();
        let receives = side.post_recv();
        side.complete_recvs();
        sends && chains && receives && side.poll_and_check() && side.poll_empty()
    })
}
