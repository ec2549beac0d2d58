//! Multicast groups of ids. On RoCE there is nobody to ask: a group is its address.

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::Arc;

use e810_verbs::abi::state::Gid;
use e810_verbs::errno::fail;
use e810_verbs::multicast::{attach_mcast, detach_mcast};
use e810_verbs::panics::catch_panics;
use libc::sockaddr;

use crate::abi::{CmId, JoinMcAttr, event};
use crate::address;
use crate::calls::done;
use crate::happening::{Happening, With};
use crate::id::{Id, Phase};
use crate::news;
use crate::queue_pairs::UDP_QKEY;

/// The queue pair number of datagrams to a group.
const ALL: u32 = 0xFF_FFFF;
/// What [`JoinMcAttr`] has: an address and flags.
const HAS_ADDRESS: u32 = 1;
const HAS_FLAGS: u32 = 2;
/// A full member.
const FULL: u32 = 0;

fn gid_of(group: SocketAddr) -> e810::Gid {
    e810::GidEntry::untagged(group.ip()).gid
}

fn join(id: &Arc<Id>, group: Option<SocketAddr>, context: usize) -> Result<(), c_int> {
    let group = group.filter(|group| group.ip().is_multicast() && id.is_datagrams());
    let group = group.ok_or(libc::EINVAL)?;
    // As the kernel: later it is too late.
    let (own, phase) = {
        let state = id.state();
        (state.own, state.phase)
    };
    if !matches!(phase, Phase::Bound | Phase::Resolved) {
        return Err(libc::EINVAL);
    }
    let own = own.filter(|own| own.ip.is_ipv4() == group.ip().is_ipv4());
    let own = own.ok_or(libc::EINVAL)?;
    let gid = gid_of(group);
    let tos = {
        let mut state = id.state();
        state.groups.push((group, context));
        state.options.tos
    };
    id.tell(Happening {
        with: With::Datagrams {
            address: news::address(own, gid, tos),
            qpn: ALL,
            qkey: UDP_QKEY,
            context,
        },
        ..Happening::of(id.clone(), event::MULTICAST_JOIN, 0)
    });
    Ok(())
}

impl Id {
    /// It is in a group, and the program takes the event: its queue pair gets the group's datagrams from
    /// now on, if it has one by now. Which event it is, and its status.
    pub(crate) fn has_joined(&self, group: Gid) -> (c_int, c_int) {
        let qp = self.seen().qp;
        if qp.is_null() {
            return (event::MULTICAST_JOIN, 0);
        }
        // SAFETY: a queue pair that the program has not destroyed.
        match unsafe { attach_mcast(qp, &raw const group, 0) } {
            0 => (event::MULTICAST_JOIN, 0),
            number => (event::MULTICAST_ERROR, -number),
        }
    }
}

/// `rdma_join_multicast`: 0, or -1 and errno; MULTICAST_JOIN follows.
///
/// # Safety
/// `id` exists, and `address` can be read.
pub unsafe extern "C-unwind" fn join_multicast(
    id: *mut CmId,
    address: *mut sockaddr,
    context: *mut c_void,
) -> c_int {
    let joined = catch_panics(Err(libc::EIO), || {
        // SAFETY: the caller's.
        let (id, group) = unsafe { (Id::of(id), address::read(address)) };
        join(&id, group, context.expose_provenance())
    });
    // SAFETY: the caller's.
    unsafe { done(id, joined) }
}

/// `rdma_join_multicast_ex`: the same; EOPNOTSUPP for those who only send, as the kernel says without a
/// subnet manager that has it.
///
/// # Safety
/// As [`join_multicast`].
pub unsafe extern "C-unwind" fn join_multicast_ex(
    id: *mut CmId,
    attr: *mut JoinMcAttr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    let attr = unsafe { attr.read() };
    if attr.comp_mask & !(HAS_ADDRESS | HAS_FLAGS) != 0 || attr.comp_mask & HAS_ADDRESS == 0 {
        return fail(libc::EINVAL);
    }
    if attr.comp_mask & HAS_FLAGS != 0 && attr.join_flags != FULL {
        return fail(libc::EOPNOTSUPP);
    }
    // SAFETY: the caller's.
    unsafe { join_multicast(id, attr.addr, context) }
}

/// `rdma_leave_multicast`: 0, or -1 and errno. An event of it that was not taken does not come.
///
/// # Safety
/// As [`join_multicast`].
pub unsafe extern "C" fn leave_multicast(id: *mut CmId, address: *mut sockaddr) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let (id, group) = unsafe { (Id::of(id), address::read(address)) };
        let found = {
            let mut state = id.state();
            let is_it = |(joined, _): &(SocketAddr, usize)| {
                group.is_some_and(|group| group.ip() == joined.ip())
            };
            let at = state.groups.iter().position(is_it);
            at.map(|at| state.groups.swap_remove(at))
        };
        let Some((group, context)) = found else {
            return fail(libc::EADDRNOTAVAIL);
        };
        let raw = Gid {
            raw: gid_of(group).0,
        };
        let is_kept = |happening: &Happening| match happening.with {
            With::Datagrams {
                address,
                context: word,
                ..
            } => {
                happening.event != event::MULTICAST_JOIN
                    || (address.grh.dgid, word) != (raw, context)
            }
            _ => true,
        };
        id.drop_events(is_kept);
        let qp = id.seen().qp;
        if !qp.is_null() {
            // One that it was made after the group was joined is not in it.
            // SAFETY: a queue pair that the program has not destroyed.
            let _ = unsafe { detach_mcast(qp, &raw const raw, 0) };
        }
        0
    })
}
