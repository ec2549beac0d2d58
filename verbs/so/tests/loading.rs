//! A program that loads the library when it runs, and unloads it: it stays, with its thread.

// UNSAFETY: loads a C library and calls functions of it as C does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod library;

use std::env;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;

type Pointer = *mut c_void;

/// Loads it, without any name for programs that are loaded later.
fn load(path: &CStr) -> Pointer {
    // SAFETY: a string; what it runs when it is loaded is the library's business.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null());
    library
}

fn function(library: Pointer, name: &CStr) -> Pointer {
    // SAFETY: the library is loaded.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!function.is_null(), "{name:?}");
    function
}

#[test]
fn a_library_that_is_unloaded_stays_with_its_devices() {
    // SAFETY: no other thread of this process reads the environment now.
    unsafe { env::set_var("E810_VERBS", "sim") };
    let path = library::path();
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut devices = Vec::new();
    let mut context = None;
    for _ in 0..3 {
        let library = load(&path);
        let mut count = 0;
        // SAFETY: the functions' types, a place for the count, a list of one, and that device.
        unsafe {
            let list: extern "C" fn(*mut c_int) -> *const Pointer =
                std::mem::transmute(function(library, c"ibv_get_device_list"));
            let open: extern "C" fn(Pointer) -> Pointer =
                std::mem::transmute(function(library, c"ibv_open_device"));
            let query: extern "C" fn(Pointer, *mut u64) -> c_int =
                std::mem::transmute(function(library, c"ibv_query_device"));
            let device = *list(&raw mut count);
            devices.push(device);
            let opened = *context.get_or_insert_with(|| open(device));
            assert!(!opened.is_null());
            assert_eq!(libc::dlclose(library), 0);
            // What was in it is there still, also the thread behind the device.
            let mut attr = [0_u64; 29];
            assert_eq!(query(opened, attr.as_mut_ptr()), 0);
        }
        assert_eq!(count, 1);
    }
    assert!(devices.iter().all(|device| *device == devices[0]));
}
