//! Ethernet addresses of GIDs, for libraries of other devices.

use core::ffi::c_int;

use crate::abi::device::Context;
use crate::abi::state::AhAttr;
use crate::ah::path;
use crate::control::QueryGids;
use crate::device::context::OpenContext;
use crate::panics::catch_panics;

/// No VLAN: above all valid numbers.
const NO_VLAN: u16 = 0xFFFF;

/// `ibv_resolve_eth_l2_from_gid`: 0, or the error.
///
/// # Safety
/// `context` is open, `attr` can be read, six bytes can be written at `mac`, and `vlan` is null or
/// can be written.
pub unsafe extern "C" fn resolve_eth_l2_from_gid(
    context: *mut Context,
    attr: *mut AhAttr,
    mac: *mut u8,
    vlan: *mut u16,
) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let (open, asked) = unsafe { (OpenContext::of(context), attr.read()) };
        let path = match path(open, &asked) {
            Ok(path) => path,
            Err(number) => return number,
        };
        let table = open.control().ask(QueryGids {});
        let own = table.ok().and_then(|table| table.get(asked.grh.sgid_index));
        let id = own.and_then(|own| own.vlan);
        // SAFETY: the caller's.
        unsafe {
            mac.cast::<[u8; 6]>().write(path.destination_mac.0);
            if !vlan.is_null() {
                vlan.write(id.unwrap_or(NO_VLAN));
            }
        }
        0
    })
}
