//! Requests in neither side's form, and both translations.

use std::ffi::{c_int, c_uint};
use std::ptr;

use e810_datapath::wr::MwBind;
use e810_datapath::{Data, Op, Remote, SendFlags, SendWr, Sge, UdTarget};
use e810_verbs::abi::constants::{access, opcode, send_flag};
use e810_verbs::abi::make::MwBindInfo;
use e810_verbs::abi::objects::{Ah, Mr};
use e810_verbs::abi::work::{self, RdmaTarget};

/// What a request does. Only what the library posts on this generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    /// SEND with invalidate of this key.
    SendInv(u32),
    /// RDMA WRITE.
    Write(Remote),
    /// RDMA READ.
    Read(Remote),
    /// Local invalidate of this key.
    LocalInv(u32),
    /// Binding a window of type 1.
    Bind(MwBind),
    /// UD SEND to a QP with a Q_Key.
    Datagram {
        /// QP number.
        qpn: u32,
        /// Q_Key.
        qkey: u32,
    },
}

/// What a request carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Registered memory.
    Sges(Vec<Sge>),
    /// Bytes, in pieces.
    Inline(Vec<Vec<u8>>),
}

/// A send request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Comes back in the completion.
    pub wr_id: u64,
    pub kind: Kind,
    /// What it carries.
    pub payload: Payload,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Completes on success, too.
    pub signaled: bool,
    /// Waits for earlier reads.
    pub fence: bool,
    /// Wakes the peer.
    pub solicited: bool,
}

impl Request {
    /// Our form. `pieces` is room for the inline pieces.
    #[must_use]
    pub fn ours<'a>(&'a self, ah: u32, pieces: &'a mut Vec<&'a [u8]>) -> SendWr<'a> {
        let sges: &[Sge] = match &self.payload {
            Payload::Sges(sges) => sges,
            Payload::Inline(_) => &[],
        };
        let data = match &self.payload {
            Payload::Sges(sges) => Data::Sges(sges),
            Payload::Inline(bytes) => {
                pieces.extend(bytes.iter().map(Vec::as_slice));
                Data::Inline(pieces)
            }
        };
        let imm = self.imm;
        let op = match &self.kind {
            Kind::Send => Op::Send { data, imm },
            Kind::SendInv(rkey) => Op::SendInv { data, rkey: *rkey },
            Kind::Write(remote) => Op::Write {
                data,
                remote: *remote,
                imm,
            },
            Kind::Read(remote) => Op::Read {
                into: sges,
                remote: *remote,
            },
            Kind::LocalInv(stag) => Op::LocalInv { stag: *stag },
            Kind::Bind(bind) => Op::BindMw(bind),
            Kind::Datagram { qpn, qkey } => Op::UdSend {
                data,
                imm,
                to: UdTarget {
                    ah,
                    qpn: *qpn,
                    qkey: *qkey,
                },
            },
        };
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, self.signaled);
        flags.set(SendFlags::FENCE, self.fence);
        flags.set(SendFlags::SOLICITED, self.solicited);
        SendWr {
            wr_id: self.wr_id,
            op,
            flags,
        }
    }

    /// The library's form. `memory` is what it points to and must stay where it
    /// is until the post.
    #[must_use]
    pub fn theirs(&self, ah: *mut Ah, memory: &mut Memory) -> work::SendWr {
        let has_imm = self.imm.is_some();
        let opcode = match self.kind {
            Kind::Send | Kind::Datagram { .. } if has_imm => opcode::SEND_WITH_IMM,
            Kind::Send | Kind::Datagram { .. } => opcode::SEND,
            Kind::SendInv(_) => opcode::SEND_WITH_INV,
            Kind::Write(_) if has_imm => opcode::RDMA_WRITE_WITH_IMM,
            Kind::Write(_) => opcode::RDMA_WRITE,
            Kind::Read(_) => opcode::RDMA_READ,
            Kind::LocalInv(_) => opcode::LOCAL_INV,
            Kind::Bind(_) => opcode::BIND_MW,
        };
        let flag = |on: bool, flag| if on { flag } else { 0 };
        let send_flags = flag(self.signaled, send_flag::SIGNALED)
            | flag(self.fence, send_flag::FENCE)
            | flag(self.solicited, send_flag::SOLICITED)
            | flag(
                matches!(self.payload, Payload::Inline(_)),
                send_flag::INLINE,
            );
        memory.sges = match &self.payload {
            Payload::Sges(sges) => sges.iter().map(theirs).collect(),
            Payload::Inline(pieces) => pieces.iter().map(|piece| inline(piece)).collect(),
        };
        let mut wr = work::SendWr {
            wr_id: self.wr_id,
            sg_list: match memory.sges.as_mut_slice() {
                [] => ptr::null_mut(),
                sges => sges.as_mut_ptr(),
            },
            num_sge: memory.sges.len() as c_int,
            opcode,
            send_flags,
            imm_data: match self.kind {
                Kind::SendInv(key) | Kind::LocalInv(key) => key,
                _ => self.imm.unwrap_or(0).to_be(),
            },
            ..work::SendWr::default()
        };
        match self.kind {
            Kind::Write(remote) | Kind::Read(remote) => {
                wr.wr.rdma = RdmaTarget {
                    remote_addr: remote.addr,
                    rkey: remote.rkey,
                };
            }
            Kind::Datagram { qpn, qkey } => {
                wr.wr.ud = work::UdTarget {
                    ah,
                    remote_qpn: qpn,
                    remote_qkey: qkey,
                };
            }
            Kind::Bind(bind) => {
                // Nobody registered it: requests only name its key.
                let mr = memory.mr.insert(Box::new(Mr {
                    lkey: bind.mr_stag,
                    rkey: bind.mr_stag,
                    ..Mr::default()
                }));
                let right = |on, right: c_uint| if on { right } else { 0 };
                // The window itself this generation's posting does not look at.
                wr.bind_mw.rkey = bind.mw_stag;
                wr.bind_mw.bind_info = MwBindInfo {
                    mr: ptr::from_mut::<Mr>(mr),
                    addr: bind.addr,
                    length: bind.length,
                    mw_access_flags: right(bind.zero_based, access::ZERO_BASED)
                        | right(bind.remote_read, access::REMOTE_READ)
                        | right(bind.remote_write, access::REMOTE_WRITE),
                };
            }
            Kind::Send | Kind::SendInv(_) | Kind::LocalInv(_) => {}
        }
        wr
    }

    /// Bytes it carries.
    #[must_use]
    pub fn length(&self) -> u64 {
        match &self.payload {
            Payload::Sges(sges) => sges.iter().map(|sge| u64::from(sge.length)).sum(),
            Payload::Inline(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }
}

/// An SGE in the library's form.
pub(crate) const fn theirs(sge: &Sge) -> work::Sge {
    work::Sge {
        addr: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    }
}

/// Bytes that the library copies at the post.
fn inline(piece: &[u8]) -> work::Sge {
    work::Sge {
        addr: piece.as_ptr().expose_provenance() as u64,
        length: piece.len() as u32,
        lkey: 0,
    }
}

/// What a request in the library's form points to.
#[derive(Debug, Default)]
pub struct Memory {
    sges: Vec<work::Sge>,
    mr: Option<Box<Mr>>,
}
