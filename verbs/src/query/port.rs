//! Queries of a port and its table of P_Keys.

use core::ffi::c_int;

use e810::{Mtu, PortAttr as Port, PortState};

use super::fill;
use crate::abi::device::Context;
use crate::abi::query::PortAttr;
use crate::control::{QueryPkey, QueryPort};
use crate::device::context::OpenContext;
use crate::errno::fail;
use crate::panics::catch_panics;

/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;
/// `IBV_PORT_IP_BASED_GIDS`.
const IP_BASED_GIDS: u32 = 1 << 26;
/// Bytes of `ibv_port_attr` that the exported function fills, for programs older than its last
/// field.
const OLD_PORT_ATTR: usize = 48;

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
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        match open.control().ask(QueryPort { port }) {
            Ok(port) => {
                // SAFETY: the caller's.
                unsafe { fill(&port_attr(&port), attr, size) };
                0
            }
            Err(refused) => refused.errno,
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
        // RoCE has no LID, and a program may take one as a sign of InfiniBand (field-evidence 4).
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

/// A rate in Mbit/s as lanes and speed of InfiniBand, as Linux' `ib_get_eth_speed` does it.
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

/// `ibv_query_pkey`: 0, or -1 and errno; the key is in network byte order.
///
/// # Safety
/// `context` is open, and `pkey` can be written.
pub unsafe extern "C" fn query_pkey(
    context: *mut Context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let Ok(index) = u16::try_from(index) else {
            return fail(libc::EINVAL);
        };
        match open.control().ask(QueryPkey { port, index }) {
            Ok(found) => {
                // SAFETY: the caller's.
                unsafe { pkey.write(found.to_be()) };
                0
            }
            Err(refused) => fail(refused.errno),
        }
    })
}

/// `ibv_get_pkey_index`: the index of a key in network byte order, or -1.
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
