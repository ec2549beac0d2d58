use super::*;
use std::collections::BTreeSet;
use std::string::ToString;
use std::vec::Vec;

#[test]
fn codes_and_names_are_unique_and_in_order() {
    let codes: Vec<u16> = all().map(|info| info.code.0).collect();
    assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:x?}");
    assert!(codes.iter().all(|code| *code < 1 << 12));
    let names: BTreeSet<&str> = all().map(|info| info.name).collect();
    assert_eq!(names.len(), codes.len());
    // Control-path 7.5 has this many rows.
    assert_eq!(codes.len(), 99);
}

#[test]
fn every_row_helps_its_reader() {
    for info in all() {
        assert!(info.cause.len() > 10, "{}: {}", info.name, info.cause);
        assert!(info.remedy.len() > 20, "{}: {}", info.name, info.remedy);
        assert!(!info.cause.ends_with('.'), "{}", info.name);
        match info.origin {
            Origin::Roce => assert!(info.remedy != IWARP && info.remedy != GEN3),
            Origin::Iwarp => assert_eq!(info.remedy, IWARP, "{}", info.name),
            Origin::Gen3 => assert_eq!(info.remedy, GEN3, "{}", info.name),
        }
    }
}

#[test]
fn only_failures_of_a_qp_have_a_flush_code_of_their_own() {
    for info in all() {
        assert!(
            info.action == Action::Flush || info.flush == FlushCode::GENERAL,
            "{}",
            info.name
        );
    }
}

#[test]
fn unknown_codes_are_kept() {
    let unknown = AeCode(0x0ABC);
    assert_eq!(unknown.info(), None);
    assert_eq!(unknown.class(), Class::Source);
    assert_eq!(unknown.flush(), FlushCode::GENERAL);
    assert_eq!(unknown.action(), Action::Flush);
    assert_eq!(unknown.to_string(), "unknown (0x0abc)");
    assert!(!unknown.cause().is_empty() && !unknown.remedy().is_empty());
    assert_eq!(
        AeCode::LLP_TOO_MANY_RETRIES.to_string(),
        "LLP_TOO_MANY_RETRIES (0x050a)"
    );
}

#[test]
fn flush_codes_are_numbered_from_1_and_named() {
    let minors: Vec<u16> = FlushCode::ALL.iter().map(|code| code.0).collect();
    assert_eq!(minors, (1..=11).collect::<Vec<u16>>());
    let names: BTreeSet<&str> = FlushCode::ALL
        .iter()
        .filter_map(|code| code.name())
        .collect();
    assert_eq!(names.len(), 11);
    let events: Vec<&str> = FlushCode::ALL
        .iter()
        .map(|code| QpEvent::of(*code).name())
        .collect();
    assert_eq!(
        events
            .iter()
            .filter(|name| **name == "QP_ACCESS_ERR")
            .count(),
        3
    );
    assert_eq!(
        events.iter().filter(|name| **name == "QP_REQ_ERR").count(),
        1
    );
}
