//! Files that the documents name.

use std::fs;
use std::path::{Path, PathBuf};

use e810_tests::sources::{files, root};

/// Documents about trees of another time, or of another project.
const ELSEWHERE: &[&str] = &["CHANGELOG.md", "docs/reference", "docs/decisions"];

/// `a{b,c}d` as `abd` and `acd`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let Some((list, after)) = rest.split_once('}') else {
        return vec![path.to_owned()];
    };
    let whole = |choice| alternatives(&format!("{before}{choice}{after}"));
    list.split(',').flat_map(whole).collect()
}

/// Whether `name` is that of `segment`, in which `*` and a word in capitals stand for
/// anything.
fn matches(segment: &str, name: &str) -> bool {
    let stem = segment.split('.').next().unwrap_or_default();
    let is_any = |stem: &str| stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase());
    let pattern = match is_any(stem) && segment != "README.md" && segment != "CHANGELOG.md" {
        true => segment.replacen(stem, "*", 1),
        false => segment.to_owned(),
    };
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let after = after.trim_start_matches('*');
    name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
}

/// Whether something below `folder` is called `path`.
fn exists(folder: &Path, path: &str) -> bool {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let next = |folder: &Path| rest.is_empty() || exists(folder, rest);
    match first {
        "" | "." => return next(folder),
        ".." => return folder.parent().is_some_and(next),
        // Any depth; what follows is not looked at.
        "**" => return true,
        _ => {}
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries = entries.filter(|entry| matches(first, &entry.file_name().to_string_lossy()));
    entries.any(|entry| next(&entry.path()))
}

/// What a line has in backticks, and the targets of its links.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('`').skip(1).step_by(2);
    let links = line.split("](").skip(1);
    code.chain(links.filter_map(|link| link.split(')').next()))
        .map(|path| path.split(['#', ':']).next().unwrap_or_default())
        .filter(|path| path.contains('/'))
}

/// Files that `document` names, with `/` in the name, and that are not there.
fn missing(document: &str, folder: &Path, root: &Path) -> Vec<String> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_.-/{},*".contains(c);
    let is_ours = |path: &&str| {
        let first = path.split('/').next().unwrap_or_default();
        let ours = [root, folder]
            .iter()
            .any(|place| place.join(first).is_dir());
        path.chars().all(is_path) && ours && first != "target" && !first.is_empty()
    };
    let outside_code = document.split("```").step_by(2);
    let paths = outside_code
        .flat_map(str::lines)
        .flat_map(named)
        .filter(is_ours);
    let all = paths.flat_map(alternatives);
    all.filter(|path| !exists(root, path) && !exists(folder, path))
        .collect()
}

#[test]
fn documents_name_files_that_exist() {
    let root = root();
    let mut wrong = Vec::new();
    let mut documents = 0;
    for path in files(&root, &["md"]) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        if ELSEWHERE
            .iter()
            .any(|elsewhere| name.starts_with(elsewhere))
        {
            continue;
        }
        documents += 1;
        let text = fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap();
        let found = missing(&text, folder, &root);
        wrong.extend(found.into_iter().map(|path| format!("{name}: {path}")));
    }
    assert!(documents > 20, "only {documents} documents");
    assert!(wrong.is_empty(), "not in the tree:\n{}", wrong.join("\n"));
}

/// Functions that a document names as `file.rs::name`, and that are in no such file of `sources`.
fn missing_functions(document: &str, sources: &[PathBuf]) -> Vec<String> {
    let is_there = |file: &str, name: &str| {
        let mut files = sources.iter().filter(|path| path.ends_with(file));
        let name = name.rsplit("::").next().unwrap_or_default();
        files.any(|path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            [format!("fn {name}("), format!("fn {name}<")]
                .iter()
                .any(|begin| text.contains(begin))
        })
    };
    let spans = document.split('`').skip(1).step_by(2);
    let named = spans.filter(|span| {
        let parts = span.split_once(".rs::");
        parts.is_some_and(|(file, name)| !is_there(&format!("{file}.rs"), name))
    });
    named.map(str::to_owned).collect()
}

#[test]
fn functions_of_files_exist() {
    let root = root();
    let sources = files(&root, &["rs"]);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in files(&root.join("docs"), &["md"]) {
        let text = fs::read_to_string(&path).unwrap();
        seen += text.matches(".rs::").count();
        let found = missing_functions(&text, &sources).into_iter();
        wrong.extend(found.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(seen > 100, "{seen}");
    assert!(wrong.is_empty(), "not in the tree:\n{}", wrong.join("\n"));
}

#[test]
fn a_wrong_name_is_found() {
    let root = root();
    let found = |text: &str| missing(text, &root.join("docs"), &root);
    let right = "`hal/src/regs/FAMILY.rs`, `cqp/src/{error,ring}.rs`, `sim/src/pe/cqp/*_ops.rs`, \
                 [index](README.md), [a](../docs/events.md#part), `Qp/post`, `a / b`";
    assert_eq!(found(right), Vec::<String>::new());
    let wrong = "`hal/src/regs/none.rs` `cqp/src/{error,none}.rs` [a](../docs/none.md)";
    let expected = ["hal/src/regs/none.rs", "cqp/src/none.rs", "../docs/none.md"];
    assert_eq!(found(wrong), expected);
    let own = "`tests/tests/rules/paths.rs::a_wrong_name_is_found` `hal/src/le.rs::none`";
    assert_eq!(
        missing_functions(own, &files(&root, &["rs"])),
        ["hal/src/le.rs::none"]
    );
    assert_eq!(
        found("`sim/src/NAME/*_none.rs`"),
        ["sim/src/NAME/*_none.rs"]
    );
}
