//! A program that loads libibverbs.so.1 when it runs, as many do, for the test of `e810 run`.
//!
//! `devices list`, `devices hold` (lists and stays until its input ends), `devices fork` (lists,
//! and has a child open the parent's device and list its own), `devices guid` (before and after the
//! device is open). A line of output is the process and, for each device, name and GUID.

// UNSAFETY: loads a C library and calls its functions as C does.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program of a test, which fails by panicking"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Read as _;
use std::process;

type Pointer = *mut c_void;

fn function(name: &CStr) -> Pointer {
    // SAFETY: strings; what is loaded stays.
    let function = unsafe {
        let library = libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "no libibverbs.so.1");
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!function.is_null(), "{name:?}");
    function
}

/// The pointers of the list, which is not freed.
fn devices() -> Vec<Pointer> {
    let mut count = 0;
    // SAFETY: the function's type, a place for the count, and a list of so many.
    unsafe {
        let list: extern "C" fn(*mut c_int) -> *const Pointer =
            std::mem::transmute(function(c"ibv_get_device_list"));
        let list = list(&raw mut count);
        (0..count as usize).map(|index| *list.add(index)).collect()
    }
}

fn guid(device: Pointer) -> u64 {
    // SAFETY: the function's type, and a device of the list.
    unsafe {
        let guid: extern "C" fn(Pointer) -> u64 =
            std::mem::transmute(function(c"ibv_get_device_guid"));
        u64::from_be(guid(device))
    }
}

fn print(devices: &[Pointer]) {
    let describe = |device: &Pointer| {
        // SAFETY: the function's type, and a device of the list, whose name stays.
        let name = unsafe {
            let name: extern "C" fn(Pointer) -> *const c_char =
                std::mem::transmute(function(c"ibv_get_device_name"));
            CStr::from_ptr(name(*device))
        };
        format!(" {}={:016x}", name.to_str().unwrap(), guid(*device))
    };
    let devices = devices.iter().map(describe).collect::<String>();
    println!("{}{devices}", process::id());
}

/// What an open device says of itself.
fn guid_when_open(device: Pointer) -> u64 {
    // Room for `ibv_device_attr`, whose node_guid is the ninth word.
    let mut attr = [0_u64; 29];
    // SAFETY: the functions' types, a device of the list, and room for the answer.
    unsafe {
        let open: extern "C" fn(Pointer) -> Pointer =
            std::mem::transmute(function(c"ibv_open_device"));
        let query: extern "C" fn(Pointer, *mut u64) -> c_int =
            std::mem::transmute(function(c"ibv_query_device"));
        let context = open(device);
        assert!(!context.is_null(), "not opened");
        assert_eq!(query(context, attr.as_mut_ptr()), 0);
    }
    u64::from_be(attr[8])
}

fn main() {
    let devices = devices();
    print(&devices);
    match std::env::args().nth(1).as_deref() {
        Some("hold") => drop(std::io::stdin().read_to_end(&mut Vec::new()).unwrap()),
        Some("guid") => println!("{:016x}", guid_when_open(devices[0])),
        Some("fork") => {
            // SAFETY: the process has one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                println!("{:016x}", guid_when_open(devices[0]));
                return print(&self::devices());
            }
            let mut status = -1;
            // SAFETY: the child that was made, and a place for its status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }
        _ => {}
    }
}
