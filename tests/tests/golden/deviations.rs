//! Where we differ from a vector on purpose: the one list of it.

/// The only reasons to differ from a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The recorded software accepts input that we refuse with a typed error,
    /// or refuses it with another code.
    RefusesBadInput,
    /// `vectors/README.md` lists it as not judged.
    NotJudged,
    /// User-space software was recorded, and we do what kernel drivers do; the
    /// judge compares with that.
    KernelPolicy,
}

/// A case that we answer differently on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// File name.
    pub file: &'static str,
    /// Case name; a `*` at the end stands for any rest.
    pub case: &'static str,
    /// Which of the allowed reasons.
    pub rule: Rule,
    /// What we do instead and why, in one line.
    pub why: &'static str,
}

/// The one table of deviations: what we do instead, and why.
pub const DEVIATIONS: &[Deviation] = &[
    Deviation {
        file: "cq_arm.json",
        case: "seq_*",
        rule: Rule::KernelPolicy,
        why: "a request is not rung for while one that covers it is out: four unread ones would be lost",
    },
    Deviation {
        file: "cq_poll.json",
        case: "sq_flush_empty_ring",
        rule: Rule::RefusesBadInput,
        why: "an entry for a request that is not outstanding completes nothing",
    },
    Deviation {
        file: "cqp_wqes.json",
        case: "ws_node_0",
        rule: Rule::RefusesBadInput,
        why: "a node id of more than 14 bits is refused, not cut off",
    },
    Deviation {
        file: "kernel_cq_poll.json",
        case: "shadow_head_updates_200_valid_cqes",
        rule: Rule::NotJudged,
        why: "the head is written for each entry, as user space does; the kernel leaves out multiples of 64",
    },
    Deviation {
        file: "sq_wqes.json",
        case: "send_sge1_len_bit31_masked",
        rule: Rule::RefusesBadInput,
        why: "a length of 2^31 and more does not fit the fragment: refused, not cut off",
    },
    Deviation {
        file: "sq_wqes.json",
        case: "write_sge0_nonnull_list",
        rule: Rule::RefusesBadInput,
        why: "a list has the SGEs it has: one that num_sge does not count cannot be given",
    },
    Deviation {
        file: "sq_wqes.json",
        case: "ud_send_field_masking",
        rule: Rule::RefusesBadInput,
        why: "numbers that do not fit their field are refused, not cut off",
    },
    Deviation {
        file: "verbs_post.json",
        case: "send_in_reset_state",
        rule: Rule::RefusesBadInput,
        why: "a QP in RESET takes no requests",
    },
    Deviation {
        file: "verbs_post.json",
        case: "recv_reset_state",
        rule: Rule::RefusesBadInput,
        why: "a QP in RESET takes no requests",
    },
    Deviation {
        file: "verbs_post.json",
        case: "ud_write_not_rejected",
        rule: Rule::RefusesBadInput,
        why: "a datagram QP only sends",
    },
    Deviation {
        file: "verbs_post.json",
        case: "empty_list",
        rule: Rule::RefusesBadInput,
        why: "an empty list rings no doorbell",
    },
];

/// Where the simulated device differs from what the recorder made up.
pub const DEVICE_DEVIATIONS: &[Deviation] = &[
    Deviation {
        file: "cq_poll.json",
        case: "rq_ok_ext_no_flags_*",
        rule: Rule::NotJudged,
        why: "an extension entry that carries nothing: the device writes none",
    },
    Deviation {
        file: "cq_poll.json",
        case: "ud_sq_err_e001_ignored",
        rule: Rule::NotJudged,
        why: "the recorded software hides the error, so its decode does not show it",
    },
    Deviation {
        file: "cq_poll.json",
        case: "sq_err_major_fffe_ae050a",
        rule: Rule::NotJudged,
        why: "major 0xfffe is of a later generation: software puts a flush code in place of the AE code",
    },
    Deviation {
        file: "cq_poll.json",
        case: "rq_err_major_fffe_unknown_ae",
        rule: Rule::NotJudged,
        why: "major 0xfffe is of a later generation: software puts a flush code in place of the AE code",
    },
];
