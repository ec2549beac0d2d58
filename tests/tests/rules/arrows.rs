//! Which crate uses which, and which module of a crate: all arrows go one way.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and JSON without a key is null"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use e810_tests::sources::{code, root, shipped, sources};
use serde_json::Value;

/// Arrows that must not be, through other crates neither, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    (
        "sim",
        &["adminq", "cqp", "ceq", "datapath", "lan", "driver"],
        OWN_CODE,
    ),
    (
        "verbs",
        &["vfio-host", "report", "trace", "sim/server"],
        "a library of programs has no option parser, no logger and no server",
    ),
    ("adminq", &["cqp", "ceq", "datapath", "lan"], SIBLINGS),
    ("cqp", &["adminq", "ceq", "datapath", "lan"], SIBLINGS),
    ("ceq", &["adminq", "cqp", "datapath", "lan"], SIBLINGS),
    ("datapath", &["adminq", "cqp", "ceq", "lan"], SIBLINGS),
    ("lan", &["adminq", "cqp", "ceq", "datapath"], SIBLINGS),
];
/// Folders that the picture of crates leaves out: tests, examples, and libraries without devices.
const NOT_DRAWN: &[&str] = &["tests", "examples", "verbs/fuzz", "verbs/stubs"];
const OWN_CODE: &str =
    "the simulator decodes with code of its own, so that it repeats no mistake of an encoder";
const SIBLINGS: &str = "only the driver knows more than one kind of queue";

/// The modules of crates whose modules have an order: each uses only those before it.
const MODULES: &[(&str, &[&str])] = &[
    (
        "driver",
        &[
            // Values: numbers, addresses, settings, errors.
            "fast_reg",
            "unsupported",
            "limits",
            "route",
            "stage",
            "stats",
            "ref_counts",
            "monitoring",
            "error",
            "addr",
            "channel",
            "errno",
            "ids",
            "pd",
            "mr",
            "tuning",
            "config",
            "moderation",
            "port",
            // What programs hold.
            "handover",
            "cq_memory",
            "cq",
            "events",
            "attr",
            "ah",
            "qp",
            "rings",
            // The function's LAN side, the control path, and what stands on it.
            "lan",
            "control",
            "bring_up",
            "connect",
            "progress",
            "memory_budget",
            "polling",
        ],
    ),
    (
        "vfio-host",
        &[
            "usage",
            "settings",
            "stop",
            "output",
            "handshake",
            "monitor",
            "measure",
            "cli",
            "pci_functions",
            "commands",
        ],
    ),
];

/// What cargo says of the packages of this workspace.
fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let metadata = serde_json::from_slice::<Value>(&output.stdout);
    let metadata = metadata.unwrap_or_else(|_| panic!("cargo metadata: {error}"));
    let packages = metadata["packages"].as_array();
    packages.expect("cargo lists packages").clone()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The folder of a package, as it is named from the root.
fn folder(package: &Value) -> String {
    let manifest = Path::new(text(package, "manifest_path"));
    let folder = manifest.parent().expect("a manifest is in a folder");
    let folder = folder.strip_prefix(root().canonicalize().expect("the root is there"));
    folder
        .expect("a package is below the root")
        .display()
        .to_string()
}

/// The folders that each folder's package ships with, and whether only with a feature.
fn arrows() -> BTreeMap<String, (String, BTreeMap<String, bool>)> {
    let packages = packages();
    let folders: BTreeMap<&str, String> = packages
        .iter()
        .map(|package| (text(package, "name"), folder(package)))
        .collect();
    let uses = |package: &Value| {
        let dependencies = package["dependencies"].as_array();
        let shipped = dependencies.into_iter().flatten().filter(|dependency| {
            // Tests may use what they like.
            dependency["kind"].is_null()
        });
        shipped
            .filter_map(|dependency| {
                let folder = folders.get(text(dependency, "name"))?;
                Some((folder.clone(), dependency["optional"] == true))
            })
            .collect()
    };
    packages
        .iter()
        .map(|package| {
            let name = text(package, "name").to_owned();
            (folder(package), (name, uses(package)))
        })
        .collect()
}

#[test]
fn the_table_of_crates_is_what_cargo_says() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", folder, package, _, _, uses, ""] if package.starts_with("e810") => {
                Some(format!("{} {package}: {uses}", folder.trim_matches('`')))
            }
            _ => None,
        }
    });
    let rows: BTreeSet<String> = rows.collect();
    let said = arrows().into_iter().map(|(folder, (package, uses))| {
        let uses = uses
            .into_iter()
            .map(|(folder, is_optional)| match is_optional {
                true => format!("{folder} (feature)"),
                false => folder,
            });
        let uses: Vec<String> = uses.collect();
        format!("{folder} {package}: {}", uses.join(", "))
    });
    let said: BTreeSet<String> = said.collect();
    let missing: Vec<_> = said.difference(&rows).collect();
    let wrong: Vec<_> = rows.difference(&said).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "docs/architecture.md, Crates: missing {missing:#?}, wrong {wrong:#?}"
    );
}

/// What a crate ships with, features left out, through other crates too.
fn reached(
    arrows: &BTreeMap<String, (String, BTreeMap<String, bool>)>,
    folder: &str,
) -> BTreeSet<String> {
    let (_, uses) = arrows.get(folder).expect("a crate of the table is there");
    let uses = uses.iter().filter(|(_, is_optional)| !**is_optional);
    uses.flat_map(|(used, _)| {
        let mut all = reached(arrows, used);
        all.insert(used.clone());
        all
    })
    .collect()
}

/// An arrow is in the picture unless the crate reaches its end through another one that it uses.
#[test]
fn the_picture_of_crates_is_what_cargo_says() {
    let picture = fs::read_to_string(root().join("docs/img/crates.svg")).expect("the picture");
    let mut drawn = BTreeSet::new();
    for title in picture.split("<title>").skip(1) {
        let title = title.split("</title>").next().unwrap_or_default();
        let (users, used) = title.split_once(" → ").unwrap_or_default();
        for user in users.split(", ") {
            let arrows = used.split(", ").map(|used| format!("{user} → {used}"));
            drawn.extend(arrows.filter(|_| !user.is_empty()));
        }
    }
    let arrows = arrows();
    let mut said = BTreeSet::new();
    for (folder, (_, uses)) in &arrows {
        if NOT_DRAWN.iter().any(|begin| folder.starts_with(begin)) {
            continue;
        }
        for (used, is_optional) in uses {
            let is_implied = uses.iter().any(|(other, other_is_optional)| {
                (*is_optional || !other_is_optional) && reached(&arrows, other).contains(used)
            });
            if !is_implied {
                let feature = if *is_optional { " (feature)" } else { "" };
                said.insert(format!("{folder} → {used}{feature}"));
            }
        }
    }
    assert_eq!(drawn, said, "docs/img/crates.svg: the titles of its arrows");
}

#[test]
fn no_forbidden_arrow() {
    let arrows = arrows();
    let used = |folder: &str| -> BTreeSet<String> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![folder.to_owned()]);
        while let Some(folder) = next.pop() {
            let (_, uses) = arrows.get(&folder).expect("a crate of the table is there");
            let new = uses.keys().filter(|used| seen.insert((*used).clone()));
            next.extend(new.cloned());
        }
        seen
    };
    for (folder, forbidden, why) in FORBIDDEN {
        let used = used(folder);
        for other in *forbidden {
            assert!(arrows.contains_key(*other), "{other} is gone");
            assert!(!used.contains(*other), "{folder} uses {other}: {why}");
        }
    }
    // What hal says of time comes from there; sim itself cannot name the rest.
    let (_, direct) = arrows.get("sim").expect("the simulator is there");
    assert!(!direct.contains_key("types"), "sim uses types: {OWN_CODE}");
}

/// What only tests may have is not shipped.
#[test]
fn no_crate_ships_a_feature_for_tests() {
    for package in packages() {
        let folder = folder(&package);
        if ["tests", "verbs/fuzz"]
            .iter()
            .any(|own| folder.starts_with(own))
        {
            continue;
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let has = dependency["features"].as_array();
            let has = has.is_some_and(|features| features.iter().any(|one| one == "testing"));
            assert!(
                !has || !dependency["kind"].is_null(),
                "{folder} ships {} with feature testing",
                text(dependency, "name")
            );
        }
    }
}

/// The modules of the root that code names, which is `depth` modules below it.
fn named(code: &str, depth: usize) -> BTreeSet<String> {
    // `super::super::x` of a module two below the root is `crate::x`.
    let up = "super::".repeat(depth);
    let mut names = BTreeSet::new();
    for root in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code.get(..at).unwrap_or_default();
            if root.is_empty() || before.ends_with([':', '_']) {
                continue;
            }
            let after = code.get(at + root.len()..).unwrap_or_default();
            match after.strip_prefix('{') {
                Some(group) => names.extend(firsts(group)),
                None => names.extend(first(after)),
            }
        }
    }
    names
}

/// The identifier that text begins with.
fn first(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = text.get(..end.unwrap_or(text.len()))?;
    (!name.is_empty() && name != "super").then(|| name.to_owned())
}

/// The first identifiers of the paths in braces, behind the opening one.
fn firsts(group: &str) -> Vec<String> {
    let (mut depth, mut begins, mut names) = (1, true, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => begins = true,
            letter if begins && !letter.is_whitespace() => {
                begins = false;
                names.extend(group.get(at..).and_then(first));
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// What a file of a crate whose modules have this order uses and must not.
fn wrong(order: &[&str], file: &Path, text: &str) -> Vec<String> {
    let whole = file.with_extension("");
    let mut path: Vec<&str> = whole.iter().filter_map(|name| name.to_str()).collect();
    if path.last().is_some_and(|name| *name == "mod") {
        path.pop();
    }
    let (Some(module), depth) = (path.first(), path.len()) else {
        return Vec::new();
    };
    if depth == 1 && ["lib", "main"].contains(module) {
        return Vec::new();
    }
    let place = |name: &str| order.iter().position(|known| *known == name);
    let Some(own) = place(module) else {
        return vec![format!("{module}: give it a place in the order of modules")];
    };
    let lines: Vec<&str> = code(text).into_iter().map(|(_, line)| line).collect();
    named(&lines.join("\n"), depth)
        .into_iter()
        .filter(|name| place(name).is_some_and(|used| used > own))
        .map(|name| format!("{}: {module} must not use {name}", file.display()))
        .collect()
}

#[test]
fn modules_use_only_those_before_them() {
    for (folder, order) in MODULES {
        let source = root().join(folder).join("src");
        for module in *order {
            let there = [format!("{module}.rs"), (*module).to_owned()];
            let is_there = there.iter().any(|name| source.join(name).exists());
            assert!(is_there, "{folder}: {module} is gone");
        }
        let all = shipped(sources(&source)).into_iter().flat_map(|file| {
            let text = fs::read_to_string(&file).expect("a source file");
            let file = file.strip_prefix(&source).expect("a file of the crate");
            wrong(order, file, &text)
        });
        let all: Vec<String> = all.collect();
        assert!(all.is_empty(), "{}", all.join("\n"));
    }
}

#[test]
fn a_wrong_arrow_is_seen() {
    let order = ["error", "lan", "control", "bring_up"];
    let lan = |text| wrong(&order, Path::new("lan/rules.rs"), text);
    let fine = "//! Of `crate::bring_up`.\nuse super::Vsi;\nuse crate::error::Result;\n";
    assert_eq!(lan(fine), [""; 0]);
    let said = ["lan/rules.rs: lan must not use control"];
    assert_eq!(lan("use crate::control::Control;\n"), said);
    assert_eq!(
        lan("use crate::{\n    error::Error,\n    control::{error, X},\n};\n"),
        said
    );
    assert_eq!(lan("use super::super::control as up;\n"), said);
    let whole = wrong(&order, Path::new("lan/mod.rs"), "use super::control;\n");
    assert_eq!(whole, ["lan/mod.rs: lan must not use control"]);
    let new = wrong(&order, Path::new("new.rs"), "");
    assert_eq!(new, ["new: give it a place in the order of modules"]);
}
