//! Creating and destroying queue pairs.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::{mem, ptr};
use std::sync::{Arc, Mutex};

use e810::{QpCaps, QpType};

use super::{LATER, QpObject};
use crate::abi::constants::qp_type;
use crate::abi::extended::QpEx;
use crate::abi::make::{QpCap, QpInitAttr};
use crate::abi::objects::{Pd, Qp};
use crate::acknowledged::Acknowledged;
use crate::async_events::{ProgramPointer, QpTarget, Target};
use crate::control::{CreateQp, MayUse, Token};
use crate::cq::CqObject;
use crate::device::context::{Object, OpenContext};
use crate::errno::no_object;
use crate::limits::complain_of;
use crate::panics::catch_panics;
use crate::pd::PdObject;
use crate::rings::QpRings;

/// UC, RAW_PACKET, XRC_SEND, XRC_RECV and DRIVER, which the device does not support.
const OTHERS: [c_int; 5] = [3, 8, 9, 10, 0xFF];

/// The kind of service; EOPNOTSUPP for one that the device does not support, EINVAL for an unknown
/// one.
fn service(number: c_int) -> Result<QpType, c_int> {
    match number {
        qp_type::RC => Ok(QpType::Rc),
        qp_type::UD => Ok(QpType::Ud),
        other if OTHERS.contains(&other) => Err(libc::EOPNOTSUPP),
        _ => Err(libc::EINVAL),
    }
}

const fn caps(cap: &QpCap) -> QpCaps {
    QpCaps {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline: cap.max_inline_data,
    }
}

pub(super) const fn cap(caps: &QpCaps) -> QpCap {
    QpCap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline,
    }
}

/// `ibv_create_qp`: the sizes granted are written back.
///
/// # Safety
/// `pd` is a protection domain, and the completion queues in `attr` exist.
pub unsafe extern "C" fn create_qp(pd: *mut Pd, attr: *mut QpInitAttr) -> *mut Qp {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        // SAFETY: the caller's.
        match unsafe { make(pd, &asked) } {
            Ok((qp, granted)) => {
                // SAFETY: the caller's.
                unsafe { (*attr).cap = cap(&granted) };
                qp
            }
            Err(number) => no_object(number),
        }
    })
}

/// Makes a queue pair.
///
/// # Safety
/// As [`create_qp`].
pub(crate) unsafe fn make(pd: *mut Pd, attr: &QpInitAttr) -> Result<(*mut Qp, QpCaps), c_int> {
    // SAFETY: the caller's.
    let domain = unsafe { PdObject::of(pd) };
    // SAFETY: the caller's: a context outlives its objects.
    let open = unsafe { domain.open() };
    let qp_type = service(attr.qp_type)?;
    if !attr.srq.is_null() {
        return Err(libc::EOPNOTSUPP);
    }
    if attr.send_cq.is_null() || attr.recv_cq.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's.
    let cqs = [attr.send_cq, attr.recv_cq].map(|cq| unsafe { CqObject::of(cq) });
    if cqs.iter().any(|cq| cq.context() != domain.context()) {
        return Err(libc::EINVAL);
    }
    let [send_cq, recv_cq] = cqs.map(CqObject::number);
    let token = Token::next();
    let signal_all = attr.sq_sig_all != 0;
    let new = |place| CreateQp {
        place,
        pd: domain.number(),
        qp_type,
        send_cq,
        recv_cq,
        caps: caps(&attr.cap),
        signal_all,
        token,
    };
    let control = open.control();
    let mut granted = None;
    let mut ask = |place| {
        let (made, sizes) = control.ask(new(place))?;
        granted = Some((made, sizes));
        Ok(made)
    };
    let rings = control.rings().and_then(|maker| {
        maker.free_unanswered(&|place| control.ask(MayUse { place }).unwrap_or(true));
        maker.qp(&caps(&attr.cap), &mut ask)
    });
    let rings = rings.map_err(|refused| {
        complain_of("a queue pair is not made", &refused);
        refused.errno
    })?;
    // The control path was asked.
    let (made, sizes) = granted.ok_or(libc::EIO)?;
    let number = made.number().get();
    // SAFETY: null pointers and numbers; the state is RESET.
    let mut shown: QpEx = unsafe { mem::zeroed() };
    shown.qp_base.context = domain.context();
    shown.qp_base.qp_context = attr.qp_context;
    shown.qp_base.pd = pd;
    shown.qp_base.send_cq = attr.send_cq;
    shown.qp_base.recv_cq = attr.recv_cq;
    shown.qp_base.handle = number;
    shown.qp_base.qp_num = number;
    shown.qp_base.qp_type = attr.qp_type;
    let (qp, target) = QpObject::assemble(shown, rings, token, signal_all);
    open.events().enter(token, Target::Qp(target));
    open.enter(Object::Qp(qp));
    Ok((qp, sizes))
}

impl QpObject {
    /// Assembles the object with the target of its events.
    fn assemble(
        shown: QpEx,
        rings: Box<dyn QpRings>,
        token: Token,
        signals_all: bool,
    ) -> (*mut Qp, Arc<QpTarget>) {
        let place = Box::into_raw(Box::<Self>::new_uninit());
        let qp = place.cast::<Qp>();
        let target = Arc::new(QpTarget {
            qp: ProgramPointer(qp),
            events: Acknowledged::default(),
        });
        let object = Self {
            number: shown.qp_base.qp_num,
            abi: UnsafeCell::new(shown),
            later: [0; LATER],
            data: ptr::from_ref(&*rings).cast(),
            rings: UnsafeCell::new(Some(rings)),
            signals_all,
            token,
            target: target.clone(),
            address: Mutex::default(),
            groups: Mutex::default(),
            collected: UnsafeCell::default(),
        };
        // SAFETY: the place was made for one just now.
        unsafe { (*place).write(object) };
        (qp, target)
    }

    /// A queue pair without a context, on rings that no control path has made.
    #[cfg(feature = "testing")]
    pub(crate) fn on(rings: Box<dyn QpRings>) -> *mut Qp {
        // SAFETY: null pointers and numbers.
        let shown = unsafe { mem::zeroed() };
        let (qp, _) = Self::assemble(shown, rings, Token::next(), false);
        qp
    }
}

/// `ibv_destroy_qp`. Waits until all its events that were taken are acknowledged.
///
/// # Safety
/// `qp` came from [`create_qp`], and is not used after this has returned 0.
pub unsafe extern "C" fn destroy_qp(qp: *mut Qp) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { QpObject::of(qp) };
        // SAFETY: the caller's: a context outlives its objects.
        if !unsafe { object.open() }.is_here() {
            return libc::EIO;
        }
        // As in the kernel: a member is removed from its groups first.
        if object.rings().is_some() && !object.groups().is_empty() {
            return libc::EBUSY;
        }
        // SAFETY: the caller's: a context outlives its objects.
        let number = unsafe { object.retire() };
        if number != 0 {
            return number;
        }
        object.target.events.wait();
        // SAFETY: the caller's: made as a box, and nobody uses it any more.
        unsafe {
            OpenContext::leave(object.shown().context, &Object::Qp(qp));
            drop(Box::from_raw(qp.cast::<QpObject>()));
        }
        0
    })
}
