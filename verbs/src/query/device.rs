//! What a device offers.

use core::ffi::{c_char, c_int, c_uint, c_void};

use e810::DeviceAttr as Offered;

use super::fill;
use crate::abi::device::Context;
use crate::abi::query::{DeviceAttr, DeviceAttrEx};
use crate::control::QueryDevice;
use crate::device::context::OpenContext;
use crate::panics::catch_panics;

/// Intel's PCI vendor id, and the device id that all functions here report.
const VENDOR: (u32, u32) = (0x8086, 0x1592);
/// `IBV_DEVICE_RC_RNR_NAK_GEN`. Linux' irdma also reports memory windows and fast registration, for
/// which this library has no functions.
const DEVICE_CAPS: c_uint = 1 << 12;

/// `ibv_query_device`: 0 or the error.
///
/// # Safety
/// `context` is open, and `attr` can be written.
pub unsafe extern "C" fn query_device(context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        match open.control().ask(QueryDevice {}) {
            Ok(offered) => {
                // SAFETY: the caller's.
                unsafe { attr.write(device_attr(&offered)) };
                0
            }
            Err(refused) => refused.errno,
        }
    })
}

/// `ibv_query_device_ex`, through the context: the program's structure has `size` bytes at `attr`.
///
/// # Safety
/// `context` is open, and `size` bytes can be written at `attr`.
pub unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _: *const c_void,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let offered = match open.control().ask(QueryDevice {}) {
            Ok(offered) => offered,
            Err(refused) => return refused.errno,
        };
        // SAFETY: numbers.
        let nothing: DeviceAttrEx = unsafe { core::mem::zeroed() };
        let whole = DeviceAttrEx {
            orig_attr: device_attr(&offered),
            device_cap_flags_ex: DEVICE_CAPS.into(),
            phys_port_cnt_ex: offered.ports.into(),
            ..nothing
        };
        // SAFETY: the caller's.
        unsafe { fill(&whole, attr, size) };
        0
    })
}

fn device_attr(offered: &Offered) -> DeviceAttr {
    let number = |number: u32| c_int::try_from(number).unwrap_or(c_int::MAX);
    // SAFETY: numbers.
    let nothing: DeviceAttr = unsafe { core::mem::zeroed() };
    let (major, minor) = offered.firmware;
    let mut fw_ver = [0; 64];
    for (place, byte) in fw_ver.iter_mut().zip(format!("{major}.{minor}").bytes()) {
        *place = byte as c_char;
    }
    DeviceAttr {
        fw_ver,
        node_guid: offered.node_guid.to_be(),
        sys_image_guid: offered.node_guid.to_be(),
        max_mr_size: offered.max_mr_size,
        page_size_cap: offered.page_sizes,
        vendor_id: VENDOR.0,
        vendor_part_id: VENDOR.1,
        hw_ver: 2,
        max_qp: number(offered.max_qp),
        max_qp_wr: number(offered.max_qp_wr),
        device_cap_flags: DEVICE_CAPS,
        max_sge: number(offered.max_sge),
        max_sge_rd: number(offered.max_sge_read),
        max_cq: number(offered.max_cq),
        max_cqe: number(offered.max_cqe),
        max_mr: number(offered.max_mr),
        max_pd: number(offered.max_pd),
        max_qp_rd_atom: number(offered.max_dest_rd_atomic),
        max_qp_init_rd_atom: number(offered.max_rd_atomic),
        max_mcast_grp: number(offered.max_mcast_groups),
        max_mcast_qp_attach: number(offered.max_mcast_qp_attach),
        max_total_mcast_qp_attach: number(
            offered
                .max_mcast_groups
                .saturating_mul(offered.max_mcast_qp_attach),
        ),
        max_ah: number(offered.max_ah),
        max_pkeys: 1,
        phys_port_cnt: offered.ports,
        ..nothing
    }
}
