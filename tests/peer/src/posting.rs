//! Lists of requests, posted through the library.

// UNSAFETY: calls C with pointers to its own structures.

use std::ptr;

use crate::abi::{Ah, CSendWr};
use crate::opened::{Calls, LibraryQp};
use crate::request::{Memory, Request};

impl LibraryQp {
    /// Posts `list` in one call; datagrams go by `ah`. Gives the library's code,
    /// and how many requests it took.
    pub fn post_list(&self, calls: &Calls, ah: *mut Ah, list: &[Request]) -> (i32, usize) {
        let mut memory: Vec<Memory> = list.iter().map(|_| Memory::default()).collect();
        let mut wrs: Vec<CSendWr> = list
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
}
