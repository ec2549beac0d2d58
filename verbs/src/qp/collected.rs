//! Requests of the extended interface (`ibv_wr_*`), which are collected and then posted together.
//!
//! They are not written into the ring at once: the device would go on to any valid request there,
//! and `ibv_wr_abort` withdraws all of them.

use core::ffi::{c_int, c_uint};
use core::slice;

use e810::{Data, Op, Remote, SendWr, Sge, UdTarget};

use crate::abi::constants::send_flag;
use crate::abi::work::{DataBuf, Sge as ProgramSge};
use crate::rings::{MAX_SGES, send_flags};

/// The most inline bytes of any request (data-path 1.8).
const MAX_INLINE: usize = 101;

/// The operation of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Send { imm: Option<u32> },
    SendInv { rkey: u32 },
    Write { remote: Remote, imm: Option<u32> },
    Read { remote: Remote },
    LocalInv { stag: u32 },
}

/// A request, whose data is in the arena of the list.
#[derive(Clone, Copy, Debug)]
struct Request {
    wr_id: u64,
    flags: c_uint,
    verb: Verb,
    /// Where its SGEs or its inline bytes begin, and how many they are.
    data: Extent,
    to: Option<UdTarget>,
}

/// Data of a request.
#[derive(Clone, Copy, Debug)]
enum Extent {
    Sges(usize, usize),
    Inline(usize, usize),
}

/// The requests between `ibv_wr_start` and `ibv_wr_complete`. The memory is reused from list to
/// list.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    requests: Vec<Request>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    /// The first error.
    error: Option<c_int>,
}

impl Collected {
    /// Forgets what was collected.
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.bytes.clear();
        self.error = None;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The first error.
    pub(crate) const fn error(&self) -> Option<c_int> {
        self.error
    }

    pub(super) fn fail(&mut self, number: c_int) {
        self.error = self.error.or(Some(number));
    }

    /// Begins a request; its data and address are set next.
    pub(super) fn begin(&mut self, wr_id: u64, flags: c_uint, verb: Verb) {
        self.requests.push(Request {
            wr_id,
            // In this interface, data is inline if it was set so.
            flags: flags & !send_flag::INLINE,
            verb,
            data: Extent::Sges(0, 0),
            to: None,
        });
    }

    fn last(&mut self) -> Option<&mut Request> {
        if self.requests.is_empty() {
            // The data belongs to no request.
            self.fail(libc::EINVAL);
        }
        self.requests.last_mut()
    }

    pub(super) fn set_target(&mut self, to: UdTarget) {
        if let Some(request) = self.last() {
            request.to = Some(to);
        }
    }

    pub(super) fn set_sges(&mut self, sges: &[ProgramSge]) {
        let first = self.sges.len();
        if sges.len() > MAX_SGES {
            return self.fail(libc::EINVAL);
        }
        self.sges.extend(sges.iter().map(|sge| Sge {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey,
        }));
        if let Some(request) = self.last() {
            request.data = Extent::Sges(first, sges.len());
        }
    }

    /// Copies inline data: the program may use its memory for something else at once.
    ///
    /// # Safety
    /// It can be read.
    pub(super) unsafe fn set_inline(&mut self, pieces: &[DataBuf]) {
        let first = self.bytes.len();
        for piece in pieces {
            if piece.length == 0 {
                continue;
            }
            if piece.length > MAX_INLINE || piece.addr.is_null() {
                return self.fail(libc::EINVAL);
            }
            // SAFETY: the caller's.
            let bytes = unsafe { slice::from_raw_parts(piece.addr.cast::<u8>(), piece.length) };
            self.bytes.extend_from_slice(bytes);
        }
        let length = self.bytes.len() - first;
        if let Some(request) = self.last() {
            request.data = Extent::Inline(first, length);
        }
    }

    /// Passes each request to `post`, until one is refused.
    ///
    /// # Errors
    /// The error of the refused request.
    pub(crate) fn each(
        &self,
        is_datagram: bool,
        post: &mut dyn FnMut(&SendWr<'_>) -> Result<(), c_int>,
    ) -> Result<(), c_int> {
        for request in &self.requests {
            let mut post = |data: Data<'_>, sges: &[Sge]| {
                let wr = SendWr {
                    wr_id: request.wr_id,
                    op: op(request, is_datagram, data, sges)?,
                    flags: send_flags(request.flags),
                };
                post(&wr)
            };
            match request.data {
                Extent::Sges(first, count) => {
                    let sges = self.sges.get(first..).and_then(|sges| sges.get(..count));
                    let sges = sges.unwrap_or_default();
                    post(Data::Sges(sges), sges)?;
                }
                Extent::Inline(first, count) => {
                    let bytes = self.bytes.get(first..).and_then(|bytes| bytes.get(..count));
                    post(Data::Inline(&[bytes.unwrap_or_default()]), &[])?;
                }
            }
        }
        Ok(())
    }
}

fn op<'a>(
    request: &Request,
    is_datagram: bool,
    data: Data<'a>,
    sges: &'a [Sge],
) -> Result<Op<'a>, c_int> {
    Ok(match request.verb {
        Verb::Send { imm } if is_datagram => Op::UdSend {
            data,
            imm,
            to: request.to.ok_or(libc::EINVAL)?,
        },
        Verb::Send { imm } => Op::Send { data, imm },
        Verb::SendInv { rkey } => Op::SendInv { data, rkey },
        Verb::Write { remote, imm } => Op::Write { data, remote, imm },
        Verb::Read { remote } => Op::Read { into: sges, remote },
        Verb::LocalInv { stag } => Op::LocalInv { stag },
    })
}
