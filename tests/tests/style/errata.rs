//! Messages that name a row of `docs/errata.md`.

use std::fs;

use e810_tests::sources::{files, root};

#[test]
fn messages_name_rows_that_exist() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/errata.md")).expect("the page");
    let mut named = 0;
    for path in files(&root, &["rs"]) {
        let text = fs::read_to_string(&path).expect("a source");
        for id in text.split("(erratum ").skip(1) {
            let id: String = id
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric())
                .collect();
            if id.len() != 3 {
                continue;
            }
            named += 1;
            assert!(
                page.contains(&format!("\n| {id} |")),
                "{}: {id}",
                path.display()
            );
        }
    }
    assert!(named >= 3, "only {named} messages");
}
