//! Hands the linker the versions of the names.

use std::env;

fn main() {
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=hns.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/hns.map");
}
