//! What devices, ports and their tables are.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;

use e810::{DeviceAttr as Offered, Mtu, PortAttr as Port, PortState};

use crate::abi::device::Context;
use crate::abi::query::{DeviceAttr, DeviceAttrEx, GidEntry, PortAttr};
use crate::abi::state::Gid;
use crate::control::{Answer, Command, Refused};
use crate::device::context::OpenContext;
use crate::entry::entry;
use crate::errno::{self, fail};

/// Intel's PCI vendor id, and the device id that all functions here are taken for.
const VENDOR: (u32, u32) = (0x8086, 0x1592);
/// `IBV_DEVICE_MEM_WINDOW`… what Linux' irdma reports of RoCE: here only "receiver not ready" NAKs,
/// `IBV_DEVICE_RC_RNR_NAK_GEN`. Memory windows and fast registration are not among what programs
/// can use through this library.
const DEVICE_CAPS: c_uint = 1 << 12;
/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;
/// `IBV_PORT_IP_BASED_GIDS`.
const IP_BASED_GIDS: u32 = 1 << 26;
/// `IBV_GID_TYPE_ROCE_V2`, and its number in sysfs.
const ROCE_V2: (u32, c_int) = (2, 1);
/// Bytes of `ibv_port_attr` that the exported function fills, for programs older than its last
/// field.
const OLD_PORT_ATTR: usize = 48;

/// `ibv_query_device`: 0 or the error.
///
/// # Safety
/// `context` is open, and `attr` can be written.
pub unsafe extern "C" fn query_device(context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        match offered(open) {
            Ok(offered) => {
                // SAFETY: the caller's.
                unsafe { attr.write(device_attr(&offered)) };
                0
            }
            Err(refused) => errno::of(&refused),
        }
    })
}

/// `ibv_query_device_ex`, through the context: `size` bytes at `attr` are the program's structure.
///
/// # Safety
/// `context` is open, and `size` bytes can be written at `attr`.
pub unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _: *const c_void,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let offered = match offered(open) {
            Ok(offered) => offered,
            Err(refused) => return errno::of(&refused),
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

/// Writes `size` bytes at `to`: as much of `whole` as fits, and zeroes behind it.
///
/// # Safety
/// `size` bytes can be written at `to`.
unsafe fn fill<T: Copy>(whole: &T, to: *mut T, size: usize) {
    let (to, whole) = (to.cast::<u8>(), ptr::from_ref(whole).cast::<u8>());
    let known = size.min(size_of::<T>());
    // SAFETY: the caller's; `known` is within both.
    unsafe {
        to.write_bytes(0, size);
        to.copy_from_nonoverlapping(whole, known);
    }
}

fn offered(open: &OpenContext) -> Result<Offered, Refused> {
    match open.call(&Command::QueryDevice)? {
        Answer::Device(offered) => Ok(offered),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(answer: &Answer) -> Refused {
    Refused::Gone(format!(
        "the control path answered {answer:?}; please report it"
    ))
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

/// `ibv_query_port`, as the library exports it: 48 bytes.
///
/// # Safety
/// `context` is open, and 48 bytes can be written at `attr`.
pub unsafe extern "C" fn query_port(context: *mut Context, port: u8, attr: *mut PortAttr) -> c_int {
    // SAFETY: the caller's.
    unsafe { query_port_sized(context, port, attr, OLD_PORT_ATTR) }
}

/// `ibv_query_port`, as `verbs.h` calls it through the context.
///
/// # Safety
/// `context` is open, and `size` bytes can be written at `attr`.
pub unsafe extern "C" fn query_port_sized(
    context: *mut Context,
    port: u8,
    attr: *mut PortAttr,
    size: usize,
) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        match open.call(&Command::QueryPort(port)) {
            Ok(Answer::Port(port)) => {
                // SAFETY: the caller's.
                unsafe { fill(&port_attr(&port), attr, size) };
                0
            }
            Ok(other) => errno::of(&unexpected(&other)),
            Err(refused) => errno::of(&refused),
        }
    })
}

fn port_attr(port: &Port) -> PortAttr {
    let is_up = port.state == PortState::Active;
    let (active_width, active_speed) = width_and_speed(port.mbps);
    // SAFETY: numbers.
    let nothing: PortAttr = unsafe { core::mem::zeroed() };
    PortAttr {
        state: port.state as c_int,
        max_mtu: mtu(port.max_mtu),
        active_mtu: mtu(port.active_mtu.unwrap_or(Mtu::Mtu256)),
        gid_tbl_len: port.gids.into(),
        port_cap_flags: IP_BASED_GIDS,
        max_msg_sz: port.max_msg_sz,
        pkey_tbl_len: port.pkeys,
        // RoCE has no LID, and a program may take one for a sign of InfiniBand (field-evidence 4).
        lid: port.lid,
        max_vl_num: 1,
        active_width,
        active_speed,
        // LinkUp, or Disabled.
        phys_state: if is_up { 5 } else { 3 },
        link_layer: ETHERNET,
        ..nothing
    }
}

/// `enum ibv_mtu`.
fn mtu(mtu: Mtu) -> c_int {
    match mtu.bytes() {
        256 => 1,
        512 => 2,
        1024 => 3,
        2048 => 4,
        _ => 5,
    }
}

/// A rate in Mbit/s as lanes and speed of InfiniBand, as Linux' `ib_get_eth_speed` has it.
const fn width_and_speed(mbps: u32) -> (u8, u8) {
    // 1X and 4X; SDR, DDR, FDR10, EDR.
    match mbps {
        0..=1_000 => (1, 1),
        1_001..=10_000 => (1, 8),
        10_001..=20_000 => (2, 2),
        20_001..=25_000 => (1, 32),
        25_001..=40_000 => (2, 8),
        // 2X.
        40_001..=50_000 => (16, 32),
        _ => (2, 32),
    }
}

/// `ibv_query_pkey`: 0, or -1 and errno; the key in the order of the network.
///
/// # Safety
/// `context` is open, and `pkey` can be written.
pub unsafe extern "C" fn query_pkey(
    context: *mut Context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    entry(fail(libc::EIO), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let Ok(index) = u16::try_from(index) else {
            return fail(libc::EINVAL);
        };
        match open.call(&Command::QueryPkey { port, index }) {
            Ok(Answer::Pkey(found)) => {
                // SAFETY: the caller's.
                unsafe { pkey.write(found.to_be()) };
                0
            }
            Ok(other) => fail(errno::of(&unexpected(&other))),
            Err(refused) => fail(errno::of(&refused)),
        }
    })
}

/// `ibv_get_pkey_index`: the index of a key in the order of the network, or -1.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn get_pkey_index(context: *mut Context, port: u8, pkey: u16) -> c_int {
    let mut found = 0;
    // SAFETY: the caller's.
    match unsafe { query_pkey(context, port, 0, &raw mut found) } {
        0 if found == pkey => 0,
        _ => -1,
    }
}

/// An entry of the GID table; an error for an index that is none, ENODATA for one without entry.
fn gid(open: &OpenContext, port: u32, index: u32) -> Result<Gid, c_int> {
    let ports = open.call(&Command::QueryPort(u8::try_from(port).unwrap_or(0)));
    let gids = match ports {
        Ok(Answer::Port(port)) => u32::from(port.gids),
        Ok(other) => return Err(errno::of(&unexpected(&other))),
        Err(refused) => return Err(errno::of(&refused)),
    };
    let index = u8::try_from(index)
        .ok()
        .filter(|index| u32::from(*index) < gids);
    match open.call(&Command::QueryGid(index.ok_or(libc::EINVAL)?)) {
        Ok(Answer::Gid(Some(found))) => Ok(Gid { raw: found.gid.0 }),
        Ok(Answer::Gid(None)) => Err(libc::ENODATA),
        Ok(other) => Err(errno::of(&unexpected(&other))),
        Err(refused) => Err(errno::of(&refused)),
    }
}

/// `ibv_query_gid`: 0, or -1 and errno; zeroes for an index without entry, as in sysfs.
///
/// # Safety
/// `context` is open, and `into` can be written.
pub unsafe extern "C" fn query_gid(
    context: *mut Context,
    port: u8,
    index: c_int,
    into: *mut Gid,
) -> c_int {
    entry(fail(libc::EIO), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let found = u32::try_from(index).map_err(|_| libc::EINVAL);
        let found = match found.and_then(|index| gid(open, port.into(), index)) {
            Ok(found) => found,
            Err(libc::ENODATA) => Gid { raw: [0; 16] },
            Err(number) => return fail(number),
        };
        // SAFETY: the caller's.
        unsafe { into.write(found) };
        0
    })
}

/// `ibv_query_gid_type`, for programs of the same package: the number that sysfs gives it.
///
/// # Safety
/// `context` is open, and `kind` can be written.
pub unsafe extern "C" fn query_gid_type(
    context: *mut Context,
    port: u8,
    index: c_uint,
    kind: *mut c_int,
) -> c_int {
    entry(fail(libc::EIO), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        if let Err(number) = gid(open, port.into(), index)
            && number != libc::ENODATA
        {
            return fail(number);
        }
        // SAFETY: the caller's.
        unsafe { kind.write(ROCE_V2.1) };
        0
    })
}

/// `ibv_query_gid_ex`: 0 or the error; ENODATA for an index without entry.
///
/// # Safety
/// `context` is open, and `size` bytes can be written at `into`.
pub unsafe extern "C" fn query_gid_ex(
    context: *mut Context,
    port: u32,
    index: u32,
    into: *mut GidEntry,
    flags: u32,
    size: usize,
) -> c_int {
    entry(libc::EIO, || {
        if flags != 0 {
            return libc::EINVAL;
        }
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        match gid(open, port, index) {
            Ok(found) => {
                // SAFETY: the caller's.
                unsafe { fill(&gid_entry(found, port, index), into, size) };
                0
            }
            Err(number) => number,
        }
    })
}

fn gid_entry(gid: Gid, port_num: u32, gid_index: u32) -> GidEntry {
    GidEntry {
        gid,
        gid_index,
        port_num,
        gid_type: ROCE_V2.0,
        // There is no interface.
        ndev_ifindex: 0,
    }
}

/// `ibv_query_gid_table`: how many entries were written, or an error less than 0.
///
/// # Safety
/// `context` is open, and `most` entries of `size` bytes can be written at `entries`.
pub unsafe extern "C" fn query_gid_table(
    context: *mut Context,
    entries: *mut GidEntry,
    most: usize,
    flags: u32,
    size: usize,
) -> isize {
    entry(-(libc::EIO as isize), || {
        if flags != 0 {
            return -(libc::EINVAL as isize);
        }
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let mut count = 0;
        for index in 0.. {
            match gid(open, 1, index) {
                Ok(found) if count < most => {
                    let into = entries.wrapping_byte_add(count * size);
                    // SAFETY: the caller's: it is one of `most`.
                    unsafe { fill(&gid_entry(found, 1, index), into, size) };
                    count += 1;
                }
                Ok(_) => return -(libc::EINVAL as isize),
                Err(libc::ENODATA) => {}
                Err(libc::EINVAL) => break,
                Err(number) => return -(number as isize),
            }
        }
        count as isize
    })
}
