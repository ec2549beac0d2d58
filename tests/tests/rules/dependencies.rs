//! The dependencies between the crates, as docs/architecture.md draws them.
//!
//! `{types, hal} ← {adminq, cqp, ceq, datapath, lan} ← driver ← backends ← {report, trace} ←
//! vfio-host`, `card ← {sim, report, trace}`, `hal ← sim ← sim-wire ← {sim-server, backends} ←
//! vfio-host`, `tests → all`, and `tests/miri` and `tests/peer` beside it, which nobody uses.
//! `net` uses nothing, and vfio-host uses it. The queue crates are siblings, and the simulator sees
//! the registers only, so that it cannot share a mistake about a structure's layout with the
//! driver.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

mod modules;

/// A crate of the workspace and what it may be built from.
struct CrateRule {
    package: &'static str,
    folder: &'static str,
    /// Crates of this workspace it may name, in any kind of dependency.
    may_use: &'static [&'static str],
    /// Runs without an operating system.
    core: bool,
}

const CRATES: &[CrateRule] = &[
    CrateRule {
        package: "e810-types",
        folder: "types",
        may_use: &[],
        core: true,
    },
    CrateRule {
        package: "e810-hal",
        folder: "hal",
        may_use: &[],
        core: true,
    },
    CrateRule {
        package: "e810-adminq",
        folder: "adminq",
        may_use: &["e810-types", "e810-hal"],
        core: true,
    },
    CrateRule {
        package: "e810-cqp",
        folder: "cqp",
        may_use: &["e810-types", "e810-hal"],
        core: true,
    },
    CrateRule {
        package: "e810-ceq",
        folder: "ceq",
        may_use: &["e810-types", "e810-hal"],
        core: true,
    },
    CrateRule {
        package: "e810-datapath",
        folder: "datapath",
        may_use: &["e810-types", "e810-hal"],
        core: true,
    },
    // Any port, any driver: bytes in, bytes out.
    CrateRule {
        package: "e810-net",
        folder: "net",
        may_use: &[],
        core: true,
    },
    CrateRule {
        package: "e810-lan",
        folder: "lan",
        may_use: &["e810-types", "e810-hal"],
        core: true,
    },
    CrateRule {
        package: "e810",
        folder: "driver",
        may_use: &[
            "e810-types",
            "e810-hal",
            "e810-adminq",
            "e810-cqp",
            "e810-ceq",
            "e810-datapath",
            "e810-lan",
        ],
        core: true,
    },
    CrateRule {
        package: "e810-sim",
        folder: "sim",
        may_use: &["e810-hal", "e810-card"],
        core: false,
    },
    // Sockets, which the simulator itself has none of.
    CrateRule {
        package: "e810-sim-wire",
        folder: "sim-wire",
        may_use: &["e810-sim"],
        core: false,
    },
    // Knows the protocol and the simulator, and nothing of a driver.
    CrateRule {
        package: "e810-sim-server",
        folder: "sim-server",
        may_use: &["e810-hal", "e810-card", "e810-sim", "e810-sim-wire"],
        core: false,
    },
    CrateRule {
        package: "e810-backends",
        folder: "backends",
        may_use: &["e810-hal", "e810", "e810-sim", "e810-sim-wire"],
        core: false,
    },
    // The format of a report: what the simulator reads is what the reports' writer writes.
    CrateRule {
        package: "e810-card",
        folder: "card",
        may_use: &[],
        core: false,
    },
    // How a report is written; no part of it drives the engine.
    CrateRule {
        package: "e810-report",
        folder: "report",
        may_use: &[
            "e810-hal",
            "e810-adminq",
            "e810-cqp",
            "e810-backends",
            "e810-card",
            "e810-sim",
        ],
        core: false,
    },
    // Follows a device through a backend, and names what is in its queues; drives nothing.
    CrateRule {
        package: "e810-trace",
        folder: "trace",
        may_use: &[
            "e810-hal",
            "e810-adminq",
            "e810-cqp",
            "e810-datapath",
            "e810",
            "e810-backends",
            "e810-card",
            "e810-sim",
        ],
        core: false,
    },
    CrateRule {
        package: "e810-host",
        folder: "vfio-host",
        may_use: &[
            "e810-hal",
            "e810-net",
            "e810",
            "e810-backends",
            "e810-card",
            "e810-report",
            "e810-sim",
            "e810-sim-server",
            "e810-sim-wire",
            "e810-trace",
        ],
        core: false,
    },
    // The command's library opens and starts functions for this one.
    CrateRule {
        package: "e810-verbs",
        folder: "verbs",
        may_use: &[
            "e810-hal",
            "e810",
            "e810-backends",
            "e810-sim",
            "e810-sim-server",
            "e810-host",
            // Its tests use its feature for tests.
            "e810-verbs",
            "e810-verbs-names",
        ],
        core: false,
    },
    // Calls the library as programs do, and asks the simulators behind it.
    CrateRule {
        package: "e810-verbs-fuzz",
        folder: "fuzz",
        may_use: &["e810-sim", "e810-verbs", "e810-verbs-names"],
        core: false,
    },
    CrateRule {
        package: "e810-verbs-names",
        folder: "names",
        may_use: &[],
        core: false,
    },
    CrateRule {
        package: "e810-verbs-so",
        folder: "so",
        may_use: &["e810-verbs", "e810-verbs-names"],
        core: false,
    },
    CrateRule {
        package: "e810-stub-efa",
        folder: "efa",
        may_use: &["e810-verbs-names"],
        core: false,
    },
    CrateRule {
        package: "e810-stub-hns",
        folder: "hns",
        may_use: &["e810-verbs-names"],
        core: false,
    },
    CrateRule {
        package: "e810-stub-mlx5",
        folder: "mlx5",
        may_use: &["e810-verbs-names"],
        core: false,
    },
    CrateRule {
        package: "e810-examples",
        folder: "examples",
        may_use: &["e810", "e810-sim", "e810-backends"],
        core: false,
    },
    CrateRule {
        package: "e810-tests",
        folder: "tests",
        may_use: &[
            "e810-types",
            "e810-hal",
            "e810-adminq",
            "e810-cqp",
            "e810-ceq",
            "e810-datapath",
            "e810-net",
            "e810-lan",
            "e810",
            "e810-sim",
            "e810-sim-server",
            "e810-sim-wire",
            "e810-backends",
            "e810-card",
            "e810-report",
            "e810-host",
        ],
        core: false,
    },
    // Built for Miri, each crate of it for each machine.
    CrateRule {
        package: "e810-miri",
        folder: "miri",
        may_use: &["e810", "e810-sim", "e810-tests"],
        core: false,
    },
    // Loads the existing provider library. Whom it may use is what it measures
    // and drives; nobody may use it, since the library may be missing.
    CrateRule {
        package: "e810-peer",
        folder: "peer",
        may_use: &[
            "e810",
            "e810-types",
            "e810-hal",
            "e810-cqp",
            "e810-datapath",
            "e810-sim",
            "e810-tests",
            "e810-verbs",
        ],
        core: false,
    },
];

/// Other people's crates that the core may use: they build without `std` and
/// without an allocator. The flag says whether that needs `default-features =
/// false`.
const NO_STD: &[(&str, bool)] = &[
    ("atomic-waker", false),
    ("bitflags", false),
    ("defmt", false),
    ("heapless", false),
    ("log", true),
    ("smoltcp", true),
    ("thiserror", true),
    ("tock-registers", true),
    ("volatile-register", false),
    ("zerocopy", true),
];

/// Features of those that would bring `std` or an allocator back.
const NOT_IN_CORE: &[&str] = &["std", "alloc"];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn rule(package: &Value) -> &'static CrateRule {
    let name = text(package, "name");
    CRATES
        .iter()
        .find(|rule| rule.package == name)
        .unwrap_or_else(|| {
            panic!("{name} is a crate that the table of this test does not know: give it a place")
        })
}

/// What is wrong with the dependencies of one package.
fn complaints(package: &Value) -> Vec<String> {
    let rule = rule(package);
    let mut complaints = Vec::new();
    let folder = Path::new(text(package, "manifest_path"))
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default();
    if folder != rule.folder {
        complaints.push(format!(
            "{} lies in {}, not in {}",
            rule.package,
            folder.display(),
            rule.folder
        ));
    }
    for dependency in list(package, "dependencies") {
        let name = text(dependency, "name");
        let ours = CRATES.iter().any(|rule| rule.package == name);
        let testing = list(dependency, "features").contains(&Value::from("testing"));
        // Nobody uses these, which are all benches and tests.
        let is_tests = matches!(rule.package, "e810-peer" | "e810-verbs-fuzz");
        if testing && !is_tests && text(dependency, "kind") != "dev" {
            complaints.push(format!(
                "{} ships {name} with feature testing",
                rule.package
            ));
        }
        if ours && !rule.may_use.contains(&name) {
            complaints.push(format!("{} must not use {name}", rule.package));
        }
        // Tests of a core crate run on a host and may use what they like.
        if rule.core && !ours && text(dependency, "kind") != "dev" {
            complaints.extend(foreign(rule, dependency));
        }
    }
    complaints
}

/// What is wrong with a core crate's use of somebody else's crate.
fn foreign(rule: &CrateRule, dependency: &Value) -> Vec<String> {
    let name = text(dependency, "name");
    let user = rule.package;
    let Some((_, plain_defaults_bring_std)) = NO_STD.iter().find(|(known, _)| *known == name)
    else {
        return vec![format!(
            "{user} uses {name}, which is not among the crates known to do without std"
        )];
    };
    let mut complaints = Vec::new();
    if *plain_defaults_bring_std && dependency["uses_default_features"] != Value::Bool(false) {
        complaints.push(format!("{user} uses {name} with its default features"));
    }
    for feature in list(dependency, "features") {
        if NOT_IN_CORE.iter().any(|unwanted| feature == unwanted) {
            complaints.push(format!("{user} uses {name} with feature {feature}"));
        }
    }
    complaints
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let metadata = metadata();
    let packages = list(&metadata, "packages");
    let seen: BTreeSet<&str> = packages
        .iter()
        .map(|package| text(package, "name"))
        .collect();
    for needed in [
        "e810-hal",
        "e810-cqp",
        "e810-ceq",
        "e810-datapath",
        "e810",
        "e810-sim",
    ] {
        assert!(seen.contains(needed), "{needed} is not in the workspace");
    }
    let complaints: Vec<String> = packages.iter().flat_map(complaints).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_wrong_dependency_is_seen() {
    let package = |dependencies: Value| {
        serde_json::json!({
            "name": "e810-ceq",
            "manifest_path": "/somewhere/ceq/Cargo.toml",
            "dependencies": dependencies,
        })
    };
    let fine = serde_json::json!([
        { "name": "e810-hal", "kind": null },
        { "name": "thiserror", "kind": null, "uses_default_features": false, "features": [] },
        { "name": "e810-hal", "kind": "dev", "features": ["testing"] },
        { "name": "proptest", "kind": "dev", "uses_default_features": true, "features": ["std"] },
    ]);
    assert_eq!(complaints(&package(fine)), Vec::<String>::new());

    let wrong = serde_json::json!([
        { "name": "e810-hal", "kind": null, "features": ["testing"] },
        { "name": "e810-cqp", "kind": "dev" },
        { "name": "thiserror", "kind": null, "uses_default_features": true, "features": ["std"] },
        { "name": "anyhow", "kind": null },
        { "name": "libc", "kind": "build" },
    ]);
    assert_eq!(
        complaints(&package(wrong)),
        [
            "e810-ceq ships e810-hal with feature testing",
            "e810-ceq must not use e810-cqp",
            "e810-ceq uses thiserror with its default features",
            "e810-ceq uses thiserror with feature \"std\"",
            "e810-ceq uses anyhow, which is not among the crates known to do without std",
            "e810-ceq uses libc, which is not among the crates known to do without std",
        ]
    );
}

#[test]
fn the_simulator_sees_registers_only() {
    let metadata = metadata();
    let sim = list(&metadata, "packages")
        .iter()
        .find(|package| text(package, "name") == "e810-sim")
        .expect("the simulator is in the workspace");
    let ours: Vec<&str> = list(sim, "dependencies")
        .iter()
        .map(|dependency| text(dependency, "name"))
        .filter(|name| name.starts_with("e810"))
        .collect();
    assert_eq!(ours, ["e810-card", "e810-hal"]);
}
