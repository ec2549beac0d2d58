//! What the program is linked with: a linker script, by its whole path because the
//! linker runs elsewhere; in Hermit its kernel.

fn main() {
    println!("cargo::rerun-if-changed=link.x");
    println!("cargo::rerun-if-env-changed=E810_HERMIT_LIBRARY");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // Without it the program can be checked, not linked.
    let kernel = std::env::var("E810_HERMIT_LIBRARY").ok();
    if let Some(kernel) = kernel.filter(|_| os == "hermit") {
        println!("cargo::rustc-link-arg-bins={kernel}");
    }
    if os == "none" {
        let folder = env!("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-link-arg-bins=-T{folder}/link.x");
        // Sections that stay in the file; the script is in the crate's output.
        if std::env::var_os("CARGO_FEATURE_DEFMT").is_some() {
            println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
        }
    }
}
