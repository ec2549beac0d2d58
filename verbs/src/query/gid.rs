//! The GID table.

use core::ffi::{c_int, c_uint};

use super::fill;
use crate::abi::device::Context;
use crate::abi::query::GidEntry;
use crate::abi::state::Gid;
use crate::control::{QueryGids, QueryPort, Refused};
use crate::device::context::OpenContext;
use crate::errno::fail;
use crate::panics::catch_panics;

/// `IBV_GID_TYPE_ROCE_V2`, and its number in sysfs.
const ROCE_V2: (u32, c_int) = (2, 1);

/// An entry; EINVAL for an index outside the table, ENODATA for an index without entry.
fn gid(open: &OpenContext, port: u32, index: u32) -> Result<Gid, c_int> {
    let control = open.control();
    let number = |refused: Refused| refused.errno;
    let port = control.ask(QueryPort {
        port: u8::try_from(port).unwrap_or(0),
    });
    let gids = port.map_err(number)?.gids;
    let index = u8::try_from(index).ok().filter(|index| *index < gids);
    let index = index.ok_or(libc::EINVAL)?;
    let table = control.ask(QueryGids {}).map_err(number)?;
    let entry = table.get(index).ok_or(libc::ENODATA)?;
    Ok(Gid { raw: entry.gid.0 })
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
    catch_panics(-1, || {
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

/// `ibv_query_gid_type`, for programs of the same package: the number that sysfs uses.
///
/// # Safety
/// `context` is open, and `kind` can be written.
pub unsafe extern "C" fn query_gid_type(
    context: *mut Context,
    port: u8,
    index: c_uint,
    kind: *mut c_int,
) -> c_int {
    catch_panics(-1, || {
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
    catch_panics(libc::EIO, || {
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
        // There is no network interface.
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
    catch_panics(-(libc::EIO as isize), || {
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
