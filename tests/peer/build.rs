//! Puts the commands that the provider library calls into the dynamic symbol
//! table of every program of this package, where the loader looks first; and
//! finds out whether there is a library, so that tests without one are reported
//! as ignored, not as passed.

use std::path::Path;

/// Where distributions put it, below the root.
const PLACES: &[&str] = &[
    "usr/lib/x86_64-linux-gnu/libibverbs",
    "usr/lib/aarch64-linux-gnu/libibverbs",
    "usr/lib64/libibverbs",
    "usr/lib/libibverbs",
];

/// The functions of `src/answers`.
const ANSWERS: &[&str] = &[
    "_verbs_init_and_alloc_context",
    "ibv_cmd_alloc_mw",
    "ibv_cmd_alloc_pd",
    "ibv_cmd_attach_mcast",
    "ibv_cmd_create_ah",
    "ibv_cmd_create_cq_ex",
    "ibv_cmd_create_qp",
    "ibv_cmd_dealloc_mw",
    "ibv_cmd_dealloc_pd",
    "ibv_cmd_dereg_mr",
    "ibv_cmd_destroy_ah",
    "ibv_cmd_destroy_cq",
    "ibv_cmd_destroy_qp",
    "ibv_cmd_detach_mcast",
    "ibv_cmd_get_context",
    "ibv_cmd_modify_qp",
    "ibv_cmd_modify_qp_ex",
    "ibv_cmd_query_device_any",
    "ibv_cmd_query_port",
    "ibv_cmd_query_qp",
    "ibv_cmd_reg_mr",
    "ibv_cmd_resize_cq",
    "ibv_dofork_range",
    "ibv_dontfork_range",
    "ibv_query_gid",
    "verbs_register_driver_34",
    "verbs_set_ops",
    "verbs_uninit_context",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=E810_PEER_ROOT");
    println!("cargo::rustc-check-cfg=cfg(provider_missing)");
    let root = std::env::var("E810_PEER_ROOT").unwrap_or_else(|_| "/".to_owned());
    let there = |place: &str| {
        let library = Path::new(&root).join(place).join("libirdma-rdmav34.so");
        library.exists()
    };
    if !PLACES.iter().any(|place| there(place)) {
        println!("cargo::rustc-cfg=provider_missing");
    }
    for name in ANSWERS {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
}
