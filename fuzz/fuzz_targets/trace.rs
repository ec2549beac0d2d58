//! Traces of others: whatever a file holds, it is read or refused, shown, and compared with
//! itself.

#![no_main]

use e810_trace::{Kinds, Trace, diff, show};
use libfuzzer_sys::fuzz_target;

/// The first line of a trace, so that what follows it is reached.
const HEAD: &[u8] = br#"{"kind":"trace","version":1,"program":"e810 0"}
"#;

fuzz_target!(|data: &[u8]| {
    let whole = [HEAD, data].concat();
    for bytes in [data, &whole] {
        if let Ok(trace) = Trace::parse(bytes) {
            let mut out = Vec::new();
            let shown = show(&trace, Kinds::ALL, &mut out);
            assert!(shown.is_ok(), "memory takes every line");
            assert_eq!(diff(("a", &trace), ("b", &trace), Kinds::ALL), "");
        }
    }
});
