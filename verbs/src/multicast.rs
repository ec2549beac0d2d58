//! Multicast groups of queue pairs.

use core::ffi::c_int;
use std::net::IpAddr;

use e810::Gid;

use crate::abi::objects::Qp;
use crate::abi::state::Gid as ProgramGid;
use crate::control::{AttachMcast, DetachMcast};
use crate::panics::catch_panics;
use crate::qp::QpObject;

/// The group of a GID: `::ffff:a.b.c.d` stands for an IPv4 address, as Linux' rdma_cm makes it for
/// RoCEv2 (cm-path 6.4).
fn group(gid: &ProgramGid) -> IpAddr {
    Gid(gid.raw).ip()
}

/// `ibv_attach_mcast`: 0, or the error. RoCE has no LID.
///
/// # Safety
/// `qp` is a queue pair, and `gid` can be read.
pub unsafe extern "C" fn attach_mcast(qp: *mut Qp, gid: *const ProgramGid, _: u16) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let (object, gid) = unsafe { (QpObject::of(qp), gid.read()) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { object.open() };
        if !open.is_here() {
            return libc::EIO;
        }
        let group = group(&gid);
        let mut groups = object.groups();
        // As in the kernel: it is in the group, which is what was asked for.
        if groups.contains(&group) {
            return 0;
        }
        let attached = open.control().ask(AttachMcast {
            qp: object.number(),
            group,
        });
        attached.map_or_else(
            |refused| refused.errno,
            |()| {
                groups.push(group);
                0
            },
        )
    })
}

/// `ibv_detach_mcast`: 0, or the error.
///
/// # Safety
/// As [`attach_mcast`].
pub unsafe extern "C" fn detach_mcast(qp: *mut Qp, gid: *const ProgramGid, _: u16) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let (object, gid) = unsafe { (QpObject::of(qp), gid.read()) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { object.open() };
        if !open.is_here() {
            return libc::EIO;
        }
        let group = group(&gid);
        let mut groups = object.groups();
        if !groups.contains(&group) {
            return libc::EINVAL;
        }
        let detached = open.control().ask(DetachMcast {
            qp: object.number(),
            group,
        });
        detached.map_or_else(
            |refused| refused.errno,
            |()| {
                groups.retain(|joined| *joined != group);
                0
            },
        )
    })
}
