//! Messages that name rows of `docs/errata.md`.

use std::fs;

use e810_tests::sources::{files, root};

/// The ids that a source names, as `erratum E02` or `errata E11, E12`.
fn named(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for word in ["erratum ", "errata "] {
        for behind in text.split(word).skip(1) {
            let ids = behind.split(", ").map_while(|part| {
                let id = part.get(..3)?;
                let (letter, digits) = id.split_at(1);
                let is_id = letter == "E" && digits.bytes().all(|byte| byte.is_ascii_digit());
                is_id.then_some(id)
            });
            found.extend(ids);
        }
    }
    found
}

#[test]
fn messages_name_rows_that_exist() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/errata.md")).expect("the page");
    let mut count = 0;
    for path in files(&root, &["rs"]) {
        let text = fs::read_to_string(&path).expect("a source");
        for id in named(&text) {
            count += 1;
            let row = format!("\n| {id} |");
            assert!(page.contains(&row), "{}: {id}", path.display());
        }
    }
    assert!(count >= 8, "only {count} messages");
}

#[test]
fn ids_are_found_in_messages() {
    assert_eq!(
        named("a (erratum E02), b (errata E11, E13) errata of"),
        ["E02", "E11", "E13"]
    );
    assert_eq!(named("errata E1 erratum E1x"), [""; 0]);
}
