//! Names of values, as in libibverbs: programs print them, and scripts look for them.

use core::ffi::{CStr, c_char, c_int};

/// `ibv_node_type_str`.
pub extern "C" fn node_type_str(node_type: c_int) -> *const c_char {
    // From -1, a node of unknown kind.
    const NAMES: &[&CStr] = &[
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    name_of(NAMES, node_type.checked_sub(1), c"unknown")
}

/// `ibv_port_state_str`.
pub extern "C" fn port_state_str(state: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
    ];
    name_of(NAMES, Some(state), c"unknown")
}

/// `ibv_event_type_str`.
pub extern "C" fn event_type_str(event: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    name_of(NAMES, Some(event), c"unknown")
}

/// `ibv_wc_status_str`.
pub extern "C" fn wc_status_str(status: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    name_of(NAMES, Some(status), c"unknown")
}

fn name_of(names: &[&'static CStr], value: Option<c_int>, other: &'static CStr) -> *const c_char {
    let index = value.and_then(|value| usize::try_from(value).ok());
    let name = index.and_then(|index| names.get(index)).copied();
    name.unwrap_or(other).as_ptr()
}
