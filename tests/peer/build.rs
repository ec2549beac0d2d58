//! Puts the commands that the provider library calls into the dynamic symbol
//! table of every program of this package, where the loader looks first.

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
    for name in ANSWERS {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
}
