//! Requests that cannot be posted.

use std::ptr;

use e810_verbs::abi::work::{SendWr, Sge};

use crate::harness::objects::{flag, opcode};
use crate::harness::{ALONE, Connection, Ctx};

#[test]
fn inline_data_at_no_address_is_refused_before_it_is_read() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    for length in [1, 16, 4096] {
        let nowhere = Sge {
            addr: 0,
            length,
            lkey: 0,
        };
        let flags = flag::SIGNALED | flag::INLINE;
        assert_eq!(connection.a.send_of(1, nowhere, flags), libc::EINVAL);
    }
    // The queue is as it was.
    connection.send(2, 0);
    assert_eq!(connection.cqs[0].wait(1)[0].wr_id, 2);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_program_need_not_ask_which_request_was_refused() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let mut wrong = SendWr {
        opcode: opcode::BIND_MW,
        ..SendWr::default()
    };
    // SAFETY: it is there; the function is its context's, and takes one request.
    let refused = unsafe {
        let post = (*(*connection.a.0).context).ops.post_send.unwrap();
        post(connection.a.0, &raw mut wrong, ptr::null_mut())
    };
    assert_eq!(refused, libc::EINVAL);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}
