//! `docs/async-events.md`: written from the tables, and compared with them.
//!
//! `UPDATE_EXPECT=1 cargo test -p e810-tests --test messages async_events` writes it anew.

use std::fmt::Write as _;

use e810::{Causes, RequiredReset};
use e810_ceq::ae::{Action, AeInfo, Class, Origin, QpEvent};
use expect_test::expect_file;

use crate::async_events::table::{self, How, Row, Scenario, Why};

/// What stands before the tables.
const BEFORE: &str = include_str!("before.md");

/// Name of a test, which must be there.
macro_rules! name_of {
    ($module:ident::$test:ident) => {{
        let _: fn() = crate::async_events::$module::$test;
        concat!(
            "`async_events::",
            stringify!($module),
            "::",
            stringify!($test),
            "`"
        )
    }};
}

/// What stands before the causes.
const AFTER: &str = include_str!("after.md");

const KEYS: &str = "Keys of memory";
const REQUESTS: &str = "Requests";
const TRANSPORT: &str = "Transport";
const DATAGRAMS: &str = "Datagrams and groups";
const QUEUES: &str = "Queues and contexts";
const FUNCTION: &str = "The function";

/// The part that a row belongs to.
fn part(row: &Row) -> &'static str {
    match row.code.0 {
        0x0100..=0x0131 | 0x0206 => KEYS,
        0x0132..=0x0135 | 0x0380..=0x0383 | 0x0406 => DATAGRAMS,
        0x0203 | 0x0700 | 0x0702..=0x0705 | 0x0900 => QUEUES,
        0x0520 | 0x0701 | 0x0B0B => FUNCTION,
        0x0205 | 0x0208 | 0x020A..=0x020E | 0x0303 => REQUESTS,
        _ => TRANSPORT,
    }
}

/// What the driver does, and who is concerned.
fn class(info: &AeInfo) -> String {
    let of = match info.class {
        Class::Qp => "QP",
        Class::QpOnly => "QP, whatever the source",
        Class::Cq => "CQ, whatever the source",
        Class::Source => "by source",
        Class::Srq => "SRQ",
        Class::Nothing => "function",
    };
    match info.action {
        Action::Flush => format!("{of}: {}, {}", info.flush, QpEvent::of(info.flush)),
        Action::CqError => format!("{of}: CQ error"),
        Action::SuspendDone => format!("{of}: `Event::SqDrained`"),
        Action::Report | Action::Connected | Action::Close => format!("{of}: reported only"),
    }
}

/// What the test does, and its name as `cargo test --test messages` has it.
fn how(row: &Row) -> String {
    let in_words = |scenario: Scenario| {
        let (_, name) = scenario.test.split_once("::").unwrap();
        format!("{} (`{name}`)", scenario.what)
    };
    match row.how {
        How::Raised(scenario) => in_words(scenario),
        How::Injected(scenario) => format!("injected: {}", in_words(scenario)),
        How::Never(why) => format!("not raised: {}", why.words()),
    }
}

fn text() -> String {
    let rows = table::all();
    let here: Vec<_> = rows
        .values()
        .filter(|row| row.code.info().unwrap().origin == Origin::Roce)
        .collect();
    let count = |is: fn(&How) -> bool| rows.values().filter(|row| is(&row.how)).count();
    let mut out = BEFORE.to_owned();
    writeln!(out, "| Codes | |\n| --- | --- |").unwrap();
    writeln!(out, "| in the table | {} |", rows.len()).unwrap();
    let raised = count(|how| matches!(how, How::Raised(_)));
    let injected = count(|how| matches!(how, How::Injected(_)));
    writeln!(out, "| raised by a program, a peer or memory | {raised} |").unwrap();
    writeln!(out, "| injected | {injected} |").unwrap();
    for why in [Why::Iwarp, Why::Gen3, Why::RawDatagrams, Why::SharedRegions] {
        let of = |row: &&Row| matches!(row.how, How::Never(reason) if reason == why);
        let never = rows.values().filter(of).count();
        writeln!(out, "| not raised: {} | {never} |", why.words()).unwrap();
    }
    for title in [KEYS, REQUESTS, TRANSPORT, DATAGRAMS, QUEUES, FUNCTION] {
        writeln!(out, "\n## {title}\n").unwrap();
        writeln!(
            out,
            "| Code | Name | Class | Cause | Remedy | In the tests |"
        )
        .unwrap();
        writeln!(out, "| --- | --- | --- | --- | --- | --- |").unwrap();
        for row in here.iter().filter(|row| part(row) == title) {
            let info = row.code.info().unwrap();
            writeln!(
                out,
                "| {:#06x} | {} | {} | {} | {} | {} |",
                row.code.0,
                row.name,
                class(info),
                info.cause,
                info.remedy,
                how(row)
            )
            .unwrap();
        }
    }
    writeln!(out, "\n## Not raised by RoCE on this generation\n").unwrap();
    writeln!(out, "| Code | Name | Class | Cause | Raised by |").unwrap();
    writeln!(out, "| --- | --- | --- | --- | --- |").unwrap();
    for row in rows.values() {
        let (How::Never(why @ (Why::Iwarp | Why::Gen3)), Some(info)) = (row.how, row.code.info())
        else {
            continue;
        };
        let class = class(info);
        let (code, name, cause, by) = (row.code.0, row.name, info.cause, why.words());
        writeln!(out, "| {code:#06x} | {name} | {class} | {cause} | {by} |").unwrap();
    }
    out.push_str(AFTER);
    for (name, cause) in Causes::all().iter_names() {
        let tests = match cause {
            Causes::HMC_ERR => {
                let injected = name_of!(causes::an_error_of_the_host_memory_cache);
                let raised = name_of!(causes::a_page_list_whose_memory_is_gone);
                format!("page descriptors lose their valid bits ({raised}); injected ({injected})")
            }
            Causes::PE_CRITERR => format!("injected ({})", name_of!(causes::critical_errors)),
            Causes::PE_PUSH => {
                let injected = name_of!(causes::a_push_page_that_fails_and_everything_at_once);
                format!("injected ({injected})")
            }
            _ => "not an error of the engine".to_owned(),
        };
        let words: Vec<_> = cause.words().collect();
        let registers = match cause {
            Causes::HMC_ERR => "PFHMC_ERRORINFO, PFHMC_ERRORDATA",
            Causes::PE_CRITERR | Causes::PE_PUSH => "GLPE_CRITERR",
            _ => "",
        };
        let required_reset = match (cause, cause.required_reset(0)) {
            (Causes::PE_CRITERR, _) => "a reset of the function, unless GLPE_CRITERR is 0x0001024d",
            (_, RequiredReset::None) => "nothing",
            (_, RequiredReset::ResetFunction) => "a reset of the function",
            (_, RequiredReset::CardResets) => "a bring-up after the card's reset",
        };
        let words = words.join(", ");
        writeln!(
            out,
            "| {name} | {words} | {required_reset} | {registers} | {tests} |"
        )
        .unwrap();
    }
    out
}

#[test]
fn the_document_is_what_the_tables_say() {
    expect_file!["../../../../docs/async-events.md"].assert_eq(&text());
}

/// A table cell has no line break and no bar.
#[test]
fn every_cell_is_one() {
    for line in text().lines().filter(|line| line.starts_with("| 0x")) {
        let bars = line.matches('|').count();
        assert!(bars == 7 || bars == 6, "{line}");
    }
}
