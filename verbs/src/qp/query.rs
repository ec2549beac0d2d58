//! Querying queue pairs.

use core::ffi::c_int;
use core::mem;

use e810::{AccessFlags, AttrMask, Mtu, QueriedQp};

use super::QpObject;
use super::create::cap;
use crate::abi::make::QpInitAttr;
use crate::abi::objects::Qp;
use crate::abi::state::{AhAttr, QpAttr};
use crate::ah;
use crate::control::QueryQp;
use crate::panics::catch_panics;

/// `ibv_query_qp`: 0, or the error. All attributes that mean something are returned, whatever
/// `mask` says: it is a hint (`ibv_query_qp(3)`).
///
/// # Safety
/// `qp` is a queue pair, and both others can be written.
pub unsafe extern "C" fn query_qp(
    qp: *mut Qp,
    attr: *mut QpAttr,
    _mask: c_int,
    init: *mut QpInitAttr,
) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { QpObject::of(qp) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { object.open() };
        let queried = match open.control().ask(QueryQp {
            number: object.number,
            mask: AttrMask::all(),
        }) {
            Ok(queried) => queried,
            Err(refused) => return refused.errno,
        };
        let current = attributes(&queried, &object.address());
        object.set_state(current.qp_state);
        let shown = object.shown();
        let made = QpInitAttr {
            qp_context: shown.qp_context,
            send_cq: shown.send_cq,
            recv_cq: shown.recv_cq,
            srq: shown.srq,
            cap: cap(&queried.init.caps),
            qp_type: shown.qp_type,
            sq_sig_all: object.signals_all.into(),
        };
        // SAFETY: the caller's.
        unsafe {
            attr.write(current);
            init.write(made);
        }
        0
    })
}

/// Attributes as verbs has them; 0 for those that mean nothing in its state.
fn attributes(queried: &QueriedQp, address: &AhAttr) -> QpAttr {
    let known = &queried.attr;
    // SAFETY: numbers.
    let nothing: QpAttr = unsafe { mem::zeroed() };
    let state = |state: Option<e810::QpState>| state.map_or(0, |state| state as c_int);
    QpAttr {
        qp_state: state(known.state),
        cur_qp_state: state(known.cur_state),
        path_mtu: known.path_mtu.map_or(0, mtu),
        qkey: known.qkey.unwrap_or(0),
        rq_psn: known.rq_psn.unwrap_or(0),
        sq_psn: known.sq_psn.unwrap_or(0),
        dest_qp_num: known.dest_qpn.map_or(0, e810::Qpn::get),
        qp_access_flags: known.access.map_or(0, access),
        cap: cap(&queried.init.caps),
        ah_attr: known.path.map_or(nothing.ah_attr, |_| ah::queried(address)),
        pkey_index: known.pkey_index.unwrap_or(0),
        en_sqd_async_notify: known.en_sqd_async_notify.unwrap_or(false).into(),
        sq_draining: queried.sq_draining.into(),
        max_rd_atomic: known.max_rd_atomic.unwrap_or(0),
        max_dest_rd_atomic: known.max_dest_rd_atomic.unwrap_or(0),
        min_rnr_timer: known.min_rnr_timer.unwrap_or(0),
        port_num: known.port.unwrap_or(0),
        timeout: known.timeout.unwrap_or(0),
        retry_cnt: known.retry_cnt.unwrap_or(0),
        rnr_retry: known.rnr_retry.unwrap_or(0),
        ..nothing
    }
}

/// `enum ibv_mtu`.
const fn mtu(mtu: Mtu) -> c_int {
    match mtu {
        Mtu::Mtu256 => 1,
        Mtu::Mtu512 => 2,
        Mtu::Mtu1024 => 3,
        Mtu::Mtu2048 => 4,
        Mtu::Mtu4096 => 5,
    }
}

/// A queue pair's rights as `enum ibv_access_flags`.
fn access(rights: AccessFlags) -> u32 {
    let flag = |right, flag: u32| if rights.contains(right) { flag } else { 0 };
    flag(AccessFlags::LOCAL_WRITE, 1)
        | flag(AccessFlags::REMOTE_WRITE, 1 << 1)
        | flag(AccessFlags::REMOTE_READ, 1 << 2)
}

/// `ibv_query_qp_data_in_order`: no promise about the order in which bytes arrive.
pub extern "C" fn query_qp_data_in_order(_: *mut Qp, _: c_int, _: u32) -> c_int {
    0
}
