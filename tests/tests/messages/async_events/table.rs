//! One row for every code of control-path 7.5: what raises it, or why nothing
//! does.

use std::collections::BTreeMap;

use e810::AsyncEvent;
use e810_ceq::ae::{self, AeCode, AeInfo, Origin};
use e810_ceq::event::Kind;

/// What is known of the raising of one code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The code.
    pub(crate) code: AeCode,
    /// Its name in the reference.
    pub(crate) name: &'static str,
    /// How it comes.
    pub(crate) how: How,
}

/// How an event comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// A program, a peer or memory that goes wrong leads to it.
    Raised(Scenario),
    /// Nothing that a program or a peer does leads to it: the simulated device is
    /// told to report it.
    Injected(Scenario),
    /// It is not raised.
    Never(Why),
}

/// What raises an event: a test of that name runs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Path of the test.
    pub(crate) test: &'static str,
    /// What goes wrong.
    pub(crate) what: &'static str,
}

/// Why an event is not raised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    /// It is about TCP or iWARP's protocols.
    Iwarp,
    /// It needs later hardware.
    Gen3,
    /// It is about raw datagrams, whose queue pairs (type 2) bring their own
    /// headers; this driver makes none.
    RawDatagrams,
    /// It is about shared regions; the format of the command that makes one
    /// (REG_SMR) is not in the sources.
    SharedRegions,
}

impl Why {
    /// In words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Iwarp => "iWARP only",
            Self::Gen3 => "later hardware (GEN_3) only",
            Self::RawDatagrams => "raw datagrams only: the card makes the headers of a RoCE QP",
            Self::SharedRegions => {
                "no shared region can be made: the format of REG_SMR is not in the sources"
            }
        }
    }
}

/// Rows of one kind, each with a test that runs what the row names.
///
/// ```text
/// rows! { RAISED, raised, Raised:
///     0x0102 AMP_UNALLOCATED_STAG, deregistered_key, "what goes wrong";
/// }
/// ```
macro_rules! rows {
    ($list:ident, $tests:ident, $how:ident:
        $($code:literal $name:ident, $scenario:ident, $what:literal;)+) => {
        /// Rows of this file.
        pub(crate) const $list: &[$crate::async_events::table::Row] = &[$(
            $crate::async_events::table::Row {
                code: e810_ceq::ae::AeCode($code),
                name: stringify!($name),
                how: $crate::async_events::table::How::$how($crate::async_events::table::Scenario {
                    test: concat!(
                        module_path!(), "::", stringify!($tests), "::", stringify!($scenario)
                    ),
                    what: $what,
                }),
            }
        ),+];

        mod $tests {
            $(
                #[test]
                fn $scenario() {
                    $crate::async_events::table::delivers($code, super::$scenario());
                }
            )+
        }
    };
}
pub(crate) use rows;

/// All rows, by code.
pub(crate) fn all() -> BTreeMap<AeCode, Row> {
    let lists = [
        ("keys", crate::async_events::keys::RAISED),
        ("fast", crate::async_events::fast::RAISED),
        ("windows", crate::async_events::windows::RAISED),
        ("requests", crate::async_events::requests::RAISED),
        ("transport", crate::async_events::transport::RAISED),
        ("datagrams", crate::async_events::datagrams::RAISED),
        ("groups", crate::async_events::groups::RAISED),
        ("queues", crate::async_events::queues::RAISED),
        ("injected", crate::async_events::injected::INJECTED),
        ("never", crate::async_events::never::NEVER),
    ];
    let mut rows = BTreeMap::new();
    for (list, of_list) in lists {
        for row in of_list {
            let twice = rows.insert(row.code, *row);
            assert!(twice.is_none(), "{list}: {} has two rows", row.code);
        }
    }
    rows
}

/// The driver delivered the event of the row, and says what it is, why, and what
/// to do.
pub(crate) fn delivers(code: u16, event: AsyncEvent) {
    let code = AeCode(code);
    assert_eq!(event.kind, Kind::Ae(code));
    let line = event.to_string();
    for part in [
        event.object.to_string().as_str(),
        code.name().unwrap(),
        code.cause(),
        code.remedy(),
    ] {
        assert!(line.contains(part), "{line}: {part}");
    }
    assert!(!line.contains('\n'), "{line}");
    assert!(!event.needs_reset(), "{line}");
}

#[test]
fn every_code_has_one_row_of_its_name() {
    let rows = all();
    let known: Vec<&AeInfo> = ae::all().collect();
    assert_eq!(rows.len(), known.len());
    for info in known {
        let row = rows.get(&info.code).map(|row| row.name);
        assert_eq!(row, Some(info.name), "{}", info.code);
    }
}

/// What RoCE can raise is raised, and nothing else is.
#[test]
fn rows_follow_from_who_can_raise_a_code() {
    for (code, row) in all() {
        let origin = code.info().unwrap().origin;
        let fits = match row.how {
            How::Raised(_) | How::Injected(_) => origin == Origin::Roce,
            How::Never(Why::Iwarp) => origin == Origin::Iwarp,
            How::Never(Why::Gen3) => origin == Origin::Gen3,
            How::Never(Why::RawDatagrams | Why::SharedRegions) => origin == Origin::Roce,
        };
        assert!(fits, "{code}: {:?}, and {origin:?} raises it", row.how);
    }
}
