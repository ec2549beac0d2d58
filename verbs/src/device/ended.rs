//! What a context becomes when its function is gone: its functions for posting and polling are
//! replaced. So the data path of a function that is there asks nothing.

use core::mem;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::context::{Object, OpenContext};
use crate::cq::CqObject;
use crate::qp::QpObject;
use crate::rings::EndedOps;

/// Replaces a function that programs call meanwhile, on any thread.
///
/// # Safety
/// `place` exists, and is written only like this after the program has got it.
pub(crate) unsafe fn replace<F: Copy>(place: *mut Option<F>, with: F) {
    const {
        assert!(size_of::<Option<F>>() == size_of::<*mut ()>());
        assert!(size_of::<F>() == size_of::<*mut ()>());
    };
    // SAFETY: a pointer to a function, as wide as any.
    let with = unsafe { mem::transmute_copy::<F, *mut ()>(&with) };
    // SAFETY: the caller's; it is aligned, as it is a field.
    unsafe { AtomicPtr::from_ptr(place.cast()) }.store(with, Ordering::Release);
}

impl OpenContext {
    fn ended(&self) -> EndedOps {
        self.control().data_path().ended
    }

    /// From now on posts are EIO, and polls that find nothing.
    pub(crate) fn end(&self) {
        let ended = self.ended();
        // SAFETY: fields of this context.
        unsafe {
            let ops = &raw mut (*self.shown()).ops;
            replace(&raw mut (*ops).post_send, ended.post_send);
            replace(&raw mut (*ops).post_recv, ended.post_recv);
            replace(&raw mut (*ops).poll_cq, ended.poll_cq);
        }
        for object in &*self.live() {
            // SAFETY: objects leave the list before they are freed.
            unsafe { self.end_of(object) };
        }
    }

    /// The same for the functions that an object has itself, those of the extended interface.
    ///
    /// # Safety
    /// The object exists.
    pub(super) unsafe fn end_of(&self, object: &Object) {
        // SAFETY: the caller's.
        unsafe {
            match *object {
                Object::Qp(qp) => QpObject::of(qp).end(&self.ended()),
                Object::Cq(cq) => CqObject::of(cq).end(&self.ended()),
                _ => {}
            }
        }
    }
}
