//! How ids connect: `rdma_connect`, and `rdma_accept` of what a listener was asked.

use core::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use e810_cm::Reason;
use e810_cm::machine::{Accept, Connect, Path};
use e810_connect::{Answer, Call};
use e810_verbs::panics::catch_panics;

use crate::abi::{CmId, ConnParam, port_space};
use crate::calls::{bytes, done};
use crate::id::{Id, Phase, space};
use crate::queue_pairs::{UDP_QKEY, bring_up};

/// As many READs as the device has, in `responder_resources` and `initiator_depth`.
const MOST: u8 = 0xFF;

/// The private data in a parameter.
///
/// # Safety
/// It can be read.
unsafe fn data_of<'a>(param: &ConnParam) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe { bytes(param.private_data, param.private_data_len) }
}

/// What a program gives, or what is usual.
const fn usual() -> ConnParam {
    ConnParam {
        private_data: ptr::null(),
        private_data_len: 0,
        responder_resources: MOST,
        initiator_depth: MOST,
        flow_control: 0,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}

/// `rdma_connect`: 0, or -1 and errno; ESTABLISHED or another event follows.
///
/// # Safety
/// `id` exists; `param` is null or can be read, with its private data.
pub unsafe extern "C-unwind" fn connect(id: *mut CmId, param: *mut ConnParam) -> c_int {
    let asked = catch_panics(Err(libc::EIO), || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        let given = !param.is_null();
        let param = match given {
            false => usual(),
            // SAFETY: the caller's.
            true => unsafe { param.read() },
        };
        // SAFETY: as above.
        let data = unsafe { data_of(&param) };
        is_valid(&id, given.then_some(&param))?;
        ask(&id, &param, data)
    });
    // SAFETY: the caller's.
    unsafe { done(id, asked) }
}

/// What librdmacm checks before the kernel hears of it, in port space TCP alone.
///
/// # Errors
/// EINVAL: neither a queue pair nor a parameter, or more READs than the device has.
fn is_valid(id: &Id, param: Option<&ConnParam>) -> Result<(), c_int> {
    let seen = id.seen();
    if seen.ps != port_space::TCP {
        return Ok(());
    }
    let Some(param) = param else {
        return match seen.qp.is_null() {
            true => Err(libc::EINVAL),
            false => Ok(()),
        };
    };
    let card = id.device()?.attributes()?;
    let is_too_much = |wanted: u8, has: u32| wanted != MOST && u32::from(wanted) > has;
    match is_too_much(param.responder_resources, card.max_dest_rd_atomic)
        || is_too_much(param.initiator_depth, card.max_rd_atomic)
    {
        true => Err(libc::EINVAL),
        false => Ok(()),
    }
}

/// As many as are wanted and the device has.
fn depth(wanted: u8, has: u32) -> u8 {
    wanted.min(u8::try_from(has).unwrap_or(u8::MAX))
}

fn ask(id: &Arc<Id>, param: &ConnParam, private_data: &[u8]) -> Result<(), c_int> {
    id.step(&[Phase::Routed], Phase::Connecting)?;
    let asked = ask_as(id, param, private_data);
    if asked.is_err() {
        let _ = id.step(&[Phase::Connecting], Phase::Routed);
    }
    asked
}

fn ask_as(id: &Arc<Id>, param: &ConnParam, private_data: &[u8]) -> Result<(), c_int> {
    let seen = id.seen();
    let (own, local, remote) = id.ends()?;
    let device = id.device()?;
    let card = device.attributes()?;
    let is_datagrams = id.is_datagrams();
    let qpn = match seen.qp.is_null() {
        true => param.qp_num,
        // SAFETY: a queue pair that the program has not destroyed.
        false => unsafe { (*seen.qp).qp_num },
    };
    let tos = id.state().options.tos;
    let usual = Connect::new(own.ip, remote);
    // A question about a queue pair for datagrams has no such fields, and programs leave anything there.
    let depths = match is_datagrams {
        true => [0, 0],
        false => [
            depth(param.responder_resources, card.max_dest_rd_atomic),
            depth(param.initiator_depth, card.max_rd_atomic),
        ],
    };
    let ask = Connect {
        space: space(seen.ps).ok_or(libc::EINVAL)?,
        vlan: own.vlan,
        source_port: local.port(),
        qpn: if is_datagrams { 0 } else { qpn },
        responder_resources: depths[0],
        initiator_depth: depths[1],
        retry_count: param.retry_count.min(7),
        rnr_retry_count: param.rnr_retry_count.min(7),
        flow_control: param.flow_control != 0,
        srq: param.srq != 0,
        path: Path {
            traffic_class: tos,
            ..usual.path
        },
        private_data,
        context: id.token,
        ..usual
    };
    id.state().responder_resources = ask.responder_resources;
    // Without the lock of the id, which the thread takes that hears the answer.
    match device.call(&Call::Connect(ask)) {
        Ok(Answer::Connection(connection)) => {
            id.state().connection = Some(connection);
            Ok(())
        }
        other => Err(other.err().unwrap_or(libc::EIO)),
    }
}

/// `rdma_accept`: 0, or -1 and errno; ESTABLISHED follows.
///
/// # Safety
/// As [`connect`].
pub unsafe extern "C-unwind" fn accept(id: *mut CmId, param: *mut ConnParam) -> c_int {
    let accepted = catch_panics(Err(libc::EIO), || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // SAFETY: as above.
        let param = (!param.is_null()).then(|| unsafe { param.read() });
        // SAFETY: as above.
        let data = param
            .as_ref()
            .map_or(&[][..], |param| unsafe { data_of(param) });
        let is_question = id.is_datagrams();
        match is_question {
            true => answer(&id, param.as_ref(), data)?,
            false => {
                is_valid(&id, param.as_ref())?;
                grant(&id, param.as_ref(), data)?;
            }
        }
        // No event follows an answer.
        Ok(!is_question)
    });
    match accepted {
        Ok(false) => 0,
        // SAFETY: the caller's.
        accepted => unsafe { done(id, accepted.map(drop)) },
    }
}

fn grant(id: &Arc<Id>, param: Option<&ConnParam>, private_data: &[u8]) -> Result<(), c_int> {
    // First: what follows is told to an id whose program has accepted.
    id.step(&[Phase::Requested], Phase::Connecting)?;
    let granted = grant_as(id, param, private_data);
    if granted.is_err() {
        let _ = id.step(&[Phase::Connecting], Phase::Requested);
    }
    granted
}

fn grant_as(id: &Arc<Id>, param: Option<&ConnParam>, private_data: &[u8]) -> Result<(), c_int> {
    let (device, connection) = id.connection()?;
    let request = id.state().request.clone().ok_or(libc::EINVAL)?;
    let card = device.attributes()?;
    // Where the program says nothing: what the peer asks for, as far as the device has it
    // (cm-path 6.5).
    let wanted = |said: Option<u8>, asked| said.filter(|said| *said != MOST).unwrap_or(asked);
    let resources = wanted(
        param.map(|param| param.responder_resources),
        request.initiator_depth,
    );
    let initiator = wanted(
        param.map(|param| param.initiator_depth),
        request.responder_resources,
    );
    let responder_resources = depth(resources, card.max_dest_rd_atomic);
    let initiator_depth = depth(initiator, card.max_rd_atomic);
    id.state().responder_resources = responder_resources;
    let qp = id.seen().qp;
    let qpn = match qp.is_null() {
        true => param.map_or(0, |param| param.qp_num),
        false => {
            let depths = [responder_resources, initiator_depth];
            bring_up(id, depths)?;
            // SAFETY: a queue pair that the program has not destroyed.
            unsafe { (*qp).qp_num }
        }
    };
    let accept = Accept {
        qpn,
        responder_resources,
        initiator_depth,
        rnr_retry_count: param.map_or(7, |param| param.rnr_retry_count.min(7)),
        flow_control: param.is_some_and(|param| param.flow_control != 0),
        srq: param.is_some_and(|param| param.srq != 0),
        private_data,
        context: id.token,
    };
    let accepted = device.call(&Call::Accept(connection, accept));
    if let Err(number) = accepted {
        // As the kernel: one that cannot be accepted is refused.
        let refusal = Call::Reject(connection, Reason::CONSUMER_DEFINED, &[]);
        let _ = device.call(&refusal);
        return Err(number);
    }
    Ok(())
}

/// Answers a question about a queue pair for datagrams.
fn answer(id: &Arc<Id>, param: Option<&ConnParam>, private_data: &[u8]) -> Result<(), c_int> {
    let (device, connection) = id.connection()?;
    let qp = id.seen().qp;
    let qpn = match qp.is_null() {
        true => param.map_or(0, |param| param.qp_num),
        // SAFETY: a queue pair that the program has not destroyed.
        false => unsafe { (*qp).qp_num },
    };
    id.step(&[Phase::Requested], Phase::Connected)?;
    let answer = Call::Answer(connection, Ok((qpn, UDP_QKEY)), private_data);
    if let Err(number) = device.call(&answer) {
        let _ = id.step(&[Phase::Connected], Phase::Requested);
        // As the kernel, with SIDR's status 2, a refusal (cm-path 3.9).
        let _ = device.call(&Call::Answer(connection, Err(2), &[]));
        return Err(number);
    }
    Ok(())
}
