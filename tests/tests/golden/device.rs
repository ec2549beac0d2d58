//! The same vectors before the simulated device: what other drivers wrote must
//! mean to it what they were asked for.
//!
//! The simulator decodes with its own code, from the same reference as the
//! driver. Here its decoders (`e810_sim::wqe`) read the recorded bytes, and what
//! comes out is compared field by field with the recorded request. Bytes that
//! the recorder left alone are filled with a pattern first: a device must not
//! look at them. Commands of the control QP and contexts are read in the crate
//! `e810-sim` itself (`pe/cqp/tests`), where their decoders are.

mod completion;
mod kernel;
mod receive;
mod send;
mod verbs;

use e810_sim::wqe::{Fragment, Fragments};
use serde_json::Value;

use crate::hex;
use crate::report::{Outcome, number};
use crate::sq::input::small;

/// What the memory holds where nobody wrote: every bit pattern that could be
/// taken for something.
const UNTOUCHED: u8 = 0xA5;

/// The words of a recorded entry as they lie in memory that held something else.
fn words(entry: &Value) -> Vec<u64> {
    let mut bytes = hex::bytes(entry["wqe_hex"].as_str().unwrap());
    if let Some(mask) = entry["wqe_mask"].as_str() {
        for (byte, written) in bytes.iter_mut().zip(hex::bytes(mask)) {
            if written == 0 {
                *byte = UNTOUCHED;
            }
        }
    }
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// `sg_list` as the device sees it: 31 bits of length, and elements of no bytes
/// name no memory.
fn fragments(list: &Value) -> Vec<Fragment> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .map(|sge| Fragment {
            addr: number(sge, "addr"),
            len: small::<u32>(sge, "length") & 0x7FFF_FFFF,
            stag: small(sge, "lkey"),
        })
        .filter(|fragment| fragment.len != 0)
        .collect()
}

fn same_fragments(got: &Fragments, expected: &[Fragment]) -> Outcome {
    Outcome::same("fragments", got.as_slice(), expected)
}
