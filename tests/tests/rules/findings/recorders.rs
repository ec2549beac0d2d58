//! What the simulator records findings with: every function, and every list of texts.

/// What an argument of a recorder is, or what the recorder adds.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Argument(usize),
    Fixed(&'static str),
    /// A constant: of findings.rs, or of a file with its path.
    Named(&'static str),
}
use Part::{Argument, Fixed, Named};

/// A function that records what it is given.
pub(crate) struct Recorder {
    /// As it is called.
    pub(crate) call: &'static str,
    /// The file that it is private to; empty: all.
    pub(crate) file: &'static str,
    pub(crate) class: Part,
    pub(crate) kind: Part,
    pub(crate) text: usize,
}

const fn recorder(
    call: &'static str,
    file: &'static str,
    class: Part,
    kind: Part,
    text: usize,
) -> Recorder {
    Recorder {
        call,
        file,
        class,
        kind,
        text,
    }
}

/// Everything that records, and where its texts are.
pub(crate) const RECORDERS: &[Recorder] = &[
    recorder(".finding", "", Argument(0), Argument(1), 2),
    recorder(".found", "", Argument(0), Argument(1), 2),
    recorder("log.add", "", Argument(2), Argument(3), 4),
    recorder("self.lint", "bar.rs", Fixed("lint"), Argument(2), 3),
    recorder(" found", "driver_memory.rs", Fixed("fault"), Argument(0), 1),
    recorder(
        "Refusal::parameter",
        "",
        Fixed("fault"),
        Fixed("cqp-parameter"),
        1,
    ),
    recorder("Refusal::state", "", Fixed("fault"), Fixed("cqp-state"), 1),
    recorder("Refusal::stag", "", Fixed("fault"), Fixed("cqp-stag"), 1),
    recorder(
        "Refusal::opcode",
        "",
        Fixed("fault"),
        Fixed("cqp-opcode"),
        1,
    ),
    recorder(
        ".lint_packet",
        "",
        Fixed("lint"),
        Named("pe/packet_lints.rs::KIND"),
        1,
    ),
    recorder(
        ".unknown_object",
        "fw/switch_rules.rs",
        Fixed("lint"),
        Named("ADMINQ_UNKNOWN_OBJECT"),
        0,
    ),
];

/// A function that passes on what it is given: its callers have the texts, as recorders above or
/// in lists below.
pub(crate) struct Forwarder {
    pub(crate) file: &'static str,
    pub(crate) function: &'static str,
    /// What it records with: a constant, or what it was given.
    pub(crate) class: &'static str,
    pub(crate) kind: &'static str,
}

const fn forwarder(
    file: &'static str,
    function: &'static str,
    class: &'static str,
    kind: &'static str,
) -> Forwarder {
    Forwarder {
        file,
        function,
        class,
        kind,
    }
}

/// All of them. Each records once.
#[rustfmt::skip]
pub(crate) const FORWARDERS: &[Forwarder] = &[
    forwarder("bar.rs", "lint", "Class::Lint", "kind"),
    forwarder("function.rs", "refused", "Class::Fault", "refused.refusal.kind()"),
    forwarder("function/env.rs", "finding", "class", "kind"),
    forwarder("fw/switch_rules.rs", "unknown_object", "Class::Lint", "kind::ADMINQ_UNKNOWN_OBJECT"),
    forwarder("machine.rs", "check_freed", "Class::Fault", "kind"),
    forwarder("pe/cqp/command.rs", "opcode", "Class::Fault", "\"cqp-opcode\""),
    forwarder("pe/cqp/command.rs", "parameter", "Class::Fault", "\"cqp-parameter\""),
    forwarder("pe/cqp/command.rs", "stag", "Class::Fault", "\"cqp-stag\""),
    forwarder("pe/cqp/command.rs", "state", "Class::Fault", "\"cqp-state\""),
    forwarder("pe/packet_lints.rs", "lint_packet", "Class::Lint", "KIND"),
    forwarder("platform.rs", "give_back", "Class::Fault", "kind"),
];

/// Texts that a finding is put together from, or that lead to one: file, where they begin and
/// end, class and kind.
pub(crate) const LISTS: &[(&str, &str, &str, &str, &str)] = &[
    ("wqe/lints.rs", "const NAMES", "];", "lint", "wqe-bits"),
    (
        "wqe/error.rs",
        "pub enum WqeError",
        "\n}",
        "fault",
        "wqe-malformed",
    ),
    (
        "rc/config.rs",
        "pub enum ConfigError",
        "\n}",
        "fault",
        "cqp-parameter",
    ),
    (
        "rc/config.rs",
        "#[error(",
        "pub struct BadMtu",
        "fault",
        "cqp-parameter",
    ),
    (
        "pe/host_context.rs",
        "pub(crate) enum BadContext",
        "\n}",
        "fault",
        "cqp-parameter",
    ),
    (
        "pe/hmc.rs",
        "let (code, text) = match",
        "};",
        "fault",
        "hmc-backing",
    ),
];

/// Events that are a finding by their number (`wqe-malformed`): each use is a rule.
pub(crate) const MALFORMED: [&str; 3] = [
    "AeCode::WQE_UNEXPECTED_OPCODE",
    "AeCode::WQE_INVALID_PARAMETER",
    "AeCode::WQE_INVALID_FRAG_DATA",
];

/// Where those events have their numbers, and where errors of [`LISTS`] become events.
pub(crate) const NAMES_EVENTS: [&str; 2] = ["wqe/ae.rs", "wqe/error.rs"];

/// Functions that do work of which a finding is a part, and that no rule stands for.
pub(crate) const WORK: &[&str] = &[
    "async_event",
    "check_messages",
    "complete",
    "create",
    "fetch",
    "flush_ring",
    "read_consumer",
    "receive_ud",
];
