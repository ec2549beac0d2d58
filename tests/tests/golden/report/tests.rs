use super::*;
use crate::hex;
use serde_json::json;

const TABLE: &[Deviation] = &[
    Deviation {
        file: "a.json",
        case: "refused",
        rule: Rule::RefusesBadInput,
        why: "an empty list has no request",
    },
    Deviation {
        file: "a.json",
        case: "push_*",
        rule: Rule::NotJudged,
        why: "push is not used",
    },
];

fn judged(cases: Value, judge: impl FnMut(&Case<'_>) -> Option<Outcome>) -> File {
    let value = json!({ "meta": { "hw_rev": 2 }, "cases": cases });
    let mut file = File::new("a.json", Side::Driver, value, TABLE);
    file.each("cases", judge);
    assert_eq!(number(file.meta(), "hw_rev"), 2, "the file is still there");
    file
}

#[test]
fn the_table_forgives_only_its_own_cases() {
    let cases =
        json!([{ "name": "refused" }, { "name": "push_1" }, { "name": "push_2" }, { "x": 1 }]);
    let file = judged(cases, |case| {
        Some(match case.name.as_str() {
            "push_2" => Outcome::Passed,
            _ => Outcome::Failed("differs".to_owned()),
        })
    });
    let Counts {
        passed,
        deviates,
        failed,
        ..
    } = file.counts;
    assert_eq!((passed, deviates, failed), (1, 2, 1));
    assert_eq!(file.failures, ["cases[3]: differs"]);
    assert!(file.report().contains("push is not used [push_1]"));
}

#[test]
fn what_a_judge_sees_must_stand_in_the_table_too() {
    let value = json!({ "cases": [{ "name": "refused" }, { "name": "other" }] });
    let deviates = |_: &Case<'_>| Some(Outcome::Deviates(Rule::RefusesBadInput, "empty"));
    for (foreign, deviations, failures) in [(false, 1, 1), (true, 2, 0)] {
        let mut file = File::new("a.json", Side::Driver, value.clone(), TABLE);
        file.foreign = foreign;
        file.each("cases", deviates);
        assert_eq!(
            (file.counts.deviates, file.counts.failed),
            (deviations, failures)
        );
    }
}

#[test]
fn an_entry_whose_case_passes_is_an_error() {
    let file = judged(json!([{ "name": "refused" }]), |_| Some(Outcome::Passed));
    assert_eq!(file.counts.failed, 1);
}

#[test]
fn a_panic_fails_one_case_and_none_leaves_one_out() {
    let file = judged(
        json!([{ "n": 1 }, {}, { "n": 3 }, { "n": 4 }]),
        |case| match case.u64("n") {
            1 => Some(Outcome::same("n", 1, 1)),
            3 => None,
            _ => Some(Outcome::all([
                Outcome::Passed,
                Outcome::Skipped(Feature::PushPages),
                Outcome::Deviates(Rule::NotJudged, "late"),
            ])),
        },
    );
    assert_eq!(
        (file.counts.passed, file.counts.failed, file.counts.skipped),
        (1, 1, 1)
    );
    assert!(file.failures[0].contains("`n` is not an unsigned number"));
    assert!(!file.cases.contains(&("cases".to_owned(), 2)));
    assert_eq!(file.cases.len(), 3);
}

#[test]
fn hexadecimal_is_memory_order() {
    assert_eq!(hex::words("0807060504030201"), [0x0102_0304_0506_0708]);
    let (expected, got) = (hex::bytes("00010203"), hex::bytes("00ff0204"));
    assert_eq!(
        hex::difference(&got, &expected, Some(&hex::bytes("ff00ffff"))).unwrap(),
        "byte 3: word at 0 expected 0x03020100, got 0x0402ff00"
    );
    assert_eq!(
        hex::difference(&got, &expected, Some(&hex::bytes("ff00ff00"))),
        None
    );
    assert!(hex::difference(&got, &expected[1..], None).is_some());
    assert!(hex::difference(&got, &expected, None).is_some());
}
