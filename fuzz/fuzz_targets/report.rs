//! Reports of others: whatever a file holds, it is read or refused, and there is a page.

#![no_main]

use e810_report::config_space::ConfigSpace;
use e810_report::{Document, Journal, page};
use libfuzzer_sys::fuzz_target;

/// The first line of a report, so that what follows it is reached.
const HEAD: &[u8] = br#"{"kind":"report","version":1,"program":"e810 0","device":"sim","transport":"simulated","level":4,"identities":false}
"#;

fuzz_target!(|data: &[u8]| {
    let whole = [HEAD, data].concat();
    for bytes in [data, &whole] {
        if let Ok(document) = Document::parse(bytes) {
            let _ = page::page(&document);
            let _ = Journal::<std::fs::File>::to_skip(&document);
        }
    }
    let space = ConfigSpace(data.to_vec());
    let _ = (space.capabilities(), space.sizes(), space.without_serial());
});
