//! Converts completions to verbs' format and writes them into the program's memory.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use e810::{Wc, WcFlags};

use crate::abi::work::Wc as ProgramWc;

/// A place for a completion, in the program's memory, which need not be aligned.
#[derive(Debug)]
#[repr(C, packed)]
pub(super) struct Place(MaybeUninit<ProgramWc>);

/// Flags of a completion that have the same numbers in verbs.
const FLAGS: WcFlags = WcFlags::GRH
    .union(WcFlags::WITH_IMM)
    .union(WcFlags::WITH_INV);
/// Bits that programs which know mlx5 expect in `sl` of a datagram: which header its first 40 bytes
/// have, and that it came over UDP (verbs-abi 4.6).
const SL_IPV6: u8 = 8 | 1;
const SL_IPV4: u8 = 8 | 2;

impl From<Wc> for Place {
    #[inline(always)]
    fn from(wc: Wc) -> Self {
        Self(MaybeUninit::new(wc.into()))
    }
}

impl From<Wc> for ProgramWc {
    #[inline(always)]
    fn from(wc: Wc) -> Self {
        // Immediate data is big-endian on the wire and for programs; a key is a number.
        let imm_data = if wc.flags.contains(WcFlags::WITH_IMM) {
            wc.imm.to_be()
        } else {
            wc.imm
        };
        let sl = if !wc.flags.contains(WcFlags::GRH) {
            0
        } else if wc.flags.contains(WcFlags::IPV4) {
            SL_IPV4
        } else {
            SL_IPV6
        };
        Self {
            wr_id: wc.wr_id,
            status: c_int::from(wc.status as u8),
            opcode: c_int::from(wc.opcode as u8),
            vendor_err: wc.vendor_err,
            byte_len: wc.byte_len,
            imm_data,
            qp_num: wc.qp_num,
            src_qp: wc.src_qp,
            wc_flags: wc.flags.intersection(FLAGS).bits().into(),
            pkey_index: 0,
            slid: 0,
            sl,
            dlid_path_bits: 0,
        }
    }
}
