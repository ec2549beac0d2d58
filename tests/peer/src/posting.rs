//! Requests posted, and completions polled, through the library.

// UNSAFETY: calls C with pointers to its own structures.

use std::ffi::c_int;
use std::ptr;

use e810_datapath::Sge;
use e810_verbs::abi::objects::Ah;
use e810_verbs::abi::work::{self, RecvWr, SendWr, Wc};

use crate::opened::{Calls, LibraryCq, LibraryQp};
use crate::request::{Memory, Request, theirs};

impl LibraryQp {
    /// Posts `list` in one call; datagrams go by `ah`. Gives the library's code,
    /// and how many requests it took.
    pub fn post_list(&self, calls: &Calls, ah: *mut Ah, list: &[Request]) -> (c_int, usize) {
        let mut memory: Vec<Memory> = list.iter().map(|_| Memory::default()).collect();
        let mut wrs: Vec<SendWr> = list
            .iter()
            .zip(&mut memory)
            .map(|(request, memory)| request.theirs(ah, memory))
            .collect();
        let mut next = ptr::null_mut();
        for wr in wrs.iter_mut().rev() {
            wr.next = next;
            next = ptr::from_mut(wr);
        }
        let mut bad = ptr::null_mut();
        // SAFETY: a QP that lives; a list that ends with null and whose SGEs and
        // bytes are in `memory` and `list`.
        let code = unsafe { (calls.post_send)(self.as_ptr(), next, &mut bad) };
        let refused = wrs.iter().position(|wr| ptr::eq(wr, bad));
        (code, refused.unwrap_or(wrs.len()))
    }

    /// Posts a receive; the library's code.
    pub fn post_recv(&self, calls: &Calls, wr_id: u64, sges: &[Sge]) -> c_int {
        let mut sges: Vec<work::Sge> = sges.iter().map(theirs).collect();
        let mut wr = RecvWr {
            wr_id,
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
            ..RecvWr::default()
        };
        let mut bad = ptr::null_mut();
        // SAFETY: a QP that lives; a list of one whose SGEs are in `sges`.
        unsafe { (calls.post_recv)(self.as_ptr(), &mut wr, &mut bad) }
    }
}

impl LibraryCq {
    /// Polls for up to eight completions.
    ///
    /// # Errors
    /// The library's code.
    pub fn poll(&self, calls: &Calls) -> Result<Vec<Wc>, c_int> {
        let mut wc = [Wc::default(); 8];
        // SAFETY: a CQ that lives, room for eight.
        let got = unsafe { (calls.poll_cq)(self.as_ptr(), 8, wc.as_mut_ptr()) };
        let count = usize::try_from(got).map_err(|_| got)?;
        Ok(wc.into_iter().take(count).collect())
    }
}
