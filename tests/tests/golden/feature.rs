//! What the device, its drivers or a later generation have and this core does
//! not: the only reasons to leave a case out.

/// A feature without which a case cannot be run. Each is a row of
/// `docs/verbs.md`, so that a reader learns of it there and not from a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// The other protocol of the engine.
    Iwarp,
    /// Requests written through the BAR.
    PushPages,
    /// L4LEN and the UDP flag of iWARP's privileged datagrams.
    RawDatagrams,
    /// CQEs of a later generation.
    WideCompletions,
    /// Compare-and-swap, fetch-and-add.
    Atomics,
    /// IBV_WR_TSO and IBV_WR_DRIVER1.
    OtherRequests,
    /// GEN_AE, MODIFY_ADDR_HANDLE, MANAGE_PUSH_PAGES, UP_MAP.
    OtherCommands,
}

impl Feature {
    #[cfg(test)]
    const ALL: [Self; 7] = [
        Self::Iwarp,
        Self::PushPages,
        Self::RawDatagrams,
        Self::WideCompletions,
        Self::Atomics,
        Self::OtherRequests,
        Self::OtherCommands,
    ];

    /// First cell of its row in `docs/verbs.md`.
    pub const fn row(self) -> &'static str {
        match self {
            Self::Iwarp => "iWARP",
            Self::PushPages => "push pages",
            Self::RawDatagrams => "raw datagrams (L4LEN, UDP flag)",
            Self::WideCompletions => "completion entries of 64 bytes",
            Self::Atomics => "atomic operations",
            Self::OtherRequests => "TSO, driver-specific requests",
            Self::OtherCommands => "GEN_AE, MODIFY_ADDR_HANDLE, MANAGE_PUSH_PAGES, UP_MAP",
        }
    }
}

#[test]
fn each_feature_is_a_row_of_the_documentation() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/verbs.md"));
    for feature in Feature::ALL {
        let row = format!("| {} | ", feature.row());
        assert!(page.contains(&row), "docs/verbs.md has no row {row}");
    }
}
