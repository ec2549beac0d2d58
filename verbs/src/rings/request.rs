//! Converts a program's requests to the driver's. Nothing is copied: what a request names stays
//! where the program has it, except for a list of SGEs that is not aligned.

use core::array;
use core::ffi::{c_int, c_uint};
use core::mem::MaybeUninit;
use core::slice;

use e810::{Data, OneSge, Op, Remote, SendFlags, SendWr, Sge, UdTarget};

use crate::abi::constants::{opcode, send_flag};
use crate::abi::work::{SendWr as ProgramSendWr, Sge as ProgramSge};

/// The most SGEs of any request (data-path 1.6).
pub(crate) const MAX_SGES: usize = 13;

// A list of the program's SGEs can be read as one of the driver's, if it is aligned.
const _: () = {
    assert!(size_of::<Sge>() == size_of::<ProgramSge>());
    assert!(core::mem::offset_of!(Sge, addr) == core::mem::offset_of!(ProgramSge, addr));
    assert!(core::mem::offset_of!(Sge, length) == core::mem::offset_of!(ProgramSge, length));
    assert!(core::mem::offset_of!(Sge, lkey) == core::mem::offset_of!(ProgramSge, lkey));
};

/// Room for SGEs that are not aligned.
pub(super) type Aligned = MaybeUninit<[Sge; MAX_SGES]>;

/// The SGEs of a request; EINVAL for more than any request can have, or for a null list with a
/// count.
///
/// # Safety
/// `count` SGEs can be read at `list` as long as the slice is used, if it is not null.
#[inline(always)]
pub(super) unsafe fn sges(
    list: *const ProgramSge,
    count: c_int,
    aligned: &mut Aligned,
) -> Result<&[Sge], c_int> {
    let count = count as c_uint as usize;
    if count > MAX_SGES || (list.is_null() && count != 0) {
        return Err(libc::EINVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    let mut list = list.cast::<Sge>();
    if !list.is_aligned() {
        let own = aligned.as_mut_ptr().cast::<Sge>();
        // SAFETY: the caller's; there is room for as many.
        unsafe { copy_bytes(list, own, count) };
        list = own;
    }
    // SAFETY: the caller's; both structures are the same, see above.
    Ok(unsafe { slice::from_raw_parts(list, count) })
}

/// # Safety
/// `count` SGEs can be read at `from`, and written at `to`; no alignment is needed.
#[cold]
unsafe fn copy_bytes(from: *const Sge, to: *mut Sge, count: usize) {
    let bytes = count * size_of::<Sge>();
    // SAFETY: the caller's.
    unsafe {
        from.cast::<u8>()
            .copy_to_nonoverlapping(to.cast::<u8>(), bytes);
    }
}

/// The only SGE of a request; `None` if it is nowhere.
///
/// # Safety
/// It can be read at `list`, if that is not null.
#[inline(always)]
pub(super) unsafe fn only(list: *const ProgramSge) -> Option<Sge> {
    // SAFETY: the caller's.
    let ProgramSge { addr, length, lkey } = *unsafe { list.as_ref() }?;
    Some(Sge { addr, length, lkey })
}

/// Flags under the driver's numbers; flags that mean nothing here are dropped, as libirdma does.
#[inline(always)]
pub(crate) const fn flags(program: c_uint) -> SendFlags {
    // FENCE is the same; SIGNALED is one bit further, SOLICITED two.
    let bits = program & send_flag::FENCE
        | (program & send_flag::SIGNALED) << 1
        | (program & send_flag::SOLICITED) << 2;
    SendFlags::from_bits_retain(bits as u8)
}

const _: () = {
    assert!(flags(send_flag::FENCE).bits() == SendFlags::FENCE.bits());
    assert!(flags(send_flag::SIGNALED).bits() == SendFlags::SIGNALED.bits());
    assert!(flags(send_flag::SOLICITED).bits() == SendFlags::SOLICITED.bits());
};

/// The SGE and the operation of a request with one SGE and no inline data; `None` for any other.
///
/// # Safety
/// What `request` names can be read.
#[inline(always)]
pub(super) unsafe fn one_sge(request: &ProgramSendWr) -> Option<(Sge, OneSge)> {
    if request.num_sge != 1 || request.send_flags & send_flag::INLINE != 0 {
        return None;
    }
    let what = match request.opcode {
        opcode::SEND => OneSge::Send,
        opcode::RDMA_WRITE => OneSge::Write(remote(request)),
        opcode::RDMA_READ => OneSge::Read(remote(request)),
        _ => return None,
    };
    // SAFETY: the caller's.
    let sge = unsafe { only(request.sg_list) }?;
    Some((sge, what))
}

/// The inline data and the operation of a request with one piece of inline data; `None` for any
/// other.
///
/// # Safety
/// What `request` names can be read.
#[inline(always)]
pub(super) unsafe fn one_piece(request: &ProgramSendWr) -> Option<(&[u8], OneSge)> {
    if request.num_sge != 1 || request.send_flags & send_flag::INLINE == 0 {
        return None;
    }
    let what = match request.opcode {
        opcode::SEND => OneSge::Send,
        opcode::RDMA_WRITE => OneSge::Write(remote(request)),
        _ => return None,
    };
    // SAFETY: the caller's.
    let sge = unsafe { only(request.sg_list) }?;
    if sge.length == 0 || sge.addr == 0 {
        return None;
    }
    let start = sge.addr as usize as *const u8;
    // SAFETY: the caller's.
    Some((
        unsafe { slice::from_raw_parts(start, sge.length as usize) },
        what,
    ))
}

/// The peer's memory that a request names.
#[inline(always)]
fn remote(request: &ProgramSendWr) -> Remote {
    // SAFETY: numbers, valid with any content.
    let rdma = unsafe { request.wr.rdma };
    Remote {
        addr: rdma.remote_addr,
        rkey: rdma.rkey,
    }
}

/// Bits of a queue pair's number, and of a PSN: WQEs and contexts have no room for more, and
/// libirdma and irdma drop the rest (`irdma_sc_qp_setctx_roce`).
pub(crate) const QPN: u32 = 0xFF_FFFF;

/// Takes a converted request.
pub(super) type Post<'a> = dyn FnMut(&SendWr<'_>) -> Result<(), c_int> + 'a;

/// Converts a program's request and posts it. EOPNOTSUPP for one that the device does not support;
/// EINVAL for an invalid one.
///
/// # Safety
/// What `request` names can be read: its SGEs, its address handle, and with `IBV_SEND_INLINE` its
/// data.
#[inline(always)]
pub(super) unsafe fn with_send(
    request: &ProgramSendWr,
    is_datagram: bool,
    post: &mut impl FnMut(&SendWr<'_>) -> Result<(), c_int>,
) -> Result<(), c_int> {
    let mut aligned = Aligned::uninit();
    // SAFETY: the caller's.
    let sges = unsafe { sges(request.sg_list, request.num_sge, &mut aligned) }?;
    if request.send_flags & send_flag::INLINE != 0 && request.opcode != opcode::RDMA_READ {
        // SAFETY: the caller's.
        return unsafe { with_inline(request, is_datagram, sges, post) };
    }
    // SAFETY: the caller's.
    let op = unsafe { op(request, is_datagram, Data::Sges(sges), sges) }?;
    post(&SendWr {
        wr_id: request.wr_id,
        op,
        flags: flags(request.send_flags),
    })
}

/// The same with `IBV_SEND_INLINE`.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn with_inline(
    request: &ProgramSendWr,
    is_datagram: bool,
    sges: &[Sge],
    post: &mut Post<'_>,
) -> Result<(), c_int> {
    // Nothing is at address 0.
    if sges.iter().any(|sge| sge.length != 0 && sge.addr == 0) {
        return Err(libc::EINVAL);
    }
    let piece = |sge: &Sge| -> &[u8] {
        match sge.length {
            0 => &[],
            // SAFETY: the caller's.
            length => unsafe {
                slice::from_raw_parts(sge.addr as usize as *const u8, length as usize)
            },
        }
    };
    let mut post = |pieces: &[&[u8]]| {
        // SAFETY: the caller's.
        let op = unsafe { op(request, is_datagram, Data::Inline(pieces), sges) }?;
        post(&SendWr {
            wr_id: request.wr_id,
            op,
            flags: flags(request.send_flags),
        })
    };
    match sges {
        [] => post(&[]),
        [sge] => post(&[piece(sge)]),
        _ => {
            let pieces: [&[u8]; MAX_SGES] =
                array::from_fn(|index| sges.get(index).map_or(&[][..], piece));
            post(pieces.get(..sges.len()).unwrap_or_default())
        }
    }
}

/// The operation of a request.
///
/// # Safety
/// The address handle that it names can be read.
#[inline(always)]
unsafe fn op<'a>(
    request: &ProgramSendWr,
    is_datagram: bool,
    data: Data<'a>,
    sges: &'a [Sge],
) -> Result<Op<'a>, c_int> {
    let imm = || Some(u32::from_be(request.imm_data));
    Ok(match request.opcode {
        opcode::SEND if !is_datagram => Op::Send { data, imm: None },
        opcode::RDMA_WRITE => Op::Write {
            data,
            remote: remote(request),
            imm: None,
        },
        opcode::RDMA_READ => Op::Read {
            into: sges,
            remote: remote(request),
        },
        opcode::SEND => Op::UdSend {
            data,
            imm: None,
            // SAFETY: the caller's.
            to: unsafe { target(request) }?,
        },
        opcode::SEND_WITH_IMM if !is_datagram => Op::Send { data, imm: imm() },
        opcode::SEND_WITH_IMM => Op::UdSend {
            data,
            imm: imm(),
            // SAFETY: the caller's.
            to: unsafe { target(request) }?,
        },
        opcode::RDMA_WRITE_WITH_IMM => Op::Write {
            data,
            remote: remote(request),
            imm: imm(),
        },
        opcode::SEND_WITH_INV => Op::SendInv {
            data,
            rkey: request.imm_data,
        },
        opcode::LOCAL_INV => Op::LocalInv {
            stag: request.imm_data,
        },
        // As libirdma does, for atomic operations and for unknown opcodes.
        _ => return Err(libc::EINVAL),
    })
}

/// The destination of a datagram.
///
/// # Safety
/// Its address handle can be read, if it names one.
#[inline(always)]
unsafe fn target(request: &ProgramSendWr) -> Result<UdTarget, c_int> {
    // SAFETY: numbers and a pointer, valid with any content.
    let ud = unsafe { request.wr.ud };
    // SAFETY: the caller's.
    let ah = unsafe { ud.ah.as_ref() }.ok_or(libc::EINVAL)?;
    Ok(UdTarget {
        ah: ah.handle,
        qpn: ud.remote_qpn & QPN,
        qkey: ud.remote_qkey,
    })
}
