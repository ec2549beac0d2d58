//! Queue pairs of ids, and their way through a connection (cm-path 6.6).

use core::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use e810::{AttrMask, QpAttr as Changes, QpState};
use e810_cm::Reason;
use e810_connect::{Answer, Attributes, Call};
use e810_verbs::abi::constants::{access, qp_type};
use e810_verbs::abi::device::Context;
use e810_verbs::abi::make::{QpInitAttr, QpInitAttrEx};
use e810_verbs::abi::objects::{CompChannel, Cq, Pd, Qp};
use e810_verbs::abi::state::{AhAttr, GlobalRoute, QpAttr};
use e810_verbs::channel::{create_comp_channel, destroy_comp_channel};
use e810_verbs::cq::{create_cq, destroy_cq};
use e810_verbs::errno::{self, fail};
use e810_verbs::panics::catch_panics;
use e810_verbs::qp::extended::create_qp_ex as make_qp_ex;
use e810_verbs::qp::{destroy_qp as end_qp, modify_qp};

use crate::abi::{CmId, event};
use crate::id::{Id, Phase};

/// `RDMA_UDP_QKEY`.
pub(crate) const UDP_QKEY: u32 = 0x0123_4567;

/// A queue pair's attributes without any value.
fn nothing() -> QpAttr {
    // SAFETY: numbers only, for which zeros are values.
    unsafe { core::mem::zeroed() }
}

const fn mask(bits: AttrMask) -> c_int {
    bits.bits() as c_int
}

/// The driver's attributes as verbs has them, with the mask of what they change.
fn as_verbs(changes: &Changes) -> (QpAttr, c_int) {
    let mut attr = nothing();
    let mut bits = AttrMask::empty();
    macro_rules! take {
        ($($field:ident => $place:ident, $bit:ident;)+) => {
            $(if let Some(value) = changes.$field {
                attr.$place = value;
                bits |= AttrMask::$bit;
            })+
        };
    }
    take! {
        qkey => qkey, QKEY;
        rq_psn => rq_psn, RQ_PSN;
        sq_psn => sq_psn, SQ_PSN;
        max_rd_atomic => max_rd_atomic, MAX_QP_RD_ATOMIC;
        max_dest_rd_atomic => max_dest_rd_atomic, MAX_DEST_RD_ATOMIC;
        min_rnr_timer => min_rnr_timer, MIN_RNR_TIMER;
        timeout => timeout, TIMEOUT;
        retry_cnt => retry_cnt, RETRY_CNT;
        rnr_retry => rnr_retry, RNR_RETRY;
        pkey_index => pkey_index, PKEY_INDEX;
        port => port_num, PORT;
    }
    if let Some(state) = changes.state {
        attr.qp_state = state as c_int;
        bits |= AttrMask::STATE;
    }
    if let Some(mtu) = changes.path_mtu {
        attr.path_mtu = mtu.code().into();
        bits |= AttrMask::PATH_MTU;
    }
    if let Some(qpn) = changes.dest_qpn {
        attr.dest_qp_num = qpn.get();
        bits |= AttrMask::DEST_QPN;
    }
    if let Some(path) = &changes.path {
        attr.ah_attr = AhAttr {
            grh: GlobalRoute {
                dgid: e810_verbs::abi::state::Gid {
                    raw: e810::GidEntry::untagged(path.destination).gid.0,
                },
                flow_label: path.flow_label,
                sgid_index: path.sgid_index,
                hop_limit: path.hop_limit,
                traffic_class: path.traffic_class,
            },
            is_global: 1,
            port_num: 1,
            ..AhAttr::default()
        };
        bits |= AttrMask::AV;
    }
    (attr, mask(bits))
}

/// To INIT, with what peers may do.
fn to_init(responder_resources: u8) -> (QpAttr, c_int) {
    let mut attr = nothing();
    attr.qp_state = QpState::Init as c_int;
    attr.port_num = 1;
    attr.qp_access_flags = match responder_resources {
        0 => access::REMOTE_WRITE,
        _ => access::REMOTE_WRITE | access::REMOTE_READ,
    };
    let bits = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    (attr, mask(bits))
}

/// Changes a queue pair of the program.
///
/// # Safety
/// It is not destroyed.
unsafe fn change(qp: *mut Qp, (mut attr, mask): (QpAttr, c_int)) -> Result<(), c_int> {
    // SAFETY: the caller's.
    match unsafe { modify_qp(qp, &raw mut attr, mask) } {
        0 => Ok(()),
        number => Err(number),
    }
}

/// What the connection manager says of the queue pair of a connection, until the connection is accepted.
fn attributes(id: &Id, depths: [u8; 2]) -> Result<Attributes, c_int> {
    let (device, connection) = id.connection()?;
    match device.call(&Call::Attributes(connection, depths))? {
        Answer::Attributes(mut attributes) => {
            let mut state = id.state();
            if let Some(code) = state.options.ack_timeout {
                // Any number can be chosen; the queue pair has five bits for it.
                attributes.to_rts.timeout = Some(code.min(31));
            }
            state.attributes = Some(Box::new(attributes));
            Ok(attributes)
        }
        _ => Err(libc::EIO),
    }
}

/// Brings the queue pair of a connection from INIT to RTS.
///
/// # Errors
/// The number for `errno`.
pub(crate) fn bring_up(id: &Id, depths: [u8; 2]) -> Result<(), c_int> {
    let qp = id.seen().qp;
    let attributes = attributes(id, depths)?;
    let responder_resources = id.state().responder_resources;
    for step in [
        to_init(responder_resources),
        as_verbs(&attributes.to_rtr),
        as_verbs(&attributes.to_rts),
    ] {
        // SAFETY: the program has not destroyed it: it connects it.
        unsafe { change(qp, step) }?;
    }
    Ok(())
}

impl Id {
    /// The peer has accepted, and the program takes the event: which one, and its status.
    pub(crate) fn responded(&self) -> (c_int, c_int) {
        if self.seen().qp.is_null() {
            self.state().phase = Phase::Responded;
            return (event::CONNECT_RESPONSE, 0);
        }
        let ready = bring_up(self, [0, 0]).and_then(|()| {
            let (device, connection) = self.connection()?;
            device.call(&Call::Ready(connection)).map(drop)
        });
        match ready {
            Ok(()) => {
                self.state().phase = Phase::Connected;
                (event::ESTABLISHED, 0)
            }
            Err(number) => {
                if let Ok((device, connection)) = self.connection() {
                    let refusal = Call::Reject(connection, Reason::CONSUMER_DEFINED, &[]);
                    let _ = device.call(&refusal);
                }
                (event::CONNECT_ERROR, -number)
            }
        }
    }

    /// Its queue pair sends and receives no more.
    pub(crate) fn stop(&self) {
        let qp = self.seen().qp;
        if qp.is_null() || self.is_datagrams() {
            return;
        }
        let mut attr = nothing();
        attr.qp_state = QpState::Err as c_int;
        // SAFETY: the program has not destroyed it. One that is in RESET, or refused, stays.
        let _ = unsafe { change(qp, (attr, mask(AttrMask::STATE))) };
    }
}

/// The first state of a new queue pair of an id of this kind, in which receives can be posted; all the
/// way for datagrams. A queue pair of another kind refuses it.
fn first_state(qp: *mut Qp, kind: c_int) -> Result<(), c_int> {
    let mut attr = nothing();
    attr.port_num = 1;
    attr.qp_state = QpState::Init as c_int;
    let bits = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT;
    if kind != qp_type::UD {
        // SAFETY: made just now.
        return unsafe { change(qp, (attr, mask(bits | AttrMask::ACCESS_FLAGS))) };
    }
    attr.qkey = UDP_QKEY;
    // SAFETY: as above.
    unsafe { change(qp, (attr, mask(bits | AttrMask::QKEY))) }?;
    attr.qp_state = QpState::Rtr as c_int;
    // SAFETY: as above.
    unsafe { change(qp, (attr, mask(AttrMask::STATE))) }?;
    attr.qp_state = QpState::Rts as c_int;
    // SAFETY: as above.
    unsafe { change(qp, (attr, mask(AttrMask::STATE | AttrMask::SQ_PSN))) }
}

/// Makes a completion queue with a channel; null and errno.
unsafe fn completions(id: &Arc<Id>, entries: u32) -> (*mut CompChannel, *mut Cq) {
    let context: *mut Context = id.seen().verbs;
    // SAFETY: the id's device, which is open.
    unsafe {
        let channel = create_comp_channel(context);
        if channel.is_null() {
            return (ptr::null_mut(), ptr::null_mut());
        }
        let entries = c_int::try_from(entries.max(1)).unwrap_or(c_int::MAX);
        let cq = create_cq(context, entries, id.shown().cast::<c_void>(), channel, 0);
        if cq.is_null() {
            destroy_comp_channel(channel);
            return (ptr::null_mut(), ptr::null_mut());
        }
        (channel, cq)
    }
}

/// Destroys what [`completions`] has made for an id, which shows nothing else there.
fn end_completions(id: &Id) {
    let seen = id.seen();
    // SAFETY: the library's own, and the queue pair is gone.
    unsafe {
        for (channel, cq) in [
            (seen.send_cq_channel, seen.send_cq),
            (seen.recv_cq_channel, seen.recv_cq),
        ] {
            if !cq.is_null() {
                destroy_cq(cq);
            }
            if !channel.is_null() {
                destroy_comp_channel(channel);
            }
        }
        let abi = id.abi();
        (*abi).send_cq_channel = ptr::null_mut();
        (*abi).send_cq = ptr::null_mut();
        (*abi).recv_cq_channel = ptr::null_mut();
        (*abi).recv_cq = ptr::null_mut();
    }
}

/// `rdma_create_qp_ex`: 0, or -1 and errno. Without completion queues it makes some, which it writes
/// into `attr`.
///
/// # Safety
/// `id` exists; `attr` can be read and written, and what it names exists.
pub unsafe extern "C" fn create_qp_ex(id: *mut CmId, attr: *mut QpInitAttrEx) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // SAFETY: as above.
        match unsafe { create(&id, attr) } {
            Ok(()) => 0,
            Err(number) => fail(number),
        }
    })
}

/// # Safety
/// As [`create_qp_ex`].
unsafe fn create(id: &Arc<Id>, attr: *mut QpInitAttrEx) -> Result<(), c_int> {
    let seen = id.seen();
    if seen.verbs.is_null() || !seen.qp.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's.
    let mut asked = unsafe { attr.read() };
    let has_pd = asked.comp_mask & PD != 0 && !asked.pd.is_null();
    if !has_pd {
        asked.pd = seen.pd;
        asked.comp_mask |= PD;
    }
    // SAFETY: the caller's: it exists.
    if unsafe { (*asked.pd).context } != seen.verbs {
        return Err(libc::EINVAL);
    }
    for (is_send, entries) in [
        (true, asked.cap.max_send_wr),
        (false, asked.cap.max_recv_wr),
    ] {
        let wanted = if is_send {
            asked.send_cq
        } else {
            asked.recv_cq
        };
        if !wanted.is_null() {
            continue;
        }
        // SAFETY: the id has a device.
        let (channel, cq) = unsafe { completions(id, entries) };
        if cq.is_null() {
            let number = errno::now();
            end_completions(id);
            return Err(number);
        }
        // SAFETY: the program reads them after this call.
        unsafe {
            let abi = id.abi();
            if is_send {
                ((*abi).send_cq_channel, (*abi).send_cq) = (channel, cq);
                asked.send_cq = cq;
            } else {
                ((*abi).recv_cq_channel, (*abi).recv_cq) = (channel, cq);
                asked.recv_cq = cq;
            }
        }
    }
    // SAFETY: the caller's.
    let qp = unsafe { make_qp_ex(seen.verbs, &raw mut asked) };
    if qp.is_null() {
        let number = errno::now();
        end_completions(id);
        return Err(number);
    }
    if let Err(number) = first_state(qp, seen.qp_type) {
        // SAFETY: made just now.
        unsafe { end_qp(qp) };
        end_completions(id);
        return Err(number);
    }
    // SAFETY: the caller's; the program reads the rest after this call.
    unsafe {
        attr.write(asked);
        let abi = id.abi();
        (*abi).qp = qp;
        (*abi).pd = asked.pd;
    }
    Ok(())
}

/// `IBV_QP_INIT_ATTR_PD`.
const PD: u32 = 1;

/// `rdma_create_qp`: 0, or -1 and errno.
///
/// # Safety
/// `id` exists; `pd` is null or a protection domain; `attr` can be read and written, and what it
/// names exists.
pub unsafe extern "C" fn create_qp(id: *mut CmId, pd: *mut Pd, attr: *mut QpInitAttr) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        let mut more = QpInitAttrEx {
            qp_context: asked.qp_context,
            send_cq: asked.send_cq,
            recv_cq: asked.recv_cq,
            srq: asked.srq,
            cap: asked.cap,
            qp_type: asked.qp_type,
            sq_sig_all: asked.sq_sig_all,
            comp_mask: if pd.is_null() { 0 } else { PD },
            pd,
            xrcd: ptr::null_mut(),
            create_flags: 0,
            max_tso_header: 0,
            rwq_ind_tbl: ptr::null_mut(),
            rx_hash_conf: [0; 3],
            source_qpn: 0,
            send_ops_flags: 0,
        };
        // SAFETY: the caller's.
        let made = unsafe { create_qp_ex(id, &raw mut more) };
        if made == 0 {
            // SAFETY: the caller's.
            unsafe {
                (*attr).cap = more.cap;
                (*attr).send_cq = more.send_cq;
                (*attr).recv_cq = more.recv_cq;
            }
        }
        made
    })
}

/// `rdma_destroy_qp`: also the completion queues that were made for it.
///
/// # Safety
/// `id` exists; its queue pair is not used any more.
pub unsafe extern "C" fn destroy_qp(id: *mut CmId) {
    catch_panics((), || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        let qp = id.seen().qp;
        if qp.is_null() {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            end_qp(qp);
            (*id.abi()).qp = ptr::null_mut();
        }
        end_completions(&id);
    });
}

/// `rdma_init_qp_attr`: what to change of a queue pair that the program brings up itself, for the state
/// in `attr`.
///
/// # Safety
/// `id` exists; the others can be read and written.
pub unsafe extern "C" fn init_qp_attr(id: *mut CmId, attr: *mut QpAttr, mask: *mut c_int) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let (id, state) = unsafe { (Id::of(id), (*attr).qp_state) };
        match steps(&id, state) {
            Ok((found, bits)) => {
                // SAFETY: the caller's.
                unsafe {
                    attr.write(found);
                    mask.write(bits);
                }
                0
            }
            Err(number) => fail(number),
        }
    })
}

fn steps(id: &Id, state: c_int) -> Result<(QpAttr, c_int), c_int> {
    const INIT: c_int = QpState::Init as c_int;
    const RTR: c_int = QpState::Rtr as c_int;
    const RTS: c_int = QpState::Rts as c_int;
    if id.seen().verbs.is_null() {
        return Err(libc::EINVAL);
    }
    // As the kernel: without a connection it is the way to INIT, whatever state is asked for.
    if id.is_datagrams() {
        let mut attr = nothing();
        attr.qp_state = state;
        attr.port_num = 1;
        attr.qkey = UDP_QKEY;
        let bits = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY;
        return Ok((attr, mask(bits)));
    }
    if id.state().connection.is_none() {
        let (mut attr, bits) = to_init(1);
        attr.qp_state = state;
        return Ok((attr, bits));
    }
    let depths = {
        let state = id.state();
        if state.has_left || state.phase == Phase::Ending {
            return Err(libc::EINVAL);
        }
        let request = state.request.as_ref();
        request.map_or([0, 0], |request| {
            [request.initiator_depth, request.responder_resources]
        })
    };
    // Programs may also ask when the connection is established: what was said before is still so.
    let attributes = || match attributes(id, depths) {
        Err(libc::EINVAL) => id
            .state()
            .attributes
            .as_deref()
            .copied()
            .ok_or(libc::EINVAL),
        said => said,
    };
    match state {
        INIT => Ok(to_init(1)),
        RTR => Ok(as_verbs(&attributes()?.to_rtr)),
        RTS => Ok(as_verbs(&attributes()?.to_rts)),
        _ => Err(libc::EINVAL),
    }
}
