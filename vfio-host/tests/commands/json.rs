//! The JSON of commands: versioned, and as docs/commands.md has it.

use serde_json::Value;

/// The row of docs/commands.md of a report, up to the next one.
fn documented(report: &str) -> String {
    let page = include_str!("../../../docs/commands.md");
    let (_, section) = page.split_once("\n## JSON\n").unwrap();
    let row = section
        .lines()
        .find(|line| line.starts_with(&format!("| `{report}` |")));
    row.unwrap_or_else(|| panic!("{report}")).to_owned()
}

/// Names of fields at any depth; those of counters are names of the card.
fn fields(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                if !["counters", "asked", "device", "wire"].contains(&name.as_str()) {
                    fields(value, names);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented() {
    for (report, words) in [
        (
            "pingpong",
            "pingpong --iters 20 --transport ud --events --counters",
        ),
        ("pingpong", "pingpong --iters 20 --virtual"),
        ("perf", "perf --iters 20 --histogram --events"),
        ("perf", "perf --iters 20 --test bw"),
        ("ping", "ping -c 1"),
        ("stat", "stat -v"),
        ("up", "up"),
    ] {
        let text = super::good(&format!("{words} --json"));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["version"], &value["report"]),
            (&1.into(), &report.into())
        );
        let row = documented(report);
        let mut names = Vec::new();
        fields(&value, &mut names);
        names.retain(|name| !["version", "report"].contains(&name.as_str()));
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            // Objects of HMC memory and cores have fields of their own.
            let is_detail = [
                "cpus",
                "count",
                "object_bytes",
                "bytes",
                "linux_count",
                "linux_bytes",
                "min",
                "p50",
                "p99",
                "max",
                "average",
                "mdev",
                "avg",
            ];
            assert!(
                row.contains(&format!("`{name}`")) || is_detail.contains(&name.as_str()),
                "{report}: `{name}` is not in docs/commands.md: {row}"
            );
        }
    }
}
