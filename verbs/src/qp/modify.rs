//! Changing queue pairs.

use core::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use e810::{AttrMask, Mtu, QpAttr, QpState, Qpn};

use super::QpObject;
use crate::abi::objects::Qp;
use crate::abi::state::QpAttr as ProgramAttr;
use crate::ah::path;
use crate::control::{
    AttachMcast, BeginReset, FinishReset, Kind, ModifyQp, QueryQp, Refused, Reopen,
};
use crate::device::context::OpenContext;
use crate::mr::qp_rights;
use crate::panics::catch_panics;
use crate::rings::QPN;

/// The state with this number, which is the same in verbs and in the driver.
fn state(number: c_int) -> Result<QpState, c_int> {
    let found = QpState::ALL
        .into_iter()
        .find(|state| *state as c_int == number);
    found.ok_or(libc::EINVAL)
}

/// `enum ibv_mtu`.
fn mtu(number: c_int) -> Result<Mtu, c_int> {
    Ok(match number {
        1 => Mtu::Mtu256,
        2 => Mtu::Mtu512,
        3 => Mtu::Mtu1024,
        4 => Mtu::Mtu2048,
        5 => Mtu::Mtu4096,
        _ => return Err(libc::EINVAL),
    })
}

/// The attributes that a mask names, as the driver has them.
fn changes(open: &OpenContext, attr: &ProgramAttr, mask: c_int) -> Result<QpAttr, c_int> {
    // Bits without a meaning, path migration and rate limits are not supported.
    let mask = AttrMask::from_bits(mask as u32).ok_or(libc::EOPNOTSUPP)?;
    if mask.intersects(AttrMask::ALT_PATH | AttrMask::RATE_LIMIT) {
        return Err(libc::EOPNOTSUPP);
    }
    let has = |what| mask.contains(what);
    let given = |what, value: u8| has(what).then_some(value);
    let number = |what, value: u32| has(what).then_some(value);
    let mut changes = QpAttr {
        en_sqd_async_notify: has(AttrMask::EN_SQD_ASYNC_NOTIFY)
            .then_some(attr.en_sqd_async_notify != 0),
        qkey: number(AttrMask::QKEY, attr.qkey),
        pkey_index: has(AttrMask::PKEY_INDEX).then_some(attr.pkey_index),
        port: given(AttrMask::PORT, attr.port_num),
        rq_psn: number(AttrMask::RQ_PSN, attr.rq_psn & QPN),
        sq_psn: number(AttrMask::SQ_PSN, attr.sq_psn & QPN),
        max_dest_rd_atomic: given(AttrMask::MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic),
        max_rd_atomic: given(AttrMask::MAX_QP_RD_ATOMIC, attr.max_rd_atomic),
        min_rnr_timer: given(AttrMask::MIN_RNR_TIMER, attr.min_rnr_timer),
        timeout: given(AttrMask::TIMEOUT, attr.timeout),
        retry_cnt: given(AttrMask::RETRY_CNT, attr.retry_cnt),
        rnr_retry: given(AttrMask::RNR_RETRY, attr.rnr_retry),
        ..QpAttr::default()
    };
    if has(AttrMask::STATE) {
        changes.state = Some(state(attr.qp_state)?);
    }
    if has(AttrMask::CUR_STATE) {
        changes.cur_state = Some(state(attr.cur_qp_state)?);
    }
    if has(AttrMask::ACCESS_FLAGS) {
        changes.access = Some(qp_rights(attr.qp_access_flags));
    }
    if has(AttrMask::PATH_MTU) {
        changes.path_mtu = Some(mtu(attr.path_mtu)?);
    }
    if has(AttrMask::DEST_QPN) {
        changes.dest_qpn = Qpn::new(attr.dest_qp_num & QPN);
    }
    if has(AttrMask::AV) {
        changes.path = Some(path(open, &attr.ah_attr)?);
    }
    if has(AttrMask::PATH_MIG_STATE) {
        // Any state: there is no path to migrate to.
        changes.path_mig_state = Some(0);
    }
    if has(AttrMask::CAP) {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(changes)
}

/// How long a send queue may take to drain (data-path 8.3, row SQD), and how often that is checked.
const DRAIN: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(1);

/// The error number. A refusal by the device is EINVAL, as with Linux' irdma: the device may have
/// failed the queue pair a moment ago, and nobody knows it yet.
fn refusal(refused: &Refused) -> c_int {
    match (refused.kind, refused.errno) {
        (Kind::ByDevice, libc::EIO) => libc::EINVAL,
        (_, number) => number,
    }
}

/// `ibv_modify_qp`: 0, or the error.
///
/// # Safety
/// `qp` is a queue pair, and `attr` can be read.
pub unsafe extern "C" fn modify_qp(qp: *mut Qp, attr: *mut ProgramAttr, mask: c_int) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { QpObject::of(qp) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { object.open() };
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        let changed = changes(open, &asked, mask).and_then(|changes| {
            // SAFETY: the caller's: completion queues outlive their queue pairs.
            unsafe { apply(object, open, changes) }
        });
        let state = match changed {
            Ok(state) => state,
            Err(number) => return number,
        };
        if mask as u32 & AttrMask::AV.bits() != 0 {
            *object.address() = asked.ah_attr;
        }
        if let Some(state) = state {
            object.set_state(state as c_int);
        }
        0
    })
}

/// Changes a queue pair; returns its new state, if one was asked for.
///
/// # Safety
/// Its completion queues exist.
unsafe fn apply(
    object: &QpObject,
    open: &OpenContext,
    changes: QpAttr,
) -> Result<Option<QpState>, c_int> {
    let control = open.control();
    let number = object.number;
    let wrong = |refused| refusal(&refused);
    let modify = ModifyQp {
        number,
        attr: Box::new(changes),
    };
    if changes.state != Some(QpState::Reset) {
        let mut changed = control.ask(modify.clone());
        // The send queue drains: wait for it, as kernel drivers do.
        let since = Instant::now();
        while let Err(refused) = &changed
            && refusal(refused) == libc::EBUSY
            && since.elapsed() < DRAIN
        {
            thread::sleep(INTERVAL);
            changed = control.ask(modify.clone());
        }
        changed.map_err(wrong)?;
        return Ok(changes.state);
    }
    let now = control
        .ask(QueryQp {
            number,
            mask: AttrMask::STATE,
        })
        .map_err(wrong)?;
    if now.attr.state == Some(QpState::Reset) {
        control.ask(modify.clone()).map_err(wrong)?;
        return Ok(changes.state);
    }
    // Nobody posts or polls until the device has it again. A thread that polls with the extended
    // interface may post meanwhile, and one that posts with that interface may poll. So neither
    // queue is held while the other is waited for.
    let rings = object.rings().ok_or(libc::EIO)?;
    let (mut cqs, mut queues) = loop {
        // SAFETY: the caller's.
        let cqs = unsafe { object.cq_rings() };
        let cqs: Vec<_> = cqs.map(|rings| rings.lock()).collect();
        if let Some(queues) = rings.try_lock() {
            break (cqs, queues);
        }
        drop(cqs);
        thread::yield_now();
    };
    control
        .ask(BeginReset {
            number,
            attr: modify.attr,
        })
        .map_err(wrong)?;
    for cq in &mut cqs {
        cq.forget_gone();
    }
    let made_again = control
        .ask(Reopen { number })
        .map_err(wrong)
        .and_then(|reopened| queues.restart(&reopened).map_err(|error| error.errno()))
        .and_then(|()| control.ask(FinishReset { number }).map_err(wrong));
    if let Err(errno) = made_again {
        // The device has removed it from its groups, and it can only be destroyed.
        object.groups().clear();
        return Err(errno);
    }
    object.set_state(QpState::Reset as c_int);
    // The device has removed it from its groups; as with the kernel, it stays a member until it is
    // detached. Where it cannot join again, the program is told: it would wait for messages.
    let mut joined = Ok(changes.state);
    object.groups().retain(|group| {
        let attached = control.ask(AttachMcast {
            qp: number,
            group: *group,
        });
        let refused = attached.err().map(|refused| refusal(&refused));
        if let Some(errno) = refused {
            joined = Err(errno);
        }
        refused.is_none()
    });
    joined
}
