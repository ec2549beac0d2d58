//! What the loader left: the entry, the module it brought along, and the command line.
//!
//! The start info is that of the PVH boot protocol (Xen's
//! `public/arch-x86/hvm/start_info.h`): 64-bit little-endian fields behind two
//! of 32 bits.

use core::ffi::CStr;
use core::fmt::Display;
use core::ptr::{self, NonNull, with_exposed_provenance_mut};

use super::exit::{self, Code};
use crate::machine::{Machine, MachineError};
use crate::pci::Window;
use crate::pool::Pool;
use crate::say;

#[cfg(target_os = "none")]
core::arch::global_asm!(include_str!("boot.s"), stack = const super::stack::BYTES);

/// First word of the start info.
const MAGIC: u32 = 0x336e_c578;

/// Bytes of a command line that are looked at.
const LONGEST: usize = 4096;

/// Memory that is written back ends here (`boot.s`).
pub const MEMORY_END: u64 = 2 << 30;
/// What the tables of `boot.s` map ends here.
pub const MAPPED_END: u64 = 2 << 40;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
}

#[repr(C)]
struct Module {
    address: u64,
    bytes: u64,
}

/// Runs `program` on the machine and leaves: the first code in Rust.
///
/// # Safety
/// Called once, by the entry in `boot.s`, with the address of the start info
/// that the loader gave.
pub unsafe fn run<E: Display>(start_info: u32, program: fn(&Machine) -> Result<(), E>) -> ! {
    // SAFETY: the caller's promise.
    let info = unsafe { start_info_at(start_info) };
    // SAFETY: the start info is the loader's.
    let (module, arguments) = unsafe { (module(info.as_ref()), arguments(info.as_ref())) };
    // SAFETY: called once, so there is one machine.
    let machine = module.and_then(|module| unsafe { Machine::start(module, arguments) });
    exit::leave(match machine {
        Ok(machine) => {
            let ended = program(&machine);
            machine.silence();
            ended.map_or_else(|error| failed(&error), |()| Code::Good)
        }
        Err(error) => failed(&error),
    })
}

fn failed(error: &dyn Display) -> Code {
    say!("FAILED {error}");
    Code::Failed
}

/// The start info, if there is one.
///
/// # Safety
/// As [`run`].
unsafe fn start_info_at(address: u32) -> Option<StartInfo> {
    // SAFETY: the loader leaves the start info in memory, which is mapped.
    let info: StartInfo =
        unsafe { ptr::read_unaligned(ptr::with_exposed_provenance(address as usize)) };
    (info.magic == MAGIC).then_some(info)
}

/// The command line, empty without one.
///
/// # Safety
/// `info` is the loader's.
unsafe fn arguments(info: Option<&StartInfo>) -> &'static str {
    let address = info.map_or(0, |info| info.command_line) as usize;
    // One that was put where the program is, is none any more.
    let free = usize::min(LONGEST, image_start().saturating_sub(address));
    if address == 0 {
        return "";
    }
    let start = ptr::with_exposed_provenance(address);
    // SAFETY: in memory, below this program's own, and nobody's but ours since the loader is
    // gone; it is never written.
    text(unsafe { core::slice::from_raw_parts(start, free) })
}

/// What is before the first NUL; nothing where that is none, or no text.
fn text(bytes: &[u8]) -> &str {
    let text = CStr::from_bytes_until_nul(bytes).ok();
    text.and_then(|text| text.to_str().ok()).unwrap_or_default()
}

/// The first module, as bytes that nobody changes; `None` without one.
///
/// # Errors
/// [`MachineError::Module`] where the loader put it over the program or outside
/// of memory.
///
/// # Safety
/// `info` is the loader's.
unsafe fn module(info: Option<&StartInfo>) -> Result<Option<&'static [u8]>, MachineError> {
    let Some(info) = info.filter(|info| info.modules > 0 && info.module_list < MEMORY_END) else {
        return Ok(None);
    };
    let list = info.module_list as usize;
    // SAFETY: with at least one module the list has an entry; it is in memory,
    // as just seen.
    let first: Module = unsafe { ptr::read_unaligned(ptr::with_exposed_provenance(list)) };
    let Module { address, bytes } = first;
    let end = address.checked_add(bytes);
    if address < image_end() || bytes == 0 || end.is_none_or(|end| end > MEMORY_END) {
        return Err(MachineError::Module { address, bytes });
    }
    let start = ptr::with_exposed_provenance(address as usize);
    // SAFETY: in memory, behind this program's own, and nobody's but ours since
    // the loader is gone; it is never written.
    Ok(Some(unsafe {
        core::slice::from_raw_parts(start, bytes as usize)
    }))
}

#[cfg(target_os = "none")]
fn image_start() -> usize {
    unsafe extern "C" {
        static image_start: u8;
    }
    (&raw const image_start).addr()
}

#[cfg(target_os = "none")]
fn image_end() -> u64 {
    unsafe extern "C" {
        static image_end: u8;
    }
    (&raw const image_end).addr() as u64
}

/// On a host, where the parts are tested, no loader comes along.
#[cfg(not(target_os = "none"))]
fn image_start() -> usize {
    0
}

#[cfg(not(target_os = "none"))]
fn image_end() -> u64 {
    MEMORY_END
}

/// Where a window on registers is reached: at its own address, where `boot.s` has
/// everything mapped uncached. `None` at address 0.
pub(crate) fn map(_: &Pool, window: Window) -> Option<NonNull<u8>> {
    NonNull::new(with_exposed_provenance_mut(window.address as usize))
}

/// Makes `program`, a `fn(&Machine) -> Result<(), impl Display>`, what the
/// machine runs.
#[macro_export]
macro_rules! entry {
    ($program:path) => {
        /// Called by `boot.s`.
        // SAFETY: no other symbol has this name.
        #[unsafe(no_mangle)]
        extern "C" fn unikernel_entry(start_info: u32) -> ! {
            // SAFETY: only `boot.s` calls this, once, with that address.
            unsafe { $crate::boot::run(start_info, $program) }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_command_line_ends_at_its_first_nul() {
        assert_eq!(text(b"dhcp now\0later\0"), "dhcp now");
        assert_eq!(text(b"\0dhcp"), "");
        assert_eq!(text(b"without an end"), "");
        assert_eq!(text(b"\xffdhcp\0"), "");
        assert_eq!(text(b""), "");
    }
}
