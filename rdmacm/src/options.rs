//! `rdma_set_option`.

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;

use e810_verbs::errno::fail;
use e810_verbs::panics::catch_panics;

use crate::abi::CmId;
use crate::id::{Id, Phase};

/// What a program has chosen for an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    pub(crate) tos: u8,
    /// The queue pair's `timeout`.
    pub(crate) ack_timeout: Option<u8>,
    pub(crate) reuses_address: bool,
    /// What the program has said of [`Self::is_of_family`].
    only_family: Option<bool>,
}

impl Options {
    /// Whether an unspecified address is for its own family only: as the program has said, else one of
    /// IPv4 is.
    pub(crate) fn is_of_family(&self, local: SocketAddr) -> bool {
        self.only_family.unwrap_or(local.is_ipv4())
    }
}

/// `RDMA_OPTION_ID`.
const OF_ID: c_int = 0;
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;

/// `rdma_set_option`: 0, or -1 and errno: EINVAL for a wrong length or state, ENOSYS for an unknown
/// option, as the kernel has it.
///
/// # Safety
/// `id` exists, and `length` bytes of `value` can be read.
pub unsafe extern "C" fn set_option(
    id: *mut CmId,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: usize,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // SAFETY: the caller's; null has no bytes.
        let byte = || (length == 1).then(|| unsafe { value.cast::<u8>().read() });
        // SAFETY: as above.
        let flag = || (length == 4).then(|| unsafe { value.cast::<c_int>().read_unaligned() } != 0);
        if value.is_null() {
            return fail(libc::EINVAL);
        }
        let mut state = id.state();
        // Later it changes nothing.
        let is_early = matches!(state.phase, Phase::Idle | Phase::Bound);
        if (level, name) == (OF_ID, AFONLY) && !is_early {
            return fail(libc::EINVAL);
        }
        // A queue pair for datagrams waits for nothing.
        if (level, name) == (OF_ID, ACK_TIMEOUT) && id.is_datagrams() {
            return fail(libc::EINVAL);
        }
        let (phase, options) = (state.phase, &mut state.options);
        let set = match (level, name) {
            (OF_ID, TOS) => byte().map(|tos| options.tos = tos),
            (OF_ID, REUSEADDR) => flag().and_then(|on| {
                let may = phase == Phase::Idle || on && phase != Phase::Listening;
                may.then(|| options.reuses_address = on)
            }),
            (OF_ID, AFONLY) => flag().map(|on| options.only_family = Some(on)),
            (OF_ID, ACK_TIMEOUT) => byte().map(|code| options.ack_timeout = Some(code)),
            _ => return fail(libc::ENOSYS),
        };
        match set {
            Some(()) => 0,
            None => fail(libc::EINVAL),
        }
    })
}
