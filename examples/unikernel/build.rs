//! Names the linker script by its whole path: the linker runs elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=link.x");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        let folder = env!("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-link-arg-bins=-T{folder}/link.x");
        // Sections that stay in the file; the script is in the crate's output.
        if std::env::var_os("CARGO_FEATURE_DEFMT").is_some() {
            println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
        }
    }
}
