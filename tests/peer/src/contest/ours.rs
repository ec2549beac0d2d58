//! Our side, with the library's kind of lock or without.

use std::hint::black_box;

use e810_datapath::{
    Data, Op, PostError, RecvWr, Refused, Remote, SendFlags, SendWr, Sge, Wc, WcStatus,
};
use e810_tests::plain::{PlainCq, PlainRecv, PlainSend, Queues, Spec};

use super::{BATCH, Contestant, INLINE_BYTES, RING, Row, Single};
use crate::spin::SpinLock;

type Send = PlainSend<false>;
type Recv = PlainRecv<false>;
type Cq = PlainCq<false>;

// The calls that are counted, by name. Not inlined, as the library's are not.

macro_rules! call {
    ($plain:ident, $locked:ident, $queue:ident, $argument:ty, $method:ident, $result:ty) => {
        #[inline(never)]
        #[unsafe(no_mangle)]
        fn $plain(queue: &mut $queue, argument: $argument) -> $result {
            queue.$method(argument)
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        fn $locked(queue: &mut $queue, argument: $argument, lock: &SpinLock) -> $result {
            lock.with(|| queue.$method(argument))
        }
    };
}

call!(ours_post_one, locked_post_one, Send, &SendWr<'_>, post_one, Result<(), PostError>);
call!(ours_post_send, locked_post_send, Send, &[SendWr<'_>], post_send, Result<(), Refused>);
call!(ours_recv_one, locked_recv_one, Recv, &RecvWr<'_>, post_one, Result<(), PostError>);
call!(ours_poll, locked_poll, Cq, &mut [Wc], poll, usize);

/// Our queues on plain memory.
pub struct OurSide<const LOCKED: bool> {
    rig: Queues<false>,
    /// One for each queue, as the library has.
    send_lock: SpinLock,
    cq_lock: SpinLock,
    sent: u64,
    received: u64,
    wc: [Wc; BATCH],
}

const SGE: Sge = Sge {
    addr: 0x1000_0000,
    length: 64,
    lkey: 0x500,
};

impl<const LOCKED: bool> OurSide<LOCKED> {
    /// Rings of [`RING`] quanta, slots and entries.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rig: Queues::new(&Spec::default()),
            send_lock: SpinLock::new(),
            cq_lock: SpinLock::new(),
            sent: 0,
            received: 0,
            wc: [Wc::default(); BATCH],
        }
    }

    #[inline(always)]
    fn post_one(&mut self, wr: &SendWr<'_>) -> bool {
        if LOCKED {
            locked_post_one(&mut self.rig.send, black_box(wr), &self.send_lock).is_ok()
        } else {
            ours_post_one(&mut self.rig.send, black_box(wr)).is_ok()
        }
    }
}

impl<const LOCKED: bool> Default for OurSide<LOCKED> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const LOCKED: bool> Contestant for OurSide<LOCKED> {
    fn name(&self) -> &'static str {
        if LOCKED { "locked" } else { "ours" }
    }

    fn symbol(&self, row: Row) -> &'static str {
        let (plain, locked) = match row {
            Row::Post(_) => ("ours_post_one", "locked_post_one"),
            Row::Chain(_) => ("ours_post_send", "locked_post_send"),
            Row::Recv => ("ours_recv_one", "locked_recv_one"),
            Row::PollSend(_) | Row::PollRecv(_) | Row::Empty => ("ours_poll", "locked_poll"),
        };
        if LOCKED { locked } else { plain }
    }

    #[inline(never)]
    fn post(&mut self, what: Single) -> bool {
        let bytes = [7u8; INLINE_BYTES];
        let pieces = [&bytes[..]];
        let sges = [SGE];
        let op = match what {
            Single::Send => Op::Send {
                data: Data::Sges(&sges),
                imm: None,
            },
            Single::Write => Op::Write {
                data: Data::Sges(&sges),
                remote: Remote {
                    addr: 0x2000_0000,
                    rkey: 0x600,
                },
                imm: None,
            },
            Single::Inline => Op::Send {
                data: Data::Inline(&pieces),
                imm: None,
            },
        };
        let mut wr = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
        };
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            good &= self.post_one(&wr);
        }
        good
    }

    #[inline(never)]
    fn post_chains(&mut self, length: usize) -> bool {
        let sges = [SGE];
        let wr = SendWr {
            wr_id: 0,
            op: Op::Send {
                data: Data::Sges(&sges),
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        let mut list = [wr; BATCH];
        let mut wr_id = 0;
        let mut good = true;
        for _ in 0..BATCH / length {
            let list = list.get_mut(..length).unwrap_or_default();
            for wr in list.iter_mut() {
                wr.wr_id = wr_id;
                wr_id += 1;
            }
            good &= if LOCKED {
                locked_post_send(&mut self.rig.send, black_box(list), &self.send_lock).is_ok()
            } else {
                ours_post_send(&mut self.rig.send, black_box(list)).is_ok()
            };
        }
        good
    }

    #[inline(never)]
    fn post_recv(&mut self) -> bool {
        let sges = [SGE];
        let mut wr = RecvWr {
            wr_id: 0,
            sges: &sges,
        };
        let mut good = true;
        for wr_id in 0..BATCH as u64 {
            wr.wr_id = wr_id;
            good &= if LOCKED {
                locked_recv_one(&mut self.rig.recv, black_box(&wr), &self.send_lock).is_ok()
            } else {
                ours_recv_one(&mut self.rig.recv, black_box(&wr)).is_ok()
            };
        }
        good
    }

    fn complete_sends(&mut self, quanta: u64) {
        for _ in 0..BATCH {
            self.rig.complete_send(self.sent % RING);
            self.sent += quanta;
        }
    }

    fn complete_recvs(&mut self) {
        for _ in 0..BATCH {
            self.rig.complete_recv(self.received % RING);
            self.received += 1;
        }
    }

    #[inline(always)]
    fn poll_some(&mut self, at_once: usize) -> usize {
        let room = self.wc.get_mut(..at_once).unwrap_or_default();
        if LOCKED {
            locked_poll(&mut self.rig.cq, black_box(room), &self.cq_lock)
        } else {
            ours_poll(&mut self.rig.cq, black_box(room))
        }
    }

    fn poll_and_check(&mut self) -> bool {
        let id = self.rig.qp.id();
        let got = self.poll_some(BATCH);
        let mut completions = self.wc.iter().zip(0..);
        got == BATCH
            && completions.all(|(wc, wr_id)| {
                wc.wr_id == wr_id && wc.status == WcStatus::Success && wc.qp_num == id
            })
    }
}
