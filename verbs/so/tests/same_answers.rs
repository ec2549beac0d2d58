//! Functions that need no device answer as those of the installed library, for every value near the
//! known ones.

// UNSAFETY: loads two C libraries and calls functions of both that only take a number.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod library;

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A loaded library.
struct Library(*mut c_void);

impl Library {
    fn load(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string; what it runs when it is loaded is the library's business.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: there was an error, so there is a text.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(why.to_string_lossy().into_owned());
        }
        Ok(Self(handle))
    }

    fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library stays loaded.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!function.is_null(), "{name:?}");
        function
    }

    fn number(&self, name: &CStr, value: c_int) -> c_int {
        // SAFETY: the caller names a function of this type.
        let function: extern "C" fn(c_int) -> c_int =
            unsafe { std::mem::transmute(self.function(name)) };
        function(value)
    }

    fn text(&self, name: &CStr, value: c_int) -> String {
        // SAFETY: the caller names a function of this type.
        let function: extern "C" fn(c_int) -> *const c_char =
            unsafe { std::mem::transmute(self.function(name)) };
        // SAFETY: all of them give a string that stays.
        let text = unsafe { CStr::from_ptr(function(value)) };
        text.to_string_lossy().into_owned()
    }
}

#[test]
fn strings_and_rates_are_those_of_the_installed_library() {
    let Some(paths) = env::var_os("E810_LIBIBVERBS") else {
        println!("NOT RUN: E810_LIBIBVERBS names no library; tests/programs/run fetches two");
        return;
    };
    let ours = Library::load(&library::path()).unwrap();
    let mut loaded = 0;
    for path in env::split_paths(&paths) {
        let theirs = match Library::load(&path) {
            Ok(theirs) => theirs,
            Err(why) => {
                println!("NOT RUN: {why}");
                continue;
            }
        };
        loaded += 1;
        for name in [
            c"ibv_node_type_str",
            c"ibv_port_state_str",
            c"ibv_event_type_str",
            c"ibv_wc_status_str",
        ] {
            for value in -3..40 {
                let (a, b) = (ours.text(name, value), theirs.text(name, value));
                assert_eq!(a, b, "{name:?}({value}), {}", path.display());
            }
        }
        for name in [c"ibv_rate_to_mult", c"ibv_rate_to_mbps"] {
            for value in -3..40 {
                let (a, b) = (ours.number(name, value), theirs.number(name, value));
                assert_eq!(a, b, "{name:?}({value}), {}", path.display());
            }
        }
        for (name, most) in [(c"mult_to_ibv_rate", 500), (c"mbps_to_ibv_rate", 1_300_000)] {
            for value in -3..most {
                let (a, b) = (ours.number(name, value), theirs.number(name, value));
                assert_eq!(a, b, "{name:?}({value}), {}", path.display());
            }
        }
    }
    assert!(loaded > 0, "none of {paths:?} could be loaded");
}
