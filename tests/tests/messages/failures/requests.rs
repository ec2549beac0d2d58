//! What the tests share.

use e810::{Data, Op, Remote, SendFlags, SendWr, Sge, Wc, WcStatus};
use e810_datapath::error::{PostError, Refused};
use e810_sim::Sim;
use e810_tests::traffic::End;

pub(crate) const A: End = End { side: 0, qp: 0 };
pub(crate) const B: End = End { side: 1, qp: 0 };

pub(crate) fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}

/// A WRITE of `sges` to the peer.
pub(crate) fn write<'a>(wr_id: u64, sges: &'a [Sge], remote: Remote) -> SendWr<'a> {
    SendWr {
        wr_id,
        op: Op::Write {
            data: Data::Sges(sges),
            remote,
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    }
}

pub(crate) fn send(wr_id: u64, sges: &[Sge]) -> SendWr<'_> {
    SendWr {
        wr_id,
        op: Op::Send {
            data: Data::Sges(sges),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    }
}

pub(crate) fn refused(error: PostError) -> Result<(), Refused> {
    Err(Refused { posted: 0, error })
}

pub(crate) const FLUSH: WcStatus = WcStatus::WrFlushErr;

/// Status and `wr_id` of the completions of one queue.
pub(crate) fn of_queue(done: &[Wc], receives: bool) -> Vec<(u64, WcStatus)> {
    let is_receive = |wc: &&Wc| (wc.wr_id >= 100) == receives;
    done.iter()
        .filter(is_receive)
        .map(|wc| (wc.wr_id, wc.status))
        .collect()
}

/// `first` for the first id, a flush for the others.
pub(crate) fn flushed(first: WcStatus, ids: impl Iterator<Item = u64>) -> Vec<(u64, WcStatus)> {
    ids.enumerate()
        .map(|(n, id)| (id, if n == 0 { first } else { FLUSH }))
        .collect()
}

/// Whether a command was given up, because it was not answered in time.
pub(crate) fn is_open(error: &e810::Error) -> bool {
    matches!(
        error,
        e810::Error::Cqp(e810_cqp::Error::Wait(e810_hal::WaitError::Timeout { .. }))
    )
}
