//! Which crate uses which, and which module of a crate: all arrows go one way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use e810_tests::sources::{code, root, shipped, sources};
use serde::Deserialize;

use crate::{assert_page, name, read};

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
            "fast_reg unsupported limits route stage stats ref_counts monitoring error addr",
            "channel errno ids pd mr tuning config moderation port",
            // What programs hold.
            "handover cq_memory cq events attr ah qp rings program_queues",
            // The function's LAN side, the control path, and what stands on it.
            "lan control bring_up connect progress memory_budget polling",
        ],
    ),
    (
        "vfio-host",
        &["usage settings stop output handshake monitor measure cli pci_functions commands"],
    ),
];

/// What `cargo metadata` says of the crates, by the name of their folder.
pub(crate) type Crates = BTreeMap<String, Package>;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    /// Only crates of this tree have one.
    path: Option<PathBuf>,
    /// What is shipped has none; what tests use is `dev`.
    kind: Option<String>,
    optional: bool,
    features: Vec<String>,
}

impl Dependency {
    /// The name of its folder, as the page and the picture have it.
    fn shown(&self, folder: &str) -> String {
        match self.optional {
            true => format!("{folder} (feature)"),
            false => folder.to_owned(),
        }
    }
}

impl Package {
    /// The folders of the crates that this one ships with, and how it uses them.
    fn uses(&self) -> impl Iterator<Item = (String, &Dependency)> {
        let shipped = self.dependencies.iter().filter(|used| used.kind.is_none());
        shipped.filter_map(|used| Some((name(used.path.as_deref()?), used)))
    }
}

pub(crate) fn crates() -> Crates {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let packages = metadata.packages.into_iter();
    let by_folder = packages.map(|package| {
        let folder = package.manifest_path.parent().expect("a folder");
        (name(folder), package)
    });
    by_folder.collect()
}

/// The crates that this one ships with, through others too. Those that need a feature count only
/// if `with_features`.
fn reached(crates: &Crates, folder: &str, with_features: bool) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (used, how) in crates[folder].uses() {
        if with_features || !how.optional {
            all.extend(reached(crates, &used, with_features));
            all.insert(used);
        }
    }
    all
}

#[test]
fn the_table_of_crates_is_what_cargo_says() {
    let page = read("docs/architecture.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", folder, package, _, _, uses, ""] if package.starts_with("e810") => {
                Some(format!("{} {package}: {uses}", folder.trim_matches('`')))
            }
            _ => None,
        }
    });
    let must = crates().into_iter().map(|(folder, package)| {
        let mut uses: Vec<String> = package.uses().map(|(used, how)| how.shown(&used)).collect();
        uses.sort();
        format!("{folder} {}: {}", package.name, uses.join(", "))
    });
    assert_page("docs/architecture.md", &rows.collect(), &must.collect());
}

/// An arrow is in the picture unless the crate reaches its end through another one that it uses.
#[test]
fn the_picture_of_crates_is_what_cargo_says() {
    let picture = read("docs/img/crates.svg");
    let mut drawn = BTreeSet::new();
    for title in picture.split("<title>").skip(1) {
        let title = title.split("</title>").next().unwrap_or_default();
        let Some((users, used)) = title.split_once(" → ") else {
            continue;
        };
        for user in users.split(", ") {
            drawn.extend(used.split(", ").map(|used| format!("{user} → {used}")));
        }
    }
    let crates = crates();
    let mut must = BTreeSet::new();
    for (folder, package) in &crates {
        if NOT_DRAWN.iter().any(|begin| folder.starts_with(begin)) {
            continue;
        }
        for (used, how) in package.uses() {
            let is_implied = package.uses().any(|(other, other_how)| {
                let is_there = how.optional || !other_how.optional;
                is_there && reached(&crates, &other, false).contains(&used)
            });
            if !is_implied {
                must.insert(format!("{folder} → {}", how.shown(&used)));
            }
        }
    }
    assert_page("docs/img/crates.svg", &drawn, &must);
}

#[test]
fn no_forbidden_arrow() {
    let crates = crates();
    for (folder, forbidden, why) in FORBIDDEN {
        let reached = reached(&crates, folder, true);
        for other in *forbidden {
            assert!(crates.contains_key(*other), "{other} is gone");
            assert!(!reached.contains(*other), "{folder} uses {other}: {why}");
        }
    }
    // What hal says of time comes from there; sim itself cannot name the rest.
    let uses_types = crates["sim"].uses().any(|(used, _)| used == "types");
    assert!(!uses_types, "sim uses types: {OWN_CODE}");
}

/// What only tests may have is not shipped.
#[test]
fn no_crate_ships_a_feature_for_tests() {
    for (folder, package) in crates() {
        let is_for_tests = folder.starts_with("tests") || folder == "verbs/fuzz";
        for (used, how) in package.uses() {
            let has = how.features.iter().any(|feature| feature == "testing");
            assert!(is_for_tests || !has, "{folder} ships {used} with testing");
        }
    }
}

/// The modules of the root that a line names. Its file is `depth` modules below the root: two
/// modules below, `super::super::x` is `crate::x`.
fn named(line: &str, depth: usize) -> Vec<String> {
    let line = line.replace(&"super::".repeat(depth), "crate::");
    let is_of_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    let paths = line
        .split("crate::")
        .skip(1)
        .filter(|path| !path.is_empty());
    paths
        .map(|path| path.chars().take_while(is_of_name).collect())
        .collect()
}

/// What a file of a crate whose modules have this order uses and must not.
fn wrong(order: &[&str], file: &str, text: &str) -> Vec<String> {
    let path: Vec<&str> = file
        .trim_end_matches(".rs")
        .split('/')
        .filter(|name| *name != "mod")
        .collect();
    let module = path[0];
    if ["lib", "main"].contains(&module) {
        return Vec::new();
    }
    let place = |name: &str| order.iter().position(|known| *known == name);
    let Some(own) = place(module) else {
        return vec![format!("{module}: give it a place in the order of modules")];
    };
    let mut wrong = Vec::new();
    for (number, line) in code(text) {
        for name in named(line, path.len()) {
            if name.is_empty() {
                wrong.push(format!("{file}:{number}: one module of the root a line"));
            } else if place(&name).is_some_and(|used| used > own) {
                wrong.push(format!("{file}:{number}: {module} must not use {name}"));
            }
        }
    }
    wrong
}

#[test]
fn modules_use_only_those_before_them() {
    for (folder, order) in MODULES {
        let source = root().join(folder).join("src");
        let order: Vec<&str> = order.iter().flat_map(|some| some.split(' ')).collect();
        for module in &order {
            let is_there =
                source.join(module).exists() || source.join(format!("{module}.rs")).exists();
            assert!(is_there, "{folder}: {module} is gone");
        }
        for path in shipped(sources(&source)) {
            let file = path.strip_prefix(&source).expect("a file of the crate");
            let wrong = wrong(&order, &file.display().to_string(), &read(&path));
            assert!(wrong.is_empty(), "{folder}/src: {}", wrong.join("\n"));
        }
    }
}

#[test]
fn a_wrong_arrow_is_seen() {
    let order = ["error", "lan", "control", "bring_up"];
    let lan = |text| wrong(&order, "lan/rules.rs", text);
    let fine = "//! Of `crate::bring_up`.\nuse super::{Vsi, x};\nuse crate::error::Result;\n";
    assert_eq!(lan(fine), [""; 0]);
    let said = ["lan/rules.rs:1: lan must not use control"];
    assert_eq!(lan("use crate::control::Control;\n"), said);
    assert_eq!(lan("use super::super::control as up;\n"), said);
    let said = ["lan/rules.rs:1: one module of the root a line"];
    assert_eq!(lan("use crate::{\n"), said);
    let whole = wrong(&order, "lan/mod.rs", "use super::control;\n");
    assert_eq!(whole, ["lan/mod.rs:1: lan must not use control"]);
    let new = wrong(&order, "new.rs", "");
    assert_eq!(new, ["new: give it a place in the order of modules"]);
}
